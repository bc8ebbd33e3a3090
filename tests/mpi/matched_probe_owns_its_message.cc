// SPDX-License-Identifier: MIT
// Mprobe and Improbe take a message out of matching; Mrecv and Imrecv get exactly
// that one; the handles MPI_MESSAGE_NULL and MPI_MESSAGE_NO_PROC behave.
// run: ranks=2 timeout=30
#include "check.h"
using namespace check;

static const int sizes[] = {0, 4, 4000, 5000, 70000, 1 << 20};

static void sender() {
    for (int tag : {1, 2})
        for (int bytes : sizes) {
            auto data = made(bytes, bytes + tag);
            MPI_Request requests[2];
            MPI_Isend(data.data(), bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &requests[0]);
            auto second = made(bytes, bytes + tag + 10);
            MPI_Isend(second.data(), bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
}

static void received(MPI_Message message, int bytes, int seed, bool immediate) {
    Guarded buffer(bytes);
    MPI_Status status = fresh_status();
    if (immediate) {
        MPI_Request request;
        MPI_Imrecv(buffer.data(), bytes, MPI_BYTE, &message, &request);
        expect(message == MPI_MESSAGE_NULL, "imrecv leaves the handle");
        MPI_Wait(&request, &status);
        expect(request == MPI_REQUEST_NULL, "wait leaves the handle");
    } else {
        MPI_Mrecv(buffer.data(), bytes, MPI_BYTE, &message, &status);
        expect(message == MPI_MESSAGE_NULL, "mrecv leaves the handle");
    }
    say("%s %s", immediate ? "imrecv" : "mrecv", in_words(status, MPI_BYTE).c_str());
    expect(same(buffer.data(), bytes, seed) && buffer.intact(), "data of %d", bytes);
}

// The first is taken by a matched probe; what follows goes on without it.
static void receiver() {
    for (int tag : {1, 2})
        for (int bytes : sizes) {
            MPI_Message first = MPI_MESSAGE_NULL;
            MPI_Status status = fresh_status();
            bool immediate = tag == 2;
            if (immediate) {
                for (int flag = 0; !flag;) {
                    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &first,
                                &status);
                    expect(flag || first == MPI_MESSAGE_NULL, "no message but a handle");
                }
            } else {
                MPI_Mprobe(0, tag, MPI_COMM_WORLD, &first, &status);
            }
            say("probe %s", in_words(status, MPI_BYTE).c_str());
            expect(first != MPI_MESSAGE_NULL, "no handle");
            Guarded second(bytes);
            MPI_Recv(second.data(), bytes, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            expect(same(second.data(), bytes, bytes + tag + 10), "second message of %d", bytes);
            received(first, bytes, bytes + tag, immediate);
        }
}

static void nothing_and_nobody() {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status = fresh_status();
    int flag = -1, value = 7;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
    say("nothing: flag %d null %d", flag, message == MPI_MESSAGE_NULL);
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &message, &status);
    say("mprobe proc_null: no_proc %d %s", message == MPI_MESSAGE_NO_PROC,
        in_words(status, MPI_INT).c_str());
    status = fresh_status();
    MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
    say("mrecv no_proc: null %d value %d %s", message == MPI_MESSAGE_NULL, value,
        in_words(status, MPI_INT).c_str());

    flag = -1;
    status = fresh_status();
    MPI_Improbe(MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
    say("improbe proc_null: flag %d no_proc %d %s", flag, message == MPI_MESSAGE_NO_PROC,
        in_words(status, MPI_INT).c_str());
    MPI_Request request;
    MPI_Imrecv(&value, 1, MPI_INT, &message, &request);
    status = fresh_status();
    MPI_Wait(&request, &status);
    say("imrecv no_proc: null %d value %d %s", message == MPI_MESSAGE_NULL, value,
        in_words(status, MPI_INT).c_str());
}

// Handles survive a trip through Fortran integers; several are held at once.
static void many_handles() {
    const int n = 50;
    if (rank == 0) {
        for (int i = 0; i < n; ++i) MPI_Send(&i, 1, MPI_INT, 1, i % 7, MPI_COMM_WORLD);
    } else {
        std::vector<MPI_Fint> handles;
        for (int i = 0; i < n; ++i) {
            MPI_Message message;
            MPI_Mprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            handles.push_back(MPI_Message_c2f(message));
        }
        for (int i = n - 1; i >= 0; --i) {
            MPI_Message message = MPI_Message_f2c(handles[i]);
            int value = -1;
            MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
            expect(value == i, "handle %d gave %d", i, value);
        }
    }
    say("null %d no_proc %d",
        MPI_Message_f2c(MPI_Message_c2f(MPI_MESSAGE_NULL)) == MPI_MESSAGE_NULL,
        MPI_Message_f2c(MPI_Message_c2f(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    if (rank == 0) sender();
    else
        receiver();
    nothing_and_nobody();
    many_handles();
    return finish();
}
