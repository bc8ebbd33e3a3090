// SPDX-License-Identifier: MIT
// What the preload must not disturb outside MPI: errno at main, popen and system of a
// shell, fork with exit, exec of this program as one without MPI; messages go on.
// run: ranks=2 timeout=30
// run: ranks=1 timeout=30 launch=singleton
#include <cerrno>
#include <dirent.h>
#include <spawn.h>
#include <sys/wait.h>

#include "check.h"
using namespace check;

extern char **environ;
static int errno_at_main;

static std::string output_of(const char *command) {
    std::string text;
    if (std::FILE *pipe = popen(command, "r")) {
        char piece[256];
        while (std::size_t n = std::fread(piece, 1, sizeof piece, pipe)) text.append(piece, n);
        int status = pclose(pipe);
        text.append(1, '=').append(std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -1));
    }
    return text;
}

// Opened files of this process whose name tells of the shim.
static int opened() {
    int n = 0;
    if (DIR *folder = opendir("/proc/self/fd")) {
        while (dirent *entry = readdir(folder)) {
            char target[300] = {};
            if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) > 0)
                n += std::strstr(target, "storm") != nullptr;
        }
        closedir(folder);
    }
    return n;
}

static void exchange(int tag) {
    int in = -1, to = (rank + 1) % size;
    MPI_Sendrecv(&rank, 1, MPI_INT, to, tag, &in, 1, MPI_INT, to, tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    expect(in == to, "exchange %d: %d", tag, in);
}

static int waited(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void children(const char *self) {
    say("popen: %s", output_of("echo one; echo two | sed s/two/three/; exit 4").c_str());
    say("system: %d", WEXITSTATUS(system("test -d / && exit 7")));
    int value = 1 - rank, in = -1;
    MPI_Request request;
    MPI_Irecv(&in, 1, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD,
              &request);  // pending over the fork
    std::fflush(nullptr);
    pid_t pid = fork();
    if (pid == 0) std::exit(5);  // runs the handlers that the parent's libraries registered
    say("fork and exit: %d", waited(pid));
    exchange(1);
    pid = fork();
    if (pid == 0) {
        execl(self, self, "child", nullptr);
        _exit(99);
    }
    say("fork and exec: %d", waited(pid));
    char *arguments[] = {const_cast<char *>(self), const_cast<char *>("child"), nullptr};
    if (posix_spawn(&pid, self, nullptr, nullptr, arguments, environ) == 0)
        say("posix_spawn: %d", waited(pid));
    char *nothing[] = {const_cast<char *>("true"), nullptr};
    if (posix_spawnp(&pid, "true", nullptr, nullptr, nothing, environ) == 0)
        say("true: %d", waited(pid));
    MPI_Send(&value, 1, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(in == 1 - (rank + 1) % size, "pending over the fork: %d", in);
    exchange(2);
}

int main(int argc, char **argv) {
    errno_at_main = errno;
    if (argc > 1 && !std::strcmp(argv[1], "child")) return 11;
    std::string before = output_of("echo before");
    int opened_before = opened();
    begin(argc, argv);
    say("errno at main %d, opened before init %d, %s", errno_at_main, opened_before,
        before.c_str());
    children(argv[0]);
    int code = verdict();
    MPI_Finalize();
    say("after finalize: %s", output_of("echo after").c_str());
    return code;
}
