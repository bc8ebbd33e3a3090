// SPDX-License-Identifier: MIT
// Messages of one (sender, receiver, communicator, tag) match in the order they
// were sent, whatever their sizes and however they are received.
// run: ranks=2,4 timeout=60
#include "check.h"
using namespace check;

static const int cycle[] = {0, 4, 1024, 5 * 1024, 60 * 1024, 300 * 1024, 1 << 20, 5 << 20};
static const int messages = 32, tag = 3;

static int bytes_of(int i) { return cycle[(i * 5 + i / 8) % 8]; }
static std::uint32_t seed_of(int from, int i) { return from * 1000 + i; }

struct Outgoing {  // the peer gets the same list from us
    std::vector<std::vector<unsigned char>> data;
    std::vector<MPI_Request> requests;
    explicit Outgoing(int peer) : requests(messages) {
        for (int i = 0; i < messages; ++i) {
            data.push_back(made(bytes_of(i), seed_of(rank, i)));
            MPI_Isend(data[i].data(), bytes_of(i), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                      &requests[i]);
        }
    }
    ~Outgoing() { MPI_Waitall(messages, requests.data(), MPI_STATUSES_IGNORE); }
};

static void checked(const char *way, int i, Guarded &buffer, const MPI_Status &status, int peer) {
    expect(count_of(status) == bytes_of(i), "%s: message %d has %d bytes", way, i,
           count_of(status));
    expect(same(buffer.data(), bytes_of(i), seed_of(peer, i)), "%s: data of message %d", way, i);
    expect(buffer.intact(), "%s: guard of message %d", way, i);
    expect(status.MPI_SOURCE == peer && status.MPI_TAG == tag, "%s: envelope of %d", way, i);
}

static void receive_with_wildcards(int peer) {
    Outgoing out(peer);
    for (int i = 0; i < messages; ++i) {
        Guarded buffer(5 << 20);
        MPI_Status status;
        MPI_Recv(buffer.data(), 5 << 20, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                 &status);
        buffer.bytes = bytes_of(i);
        checked("wildcard", i, buffer, status, peer);
    }
}

static void receive_posted(int peer, bool before) {
    std::vector<Guarded> buffers;
    std::vector<MPI_Request> requests(messages);
    std::vector<MPI_Status> statuses(messages);
    auto post = [&] {
        for (int i = 0; i < messages; ++i) {
            buffers.emplace_back(bytes_of(i));
            MPI_Irecv(buffers[i].data(), bytes_of(i), MPI_BYTE, peer, tag, MPI_COMM_WORLD,
                      &requests[i]);
        }
    };
    buffers.reserve(messages);
    if (before) post();
    MPI_Barrier(MPI_COMM_WORLD);
    Outgoing out(peer);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!before) post();
    MPI_Waitall(messages, requests.data(), statuses.data());
    for (int i = 0; i < messages; ++i)
        checked(before ? "posted" : "unexpected", i, buffers[i], statuses[i], peer);
}

static void receive_probed(int peer) {
    Outgoing out(peer);
    for (int i = 0; i < messages; ++i) {
        MPI_Status status;
        if (i % 2) {
            MPI_Probe(peer, tag, MPI_COMM_WORLD, &status);
        } else {
            for (int flag = 0; !flag;)
                MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &flag, &status);
        }
        Guarded buffer(count_of(status));
        MPI_Recv(buffer.data(), count_of(status), MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                 MPI_COMM_WORLD, &status);
        checked("probed", i, buffer, status, peer);
    }
}

static void receive_matched(int peer) {
    Outgoing out(peer);
    std::vector<Guarded> buffers;
    buffers.reserve(messages);
    std::vector<MPI_Request> requests(messages);
    for (int i = 0; i < messages; ++i) {
        MPI_Message message;
        MPI_Status status;
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        buffers.emplace_back(count_of(status));
        MPI_Imrecv(buffers[i].data(), count_of(status), MPI_BYTE, &message, &requests[i]);
    }
    for (int i = messages - 1; i >= 0; --i) {
        MPI_Status status;
        MPI_Wait(&requests[i], &status);
        checked("matched", i, buffers[i], status, peer);
    }
}

static void three_sizes_300_times(int peer) {
    static const int sizes[] = {1 << 20, 4, 0};
    std::vector<unsigned char> out(1 << 20), in(1 << 20);
    for (int i = 0; i < 300; ++i) {
        MPI_Status status;
        if (rank < peer) {
            std::memcpy(out.data(), &i, sizeof i);
            MPI_Send(out.data(), sizes[i % 3], MPI_BYTE, peer, tag, MPI_COMM_WORLD);
        } else {
            MPI_Recv(in.data(), 1 << 20, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                     &status);
            int got = i;
            if (count_of(status)) std::memcpy(&got, in.data(), sizeof got);
            expect(got == i && count_of(status) == sizes[i % 3], "message %d came as %d", got, i);
        }
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int peer = rank ^ 1;
    using Way = void (*)(int);
    const Way ways[] = {receive_with_wildcards,
                        [](int p) { receive_posted(p, true); },
                        [](int p) { receive_posted(p, false); },
                        receive_probed,
                        receive_matched,
                        three_sizes_300_times};
    for (Way way : ways) {
        way(peer);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return finish();
}
