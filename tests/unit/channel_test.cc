// SPDX-License-Identifier: MIT
// shim/channel, send, progress: the paths between two processes, and how one takes over
// from another with the order kept.
#include "job.hh"

#include <algorithm>

namespace storm::unit {
namespace {

// A job with other settings than the usual ones; its buffers end with it.
struct Custom {
    JobOptions options;
    std::unique_ptr<Job> job;
    std::vector<Bytes> sent, got;
    std::vector<MPI_Request> requests;
    std::vector<std::pair<Comm*, MPI_Comm>> made, again;
    std::vector<std::string> reasons;

    Job& start()
    {
        job = std::make_unique<Job>(options);
        return *job;
    }
    void messages(unsigned n, std::size_t bytes)
    {
        for (unsigned i = 0; i < n; ++i) {
            sent.push_back(pattern(bytes + i % 7, i));
            got.emplace_back(bytes + 7);
        }
    }
    // Starts all sends from 0 to 1, tag 1.
    void send_all(Mode mode = Mode::standard)
    {
        for (const Bytes& data : sent)
            requests.push_back(job->isend(0, data, 1, 1, mode));
    }
    // Rank 1 gets them all, in order and whole; then all sends end.
    void receive_all()
    {
        for (std::size_t i = 0; i < sent.size(); ++i) {
            MPI_Status status;
            assert_int_equal(job->recv(1, got[i], 0, 1, &status), MPI_SUCCESS);
            expect_that(status._ucount == sent[i].size() && std::equal(sent[i].begin(), sent[i].end(), got[i].begin()),
                        "message %zu", i);
        }
        job->settle();
        for (MPI_Request& request : requests)
            assert_true(job->done(0, request));
        kept();
    }
    // All ranks come to their end.
    void quiesce()
    {
        std::vector<bool> over(static_cast<std::size_t>(job->ranks()));
        for (int i = 0; std::find(over.begin(), over.end(), false) != over.end(); ++i) {
            expect_that(i < 100000, "the end is not found");
            job->poll_once();
            for (int rank = 0; rank < job->ranks(); ++rank)
                if (!over[static_cast<std::size_t>(rank)])
                    over[static_cast<std::size_t>(rank)] = (*job)[rank].quiesced();
        }
    }
    void kept() const
    {
        const std::string complaints = job->complaints();
        expect_that(complaints.empty(), "%s", complaints.c_str());
    }
};

struct CustomLoop : Custom {};
struct CustomShm : Custom {
    CustomShm() { options.where = Where::shm; }
};

template <class Fixture, void (*body)(Custom&)>
void with(Fixture& fixture)
{
    body(fixture);
}

Channel& towards(Custom& f, int from, int to)
{
    return RankTest::channel((*f.job)[from], to);
}

// ---- growth

void ring_grows_in_the_middle_of_traffic(Custom& f)
{
    f.options.settings.ring_max = 65536;
    f.start();
    f.messages(300, 700);
    f.send_all();
    f.receive_all();
    assert_int_equal((*f.job)[0].counters().growths, 3);
    assert_int_equal(towards(f, 0, 1).out.lane().bytes, 65536);
    assert_true((*f.job)[0].report(false).high_water > 8192);
}

void ring_stays_when_growth_is_not_wanted(Custom& f)
{
    f.start();
    f.messages(300, 700);
    f.send_all();
    f.receive_all();
    assert_int_equal((*f.job)[0].counters().growths, 0);
    assert_true((*f.job)[0].counters().full_rings > 0);
}

void refused_growth_only_makes_senders_wait(Custom& f)
{
    f.options.settings.ring_max = 65536;
    f.start();
    f.job->fabric->refuse_growth(2, "no more room");
    f.messages(300, 700);
    f.send_all();
    f.receive_all();
    assert_int_equal((*f.job)[0].counters().growths, 1);
    assert_int_equal(towards(f, 0, 1).out.lane().bytes, 16384);
    assert_true((*f.job)[0].report(false).fallbacks.empty());
}

void exhausted_memory_only_makes_senders_wait(Custom& f)
{
    f.options.settings.ring_max = 1 << 20;
    f.options.settings.memory_max = 100000;
    f.options.fabric.memory_max = 100000;
    f.start();
    f.messages(600, 700);
    f.send_all();
    f.receive_all();
    assert_true((*f.job)[0].counters().growths >= 1);
    assert_true(towards(f, 0, 1).out.lane().bytes <= 65536);
}

// ---- refused claims

void pair_without_a_ring_is_carried_in_order(Custom& f)
{
    f.start().refuse_claim_towards(1);
    for (unsigned i = 0; i < 80; ++i) {
        f.sent.push_back(pattern(i % 5 == 0 ? 0 : i * 331 % 9000, i));
        f.got.emplace_back(9000);
    }
    f.send_all();
    f.receive_all();
    assert_int_equal(towards(f, 0, 1).path, Channel::Path::carried);
    assert_int_equal((*f.job)[0].counters().ring_messages, 0);
    f.reasons = (*f.job)[0].report(false).fallbacks;
    assert_int_equal(f.reasons.size(), 1);
    assert_string_equal(f.reasons[0].c_str(), "to rank 1: nobody knows its address");
    // and the way back has its ring
    assert_int_equal(f.job->send(1, f.sent[1], 0, 1), MPI_SUCCESS);
    assert_int_equal(f.job->recv(0, f.got[1], 1, 1), MPI_SUCCESS);
    assert_int_equal(towards(f, 1, 0).path, Channel::Path::ring);
}

void refusal_of_the_backend_is_the_reason(Custom& f)
{
    f.start().fabric->refuse_claim(1, "its memory is full");
    f.messages(10, 100);
    f.send_all();
    f.receive_all();
    f.reasons = (*f.job)[0].report(false).fallbacks;
    assert_int_equal(f.reasons.size(), 1);
    assert_string_equal(f.reasons[0].c_str(), "to rank 1: its memory is full");
    assert_true((*f.job)[1].report(false).fallbacks.empty());
}

void synchronous_sends_are_acknowledged_on_a_carried_path(Custom& f)
{
    f.start().refuse_claim_towards(0);
    f.messages(20, 200);
    f.send_all(Mode::synchronous);
    f.job->settle();
    for (MPI_Request& request : f.requests)
        assert_false(f.job->done(0, request));
    f.receive_all();
    assert_int_equal(towards(f, 1, 0).path, Channel::Path::carried);
}

// ---- payloads that do not ride

void selection_by_tag_is_the_senders(Custom& f)
{
    f.options.settings.tags = "5-9";
    f.start();
    f.messages(2, 100);
    assert_int_equal(f.job->send(0, f.sent[0], 1, 4), MPI_SUCCESS);
    assert_int_equal(f.job->send(0, f.sent[1], 1, 5), MPI_SUCCESS);
    assert_int_equal((*f.job)[0].counters().native_messages, 1);
    assert_int_equal((*f.job)[0].counters().ring_messages, 1);
    MPI_Status status; // and their order is one
    assert_int_equal(f.job->recv(1, f.got[0], 0, MPI_ANY_TAG, &status), MPI_SUCCESS);
    assert_int_equal(status.MPI_TAG, 4);
    assert_int_equal(f.job->recv(1, f.got[1], 0, MPI_ANY_TAG, &status), MPI_SUCCESS);
    assert_int_equal(status.MPI_TAG, 5);
}

void selection_by_communicator_follows_its_name(Custom& f)
{
    f.options.settings.comms = "particles*";
    f.start();
    f.messages(3, 100);
    assert_int_equal(f.job->send(0, f.sent[0], 1, 1), MPI_SUCCESS);
    assert_int_equal((*f.job)[0].counters().native_messages, 1);
    f.made = f.job->duplicate("particles 2");
    f.job->use(f.made);
    assert_int_equal(f.job->send(0, f.sent[1], 1, 1), MPI_SUCCESS);
    assert_int_equal((*f.job)[0].counters().ring_messages, 1);
    (*f.job)[0].rename(*f.made[0].first, "fields");
    assert_int_equal(f.job->send(0, f.sent[2], 1, 1), MPI_SUCCESS);
    assert_int_equal((*f.job)[0].counters().native_messages, 2);
    assert_int_equal(f.job->recv(1, f.got[1], 0, 1), MPI_SUCCESS);
    assert_int_equal(f.job->recv(1, f.got[2], 0, 1), MPI_SUCCESS);
    f.job->use_world();
    assert_int_equal(f.job->recv(1, f.got[0], 0, 1), MPI_SUCCESS);
    assert_true(f.got[0][50] == f.sent[0][50] && f.got[1][50] == f.sent[1][50] && f.got[2][50] == f.sent[2][50]);
}

void native_tags_come_round_again(Custom& f)
{
    f.options.mpi.tag_max = 7;
    f.options.settings.eager_max = 0;
    f.start();
    f.messages(60, 50);
    f.send_all();
    f.receive_all();
}

// ---- sends that wait for room

void send_buffer_bounds_the_copies(Custom& f)
{
    f.options.settings.send_buffer = 20000;
    f.start();
    f.messages(60, 1000);
    f.send_all();
    unsigned complete = 0;
    for (const MPI_Request request : f.requests)
        complete += (*f.job)[0].is_done(request) ? 1 : 0;
    assert_true(RankTest::buffered((*f.job)[0]) <= 20000);
    assert_true(complete >= 20 && complete < 60);
    // those in excess read the program's buffer later
    for (std::size_t i = 0; i < f.sent.size(); ++i)
        if (!(*f.job)[0].is_done(f.requests[i]))
            std::fill(f.sent[i].begin(), f.sent[i].end(), std::byte{42});
    f.receive_all();
    assert_int_equal(RankTest::buffered((*f.job)[0]), 0);
}

void buffered_sends_are_copied_without_bound(Custom& f)
{
    f.options.settings.send_buffer = 0;
    f.start();
    f.messages(60, 1000);
    f.send_all(Mode::buffered);
    for (const MPI_Request request : f.requests)
        assert_true((*f.job)[0].is_done(request));
    f.receive_all();
}

void drained_buffer_holds_nothing(Custom& f)
{
    f.options.settings.send_buffer = 0;
    f.start();
    f.messages(60, 1000);
    f.send_all(Mode::buffered);
    assert_true(RankTest::waiting((*f.job)[0]));
    (*f.job)[0].drain_buffered();
    assert_false(RankTest::waiting((*f.job)[0]));
    assert_int_equal(RankTest::buffered((*f.job)[0]), 0);
    f.receive_all();
}

void placed_sends_are_seen_without_the_sender(Custom& f)
{
    f.start();
    f.messages(60, 1000);
    f.send_all();
    assert_true(RankTest::waiting((*f.job)[0]));
    (*f.job)[0].place_sends(false); // the ring may grow past STORM_RING_MAX for this
    assert_false(RankTest::waiting((*f.job)[0]));
    (*f.job)[0].place_sends(true); // what is under way is waited for
    for (int i = 0; i < 10; ++i)
        (*f.job)[1].poll();
    for (unsigned i = 0; i < 60; ++i) {
        MPI_Status status;
        expect_that((*f.job)[1].iprobe(0, 1, f.job->comm(1), &status), "message %u", i);
        MPI_Request request = f.job->irecv(1, f.got[i], 0, 1);
        assert_true(f.job->done(1, request));
    }
}

void placing_may_wait_for_the_receiver(Custom& f)
{
    f.options.settings.memory_max = 40000;
    f.options.fabric.memory_max = 40000;
    f.start();
    f.messages(60, 1000);
    f.send_all();
    (*f.job)[0].place_sends(false);
    // over a fabric this waits too: a collective may be complete elsewhere before the placement
    assert_int_equal(RankTest::waiting((*f.job)[0]), f.options.where == Where::shm);
    (*f.job)[0].place_sends(true);
    assert_false(RankTest::waiting((*f.job)[0]));
    f.receive_all();
}

void quiesced_rank_has_no_sends_left(Custom& f)
{
    f.start();
    f.messages(60, 1000);
    f.send_all();
    // the other one comes last, and only once this one's sends have left
    for (int i = 0; i < 100 || !RankTest::at_rest((*f.job)[0]); ++i) {
        assert_true(i < 100000);
        assert_false((*f.job)[0].quiesced());
        f.job->poll_once();
    }
    f.quiesce();
    assert_false(RankTest::waiting((*f.job)[0]));
    f.kept();
    // what arrived can still be received
    for (unsigned i = 0; i < 60; ++i)
        assert_int_equal(f.job->recv(1, f.got[i], 0, 1), MPI_SUCCESS);
}

void unreceived_messages_end_with_their_rank(Custom& f)
{
    f.start();
    f.messages(5, 1000);
    f.send_all();
    f.job->settle();
    assert_true((*f.job)[1].iprobe(0, 1, f.job->comm(1), MPI_STATUS_IGNORE));
    f.job.reset();
}

// ---- communicators

void message_may_come_before_the_communicator(Custom& f)
{
    f.start();
    f.messages(1, 100);
    const auto handles = f.job->mpi.make_comm({0, 1});
    const std::uint64_t identity = (*f.job)[0].next_identity();
    Comm* here = (*f.job)[0].adopt(handles[0], identity);
    f.requests.push_back((*f.job)[0].isend(f.sent[0].data(), 100, f.job->bytes(0), 1, 1, *here, Mode::standard));
    f.job->settle();
    assert_null((*f.job)[1].find(handles[1]));
    Comm* there = (*f.job)[1].adopt(handles[1], identity);
    assert_ptr_equal((*f.job)[1].find(handles[1]), there);
    f.requests.push_back((*f.job)[1].irecv(f.got[0].data(), 100, f.job->bytes(1), 0, 1, *there));
    assert_true(f.job->done(1, f.requests[1]));
    assert_true(std::equal(f.sent[0].begin(), f.sent[0].end(), f.got[0].begin()));
}

void ranks_are_those_of_the_communicator(Custom& f)
{
    f.options.ranks = 3;
    f.start();
    f.messages(1, 100);
    const auto handles = f.job->mpi.make_comm({2, 0}); // world rank 2 is its rank 0
    const std::uint64_t identity = (*f.job)[2].next_identity();
    Comm& of_two = *(*f.job)[2].adopt(handles[0], identity);
    Comm& of_zero = *(*f.job)[0].adopt(handles[1], identity);
    assert_true((*f.job)[2].all_in_world(handles[0]));
    f.requests.push_back((*f.job)[2].isend(f.sent[0].data(), 100, f.job->bytes(2), 1, 1, of_two, Mode::standard));
    f.requests.push_back((*f.job)[0].irecv(f.got[0].data(), 100, f.job->bytes(0), 0, 1, of_zero));
    f.job->settle();
    MPI_Status status;
    assert_true(f.job->done(0, f.requests[1], &status) && f.job->done(2, f.requests[0]));
    assert_int_equal(status.MPI_SOURCE, 0);
}

void communicators_do_not_mix(Custom& f)
{
    f.start();
    f.messages(2, 100);
    f.made = f.job->duplicate();
    f.requests.push_back(f.job->isend(0, f.sent[0], 1, 1));
    f.job->use(f.made);
    f.requests.push_back(f.job->isend(0, f.sent[1], 1, 1));
    assert_int_equal(f.job->recv(1, f.got[1], MPI_ANY_SOURCE, MPI_ANY_TAG), MPI_SUCCESS);
    assert_false((*f.job)[1].iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, f.job->comm(1), MPI_STATUS_IGNORE));
    f.job->use_world();
    assert_int_equal(f.job->recv(1, f.got[0], MPI_ANY_SOURCE, MPI_ANY_TAG), MPI_SUCCESS);
    assert_true(f.got[0][9] == f.sent[0][9] && f.got[1][9] == f.sent[1][9]);
}

void number_of_a_freed_communicator_is_used_again(Custom& f)
{
    f.start();
    f.messages(1, 100);
    const std::size_t before = RankTest::communicators((*f.job)[0]);
    const std::size_t groups = f.job->mpi.live_groups();
    std::uint32_t number = 0;
    for (int round = 0; round < 20; ++round) {
        f.made = f.job->duplicate();
        f.job->use(f.made);
        assert_true(round == 0 || f.made[0].first->index == number);
        number = f.made[0].first->index;
        for (int from = 0; from < 2; ++from) {
            assert_int_equal(f.job->send(from, f.sent[0], 1 - from, 1), MPI_SUCCESS);
            assert_int_equal(f.job->recv(1 - from, f.got[0], from, 1), MPI_SUCCESS);
        }
        f.job->free(f.made);
        assert_null((*f.job)[0].find(f.made[0].second));
        f.job->settle();
        for (int i = 0; i < 2; ++i)
            assert_int_equal(RankTest::communicators((*f.job)[i]), before);
    }
    assert_int_equal(f.job->mpi.live_groups(), groups);
    f.kept();
}

void freed_communicator_still_delivers(Custom& f)
{
    f.start();
    f.messages(4, 1000);
    const std::size_t before = RankTest::communicators((*f.job)[0]);
    f.made = f.job->duplicate();
    f.job->use(f.made);
    for (unsigned i = 0; i < 4; ++i) {
        f.requests.push_back(f.job->irecv(1, f.got[i], 0, 1));
        f.requests.push_back(f.job->isend(0, f.sent[i], 1, 1, i % 2 == 0 ? Mode::synchronous : Mode::standard));
    }
    f.job->free(f.made);
    f.job->settle();
    for (unsigned i = 0; i < 4; ++i) {
        assert_true(f.job->done(1, f.requests[2 * i]) && f.job->done(0, f.requests[2 * i + 1]));
        assert_true(std::equal(f.sent[i].begin(), f.sent[i].end(), f.got[i].begin()));
    }
    f.job->settle();
    for (int i = 0; i < 2; ++i)
        assert_int_equal(RankTest::communicators((*f.job)[i]), before);
}

void matched_message_outlives_its_communicator(Custom& f)
{
    f.start();
    f.messages(2, 1000);
    f.sent[1] = pattern(40000, 1); // by the real MPI
    f.got[1].resize(40000);
    for (unsigned i = 0; i < 2; ++i) {
        f.made = f.job->duplicate();
        f.job->use(f.made);
        f.requests = {f.job->isend(0, f.sent[i], 1, 1)};
        f.job->settle();
        MPI_Status status;
        MPI_Message message = (*f.job)[1].improbe(0, 1, f.job->comm(1), &status);
        assert_non_null(message);
        f.job->free(f.made);
        f.job->settle();
        assert_int_equal((*f.job)[1].mrecv(f.got[i].data(), static_cast<int>(f.got[i].size()), f.job->bytes(1),
                                           message, &status),
                         MPI_SUCCESS);
        assert_int_equal(status.MPI_SOURCE, 0);
        assert_true(std::equal(f.sent[i].begin(), f.sent[i].end(), f.got[i].begin()));
        f.job->settle();
        assert_true(f.job->done(0, f.requests[0]));
    }
}

// ---- what must never be believed

void malformed_record_ends_the_job(Custom& f)
{
    f.start();
    f.messages(1, 100);
    f.send_all();
    f.receive_all();
    Channel& there = RankTest::channel((*f.job)[1], 0);
    assert_true(there.has_in);
    const RecordHeader bad{UINT32_MAX, Kind::eager, 0, there.in.turn(), 1, 0};
    std::memcpy(const_cast<std::uint64_t*>(there.in.word()), &bad, sizeof bad);
    bool ended = false;
    try {
        (*f.job)[1].poll();
    } catch (const Aborted&) {
        ended = true;
    }
    std::memset(const_cast<std::uint64_t*>(there.in.word()), 0, sizeof bad);
    assert_true(ended);
}

void message_on_an_unknown_communicator_ends_the_job(Custom& f)
{
    f.start();
    f.messages(1, 100);
    f.send_all();
    f.receive_all();
    Channel& there = RankTest::channel((*f.job)[1], 0);
    for (const std::uint32_t number : {7u, UINT32_MAX}) {
        const RecordHeader bad{0, Kind::eager, 0, there.in.turn(), 1, number};
        std::memcpy(const_cast<std::uint64_t*>(there.in.word()), &bad, sizeof bad);
        bool ended = false;
        try {
            (*f.job)[1].poll();
        } catch (const Aborted&) {
            ended = true;
        }
        std::memset(const_cast<std::uint64_t*>(there.in.word()), 0, sizeof bad);
        assert_true(ended);
    }
}

} // namespace
} // namespace storm::unit

#define UNIT_LOOP(name) UNIT_NAMED(#name " over loop", CustomLoop, (with<CustomLoop, name>))
#define UNIT_SHM(name) UNIT_NAMED(#name " over shm", CustomShm, (with<CustomShm, name>))
#define UNIT_BOTH(name) UNIT_LOOP(name), UNIT_SHM(name)

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT_BOTH(ring_grows_in_the_middle_of_traffic),
        UNIT_BOTH(ring_stays_when_growth_is_not_wanted),
        UNIT_LOOP(refused_growth_only_makes_senders_wait),
        UNIT_BOTH(exhausted_memory_only_makes_senders_wait),
        UNIT_BOTH(pair_without_a_ring_is_carried_in_order),
        UNIT_LOOP(refusal_of_the_backend_is_the_reason),
        UNIT_BOTH(synchronous_sends_are_acknowledged_on_a_carried_path),
        UNIT_BOTH(selection_by_tag_is_the_senders),
        UNIT_BOTH(selection_by_communicator_follows_its_name),
        UNIT_BOTH(native_tags_come_round_again),
        UNIT_BOTH(send_buffer_bounds_the_copies),
        UNIT_BOTH(buffered_sends_are_copied_without_bound),
        UNIT_BOTH(drained_buffer_holds_nothing),
        UNIT_BOTH(placed_sends_are_seen_without_the_sender),
        UNIT_BOTH(placing_may_wait_for_the_receiver),
        UNIT_BOTH(quiesced_rank_has_no_sends_left),
        UNIT_BOTH(unreceived_messages_end_with_their_rank),
        UNIT_BOTH(message_may_come_before_the_communicator),
        UNIT_BOTH(ranks_are_those_of_the_communicator),
        UNIT_BOTH(communicators_do_not_mix),
        UNIT_BOTH(number_of_a_freed_communicator_is_used_again),
        UNIT_BOTH(freed_communicator_still_delivers),
        UNIT_BOTH(matched_message_outlives_its_communicator),
        UNIT_BOTH(malformed_record_ends_the_job),
        UNIT_BOTH(message_on_an_unknown_communicator_ends_the_job),
    };
    return run_all(tests, argc, argv);
}
