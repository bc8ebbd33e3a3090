// SPDX-License-Identifier: MIT
// Seeded random programs: each makes communicators, and in each of its threads sends in
// all modes, receives with all wildcards, probes, cancels and frees at random times,
// until every message has come. What was received need not repeat, as it depends on time;
// an oracle says afterwards whether MPI's rules allow it:
//   * every message comes once, unharmed, and nothing is written beyond it;
//   * of one sender's messages, a receive takes none before an earlier one that it fits,
//     unless a receive that was posted before it took that one.
// Arguments: seed=N (that program alone), seeds=N (so many), from=N (the first of them),
// threads (up to three).
// run: ranks=2,3,4,5 timeout=60 args=seeds=40 long
// run: ranks=2,3 timeout=60 args="threads seeds=12" long
// run: ranks=2,4 timeout=60 args=seeds=30 env=STORM_BACKEND=none long
// run: ranks=2,3 timeout=60 args="threads seeds=8" env=STORM_BACKEND=none long
#include <algorithm>
#include <deque>
#include <map>
#include <thread>

#include "check.h"
using namespace check;

enum Mode { send_mode, isend, issend, ibsend, send_init, ssend_init, modes };

struct Message {
    int from, to, tag, bytes, mode;  // world ranks
    std::uint32_t id;
};

static std::vector<char> attached(32 << 20);
static std::atomic<long> received{0};
static std::atomic<std::uint64_t> sum{0};
static long current_seed;

static int random_bytes(Random &random) {
    switch (random.below(10)) {
        case 0: return 0;
        case 1:
        case 2:
        case 3: return random.below(64);
        case 4:
        case 5: return random.below(1100);
        case 6: return 3900 + random.below(400);
        case 7: return random.below(20000);
        case 8: return random.below(9000);
        default: return random.below(150000);
    }
}

// A lane is what one thread of each rank does: one communicator, a range of tags, and in
// rounds the messages that are sent there. Every rank plans the same from the seed.
struct Lane {
    MPI_Comm comm = MPI_COMM_NULL;
    bool shared = false;  // others use the communicator too: no MPI_ANY_TAG
    int first_tag = 0, tags = 1;
    std::vector<int> in_comm;  // world rank -> rank in comm
    std::vector<std::vector<Message>> rounds;
};

struct Receive {
    int source, tag;  // what it asked for, the source as a world rank
    int from = -1, got_tag = -1, bytes = -1;
    bool exact = false;  // a probe told the size
    Guarded buffer{0};
    MPI_Request request = MPI_REQUEST_NULL;

    bool fits(const Message &m) const {
        return (source == MPI_ANY_SOURCE || source == m.from) &&
               (tag == MPI_ANY_TAG || tag == m.tag);
    }
};

class Player {
   public:
    Player(const Lane &l, const std::vector<Message> &messages, std::uint32_t seed)
        : lane(l), random(seed) {
        for (auto &m : messages) {
            if (m.from == rank) to_send.push_back(m);
            if (m.to == rank) expected.push_back(m);
            if (m.to == rank) largest = std::max(largest, m.bytes);
        }
    }

    void play() {
        while (!to_send.empty() || taken < int(expected.size())) {
            if (!to_send.empty() && !random.once_in(3)) send_next();
            else if (taken < int(expected.size()))
                receive_something();
            if (random.once_in(4)) look_at_sends();
        }
        for (auto &r : posted) withdraw(*r);
        posted.clear();
    }

    void finish() {
        for (auto &request : sends) complete_send(request);
        judge();
    }

   private:
    const Lane &lane;
    Random random;
    std::deque<Message> to_send;
    std::vector<Message> expected;  // in each sender's order
    std::deque<Receive> receives;   // in the order in which they were posted
    std::vector<Receive *> posted;
    std::deque<std::vector<unsigned char>> data;
    std::vector<MPI_Request> sends;
    int taken = 0, largest = 0, idle = 0;

    int world_of(int member) const {
        for (int r = 0; r < size; ++r)
            if (lane.in_comm[r] == member) return r;
        return -1;
    }

    void send_next() {
        Message m = to_send.front();
        to_send.pop_front();
        auto &bytes = data.emplace_back(made(m.bytes, m.id));
        int to = lane.in_comm[m.to], n = m.bytes, mode = m.mode;
        if (mode == send_mode && (n > 1000 || m.to == rank)) mode = isend;
        MPI_Request request = MPI_REQUEST_NULL;
        void *at = bytes.data();
        if (mode == send_mode) MPI_Send(at, n, MPI_BYTE, to, m.tag, lane.comm);
        if (mode == isend) MPI_Isend(at, n, MPI_BYTE, to, m.tag, lane.comm, &request);
        if (mode == issend) MPI_Issend(at, n, MPI_BYTE, to, m.tag, lane.comm, &request);
        if (mode == ibsend) MPI_Ibsend(at, n, MPI_BYTE, to, m.tag, lane.comm, &request);
        if (mode == send_init) MPI_Send_init(at, n, MPI_BYTE, to, m.tag, lane.comm, &request);
        if (mode == ssend_init) MPI_Ssend_init(at, n, MPI_BYTE, to, m.tag, lane.comm, &request);
        if (mode >= send_init) MPI_Start(&request);
        if (mode != send_mode && random.once_in(8)) MPI_Request_free(&request);
        else
            sends.push_back(request);
    }

    void look_at_sends() {
        if (sends.empty()) return;
        int i = random.below(int(sends.size())), flag = 0;
        if (random.once_in(2)) MPI_Request_get_status(sends[i], &flag, MPI_STATUS_IGNORE);
        else
            MPI_Test(&sends[i], &flag, MPI_STATUS_IGNORE);
    }

    // A send is never cancelled: its message is received in any case.
    void complete_send(MPI_Request &request) {
        MPI_Status status;
        int flag = 0;
        if (request != MPI_REQUEST_NULL && random.once_in(10)) MPI_Cancel(&request);
        if (random.once_in(2)) expect(test_until_done(&request, &status), "a send without an end");
        else
            MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        expect(!flag, "a cancelled send");
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    }

    // One of the patterns that some message fits, or wildcards.
    Receive &pattern() {
        const Message &m = expected[random.below(int(expected.size()))];
        bool any_source = random.once_in(3), any_tag = !lane.shared && random.once_in(3);
        return receives.emplace_back(Receive{any_source ? MPI_ANY_SOURCE : m.from,
                                             any_tag ? MPI_ANY_TAG : m.tag});
    }
    int source_of(const Receive &r) const {
        return r.source == MPI_ANY_SOURCE ? MPI_ANY_SOURCE : lane.in_comm[r.source];
    }

    void post(Receive &r) {
        r.buffer = Guarded(largest + random.below(50));
        MPI_Irecv(r.buffer.data(), int(r.buffer.bytes), MPI_BYTE, source_of(r), r.tag, lane.comm,
                  &r.request);
        posted.push_back(&r);
    }

    void arrived(Receive &r, const MPI_Status &status) {
        r.from = world_of(status.MPI_SOURCE);
        r.got_tag = status.MPI_TAG;
        int bytes = count_of(status);
        expect(!r.exact || bytes == r.bytes, "probed %d, received %d", r.bytes, bytes);
        r.bytes = bytes;
        ++taken;
        idle = 0;
    }

    // Cancelled or delivered, never both.
    void withdraw(Receive &r) {
        MPI_Status status;
        int cancelled = 0;
        MPI_Cancel(&r.request);
        MPI_Wait(&r.request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        if (!cancelled) return arrived(r, status);
        expect(r.buffer.untouched(0), "a cancelled receive wrote");
    }

    void test_posted() {
        int n = int(posted.size()), done = 0;
        if (n == 0) return;
        std::vector<MPI_Request> requests;
        for (auto *r : posted) requests.push_back(r->request);
        std::vector<int> indices(n);
        std::vector<MPI_Status> statuses(n);
        if (random.once_in(2)) {
            MPI_Testsome(n, requests.data(), &done, indices.data(), statuses.data());
        } else {
            int flag = 0;
            MPI_Testany(n, requests.data(), &indices[0], &flag, &statuses[0]);
            done = flag ? 1 : 0;
        }
        for (int i = 0; i < done; ++i) arrived(*posted[indices[i]], statuses[i]);
        for (int i = 0; i < n; ++i) posted[i]->request = requests[i];
        std::erase_if(posted, [](auto *r) { return r->request == MPI_REQUEST_NULL; });
        if (done == 0 && ++idle % 50 == 0) std::this_thread::yield();
    }

    // A blocking probe only when nobody can be waiting for a message of ours.
    void probe() {
        Receive &r = pattern();
        bool blocking = to_send.empty() && posted.empty() && random.once_in(2);
        if (blocking) r.source = MPI_ANY_SOURCE, r.tag = lane.shared ? r.tag : MPI_ANY_TAG;
        if (blocking && lane.shared) blocking = false;  // that tag may be all received
        bool matched = random.once_in(2);
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status;
        int flag = 1, source = source_of(r);
        if (blocking && matched) MPI_Mprobe(source, r.tag, lane.comm, &message, &status);
        if (blocking && !matched) MPI_Probe(source, r.tag, lane.comm, &status);
        if (!blocking && matched) MPI_Improbe(source, r.tag, lane.comm, &flag, &message, &status);
        if (!blocking && !matched) MPI_Iprobe(source, r.tag, lane.comm, &flag, &status);
        if (!flag) {
            receives.pop_back();
            ++idle;
            return;
        }
        r.exact = true;
        r.bytes = count_of(status);
        r.buffer = Guarded(r.bytes);
        void *at = r.buffer.data();
        if (matched && random.once_in(2)) {
            MPI_Imrecv(at, r.bytes, MPI_BYTE, &message, &r.request);
            MPI_Wait(&r.request, &status);
        } else if (matched) {
            MPI_Mrecv(at, r.bytes, MPI_BYTE, &message, &status);
        } else {
            MPI_Recv(at, r.bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, lane.comm, &status);
        }
        arrived(r, status);
    }

    void receive_something() {
        int way = random.below(8);
        if (way <= 1 && posted.size() < 12) post(pattern());
        else if (way == 2)
            probe();
        else if (way == 3 && !posted.empty() && (random.once_in(3) || idle > 400)) {
            // Some wait for what others took: they make room.
            int i = random.below(int(posted.size()));
            withdraw(*posted[i]);
            posted.erase(posted.begin() + i);
        } else
            test_posted();
    }

    void judge() {
        std::map<std::pair<int, int>, std::deque<const Receive *>> got;
        for (auto &r : receives)
            if (r.from >= 0) got[{r.from, r.got_tag}].push_back(&r);
        std::vector<const Receive *> by_message;
        for (auto &m : expected) {
            auto &queue = got[{m.from, m.tag}];
            by_message.push_back(queue.empty() ? nullptr : queue.front());
            if (!wrong_if(queue.empty(), "message %u did not come", m.id)) queue.pop_front();
        }
        for (auto &[key, queue] : got)
            wrong_if(!queue.empty(), "%u too many from %d", unsigned(queue.size()), key.first);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const Message &m = expected[i];
            const Receive *r = by_message[i];
            if (!r) continue;
            auto *at = const_cast<Receive *>(r)->buffer.data();
            wrong_if(r->bytes != m.bytes, "%u bytes of message %d", unsigned(r->bytes), int(m.id));
            wrong_if(!r->fits(m), "message %u came to the wrong receive", m.id);
            wrong_if(!same(at, m.bytes, m.id) || !r->buffer.untouched(m.bytes), "data of message %u", m.id);
            for (std::size_t k = i + 1; k < expected.size(); ++k)
                if (expected[k].from == m.from && by_message[k] && posted_before(by_message[k], r))
                    wrong_if(by_message[k]->fits(m), "message %u overtook", expected[k].id);
            sum += std::uint64_t(m.id) * 31 + m.bytes;
            ++received;
        }
    }
    bool posted_before(const Receive *a, const Receive *b) const {
        for (auto &r : receives) {
            if (&r == b) return false;
            if (&r == a) return true;
        }
        return false;
    }
    template <class... Values>
    bool wrong_if(bool bad, const char *format, unsigned value, Values... more) {
        if (bad) {
            char text[200];
            std::snprintf(text, sizeof text, format, value, more...);
            expect(false, "%s (again: seed=%ld)", text, current_seed);
        }
        return bad;
    }
};

static MPI_Comm random_comm(Random &random, MPI_Comm from) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group group;
    switch (random.below(5)) {
        case 0: MPI_Comm_dup(from, &comm); break;
        case 1: MPI_Comm_split(from, 0, -rank, &comm); break;
        case 2: MPI_Comm_split(from, 0, (rank * 7 + 3) % 5, &comm); break;
        case 3:
            MPI_Comm_group(from, &group);
            MPI_Comm_create(from, group, &comm);
            MPI_Group_free(&group);
            break;
        default: {
            int dims[1] = {size}, wrap[1] = {0};
            MPI_Cart_create(from, 1, dims, wrap, 0, &comm);
        }
    }
    return comm;
}

static std::vector<Lane> plan(Random &random, bool threads, MPI_Comm &common) {
    std::vector<Lane> lanes(threads ? 1 + random.below(3) : 1);
    std::uint32_t id = 1;
    common = random_comm(random, MPI_COMM_WORLD);
    for (std::size_t l = 0; l < lanes.size(); ++l) {
        Lane &lane = lanes[l];
        lane.shared = lanes.size() > 1 && random.once_in(2);
        lane.first_tag = int(l) * 50;
        lane.tags = 1 + random.below(5);
        lane.comm = lane.shared ? common : random_comm(random, random.once_in(2) ? common : MPI_COMM_WORLD);
        lane.in_comm.resize(size);
        int me;
        MPI_Comm_rank(lane.comm, &me);
        MPI_Allgather(&me, 1, MPI_INT, lane.in_comm.data(), 1, MPI_INT, MPI_COMM_WORLD);
        lane.rounds.resize(1 + random.below(3));
        for (std::size_t i = 0; i < lane.rounds.size(); ++i) {
            auto &round = lane.rounds[i];
            round.resize(1 + random.below(15 * size));
            int hub = random.once_in(3) ? random.below(size) : -1;  // all to one
            for (auto &m : round)
                m = {random.below(size),
                     hub >= 0 ? hub : random.below(size),
                     lane.first_tag + int(i) * lane.tags + random.below(lane.tags),
                     random_bytes(random),
                     random.below(modes),
                     id++};
        }
    }
    return lanes;
}

static void run(long seed, bool threads) {
    current_seed = seed;
    Random random(seed);
    MPI_Comm common;
    auto lanes = plan(random, threads, common);
    bool free_early = random.once_in(2);
    std::vector<std::deque<Player>> players(lanes.size());
    // Rounds of a shared communicator are told apart by their tags, others by a barrier.
    auto body = [&](std::size_t l) {
        for (std::size_t i = 0; i < lanes[l].rounds.size(); ++i) {
            if (i > 0 && !lanes[l].shared) MPI_Barrier(lanes[l].comm);
            players[l].emplace_back(lanes[l], lanes[l].rounds[i], seed * 977 + rank * 31 + l * 7 + i).play();
        }
    };
    if (lanes.size() == 1) {
        body(0);
    } else {
        std::vector<std::thread> all;
        for (std::size_t l = 0; l < lanes.size(); ++l) all.emplace_back(body, l);
        for (auto &thread : all) thread.join();
    }
    auto free_comms = [&] {
        for (auto &lane : lanes)
            if (!lane.shared) MPI_Comm_free(&lane.comm);
        MPI_Comm_free(&common);
    };
    if (free_early) free_comms();  // while its sends may be under way
    for (auto &rounds : players)
        for (auto &player : rounds) player.finish();
    MPI_Barrier(MPI_COMM_WORLD);  // freed sends have been received: their data may go
    if (!free_early) free_comms();
}

int main(int argc, char **argv) {
    arg_count = argc, arg_list = argv;
    bool threads = given("threads");
    begin(argc, argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    MPI_Buffer_attach(attached.data(), int(attached.size()));
    long seed = number("seed", 0), seeds = number("seeds", 40) * (given("long") ? 12 : 1);
    const long first = seed ? seed : number("from", 1), last = seed ? seed : first + seeds - 1;
    for (long s = first; s <= last; ++s) run(s, threads);
    say("%ld messages, sum %llu", received.load(), static_cast<unsigned long long>(sum));
    void *address;
    int bytes;
    MPI_Buffer_detach(&address, &bytes);
    return finish();
}
