// SPDX-License-Identifier: MIT
// Cancel: of receives, before and after the match; of sends, which Open MPI never
// cancels; of persistent ones. What was not cancelled is delivered, and a message
// goes past a cancelled receive to the next.
// run: ranks=2 timeout=30
#include "check.h"
using namespace check;

static int is_cancelled(const MPI_Status &status) {
    int flag = -1;
    MPI_Test_cancelled(&status, &flag);
    return flag;
}

static void unmatched_receive() {
    int values[3] = {-1, -1, -1}, out = 42, cancelled, flag = 0;
    MPI_Request requests[3];
    MPI_Status status = fresh_status();
    const int from[] = {MPI_ANY_SOURCE, 1 - rank, 1 - rank}, tags[] = {MPI_ANY_TAG, MPI_ANY_TAG, 9};
    for (int i = 0; i < 3; ++i) {
        MPI_Irecv(&values[i], 1, MPI_INT, from[i], tags[i], MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Cancel(&requests[0]);
    expect(requests[0] != MPI_REQUEST_NULL, "cancel freed the request");
    MPI_Wait(&requests[0], &status);
    say("waited: %s", in_words(status, MPI_INT).c_str());
    MPI_Cancel(&requests[1]);
    status = fresh_status();
    flag = test_until_done(&requests[1], &status);
    say("tested: %d %s", flag, in_words(status, MPI_INT).c_str());
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&out, 1, MPI_INT, 1 - rank, 9, MPI_COMM_WORLD);
    status = fresh_status();
    MPI_Wait(&requests[2], &status);
    say("next: %s", in_words(status, MPI_INT).c_str());
    expect(values[0] == -1 && values[1] == -1 && values[2] == 42, "values %d %d %d", values[0],
           values[1], values[2]);
    // A free instead of a wait.
    MPI_Irecv(&values[0], 1, MPI_INT, 1 - rank, 10, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Request_free(&requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Sendrecv(&out, 1, MPI_INT, 1 - rank, 10, &values[1], 1, MPI_INT, 1 - rank, 10,
                 MPI_COMM_WORLD, &status);
    expect(values[0] == -1 && values[1] == 42, "freed after cancel: %d %d", values[0], values[1]);
    MPI_Test_cancelled(&status, &cancelled);
    expect(!cancelled, "a received message is cancelled");
    MPI_Barrier(MPI_COMM_WORLD);
}

// Cancelled in every step of a loop, as codes do, then all waited for at once.
static void cancelled_every_cycle() {
    const int n = 16;
    int cancelled = 0;
    for (int cycle = 0; cycle < 200; ++cycle) {
        std::vector<int> in(n, -1);
        std::vector<MPI_Request> requests(n);
        std::vector<MPI_Status> statuses(n);
        for (int i = 0; i < n; ++i) {
            MPI_Irecv(&in[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : 1 - rank, i, MPI_COMM_WORLD,
                      &requests[i]);
        }
        for (int i = 0; i < n; ++i) MPI_Cancel(&requests[i]);
        MPI_Waitall(n, requests.data(), statuses.data());
        for (auto &status : statuses) cancelled += is_cancelled(status);
    }
    say("%d cancelled", cancelled);
    MPI_Barrier(MPI_COMM_WORLD);
}

// A race: the message may win or the cancel; the message is got exactly once.
static void race() {
    for (int i = 0; i < 2000; ++i) {
        int in = -1;
        if (rank == 0) {
            MPI_Send(&i, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
            MPI_Recv(&in, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Request request;
            MPI_Status status;
            MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &request);
            for (int k = 0, flag; k < i % 7; ++k)
                MPI_Iprobe(0, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            if (is_cancelled(status)) {
                expect(in == -1, "cancelled and delivered");
                MPI_Recv(&in, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
            expect(in == i, "message %d came as %d", i, in);
            MPI_Send(&in, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
        }
    }
}

static void after_the_match() {
    for (int bytes : {4, 6000, 300000}) {
        std::vector<unsigned char> out = made(bytes, 5), in(bytes);
        MPI_Request requests[2];
        MPI_Status status = fresh_status();
        MPI_Irecv(in.data(), bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(out.data(), bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[1]);
        for (int flag = 0; !flag;) MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
        MPI_Cancel(&requests[0]);
        MPI_Wait(&requests[0], &status);
        say("after the match: %s", in_words(status, MPI_BYTE).c_str());
        expect(same(in.data(), bytes, 5), "data after the match");
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    }
}

static void sends() {
    for (int bytes : {4, 6000, 300000}) {
        std::vector<unsigned char> out = made(bytes, 6), in(bytes);
        if (rank == 0) {
            MPI_Request request;
            MPI_Status status = fresh_status();
            int flag = 0;
            MPI_Issend(out.data(), bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request);
            MPI_Cancel(&request);
            for (int i = 0; i < 1000 && !flag; ++i) MPI_Test(&request, &flag, &status);
            say("issend cancelled, tested: %d", flag);
            MPI_Send(&flag, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
            MPI_Wait(&request, &status);
            say("issend cancelled: %d", is_cancelled(status));
        } else {
            int flag;
            MPI_Recv(&flag, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(in.data(), bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(same(in.data(), bytes, 6), "data of a cancelled send");
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void persistent() {
    int in = -1, out = 8;
    MPI_Request receive;
    MPI_Recv_init(&in, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, &receive);
    for (int i = 0; i < 3; ++i) {
        MPI_Status status = fresh_status();
        MPI_Start(&receive);
        MPI_Cancel(&receive);
        MPI_Wait(&receive, &status);
        say("persistent cancelled: %s", in_words(status, MPI_INT).c_str());
        expect(receive != MPI_REQUEST_NULL, "cancel ended a persistent request");
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Start(&receive);
        MPI_Send(&out, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD);
        status = fresh_status();
        MPI_Wait(&receive, &status);
        say("persistent restarted: %s", in_words(status, MPI_INT).c_str());
        expect(in == 8, "value %d", in);
        in = -1;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Request_free(&receive);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    unmatched_receive();
    cancelled_every_cycle();
    race();
    after_the_match();
    sends();
    persistent();
    return finish();
}
