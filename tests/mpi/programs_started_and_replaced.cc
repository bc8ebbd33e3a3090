// SPDX-License-Identifier: MIT
// vfork, posix_spawn and a double fork while messages are under way; a rank that is
// replaced by another program before MPI_Init and after MPI_Finalize; a forked child
// that lives on when its parent has ended; a child killed by a signal.
// run: ranks=2,3 timeout=30 args=children leaves=nothing
// run: ranks=2 timeout=30 args=exec-before leaves=nothing
// run: ranks=2,3 timeout=30 args=exec-after leaves=nothing
// run: ranks=2 timeout=30 args=outlived leaves=nothing
// run: ranks=2 timeout=30 args=exec-within exit=nonzero output=ignore leaves=nothing
// run: ranks=3 timeout=30 args=exit-within exit=nonzero output=ignore leaves=nothing
#include <csignal>
#include <spawn.h>
#include <sys/wait.h>

#include "check.h"
using namespace check;

extern char **environ;

static int waited(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void exchange(int tag, void (*meanwhile)() = [] {}) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int bytes : {8, 5000, 200000}) {
        auto out = made(bytes, rank + tag);
        Guarded in(bytes);
        MPI_Request requests[2];
        MPI_Irecv(in.data(), bytes, MPI_BYTE, left, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out.data(), bytes, MPI_BYTE, right, tag, MPI_COMM_WORLD, &requests[1]);
        meanwhile();
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        expect(same(in.data(), bytes, left + tag) && in.intact(), "%d bytes, tag %d", bytes, tag);
    }
}

// The child of a vfork shares this memory until it is another program.
static void vforks() {
    char name[] = "true";
    char *arguments[] = {name, nullptr};
    pid_t pid = vfork();
    if (pid == 0) {
        execvp(name, arguments);
        _exit(77);
    }
    int code = waited(pid);
    expect(code == 0, "vfork and exec: %d", code);
    pid = vfork();
    if (pid == 0) _exit(6);
    expect(waited(pid) == 6, "vfork and _exit");
}

static void grandchildren() {
    std::fflush(nullptr);
    pid_t pid = fork();
    if (pid == 0) {
        pid_t second = fork();
        if (second == 0) std::exit(9);  // with the exit handlers of all libraries
        std::exit(waited(second) + 1);
    }
    int code = waited(pid);
    expect(code == 10, "grandchild: %d", code);
    pid = fork();
    if (pid == 0) {
        raise(SIGKILL);
        _exit(0);
    }
    expect(waited(pid) == -SIGKILL, "a killed child");
    pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        std::abort();
    }
    expect(waited(pid) == -SIGABRT, "an aborting child");
}

// Writes over the whole of its heap and the buffers: nothing of that is its parent's.
static void scribblers() {
    pid_t pid = fork();
    if (pid == 0) {
        std::vector<char> large(8 << 20, 'x');
        _exit(large[12345] == 'x' ? 3 : 4);
    }
    expect(waited(pid) == 3, "a writing child");
}

static void replace(char **argv, const char *word) {
    char *arguments[] = {argv[0], const_cast<char *>(word), nullptr};
    execv(argv[0], arguments);
    std::exit(88);
}

int main(int argc, char **argv) {
    arg_count = argc, arg_list = argv;
    if (given("exec-before")) replace(argv, "replaced");
    if (given("ended")) return 0;
    begin(argc, argv);
    exchange(1);
    if (given("children"))
        for (int round = 0; round < 3; ++round) {
            exchange(2, vforks);
            exchange(3, grandchildren);
            exchange(4, scribblers);
        }
    if (given("exec-within") || given("exit-within")) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1 && given("exec-within")) replace(argv, "ended");
        if (rank == 1) std::_Exit(0);
        int never;
        MPI_Recv(&never, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (given("outlived")) {
        std::fflush(nullptr);
        if (fork() == 0) {  // lives for a while with all that it inherited
            close(1), close(2);
            sleep(1);
            std::exit(0);
        }
        exchange(5);
    }
    int code = finish();
    if (given("exec-after")) replace(argv, "ended");
    return code;
}
