// SPDX-License-Identifier: MIT
// Error handlers that send and receive, on the communicator of the error and on others,
// in every call that can report one: each is called once with its communicator and
// class, and what it exchanges and what comes after it arrive.
// run: ranks=2,3 timeout=60
#include "check.h"
using namespace check;

static MPI_Comm world, other;
static int calls, exchanges;
static bool deeper;

static void exchange(MPI_Comm comm, int tag) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int bytes : {4, 3000, 60000}) {
        auto out = made(bytes, rank + tag);
        Guarded in(bytes);
        MPI_Request requests[2];
        MPI_Irecv(in.data(), bytes, MPI_BYTE, left, tag, comm, &requests[0]);
        MPI_Isend(out.data(), bytes, MPI_BYTE, right, tag, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        expect(same(in.data(), bytes, left + tag) && in.intact(), "%d bytes in a handler", bytes);
    }
    ++exchanges;
}

static void handler(MPI_Comm *comm, int *error, ...) {
    ++calls;
    say("handler: class %s, on %s", error_class(*error).c_str(), *comm == world ? "ours" : "another");
    exchange(world, 100);
    exchange(other, 101);
    if (deeper) {  // an error within the handler calls it again
        deeper = false;
        int rc = MPI_Send(nullptr, 0, MPI_INT, size + 3, 0, *comm);
        say("within: %s", error_class(rc).c_str());
    }
}

enum Way { recv, wait, waitall, waitany, waitsome, test, testall, mrecv, sendrecv, ways };
static const char *names[] = {"recv", "wait",    "waitall", "waitany", "waitsome",
                              "test", "testall", "mrecv",   "sendrecv"};

// A message of 5 ints for a receive of 2.
static int truncated(Way way, int length) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size, rc = -1, index, flag = 0, done;
    std::vector<int> out(length, rank + 5);
    int in[4] = {-1, -1, -2, -2}, room = length - 1 < 2 ? length - 1 : 2;
    MPI_Request send = MPI_REQUEST_NULL, request;
    MPI_Status status = fresh_status();
    MPI_Message message;
    if (way != sendrecv) MPI_Isend(out.data(), length, MPI_INT, right, way, world, &send);
    if (way == mrecv) MPI_Mprobe(left, way, world, &message, MPI_STATUS_IGNORE);
    if (way > recv && way <= testall) MPI_Irecv(in, room, MPI_INT, left, way, world, &request);
    switch (way) {
        case recv: rc = MPI_Recv(in, room, MPI_INT, left, way, world, &status); break;
        case wait: rc = MPI_Wait(&request, &status); break;
        case waitall: rc = MPI_Waitall(1, &request, &status); break;
        case waitany: rc = MPI_Waitany(1, &request, &index, &status); break;
        case waitsome: rc = MPI_Waitsome(1, &request, &done, &index, &status); break;
        case test:
            while (!flag) rc = MPI_Test(&request, &flag, &status);
            break;
        case testall:
            while (!flag) rc = MPI_Testall(1, &request, &flag, &status);
            break;
        case mrecv: rc = MPI_Mrecv(in, room, MPI_INT, &message, &status); break;
        default:
            rc = MPI_Sendrecv(out.data(), length, MPI_INT, right, way, in, room, MPI_INT, left, way,
                              world, &status);
    }
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    expect(in[2] == -2 && (room == 0 || in[0] == left + 5), "%s of %d ints", names[way], length);
    return rc;
}

static void say_calls(const char *name, int rc) {
    say("%s: %s, %d calls, %d exchanges", name, error_class(rc).c_str(), calls, exchanges);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Errhandler errhandler;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_create_errhandler(handler, &errhandler);
    MPI_Comm_set_errhandler(world, errhandler);
    for (int length : {3, 5, 900})  // above 4 KB the real MPI writes past the buffer
        for (int way = 0; way < ways; ++way) {
            say_calls(names[way], truncated(Way(way), length));
            exchange(world, 50);
        }
    int value = 0, rc = MPI_Recv(&value, 1, MPI_INT, size, 0, world, MPI_STATUS_IGNORE);
    say_calls("a rank that does not exist", rc);
    rc = MPI_Send(&value, 1, MPI_INT, 0, -7, world);
    say_calls("a tag that does not exist", rc);
    rc = MPI_Comm_call_errhandler(world, MPI_ERR_OTHER);
    say_calls("called by hand", rc);
    deeper = true;
    say_calls("within another", truncated(recv, 6));
    MPI_Errhandler_free(&errhandler);  // the communicator keeps it
    say_calls("freed", truncated(wait, 7));
    MPI_Comm_free(&world);
    MPI_Comm_free(&other);
    return finish();
}
