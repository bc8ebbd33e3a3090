// SPDX-License-Identifier: MIT
// shim/rank, send, receive: messages between ranks, whatever carries them.
#include "job.hh"

#include <algorithm>

namespace storm::unit {
namespace {

// What a test of messages holds: buffers and requests that outlive a failed assertion.
struct Mail {
    std::vector<Bytes> sent, got;
    std::vector<MPI_Request> requests;
};

// One mailbag a program run: cmocka runs one test after the other.
Mail& mail()
{
    static Mail bag;
    return bag;
}

Mail& fresh(std::size_t messages, std::size_t room)
{
    mail() = Mail{};
    for (std::size_t i = 0; i < messages; ++i) {
        mail().got.emplace_back(room, std::byte{0xee});
        mail().sent.emplace_back();
    }
    return mail();
}

bool is(const Bytes& got, const Bytes& sent)
{
    return std::equal(sent.begin(), sent.end(), got.begin()) &&
           std::all_of(got.begin() + static_cast<std::ptrdiff_t>(sent.size()), got.end(),
                       [](std::byte b) { return b == std::byte{0xee}; });
}

std::uint64_t bytes_in(const MPI_Status& status)
{
    return status._ucount;
}

// Sizes around every limit of the path: header, line, piece, ring, STORM_EAGER_MAX.
const std::size_t kSizes[] = {0,    1,    15,   16,   17,   63,    64,    65,    1000,  1872,
                              1873, 3983, 3984, 4000, 4001, 8192,  16384, 16385, 20000, 32768,
                              32769, 40000};

void message_meets_a_posted_receive(Job& job)
{
    for (const std::size_t n : kSizes) {
        Mail& m = fresh(1, 40010);
        m.sent[0] = pattern(n, 1);
        MPI_Request receive = job.irecv(1, m.got[0], 0, 5), send = job.isend(0, m.sent[0], 1, 5);
        job.settle();
        MPI_Status status;
        expect_that(job.done(1, receive, &status) && job.done(0, send), "%zu bytes do not arrive", n);
        expect_that(is(m.got[0], m.sent[0]), "%zu bytes are not those sent", n);
        assert_int_equal(status.MPI_SOURCE, 0);
        assert_int_equal(status.MPI_TAG, 5);
        assert_int_equal(bytes_in(status), n);
    }
}

void message_waits_for_its_receive(Job& job)
{
    for (const std::size_t n : kSizes) {
        Mail& m = fresh(1, 40010);
        m.sent[0] = pattern(n, 2);
        MPI_Request send = job.isend(0, m.sent[0], 1, 5);
        job.settle();
        MPI_Request receive = job.irecv(1, m.got[0], MPI_ANY_SOURCE, MPI_ANY_TAG);
        job.settle();
        MPI_Status status;
        expect_that(job.done(1, receive, &status) && job.done(0, send), "%zu bytes do not arrive", n);
        expect_that(is(m.got[0], m.sent[0]) && bytes_in(status) == n, "%zu bytes are not those sent", n);
    }
}

void blocking_calls_move_their_peers(Job& job)
{
    for (const std::size_t n : kSizes) {
        Mail& m = fresh(2, 40010);
        m.sent[0] = pattern(n, 3);
        MPI_Request receive = job.irecv(1, m.got[0], 0, 1);
        assert_int_equal(job.send(0, m.sent[0], 1, 1), MPI_SUCCESS);
        assert_int_equal(job.send(0, m.sent[0], 1, 2, Mode::buffered), MPI_SUCCESS);
        MPI_Status status;
        assert_int_equal(job.recv(1, m.got[1], 0, 2, &status), MPI_SUCCESS);
        assert_int_equal(job[1].wait(&receive, &status), MPI_SUCCESS);
        expect_that(is(m.got[0], m.sent[0]) && is(m.got[1], m.sent[0]), "%zu bytes", n);
    }
}

void messages_of_a_pair_keep_their_order(Job& job)
{
    Mail& m = fresh(60, 40010);
    for (unsigned i = 0; i < 60; ++i) {
        m.sent[i] = pattern(kSizes[i * 7 % std::size(kSizes)] + i % 3, i);
        m.requests.push_back(job.isend(0, m.sent[i], 1, 3));
    }
    for (unsigned i = 0; i < 60; ++i) {
        MPI_Status status;
        assert_int_equal(job.recv(1, m.got[i], 0, 3, &status), MPI_SUCCESS);
        expect_that(bytes_in(status) == m.sent[i].size() && is(m.got[i], m.sent[i]), "message %u", i);
    }
    job.settle();
    for (MPI_Request& request : m.requests)
        assert_true(job.done(0, request));
}

void synchronous_send_ends_when_it_is_matched(Job& job)
{
    for (const std::size_t n : kSizes) {
        Mail& m = fresh(1, 40010);
        m.sent[0] = pattern(n, 4);
        MPI_Request send = job.isend(0, m.sent[0], 1, 9, Mode::synchronous);
        job.settle();
        expect_that(!job.done(0, send), "%zu bytes: complete without a receive", n);
        MPI_Request receive = job.irecv(1, m.got[0], 0, 9);
        job.settle();
        expect_that(job.done(1, receive) && job.done(0, send), "%zu bytes: not complete", n);
        expect_that(is(m.got[0], m.sent[0]), "%zu bytes", n);
        receive = job.irecv(1, m.got[0], 0, 9);
        assert_int_equal(job.send(0, m.sent[0], 1, 9, Mode::synchronous), MPI_SUCCESS);
        job.settle(); // the match is known before the last byte is there
        assert_true(job.done(1, receive));
    }
}

// A receive that has ended has told its synchronous sender: the receiver may compute for
// long, or wait for something else than MPI, before it calls again. (The loop's writes move
// by its progress only.)
void ended_receive_has_told_its_synchronous_sender(Job& job)
{
    for (const std::size_t n : kSizes) {
        Mail& m = fresh(1, 40010);
        m.sent[0] = pattern(n, 4);
        MPI_Request receive = job.irecv(1, m.got[0], 0, 9);
        MPI_Request send = job.isend(0, m.sent[0], 1, 9, Mode::synchronous);
        while (!job.done(1, receive))
            job[0].poll();
        bool ended = false;
        for (int looks = 0; looks < 1000 && !ended; ++looks)
            ended = job.done(0, send); // rank 1 does not look any more
        expect_that(ended, "%zu bytes: the sender waits for its receiver's next call", n);
    }
}

void matched_probe_releases_a_synchronous_send_with_its_receive(Job& job)
{
    Mail& m = fresh(1, 100);
    m.sent[0] = pattern(50, 5);
    MPI_Request send = job.isend(0, m.sent[0], 1, 9, Mode::synchronous);
    job.settle();
    MPI_Status status;
    MPI_Message message = job[1].improbe(0, 9, job.comm(1), &status);
    assert_non_null(message);
    MPI_Request receive = job[1].imrecv(m.got[0].data(), 100, job.bytes(1), message);
    job.settle();
    assert_true(job.done(1, receive) && job.done(0, send));
    assert_true(is(m.got[0], m.sent[0]));
}

void probe_tells_and_leaves_the_message(Job& job)
{
    for (const std::size_t n : kSizes) {
        Mail& m = fresh(1, 40010);
        m.sent[0] = pattern(n, 6);
        MPI_Request send = job.isend(0, m.sent[0], 1, 4);
        job.settle();
        MPI_Status status;
        assert_false(job[1].iprobe(0, 5, job.comm(1), &status));
        for (int i = 0; i < 2; ++i) {
            expect_that(job[1].iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, job.comm(1), &status), "%zu bytes", n);
            assert_int_equal(bytes_in(status), n);
            assert_int_equal(status.MPI_SOURCE, 0);
            assert_int_equal(status.MPI_TAG, 4);
        }
        job[1].probe(0, 4, job.comm(1), &status);
        assert_int_equal(job.recv(1, m.got[0], 0, 4), MPI_SUCCESS);
        assert_true(is(m.got[0], m.sent[0]));
        assert_false(job[1].iprobe(0, 4, job.comm(1), &status));
        job.settle();
        assert_true(job.done(0, send));
    }
}

void matched_probe_owns_its_message(Job& job)
{
    for (const std::size_t n : kSizes) {
        Mail& m = fresh(2, 40010);
        m.sent[0] = pattern(n, 7);
        m.sent[1] = pattern(n / 2, 8);
        m.requests = {job.isend(0, m.sent[0], 1, 4), job.isend(0, m.sent[1], 1, 4)};
        MPI_Status status;
        MPI_Message message = job[1].mprobe(0, 4, job.comm(1), &status);
        assert_true(job[1].owns_message(message));
        const MPI_Fint index = job[1].message_index(message);
        assert_true(index < -1);
        assert_ptr_equal(job[1].message_at(index), message);
        // the later message of the same envelope overtakes: the first one is ours already
        assert_int_equal(job.recv(1, m.got[1], 0, 4), MPI_SUCCESS);
        assert_int_equal(job[1].mrecv(m.got[0].data(), 40010, job.bytes(1), message, &status), MPI_SUCCESS);
        expect_that(is(m.got[0], m.sent[0]) && is(m.got[1], m.sent[1]) && bytes_in(status) == n, "%zu", n);
        assert_false(job[1].owns_message(message));
        assert_null(job[1].message_at(index));
        job.settle();
    }
}

void wildcard_and_specific_receives_match_as_posted(Job& job)
{
    Mail& m = fresh(4, 20);
    m.requests = {job.irecv(1, m.got[0], MPI_ANY_SOURCE, 2), job.irecv(1, m.got[1], 0, MPI_ANY_TAG),
                  job.irecv(1, m.got[2], MPI_ANY_SOURCE, MPI_ANY_TAG), job.irecv(1, m.got[3], 0, 2)};
    const int tags[] = {1, 2, 3, 2};
    const std::size_t takers[] = {1, 0, 2, 3};
    for (unsigned i = 0; i < 4; ++i) {
        m.sent[i] = pattern(8, 100 + i);
        assert_int_equal(job.send(0, m.sent[i], 1, tags[i]), MPI_SUCCESS);
    }
    job.settle();
    for (unsigned i = 0; i < 4; ++i) {
        MPI_Status status;
        assert_true(job.done(1, m.requests[takers[i]], &status));
        assert_int_equal(status.MPI_TAG, tags[i]);
        assert_true(is(m.got[takers[i]], m.sent[i]));
    }
}

void message_to_itself_arrives(Job& job)
{
    for (const Mode mode : {Mode::standard, Mode::synchronous, Mode::buffered})
        for (const std::size_t n : kSizes) {
            Mail& m = fresh(2, 40010);
            m.sent[0] = pattern(n, 9);
            MPI_Request receive = job.irecv(0, m.got[0], MPI_ANY_SOURCE, 6), send = job.isend(0, m.sent[0], 0, 6, mode);
            job.settle();
            MPI_Status status;
            assert_true(job.done(0, receive, &status) && job.done(0, send));
            assert_int_equal(status.MPI_SOURCE, 0);
            expect_that(is(m.got[0], m.sent[0]) && bytes_in(status) == n, "posted, %zu bytes", n);
            send = job.isend(0, m.sent[0], 0, 6, mode);
            job.settle();
            if (mode == Mode::synchronous)
                assert_false(job.done(0, send));
            assert_int_equal(job.recv(0, m.got[1], 0, 6), MPI_SUCCESS);
            job.settle();
            assert_true(job.done(0, send));
            expect_that(is(m.got[1], m.sent[0]), "unexpected, %zu bytes", n);
        }
}

void types_with_holes_cross(Job& job)
{
    // two bytes, a hole of two; and its bytes in another order on the other side
    const MPI_Datatype holes = job.mpi.make_type({0, 1}, 0, 4), turned = job.mpi.make_type({1, 0}, 0, 2);
    for (const int n : {0, 1, 10, 1500, 9000, 20000}) {
        Mail& m = fresh(1, static_cast<std::size_t>(2 * n));
        m.sent[0] = pattern(static_cast<std::size_t>(4 * n + 4), 10);
        for (int posted = 0; posted < 2; ++posted) {
            TypeInfo &out = *job[0].type_of(holes), &in = *job[1].type_of(turned);
            MPI_Request receive = nullptr;
            if (posted == 1)
                receive = job[1].irecv(m.got[0].data(), n, in, 0, 1, job.comm(1));
            MPI_Request send = job[0].isend(m.sent[0].data(), n, out, 1, 1, job.comm(0), Mode::standard);
            job.settle();
            if (posted == 0)
                receive = job[1].irecv(m.got[0].data(), n, in, 0, 1, job.comm(1));
            job.settle();
            assert_true(job.done(1, receive) && job.done(0, send));
            for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
                expect_that(m.got[0][2 * i + 1] == m.sent[0][4 * i] && m.got[0][2 * i] == m.sent[0][4 * i + 1],
                            "%d elements, the one at %zu", n, i);
        }
    }
}

void type_may_be_freed_while_it_is_in_use(Job& job)
{
    for (const int n : {10, 9000, 20000}) {
        MPI_Datatype type = job.mpi.make_type({0, 1}, 0, 4);
        Mail& m = fresh(1, static_cast<std::size_t>(4 * n));
        m.sent[0] = pattern(static_cast<std::size_t>(4 * n), 11);
        MPI_Request receive = job[1].irecv(m.got[0].data(), n, *job[1].type_of(type), 0, 1, job.comm(1));
        MPI_Request send = job[0].isend(m.sent[0].data(), n, *job[0].type_of(type), 1, 1, job.comm(0), Mode::standard);
        job[0].forget_type(type);
        job[1].forget_type(type);
        job.mpi.free_type(type);
        job.settle();
        assert_true(job.done(1, receive) && job.done(0, send));
        assert_true(m.got[0][4] == m.sent[0][4] && m.got[0][2] == std::byte{0xee});
    }
}

void empty_messages_need_no_buffer(Job& job)
{
    MPI_Request receive = job[1].irecv(nullptr, 0, job.bytes(1), 0, 1, job.comm(1));
    MPI_Request send = job[0].isend(nullptr, 0, job.bytes(0), 1, 1, job.comm(0), Mode::standard);
    job.settle();
    assert_true(job.done(1, receive) && job.done(0, send));
    send = job[0].isend(nullptr, 0, job.bytes(0), 1, 1, job.comm(0), Mode::synchronous);
    job.settle();
    receive = job[1].irecv(nullptr, 0, job.bytes(1), 0, 1, job.comm(1));
    job.settle();
    assert_true(job.done(1, receive) && job.done(0, send));
}

void eager_payload_is_copied_when_the_call_is_made(Job& job)
{
    Mail& m = fresh(40, 1000);
    Bytes scratch;
    for (unsigned i = 0; i < 40; ++i) { // many more than an 8 KB ring holds
        m.sent[i] = pattern(1000, 200 + i);
        scratch = m.sent[i];
        MPI_Request send = job.isend(0, scratch, 1, 1);
        assert_true(job.done(0, send));
        std::fill(scratch.begin(), scratch.end(), std::byte{0});
    }
    for (unsigned i = 0; i < 40; ++i) {
        assert_int_equal(job.recv(1, m.got[i], 0, 1), MPI_SUCCESS);
        expect_that(is(m.got[i], m.sent[i]), "message %u", i);
    }
    job.settle();
    assert_int_equal(RankTest::buffered(job[0]), 0);
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT_EVERYWHERE(message_meets_a_posted_receive),
        UNIT_EVERYWHERE(message_waits_for_its_receive),
        UNIT_EVERYWHERE(blocking_calls_move_their_peers),
        UNIT_EVERYWHERE(messages_of_a_pair_keep_their_order),
        UNIT_EVERYWHERE(synchronous_send_ends_when_it_is_matched),
        UNIT_OVER(ended_receive_has_told_its_synchronous_sender, Pair<Where::shm>, " over shm"),
        UNIT_OVER(ended_receive_has_told_its_synchronous_sender, Pair<Where::carried>, " carried"),
        UNIT_EVERYWHERE(matched_probe_releases_a_synchronous_send_with_its_receive),
        UNIT_EVERYWHERE(probe_tells_and_leaves_the_message),
        UNIT_EVERYWHERE(matched_probe_owns_its_message),
        UNIT_EVERYWHERE(wildcard_and_specific_receives_match_as_posted),
        UNIT_EVERYWHERE(message_to_itself_arrives),
        UNIT_EVERYWHERE(types_with_holes_cross),
        UNIT_EVERYWHERE(type_may_be_freed_while_it_is_in_use),
        UNIT_EVERYWHERE(empty_messages_need_no_buffer),
        UNIT_EVERYWHERE(eager_payload_is_copied_when_the_call_is_made),
    };
    return run_all(tests, argc, argv);
}
