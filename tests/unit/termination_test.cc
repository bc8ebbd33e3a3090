// SPDX-License-Identifier: MIT
// shim/wave.h, shim/termination.cc and Rank::quiesced: the end is found, by few messages,
// and never while something is under way.
#include "job.hh"

#include "termination.hh"
#include "wave.h"

#include <cstdlib>
#include <deque>
#include <memory>
#include <random>

namespace storm::unit {
namespace {

int logarithm(int ranks) // rounded up
{
    int log = 0;
    while (1 << log < ranks)
        ++log;
    return log;
}

// Ranks with work that begets work elsewhere, and the messages of their waves. Nothing
// arrives but by deliver().
class Net {
public:
    struct Message {
        bool wave = false, down = false;
        int to = 0;
        storm_sums sums{};
        int hops = 0; // of this wave, this one included
    };
    struct Node {
        storm_wave wave{};
        storm_sums own{};
        int work = 0;  // pieces to be done
        int hops = 0;  // the longest way that this wave has come
        int epochs = 0; // that ended here
    };

    explicit Net(int ranks) : nodes(static_cast<std::size_t>(ranks))
    {
        for (int i = 0; i < ranks; ++i) {
            storm_wave_init(&at(i).wave, i, ranks);
            storm_wave_begin(&at(i).wave);
        }
    }

    Node& at(int rank) { return nodes[static_cast<std::size_t>(rank)]; }
    int ranks() const { return static_cast<int>(nodes.size()); }

    void send_work(int from, int to)
    {
        ++at(from).own.sent;
        under_way.push_back({false, false, to});
    }

    // A look of this rank at its waves.
    void look(int rank)
    {
        Node& node = at(rank);
        if (node.work == 0)
            act(rank, storm_wave_idle(&node.wave, node.own));
    }

    void deliver(std::size_t n)
    {
        const Message m = under_way[n];
        under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(n));
        Node& node = at(m.to);
        if (!m.wave) {
            ++node.own.arrived;
            ++node.work;
            return;
        }
        node.hops = std::max(node.hops, m.hops);
        if (m.down)
            act(m.to, storm_wave_down(&node.wave, m.sums.sent != 0));
        else
            storm_wave_up(&node.wave, m.sums);
    }

    // Something is to be done, or on its way to somebody.
    bool alive() const
    {
        return std::any_of(nodes.begin(), nodes.end(), [](const Node& n) { return n.work != 0; }) ||
               std::any_of(under_way.begin(), under_way.end(), [](const Message& m) { return !m.wave; });
    }
    bool over() const
    {
        return std::all_of(nodes.begin(), nodes.end(), [](const Node& n) { return n.wave.running == 0; });
    }

    std::vector<Node> nodes;
    std::deque<Message> under_way;
    int waves = 0, messages = 0, hops = 0; // the last: the most of any wave
    bool early = false;                    // an end was found that was none

private:
    void act(int rank, storm_wave_act what)
    {
        Node& node = at(rank);
        if (what == STORM_WAVE_NOTHING)
            return;
        if (what == STORM_WAVE_UP) {
            put({true, false, storm_wave_parent(&node.wave), node.wave.sums, node.hops + 1});
            return;
        }
        if (rank == 0) {
            ++waves;
            early = early || (node.wave.over != 0 && alive());
        }
        for (int n = 0; n < node.wave.children; ++n)
            put({true, true, storm_wave_child(&node.wave, n), {node.wave.over, 0}, node.hops + 1});
        node.hops = 0;
        node.epochs += node.wave.over;
    }
    void put(const Message& m)
    {
        under_way.push_back(m);
        ++messages;
        hops = std::max(hops, m.hops);
    }
};

struct Waves {
    std::unique_ptr<Net> net;
    std::mt19937_64 random;

    Net& start(int ranks)
    {
        net = std::make_unique<Net>(ranks);
        return *net;
    }
    std::size_t below(std::size_t n) { return random() % n; }

    // Ranks look and messages arrive, in any order, until the end has been seen by all.
    void run_to_the_end(int births_in_8)
    {
        Net& n = *net;
        for (int steps = 0; !n.over(); ++steps) {
            expect_that(steps < 4000000, "the end is not found");
            const int rank = static_cast<int>(below(n.nodes.size()));
            if (n.at(rank).work != 0 && below(3) == 0) {
                --n.at(rank).work;
                if (static_cast<int>(below(8)) < births_in_8)
                    n.send_work(rank, static_cast<int>(below(n.nodes.size())));
            }
            n.look(rank);
            if (!n.under_way.empty())
                n.deliver(below(n.under_way.size()));
            expect_that(!n.early, "an end with work under way");
        }
    }
};

void tree_has_each_rank_once(Waves& f)
{
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 9, 64, 100, 13440}) {
        f.start(ranks);
        int links = 0;
        for (int rank = 0; rank < ranks; ++rank) {
            const storm_wave& w = f.net->at(rank).wave;
            links += w.children;
            for (int n = 0; n < w.children; ++n) {
                const int child = storm_wave_child(&w, n);
                expect_that(child < ranks && storm_wave_parent(&f.net->at(child).wave) == rank, "%d of %d", child,
                            ranks);
            }
        }
        assert_int_equal(links, ranks - 1);
    }
}

void end_is_found_when_all_is_done_and_not_before(Waves& f)
{
    for (const int ranks : {1, 2, 3, 5, 8, 17, 64, 300})
        for (unsigned seed = 1; seed <= (ranks > 50 ? 3u : 60u); ++seed) {
            f.random.seed(seed);
            f.start(ranks);
            for (int epoch = 1; epoch <= 3; ++epoch) {
                for (int i = 0; i < ranks; ++i) // some have nothing to do
                    f.net->at(i).work += f.below(3) == 0 ? static_cast<int>(f.below(10)) : 0;
                f.run_to_the_end(7);
                assert_false(f.net->alive());
                for (int i = 0; i < ranks; ++i) {
                    assert_int_equal(f.net->at(i).epochs, epoch);
                    storm_wave_begin(&f.net->at(i).wave);
                }
            }
        }
}

// Ranks that saw the end go on, and their messages come where it was not seen.
void next_epoch_may_begin_before_all_saw_the_end(Waves& f)
{
    for (unsigned seed = 1; seed <= 60; ++seed) {
        f.random.seed(seed);
        Net& n = f.start(2 + static_cast<int>(seed % 9));
        n.at(0).work = 5;
        const auto goes_on = [](const Net::Node& node) { return node.epochs < 5; };
        for (int steps = 0; std::any_of(n.nodes.begin(), n.nodes.end(), goes_on); ++steps) {
            expect_that(steps < 1000000, "the end is not found");
            const int rank = static_cast<int>(f.below(n.nodes.size()));
            Net::Node& node = n.at(rank);
            if (node.wave.running == 0 && node.epochs < 5) {
                storm_wave_begin(&node.wave);
                node.work += 2;
            }
            if (node.work != 0) {
                --node.work;
                if (f.below(8) < 6)
                    n.send_work(rank, static_cast<int>(f.below(n.nodes.size())));
            }
            n.look(rank);
            if (!n.under_way.empty() && f.below(2) == 0)
                n.deliver(f.below(n.under_way.size()));
            // the root alone can say what is under way when it decides: all else is later
            expect_that(!n.early, "an end with work under way");
        }
    }
}

// One message is held back until n messages of waves have arrived, for each n, each pair
// of ranks and some orders; so is the one that it causes.
void message_in_flight_at_each_phase_is_waited_for(Waves& f)
{
    for (const int ranks : {2, 3, 4, 6})
        for (int pair = 0; pair < ranks * ranks; ++pair)
            for (int held = 0; held < 4 * ranks; ++held)
                for (unsigned order = 0; order < 4; ++order) {
                    f.random.seed(order);
                    Net& n = f.start(ranks);
                    n.send_work(pair / ranks, pair % ranks);
                    int waves_seen = 0, again = 1;
                    for (int steps = 0; !n.over(); ++steps) {
                        expect_that(steps < 100000, "the end is not found");
                        for (int rank = 0; rank < ranks; ++rank) {
                            if (n.at(rank).work != 0) {
                                --n.at(rank).work;
                                if (again-- > 0)
                                    n.send_work(rank, (rank + 1) % ranks);
                                waves_seen = 0;
                            }
                            n.look(rank);
                        }
                        std::vector<std::size_t> may;
                        for (std::size_t i = 0; i < n.under_way.size(); ++i)
                            if (n.under_way[i].wave || waves_seen >= held)
                                may.push_back(i);
                        if (!may.empty()) {
                            std::size_t chosen = order == 0   ? may.front()
                                                 : order == 1 ? may.back()
                                                              : may[f.below(may.size())];
                            for (const std::size_t i : may) // exactly then
                                chosen = n.under_way[i].wave ? chosen : i;
                            waves_seen += n.under_way[chosen].wave ? 1 : 0;
                            n.deliver(chosen);
                        }
                        expect_that(!n.early, "an end with a message held for %d of %d ranks", held, ranks);
                    }
                }
}

// Rank 1 has told of nothing; then it gets a message, answers it and sends another one
// that is under way. Rank 2 counts what it sent and the answer: the sums are equal.
void one_wave_with_equal_sums_is_not_the_end(Waves& f)
{
    Net& n = f.start(3);
    n.look(1);
    n.send_work(2, 1);
    n.deliver(1);
    --n.at(1).work;
    n.send_work(1, 2);
    n.send_work(1, 0);
    n.deliver(1);
    --n.at(2).work;
    n.look(2);
    n.deliver(0); // the sums of 1
    n.deliver(1); // and those of 2; the message to 0 is still under way
    assert_int_equal(n.at(0).wave.sums.sent, 1);
    assert_int_equal(n.at(0).wave.sums.arrived, 1);
    n.look(0);
    assert_int_equal(n.waves, 1);
    assert_false(n.early);
    assert_true(n.at(0).wave.running);
}

void wave_costs_two_messages_a_link_and_two_logarithms_of_hops(Waves& f)
{
    for (const int ranks : {1, 2, 3, 4, 7, 16, 100, 112, 512, 600}) {
        f.random.seed(7);
        Net& n = f.start(ranks);
        f.run_to_the_end(0);
        assert_int_equal(n.waves, 2); // none is in vain when nothing is under way
        assert_int_equal(n.messages, n.waves * 2 * (ranks - 1));
        expect_that(n.hops <= 2 * logarithm(ranks), "%d ranks: %d hops", ranks, n.hops);
        f.start(ranks);
        for (int i = 0; i < ranks; ++i)
            f.net->at(i).work = 20;
        f.run_to_the_end(7);
        assert_int_equal(f.net->messages, f.net->waves * 2 * (ranks - 1));
        expect_that(f.net->hops <= 2 * logarithm(ranks), "%d ranks: %d hops", ranks, f.net->hops);
    }
}

void wave_costs_no_more_for_very_many_ranks(Waves& f)
{
    for (const int ranks : {13440, 100000}) {
        Net& n = f.start(ranks);
        for (int rank = 0; rank < ranks; ++rank)
            n.look(rank);
        while (!n.under_way.empty()) {
            const int to = n.under_way.front().to;
            n.deliver(0);
            n.look(to);
        }
        assert_true(n.over());
        assert_int_equal(n.waves, 2);
        assert_int_equal(n.messages, n.waves * 2 * (ranks - 1));
        expect_that(n.hops <= 2 * logarithm(ranks), "%d ranks: %d hops", ranks, n.hops);
    }
}

void busy_rank_costs_no_messages(Waves& f)
{
    Net& n = f.start(64);
    n.at(37).work = 1;
    for (int looks = 0; looks < 1000; ++looks)
        for (int rank = 0; rank < 64; ++rank) {
            n.look(rank);
            if (!n.under_way.empty())
                n.deliver(0);
        }
    assert_int_equal(n.waves, 0);
    assert_true(n.messages < 63);
    n.at(37).work = 0;
    f.run_to_the_end(0);
    assert_int_equal(n.waves, 2);
}

// ---- over the real MPI's messages

void many_ranks_come_to_their_end(Waves&)
{
    for (const int ranks : {1, 2, 7, 64, 256}) {
        FakeMpi mpi(ranks, {.seed = static_cast<std::uint64_t>(ranks), .delay_max = 20});
        std::vector<std::unique_ptr<Termination>> all;
        for (int i = 0; i < ranks; ++i)
            all.push_back(std::make_unique<Termination>(mpi.real(i), mpi.private_comm(i), i, ranks));
        std::vector<bool> over(all.size());
        std::size_t ended = 0;
        const std::size_t last = all.size() - 1;
        for (int looks = 0; ended < all.size(); ++looks) {
            expect_that(looks < 100000, "the end is not found");
            for (std::size_t i = 0; i < all.size(); ++i) {
                // the last one sends to the first, late; until then it is not idle
                const storm_sums own{i == last && looks >= 50 ? 3 : 0, i == 0 && looks >= 90 ? 3 : 0};
                if (over[i] || !all[i]->step(i != last || looks >= 50, own))
                    continue;
                over[i] = true;
                ++ended;
                expect_that(looks >= 90, "rank %zu of %d ended after %d looks", i, ranks, looks);
            }
        }
        std::uint64_t messages = 0;
        for (const auto& one : all) {
            messages += one->messages();
            assert_int_equal(one->waves(), all[0]->waves());
            assert_int_equal(one->error(), MPI_SUCCESS);
        }
        assert_int_equal(messages, all[0]->waves() * 2 * static_cast<std::uint64_t>(ranks - 1));
        assert_false(mpi.busy());
    }
}

// ---- Rank

struct Ends {
    JobOptions options;
    std::deque<Bytes> payloads; // of sends whose requests nobody holds any more
    std::unique_ptr<Job> job;

    // Every rank sends to every other one: what grows a ring, waits for room, comes in
    // pieces and goes by the real MPI. Nobody receives, and all come to their end.
    void send_and_quiesce(int ranks, Where where, std::uint64_t seed)
    {
        job.reset(); // there is one fake MPI at a time
        payloads.clear();
        options = JobOptions();
        options.ranks = ranks;
        options.where = where;
        options.seed = seed;
        options.settings.ring_max = 65536;
        options.mpi.delay_max = 30;
        job = std::make_unique<Job>(options);
        if (where == Where::loop)
            job->refuse_claim_towards(ranks - 1);
        for (int from = 0; from < ranks; ++from)
            for (int to = 0; to < ranks; ++to)
                for (unsigned i = 0; i < 40 && from != to; ++i) {
                    payloads.push_back(pattern(i % 8 == 7 ? 20000 : 900 + i, i));
                    MPI_Request request = job->isend(from, payloads.back(), to, 1);
                    if ((*job)[from].owns(request))
                        (*job)[from].free_request(&request);
                }
        std::vector<bool> over(static_cast<std::size_t>(ranks));
        std::mt19937_64 random(seed);
        for (int looks = 0; std::find(over.begin(), over.end(), false) != over.end(); ++looks) {
            expect_that(looks < 200000, "the end is not found");
            const int rank = static_cast<int>(random() % static_cast<unsigned>(ranks));
            if (over[static_cast<std::size_t>(rank)])
                continue;
            (*job)[rank].poll();
            over[static_cast<std::size_t>(rank)] = (*job)[rank].quiesced();
            if (over[static_cast<std::size_t>(rank)])
                all_has_arrived();
        }
    }
    void all_has_arrived()
    {
        std::int64_t sent = 0, arrived = 0;
        for (int rank = 0; rank < job->ranks(); ++rank) {
            const storm_sums sums = RankTest::moved((*job)[rank]);
            sent += sums.sent;
            arrived += sums.arrived;
            assert_false(RankTest::waiting((*job)[rank]));
        }
        assert_true(sent > 0);
        assert_int_equal(sent, arrived);
        const std::string complaints = job->complaints();
        expect_that(complaints.empty(), "%s", complaints.c_str());
    }
};

template <Where where>
void nobody_leaves_before_all_has_arrived(Ends& f)
{
    for (std::uint64_t seed = 1; seed <= 8; ++seed)
        f.send_and_quiesce(2 + static_cast<int>(seed % 4), where, seed);
}

void single_rank_is_at_its_end(Ends& f)
{
    f.options.ranks = 1;
    f.job = std::make_unique<Job>(f.options);
    assert_true((*f.job)[0].quiesced());
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Waves, tree_has_each_rank_once),
        UNIT(Waves, end_is_found_when_all_is_done_and_not_before),
        UNIT(Waves, next_epoch_may_begin_before_all_saw_the_end),
        UNIT(Waves, message_in_flight_at_each_phase_is_waited_for),
        UNIT(Waves, one_wave_with_equal_sums_is_not_the_end),
        UNIT(Waves, wave_costs_two_messages_a_link_and_two_logarithms_of_hops),
        UNIT(Waves, wave_costs_no_more_for_very_many_ranks),
        UNIT(Waves, busy_rank_costs_no_messages),
        UNIT(Waves, many_ranks_come_to_their_end),
        UNIT_NAMED("nobody_leaves_before_all_has_arrived over loop", Ends,
                   nobody_leaves_before_all_has_arrived<Where::loop>),
        UNIT_NAMED("nobody_leaves_before_all_has_arrived over shm", Ends,
                   nobody_leaves_before_all_has_arrived<Where::shm>),
        UNIT_NAMED("nobody_leaves_before_all_has_arrived carried", Ends,
                   nobody_leaves_before_all_has_arrived<Where::carried>),
        UNIT(Ends, single_rank_is_at_its_end),
    };
    return run_all(tests, argc, argv);
}
