// SPDX-License-Identifier: MIT
// Several threads of a rank take messages of the same communicator by matched probes, with
// and without wildcards: each message is taken once and whole, and no thread sees two of
// one sender and tag in the wrong order.
// run: ranks=2,3 timeout=60
// run: ranks=2 timeout=60 env=STORM_BACKEND=none
#include <thread>

#include "check.h"
using namespace check;

static const int takers = 4, tags = 3, each = 150; // messages of a sender and tag
static std::atomic<int> left_to_take;
static std::atomic<int> taken[4][tags][each];

static int bytes_of(int sender, int tag, int i) {
    static const int sizes[] = {0, 1, 60, 3000, 4100, 20000, 100};
    return int(sizeof(int)) + sizes[(sender + tag * 3 + i) % 7];
}

static void send_all(MPI_Comm comm) {
    std::vector<std::vector<unsigned char>> buffers;
    std::vector<MPI_Request> requests;
    for (int i = 0; i < each; ++i)
        for (int to = 0; to < size; ++to)
            for (int tag = 0; tag < tags; ++tag) {
                const int bytes = bytes_of(rank, tag, i);
                buffers.push_back(made(bytes, rank * 1000 + tag * 100 + i));
                std::memcpy(buffers.back().data(), &i, sizeof i);
                MPI_Request request;
                const auto post = (i + tag) % 5 == 4 ? MPI_Issend : MPI_Isend;
                post(buffers.back().data(), bytes, MPI_BYTE, to, tag, comm, &request);
                requests.push_back(request);
            }
    MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

static void take(int thread, MPI_Comm comm) {
    int last[4][tags];
    for (auto &of_sender : last)
        for (int &of_tag : of_sender) of_tag = -1;
    Random random(std::uint64_t(rank) * 10 + thread);
    while (left_to_take > 0) {
        const int from = random.once_in(2) ? MPI_ANY_SOURCE : random.below(size);
        const int with = random.once_in(2) ? MPI_ANY_TAG : random.below(tags);
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status, received;
        int flag = 0;
        MPI_Improbe(from, with, comm, &flag, &message, &status);
        if (!flag) {
            std::this_thread::yield();
            continue;
        }
        --left_to_take;
        const int bytes = count_of(status);
        std::vector<unsigned char> in(bytes + 1);
        if (random.once_in(2)) {
            MPI_Mrecv(in.data(), bytes, MPI_BYTE, &message, &received);
        } else {
            MPI_Request request;
            MPI_Imrecv(in.data(), bytes, MPI_BYTE, &message, &request);
            MPI_Wait(&request, &received);
        }
        const int source = status.MPI_SOURCE, tag = status.MPI_TAG;
        int i = -1;
        std::memcpy(&i, in.data(), sizeof i);
        if (!expect(i >= 0 && i < each && tag >= 0 && tag < tags && bytes == bytes_of(source, tag, i),
                    "number %d of rank %d, tag %d, %d bytes", i, source, tag, bytes))
            continue;
        auto wanted = made(bytes, source * 1000 + tag * 100 + i);
        std::memcpy(wanted.data(), &i, sizeof i);
        expect(!std::memcmp(in.data(), wanted.data(), bytes), "data of %d from %d", i, source);
        expect(received.MPI_SOURCE == source && received.MPI_TAG == tag && count_of(received) == bytes,
               "status of %d from %d", i, source);
        expect(last[source][tag] < i, "%d after %d of rank %d, tag %d", i, last[source][tag], source, tag);
        last[source][tag] = i;
        ++taken[source][tag][i];
    }
}

int main(int argc, char **argv) {
    begin(argc, argv, MPI_THREAD_MULTIPLE);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    left_to_take = size * tags * each;
    std::vector<std::thread> all;
    for (int t = 0; t < takers; ++t) all.emplace_back([=] { take(t, comm); });
    send_all(comm);
    for (auto &thread : all) thread.join();
    for (int source = 0; source < size; ++source)
        for (int tag = 0; tag < tags; ++tag)
            for (int i = 0; i < each; ++i)
                expect(taken[source][tag][i] == 1, "number %d of rank %d, tag %d is taken %d times", i, source,
                       tag, taken[source][tag][i].load());
    int flag = 1;
    MPI_Barrier(comm);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
    expect(!flag, "a message is left");
    MPI_Comm_free(&comm);
    return finish();
}
