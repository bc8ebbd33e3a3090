// SPDX-License-Identifier: MIT
// Seeded random traffic (sizes, tags, communicators, send modes, ways to receive
// and to complete) against an oracle: every message once, in order, unharmed.
// Another allocator preloaded changes nothing.
// Arguments: seed=N (one seed instead of three), rounds=N.
// run: ranks=2,3,4 timeout=120 long
// run: ranks=2 timeout=60 args=rounds=10 preload=libjemalloc.so.2
// run: ranks=2 timeout=60 args=rounds=10 preload=libjemalloc.so.2 order=shim-first
#include <algorithm>
#include <deque>
#include <map>

#include "check.h"
using namespace check;

struct Message {
    int from, to, comm, tag, bytes, mode;
    std::uint32_t id;
};

static const int comms = 3, tags = 5;
static MPI_Comm comm[comms];
static std::vector<int> local[comms];  // world rank -> rank in comm[i]
static std::vector<char> attached(16 << 20);
static Random mine(1);  // choices of this rank alone
static std::uint64_t sum;
static long received;

static int random_bytes(Random &random) {
    switch (random.below(12)) {
        case 0: return 0;
        case 1:
        case 2:
        case 3: return random.below(64);
        case 4:
        case 5:
        case 6: return random.below(1100);
        case 7:
        case 8: return 3900 + random.below(400);
        case 9: return random.below(20000);
        case 10: return random.below(90000);
        default: return random.once_in(4) ? random.below(1 << 20) : random.below(300000);
    }
}

static std::vector<Message> plan(Random &random, std::uint32_t &id) {
    std::vector<Message> list(10 + random.below(20 * size));
    for (auto &m : list) {
        m = {random.below(size),
             random.below(size),
             random.below(comms),
             random.below(tags),
             random_bytes(random),
             random.below(6),
             id++};
    }
    return list;
}

static int world_of(int c, int rank_in_comm) {
    for (int r = 0; r < size; ++r)
        if (local[c][r] == rank_in_comm) return r;
    return -1;
}

// Completes all requests by a random call; nulls are mixed in.
static void complete(std::vector<MPI_Request> &requests, std::vector<MPI_Status> &statuses) {
    int n = int(requests.size()), way = mine.below(8), index, flag = 0, count;
    statuses.resize(n);
    std::vector<MPI_Status> some(n + 1);
    std::vector<int> indices(n + 1);
    if (way == 0) {
        MPI_Waitall(n, requests.data(), statuses.data());
    } else if (way == 1) {
        while (!flag) MPI_Testall(n, requests.data(), &flag, statuses.data());
    } else if (way == 2) {
        for (int i = 0; i < n; ++i) MPI_Wait(&requests[i], &statuses[i]);
    } else if (way == 3) {
        for (int i = n - 1; i >= 0; --i)
            expect(test_until_done(&requests[i], &statuses[i]), "test never true");
    } else if (way <= 5) {
        while (true) {
            if (way == 4) MPI_Waitany(n, requests.data(), &index, some.data());
            else
                MPI_Testany(n, requests.data(), &index, &flag, some.data());
            if (way == 5 && !flag) continue;
            if (index == MPI_UNDEFINED) break;
            statuses[index] = some[0];
        }
    } else {
        while (true) {
            if (way == 6) MPI_Waitsome(n, requests.data(), &count, indices.data(), some.data());
            else
                MPI_Testsome(n, requests.data(), &count, indices.data(), some.data());
            if (count == MPI_UNDEFINED) break;
            for (int i = 0; i < count; ++i) statuses[indices[i]] = some[i];
        }
    }
    for (auto &request : requests)
        expect(request == MPI_REQUEST_NULL, "way %d leaves a handle", way);
}

struct Inbox {  // what must come on one communicator
    int c;
    std::map<std::pair<int, int>, std::deque<Message>> expected;  // by sender and tag
    int left = 0;

    void take(const MPI_Status &status, const Guarded &buffer, unsigned char *data) {
        int from = world_of(c, status.MPI_SOURCE);
        auto &queue = expected[{from, status.MPI_TAG}];
        if (!expect(!queue.empty(), "unexpected message from %d tag %d", from, status.MPI_TAG))
            return;
        Message m = queue.front();
        queue.pop_front();
        expect(count_of(status) == m.bytes, "from %d tag %d: %d bytes, not %d", from, m.tag,
               count_of(status), m.bytes);
        expect(same(data, m.bytes, m.id), "from %d tag %d: data of %d bytes", from, m.tag, m.bytes);
        expect(buffer.untouched(m.bytes), "from %d tag %d: beyond %d bytes", from, m.tag, m.bytes);
        sum += std::uint64_t(m.id) * 31 + m.bytes;
        ++received;
    }
};

// Several messages of one (sender, tag) are looked at in posting order, as matched.
static void receive_posted(Inbox &inbox, int way, std::vector<std::pair<int, int>> order) {
    std::vector<Guarded> buffers;
    std::vector<MPI_Request> requests;
    std::vector<MPI_Status> statuses;
    std::vector<int> slots;
    buffers.reserve(order.size());
    int largest = 0;
    std::map<std::pair<int, int>, std::size_t> used;
    for (auto &[key, queue] : inbox.expected)
        for (auto &m : queue) largest = std::max(largest, m.bytes);
    for (auto &key : order) {
        int from = way == 1 || way == 3 ? MPI_ANY_SOURCE : local[inbox.c][key.first];
        int tag = way == 2 || way == 3 ? MPI_ANY_TAG : key.second;
        int room = way == 0 ? inbox.expected[key][used[key]++].bytes + mine.below(100) : largest;
        buffers.emplace_back(room);
        while (mine.once_in(5)) requests.push_back(MPI_REQUEST_NULL);
        slots.push_back(int(requests.size()));
        MPI_Irecv(buffers.back().data(), room, MPI_BYTE, from, tag, comm[inbox.c],
                  &requests.emplace_back());
    }
    complete(requests, statuses);
    for (std::size_t i = 0; i < order.size(); ++i)
        inbox.take(statuses[slots[i]], buffers[i], buffers[i].data());
}

static void receive_probed(Inbox &inbox, int way) {
    for (int i = 0; i < inbox.left; ++i) {
        MPI_Status status;
        MPI_Message message;
        MPI_Request request;
        int flag = 0;
        MPI_Comm c = comm[inbox.c];
        if (way == 4) MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, c, &status);
        while (way == 5 && !flag) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c, &flag, &status);
        if (way == 6) MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c, &message, &status);
        while (way == 7 && !flag)
            MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, c, &flag, &message, &status);
        int bytes = count_of(status);
        Guarded buffer(bytes);
        if (way <= 5)
            MPI_Recv(buffer.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, c, &status);
        if (way == 6) MPI_Mrecv(buffer.data(), bytes, MPI_BYTE, &message, &status);
        if (way == 7) MPI_Imrecv(buffer.data(), bytes, MPI_BYTE, &message, &request);
        if (way == 7) MPI_Wait(&request, &status);
        inbox.take(status, buffer, buffer.data());
    }
}

static void receive(Inbox &inbox) {
    std::vector<std::pair<int, int>> order;
    for (auto &[key, queue] : inbox.expected) order.insert(order.end(), queue.size(), key);
    inbox.left = int(order.size());
    for (int i = inbox.left - 1; i > 0; --i) std::swap(order[i], order[mine.below(i + 1)]);
    int way = mine.below(8);
    // A wildcard source leaves nothing to choose: all receives of that kind are alike.
    if (way <= 3) receive_posted(inbox, way, order);
    else
        receive_probed(inbox, way);
}

static void send(const Message &m, std::deque<std::vector<unsigned char>> &data,
                 std::vector<MPI_Request> &requests) {
    auto &bytes = data.emplace_back(made(m.bytes, m.id));
    int to = local[m.comm][m.to], mode = m.mode;
    MPI_Comm c = comm[m.comm];
    MPI_Request request = MPI_REQUEST_NULL;
    if (mode == 0 && (m.bytes > 1000 || m.to == rank))
        mode = 1;  // a blocking one must not need the receiver
    if (mode == 0) MPI_Send(bytes.data(), m.bytes, MPI_BYTE, to, m.tag, c);
    if (mode == 1) MPI_Isend(bytes.data(), m.bytes, MPI_BYTE, to, m.tag, c, &request);
    if (mode == 2) MPI_Issend(bytes.data(), m.bytes, MPI_BYTE, to, m.tag, c, &request);
    if (mode == 3) MPI_Ibsend(bytes.data(), m.bytes, MPI_BYTE, to, m.tag, c, &request);
    if (mode >= 4) {
        if (mode == 4) MPI_Send_init(bytes.data(), m.bytes, MPI_BYTE, to, m.tag, c, &request);
        if (mode == 5) MPI_Ssend_init(bytes.data(), m.bytes, MPI_BYTE, to, m.tag, c, &request);
        MPI_Start(&request);
        if (mine.once_in(2)) {  // freed while active
            MPI_Request_free(&request);
            return;
        }
    }
    requests.push_back(request);
}

static void round_of(Random &shared, std::uint32_t &id) {
    auto list = plan(shared, id);
    std::deque<std::vector<unsigned char>> data;
    std::vector<MPI_Request> requests;
    std::vector<Inbox> inboxes(comms);
    for (int c = 0; c < comms; ++c) inboxes[c].c = c;
    for (auto &m : list) {
        if (m.to == rank) inboxes[m.comm].expected[{m.from, m.tag}].push_back(m);
        if (m.from == rank) send(m, data, requests);
    }
    int first = mine.below(comms);
    for (int i = 0; i < comms; ++i) receive(inboxes[(first + i) % comms]);
    for (auto &request : requests) {
        MPI_Status status;
        if (mine.once_in(2)) expect(test_until_done(&request, &status), "send never complete");
        else
            MPI_Wait(&request, &status);
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    }
    MPI_Barrier(MPI_COMM_WORLD);  // freed sends have been received: data may go
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Buffer_attach(attached.data(), int(attached.size()));
    comm[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm[2]);
    for (int c = 0; c < comms; ++c) {
        int in_comm;
        MPI_Comm_rank(comm[c], &in_comm);
        local[c].resize(size);
        MPI_Allgather(&in_comm, 1, MPI_INT, local[c].data(), 1, MPI_INT, MPI_COMM_WORLD);
    }
    long seed = number("seed", 0), rounds = number("rounds", given("long") ? 400 : 40);
    for (long s = seed ? seed : 1; s <= (seed ? seed : 3); ++s) {
        Random shared(s);
        mine = Random(s * 977 + rank);
        std::uint32_t id = 1;
        sum = received = 0;
        for (long i = 0; i < rounds; ++i) round_of(shared, id);
        say("seed %ld: %ld messages, sum %llu", s, received, static_cast<unsigned long long>(sum));
    }
    void *address;
    int bytes;
    MPI_Buffer_detach(&address, &bytes);
    MPI_Comm_free(&comm[1]);
    MPI_Comm_free(&comm[2]);
    return finish();
}
