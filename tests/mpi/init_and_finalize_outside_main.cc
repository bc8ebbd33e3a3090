// SPDX-License-Identifier: MIT
// MPI_Init before main and MPI_Finalize after it: by a static object, by functions with
// the attributes, by an exit handler, by a library that the program is linked to, and
// by a thread that is not main's; messages are exchanged in each of these places.
// run: ranks=1,3 timeout=30 env=WAY=static leaves=nothing
// run: ranks=1,3 timeout=30 env=WAY=attribute leaves=nothing
// run: ranks=2 timeout=30 env=WAY=atexit leaves=nothing
// run: ranks=2 timeout=30 env=WAY=exit-in-callee leaves=nothing
// run: ranks=2 timeout=30 env=WAY=thread leaves=nothing
// run: ranks=2 timeout=30 env=WAY=library program=init_in_a_library leaves=nothing
// run: ranks=1 timeout=30 env=WAY=static launch=singleton leaves=nothing
// run: ranks=1 timeout=30 env=WAY=library program=init_in_a_library launch=singleton leaves=nothing
#include <thread>

#include "check.h"
using namespace check;

static bool way(const char *word) {
    const char *asked = secure_getenv("WAY");
    return asked && !std::strcmp(asked, word);
}

static void exchange(const char *place) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int bytes : {0, 8, 3000, 70000}) {
        auto out = made(bytes, rank + bytes);
        Guarded in(bytes);
        MPI_Sendrecv(out.data(), bytes, MPI_BYTE, right, 5, in.data(), bytes, MPI_BYTE, left, 5,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(same(in.data(), bytes, left + bytes) && in.intact(), "%d bytes %s", bytes, place);
    }
    say("exchanged %s", place);
}

static void init() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    exchange("after init");
}

// The last message is on its way when MPI_Finalize begins.
static void finalize() {
    exchange("before finalize");
    static int last = 4711;
    MPI_Request request;
    MPI_Isend(&last, 1, MPI_INT, (rank + 1) % size, 6, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    int got = -1;
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(got == 4711, "last message %d", got);
    verdict();
    MPI_Finalize();
}

struct Whole {
    Whole() {
        if (way("static")) init();
    }
    ~Whole() {
        if (way("static")) finalize();
    }
};
static Whole whole;

__attribute__((constructor)) static void before_main() {
    if (way("attribute")) init();
}

__attribute__((destructor)) static void after_main() {
    if (way("attribute")) finalize();
}

static void work() {
    exchange("within a callee");
    if (way("exit-in-callee")) std::exit(0);
}

int main() {
    if (way("thread")) {  // MPI_THREAD_FUNNELED belongs to the thread that asked for it
        std::thread([] {
            int provided = -1;
            MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Comm_size(MPI_COMM_WORLD, &size);
            work();
            finalize();
        }).join();
        return 0;
    }
    if (way("atexit") || way("exit-in-callee")) {
        init();
        std::atexit(finalize);
    }
    if (way("library")) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
    }
    work();
    return 0;
}
