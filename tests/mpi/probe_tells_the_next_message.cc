// SPDX-License-Identifier: MIT
// Probe and Iprobe describe the message that the next receive gets: with exact
// envelopes, with wildcards, and with one sender also in the sloppy form that probes ANY and
// receives ANY (with several senders Open MPI itself may give another message).
// run: ranks=2,3,4 timeout=30
#include "check.h"
using namespace check;

static int size_of(Random &random) {
    switch (random.below(4)) {
        case 0: return 0;
        case 1: return random.below(100);
        case 2: return random.below(6000);
        default: return random.below(90000);
    }
}

static void send_random(int messages) {
    Random random(rank);
    for (int i = 0; i < messages; ++i) {
        int bytes = size_of(random), tag = random.below(12);
        auto data = made(bytes, rank * 1000 + i);
        MPI_Send(data.data(), bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
    }
}

static void receive_random(int messages, bool sloppy, bool blocking) {
    std::vector<Random> expected;
    std::vector<int> next(size, 0);
    for (int i = 0; i < size; ++i) expected.emplace_back(i);
    for (int i = 0; i < messages * (size - 1); ++i) {
        MPI_Status probed, got;
        if (blocking) {
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &probed);
        } else {
            for (int flag = 0; !flag;)
                MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &probed);
        }
        int bytes = count_of(probed), from = probed.MPI_SOURCE, tag = probed.MPI_TAG;
        Guarded buffer(bytes);
        MPI_Recv(buffer.data(), bytes, MPI_BYTE, sloppy ? MPI_ANY_SOURCE : from,
                 sloppy ? MPI_ANY_TAG : tag, MPI_COMM_WORLD, &got);
        expect(got.MPI_SOURCE == from && got.MPI_TAG == tag && count_of(got) == bytes,
               "probed %d/%d/%d, received %d/%d/%d", from, tag, bytes, got.MPI_SOURCE, got.MPI_TAG,
               count_of(got));
        int want_bytes = size_of(expected[from]), want_tag = expected[from].below(12);
        expect(bytes == want_bytes && tag == want_tag, "message %d of %d", next[from], from);
        expect(same(buffer.data(), bytes, from * 1000 + next[from]++), "data from %d", from);
        expect(buffer.intact(), "guard");
    }
}

static void nothing_there() {
    int flag = -1;
    MPI_Status status = fresh_status();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
    say("nothing: flag %d source %d tag %d error %d", flag, status.MPI_SOURCE, status.MPI_TAG,
        status.MPI_ERROR);
    MPI_Barrier(MPI_COMM_WORLD);
}

// A probe does not see another communicator, another tag or another source.
static void probe_selects() {
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (rank == 1) {
        for (int bytes : {10, 5000}) {
            std::vector<char> data(bytes + 1);
            MPI_Request requests[3];
            MPI_Isend(data.data(), bytes, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &requests[0]);
            MPI_Isend(data.data(), bytes + 1, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &requests[1]);
            MPI_Isend(data.data(), bytes - 1, MPI_BYTE, 0, 4, other, &requests[2]);
            MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        }
    } else if (rank == 0) {
        std::vector<char> data(6000);
        for (int bytes : {10, 5000}) {
            MPI_Status status = fresh_status();
            MPI_Probe(1, 4, other, &status);
            say("other comm: %s", in_words(status, MPI_BYTE).c_str());
            MPI_Probe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status);
            say("tag 5: %s", in_words(status, MPI_BYTE).c_str());
            MPI_Probe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            say("first: %s", in_words(status, MPI_BYTE).c_str());
            int flag = -1;
            MPI_Iprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
            expect(!flag, "saw a message from itself");
            MPI_Recv(data.data(), 6000, MPI_BYTE, 1, 4, other, MPI_STATUS_IGNORE);
            MPI_Recv(data.data(), 6000, MPI_BYTE, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(data.data(), 6000, MPI_BYTE, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            expect(count_of(status) == bytes, "last has %d", count_of(status));
        }
    }
    MPI_Comm_free(&other);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    const int messages = 300;
    nothing_there();
    for (bool sloppy : {false, true})
        for (bool blocking : {false, true}) {
            if (sloppy && size > 2) continue;
            if (rank) send_random(messages);
            else
                receive_random(messages, sloppy, blocking);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    probe_selects();
    nothing_there();
    return finish();
}
