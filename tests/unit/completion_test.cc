// SPDX-License-Identifier: MIT
// shim/complete: the Wait and Test families, over requests of ours and of the real MPI.
#include "job.hh"

#include <algorithm>

namespace storm::unit {
namespace {

// Requests and buffers of the running test: they outlive a failed assertion.
struct Desk {
    std::vector<Bytes> data;
    std::vector<MPI_Request> requests;
    std::vector<MPI_Status> statuses;
    std::vector<int> indices;
    std::vector<std::pair<Comm*, MPI_Comm>> made;
    MPI_Comm handle = nullptr;
};

Desk& fresh(std::size_t buffers = 8, std::size_t bytes = 100)
{
    static Desk desk;
    desk = Desk{};
    for (unsigned i = 0; i < buffers; ++i)
        desk.data.push_back(pattern(bytes, i));
    desk.statuses.resize(buffers);
    desk.indices.resize(buffers);
    return desk;
}

MPI_Request null_of(Job& job, int rank)
{
    return job.mpi.real(rank).request_null;
}

// A request of the real MPI itself, as a program gets from a call that is not ours.
MPI_Request native_receive(Job& job, int rank, Bytes& buffer)
{
    MPI_Request request;
    const RealMpi& real = job.mpi.real(rank);
    real.Irecv(buffer.data(), static_cast<int>(buffer.size()), real.byte, rank, 3, real.comm_world, &request);
    return request;
}

void native_send(Job& job, int rank, const Bytes& buffer)
{
    MPI_Request request;
    const RealMpi& real = job.mpi.real(rank);
    real.Isend(buffer.data(), static_cast<int>(buffer.size()), real.byte, rank, 3, real.comm_world, &request);
    real.Wait(&request, MPI_STATUS_IGNORE);
}

void eager_send_is_complete_at_once(Job& job)
{
    Desk& d = fresh();
    MPI_Request send = job.isend(0, d.data[0], 1, 1);
    assert_true(job[0].is_done(send));
    MPI_Status status;
    status.MPI_ERROR = 77;
    assert_true(job.done(0, send, &status));
    assert_ptr_equal(send, null_of(job, 0));
    assert_int_equal(status.MPI_SOURCE, MPI_PROC_NULL);
    assert_int_equal(status.MPI_TAG, MPI_ANY_TAG);
    assert_int_equal(status.MPI_ERROR, 77); // a single status has no error
    assert_int_equal(job.recv(1, d.data[1], 0, 1), MPI_SUCCESS);
}

void test_of_nothing_counts_and_changes_nothing(Job& job)
{
    Desk& d = fresh();
    MPI_Request receive = job.irecv(1, d.data[0], 0, 1);
    const MPI_Request before = receive;
    const std::uint64_t empty = job[1].counters().empty_tests;
    for (int i = 0; i < 10; ++i)
        assert_false(job.done(1, receive));
    assert_ptr_equal(receive, before);
    assert_int_equal(job[1].counters().empty_tests, empty + 10);
    assert_int_equal(job.send(0, d.data[1], 1, 1), MPI_SUCCESS);
    job.settle();
    assert_true(job.done(1, receive));
    assert_ptr_equal(receive, null_of(job, 1));
    assert_true(job.done(1, receive)); // null is complete
}

void waitall_takes_every_kind_of_request(Job& job)
{
    Desk& d = fresh();
    assert_int_equal(job.send(0, d.data[5], 1, 1), MPI_SUCCESS);
    native_send(job, 1, d.data[6]);
    MPI_Request inactive = job[1].recv_init(d.data[3].data(), 1, job.bytes(1), 0, 1, job.comm(1));
    d.requests = {job.irecv(1, d.data[0], 0, 1), null_of(job, 1), native_receive(job, 1, d.data[1]),
                  inactive, job.isend(1, d.data[2], 0, 1)};
    const int rc = job[1].waitall(5, d.requests.data(), d.statuses.data());
    assert_int_equal(rc, MPI_SUCCESS);
    for (const std::size_t i : {0u, 1u, 2u, 4u})
        assert_ptr_equal(d.requests[i], null_of(job, 1));
    assert_ptr_equal(d.requests[3], inactive);
    assert_int_equal(d.statuses[0].MPI_SOURCE, 0);
    assert_int_equal(d.statuses[0]._ucount, 100);
    assert_int_equal(d.statuses[2].MPI_SOURCE, 1);
    assert_int_equal(d.statuses[2].MPI_TAG, 3);
    for (const std::size_t i : {1u, 3u}) {
        assert_int_equal(d.statuses[i].MPI_SOURCE, MPI_ANY_SOURCE);
        assert_int_equal(d.statuses[i]._ucount, 0);
    }
    assert_true(d.data[0] == d.data[5] && d.data[1] == d.data[6]);
    job[1].free_request(&inactive);
    assert_int_equal(job.recv(0, d.data[0], 1, 1), MPI_SUCCESS);
}

void testall_completes_all_or_none(Job& job)
{
    Desk& d = fresh();
    d.requests = {job.irecv(1, d.data[0], 0, 1), job.irecv(1, d.data[1], 0, 2)};
    assert_int_equal(job.send(0, d.data[5], 1, 2), MPI_SUCCESS);
    job.settle();
    int flag = 1;
    job[1].testall(2, d.requests.data(), &flag, d.statuses.data());
    assert_false(flag);
    assert_true(job[1].owns(d.requests[0]) && job[1].owns(d.requests[1]));
    assert_int_equal(job.send(0, d.data[6], 1, 1), MPI_SUCCESS);
    job.settle();
    job[1].testall(2, d.requests.data(), &flag, d.statuses.data());
    assert_true(flag);
    assert_int_equal(d.statuses[0].MPI_TAG, 1);
    assert_int_equal(d.statuses[1].MPI_TAG, 2);
    assert_ptr_equal(d.requests[1], null_of(job, 1));
}

void waitany_gives_one_that_is_complete(Job& job)
{
    Desk& d = fresh();
    d.requests = {null_of(job, 1), job.irecv(1, d.data[0], 0, 1), native_receive(job, 1, d.data[1]),
                  job.irecv(1, d.data[2], 0, 2)};
    int index = -5, flag = 5;
    job[1].testany(4, d.requests.data(), &index, &flag, &d.statuses[0]);
    assert_int_equal(flag, 0);
    assert_int_equal(job.send(0, d.data[5], 1, 2), MPI_SUCCESS);
    job[1].waitany(4, d.requests.data(), &index, &d.statuses[0]);
    assert_int_equal(index, 3);
    assert_int_equal(d.statuses[0].MPI_TAG, 2);
    native_send(job, 1, d.data[6]);
    job[1].waitany(4, d.requests.data(), &index, &d.statuses[0]);
    assert_int_equal(index, 2);
    assert_int_equal(job.send(0, d.data[5], 1, 1), MPI_SUCCESS);
    job[1].waitany(4, d.requests.data(), &index, &d.statuses[0]);
    assert_int_equal(index, 1);
    job[1].testany(4, d.requests.data(), &index, &flag, &d.statuses[0]);
    assert_int_equal(index, MPI_UNDEFINED);
    assert_int_equal(flag, 1);
    job[1].waitany(4, d.requests.data(), &index, &d.statuses[0]);
    assert_int_equal(index, MPI_UNDEFINED);
}

void waitsome_gives_all_that_are_complete(Job& job)
{
    Desk& d = fresh();
    d.requests = {job.irecv(1, d.data[0], 0, 1), native_receive(job, 1, d.data[1]), job.irecv(1, d.data[2], 0, 2),
                  job.irecv(1, d.data[3], 0, 3)};
    int done = -1;
    job[1].testsome(4, d.requests.data(), &done, d.indices.data(), d.statuses.data());
    assert_int_equal(done, 0);
    native_send(job, 1, d.data[6]);
    assert_int_equal(job.send(0, d.data[5], 1, 3), MPI_SUCCESS);
    assert_int_equal(job.send(0, d.data[5], 1, 1), MPI_SUCCESS);
    job.settle();
    job[1].waitsome(4, d.requests.data(), &done, d.indices.data(), d.statuses.data());
    assert_int_equal(done, 3);
    const int expected[] = {0, 1, 3};
    for (std::size_t i = 0; i < 3; ++i) {
        assert_int_equal(d.indices[i], expected[i]);
        assert_int_equal(d.statuses[i].MPI_TAG, i == 1 ? 3 : expected[i] + 1 - (i == 2 ? 1 : 0));
    }
    assert_int_equal(job.send(0, d.data[5], 1, 2), MPI_SUCCESS);
    job[1].waitsome(4, d.requests.data(), &done, d.indices.data(), d.statuses.data());
    assert_int_equal(done, 1);
    assert_int_equal(d.indices[0], 2);
    job[1].waitsome(4, d.requests.data(), &done, d.indices.data(), d.statuses.data());
    assert_int_equal(done, MPI_UNDEFINED);
}

void get_status_leaves_the_request(Job& job)
{
    Desk& d = fresh();
    MPI_Request receive = job.irecv(1, d.data[0], 0, 1);
    int flag = 1;
    job[1].get_status(receive, &flag, &d.statuses[0]);
    assert_int_equal(flag, 0);
    assert_int_equal(job.send(0, d.data[5], 1, 1), MPI_SUCCESS);
    job.settle();
    for (int i = 0; i < 2; ++i) {
        job[1].get_status(receive, &flag, &d.statuses[0]);
        assert_int_equal(flag, 1);
        assert_int_equal(d.statuses[0]._ucount, 100);
    }
    assert_true(job.done(1, receive));
}

void fortran_index_names_the_request(Job& job)
{
    Desk& d = fresh();
    MPI_Request receive = job.irecv(1, d.data[0], 0, 1);
    const MPI_Fint index = job[1].index_of(receive);
    assert_ptr_equal(job[1].request_at(index), receive);
    // Open MPI's Fortran bindings look there
    std::int32_t seen;
    std::memcpy(&seen, reinterpret_cast<const char*>(receive) + 0x68, sizeof seen);
    assert_int_equal(seen, index);
    assert_null(job[1].request_at(3));
    job[1].cancel(*reinterpret_cast<Request*>(receive));
    assert_true(job.done(1, receive));
}

// ---- persistent requests

void persistent_requests_start_again(Job& job)
{
    for (const std::size_t bytes : {100u, 5000u, 40000u})
        for (const Mode mode : {Mode::standard, Mode::synchronous, Mode::buffered}) {
            Desk& d = fresh(2, bytes);
            const int n = static_cast<int>(bytes);
            d.requests = {job[0].send_init(d.data[0].data(), n, job.bytes(0), 1, 1, job.comm(0), mode),
                          job[1].recv_init(d.data[1].data(), n, job.bytes(1), MPI_ANY_SOURCE, 1, job.comm(1))};
            const std::vector<MPI_Request> handles = d.requests;
            for (unsigned round = 0; round < 5; ++round) {
                assert_true(job.done(0, d.requests[0]) && job.done(1, d.requests[1])); // inactive
                const Bytes next = pattern(bytes, 50 + round);
                std::copy(next.begin(), next.end(), d.data[0].begin());
                job[round % 2].start(*reinterpret_cast<Request*>(d.requests[round % 2]));
                job.settle();
                job[1 - round % 2].start(*reinterpret_cast<Request*>(d.requests[1 - round % 2]));
                job.settle();
                MPI_Status status;
                assert_true(job.done(1, d.requests[1], &status) && job.done(0, d.requests[0]));
                assert_int_equal(status.MPI_SOURCE, 0);
                expect_that(d.data[1] == next, "%zu bytes, round %u", bytes, round);
                assert_true(d.requests == handles);
            }
            job[0].free_request(&d.requests[0]);
            job[1].free_request(&d.requests[1]);
            assert_ptr_equal(d.requests[0], null_of(job, 0));
        }
}

void cancelled_persistent_receive_starts_again(Job& job)
{
    Desk& d = fresh();
    MPI_Request receive = job[1].recv_init(d.data[0].data(), 100, job.bytes(1), 0, 1, job.comm(1));
    job[1].start(*reinterpret_cast<Request*>(receive));
    job[1].cancel(*reinterpret_cast<Request*>(receive));
    MPI_Status status;
    assert_true(job.done(1, receive, &status));
    assert_int_equal(status._cancelled, 1);
    job[1].start(*reinterpret_cast<Request*>(receive));
    assert_int_equal(job.send(0, d.data[5], 1, 1), MPI_SUCCESS);
    job.settle();
    assert_true(job.done(1, receive, &status));
    assert_int_equal(status._cancelled, 0);
    assert_true(d.data[0] == d.data[5]);
    job[1].free_request(&receive);
}

// ---- cancel and free

void cancelled_receive_takes_no_message(Job& job)
{
    Desk& d = fresh();
    d.requests = {job.irecv(1, d.data[0], 0, 1), job.irecv(1, d.data[1], MPI_ANY_SOURCE, 1),
                  job.irecv(1, d.data[2], 0, 1)};
    for (int i = 0; i < 2; ++i)
        job[1].cancel(*reinterpret_cast<Request*>(d.requests[static_cast<std::size_t>(i)]));
    assert_int_equal(job.send(0, d.data[5], 1, 1), MPI_SUCCESS);
    job.settle();
    for (std::size_t i = 0; i < 2; ++i) {
        assert_true(job.done(1, d.requests[i], &d.statuses[i]));
        assert_int_equal(d.statuses[i]._cancelled, 1);
    }
    assert_true(job.done(1, d.requests[2], &d.statuses[2]));
    assert_int_equal(d.statuses[2]._cancelled, 0);
    assert_true(d.data[2] == d.data[5]);
}

void matched_receive_is_not_cancelled(Job& job)
{
    for (const std::size_t bytes : {100u, 30000u, 40000u}) {
        Desk& d = fresh(2, bytes);
        MPI_Request receive = job.irecv(1, d.data[0], 0, 1), send = job.isend(0, d.data[1], 1, 1);
        // until the first of it is there
        for (int i = 0; i < 5000 && reinterpret_cast<Request*>(receive)->queued; ++i)
            job.poll_once();
        job[1].cancel(*reinterpret_cast<Request*>(receive));
        job.settle();
        MPI_Status status;
        assert_true(job.done(1, receive, &status) && job.done(0, send));
        assert_int_equal(status._cancelled, 0);
        assert_true(d.data[0] == d.data[1]);
    }
}

void send_is_never_cancelled(Job& job)
{
    Desk& d = fresh(2, 40000);
    MPI_Request send = job.isend(0, d.data[0], 1, 1);
    job[0].cancel(*reinterpret_cast<Request*>(send));
    assert_int_equal(job.recv(1, d.data[1], 0, 1), MPI_SUCCESS);
    job.settle();
    MPI_Status status;
    assert_true(job.done(0, send, &status));
    assert_int_equal(status._cancelled, 0);
}

void freed_requests_still_deliver(Job& job)
{
    for (const std::size_t bytes : {100u, 5000u, 30000u, 40000u})
        for (const Mode mode : {Mode::standard, Mode::synchronous}) {
            Desk& d = fresh(2, bytes);
            MPI_Request receive = job.irecv(1, d.data[1], 0, 1), send = job.isend(0, d.data[0], 1, 1, mode);
            job[1].free_request(&receive);
            if (job[0].owns(send))
                job[0].free_request(&send);
            job.settle();
            expect_that(d.data[0] == d.data[1], "%zu bytes", bytes);
        }
    assert_int_equal(RankTest::transfers(job[0]), 0);
    for (int i = 0; i < 2; ++i) // the world has no users but the channels that define it
        assert_true(RankTest::users(job.comm(i)) <= 1);
}

void copy_of_an_ended_handle_is_harmless(Job& job)
{
    Desk& d = fresh();
    MPI_Request receive = job.irecv(1, d.data[0], 0, 1), copy = receive;
    assert_int_equal(job.send(0, d.data[5], 1, 1), MPI_SUCCESS);
    job.settle();
    const std::uint32_t users = RankTest::users(job.comm(1));
    assert_true(job.done(1, receive));
    assert_true(job.done(1, copy));
    assert_int_equal(RankTest::users(job.comm(1)), users - 1);
    // the next two requests are two
    MPI_Request one = job.irecv(1, d.data[0], 0, 1), two = job.irecv(1, d.data[1], 0, 1);
    assert_ptr_not_equal(one, two);
    job[1].cancel(*reinterpret_cast<Request*>(one));
    job[1].cancel(*reinterpret_cast<Request*>(two));
    assert_true(job.done(1, one) && job.done(1, two));
}

// ---- truncation: class and bytes are ours, the report is the real MPI's in the same call

// Rank 1 posts a receive for 10 bytes, rank 0 sends more.
MPI_Request too_short(Job& job, Desk& d, std::size_t bytes)
{
    d.data[0] = Bytes(10 + 16, std::byte{0xee});
    d.data[1] = pattern(bytes, 1);
    d.made.clear();
    job.mpi.returned.clear();
    MPI_Request receive = job[1].irecv(d.data[0].data(), 10, job.bytes(1), 0, 1, job.comm(1));
    d.requests = {job.isend(0, d.data[1], 1, 1)};
    job.settle();
    assert_true(job.done(0, d.requests[0]));
    job.mpi.returned.clear(); // what the payload's own transfer said
    return receive;
}

void was_cut(Job& job, const Desk& d, const char* call)
{
    expect_that(job.mpi.returned.size() == 1 && job.mpi.returned[0] == call, "reported from %s, wanted %s",
                job.mpi.returned.empty() ? "nowhere" : job.mpi.returned[0].c_str(), call);
    assert_true(std::equal(d.data[1].begin(), d.data[1].begin() + 10, d.data[0].begin()));
    assert_int_equal(d.data[0][10], 0xee);
    assert_int_equal(d.data[0][25], 0xee);
}

const std::size_t kCut[] = {11, 100, 5000, 40000};

void truncation_is_raised_from_wait(Job& job)
{
    for (const std::size_t bytes : kCut) {
        Desk& d = fresh();
        MPI_Request r = too_short(job, d, bytes);
        assert_int_equal(job[1].wait(&r, &d.statuses[0]), MPI_ERR_TRUNCATE);
        was_cut(job, d, "MPI_Wait");
        assert_ptr_equal(r, null_of(job, 1));
    }
}

void truncation_is_raised_from_test(Job& job)
{
    for (const std::size_t bytes : kCut) {
        Desk& d = fresh();
        MPI_Request r = too_short(job, d, bytes);
        int flag = 0;
        assert_int_equal(job[1].test(&r, &flag, &d.statuses[0]), MPI_ERR_TRUNCATE);
        assert_int_equal(flag, 1);
        was_cut(job, d, "MPI_Test");
    }
}

void truncation_is_raised_from_the_array_calls(Job& job)
{
    for (const std::size_t bytes : kCut) {
        Desk& d = fresh();
        int flag = 0, index = -1, done = 0;
        MPI_Request r = too_short(job, d, bytes);
        assert_int_equal(job[1].waitall(1, &r, d.statuses.data()), MPI_ERR_IN_STATUS);
        assert_int_equal(d.statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
        was_cut(job, d, "MPI_Waitall");
        r = too_short(job, d, bytes);
        assert_int_equal(job[1].testall(1, &r, &flag, d.statuses.data()), MPI_ERR_IN_STATUS);
        assert_int_equal(d.statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
        was_cut(job, d, "MPI_Testall");
        r = too_short(job, d, bytes);
        assert_int_equal(job[1].waitany(1, &r, &index, d.statuses.data()), MPI_ERR_TRUNCATE);
        assert_int_equal(index, 0);
        was_cut(job, d, "MPI_Waitany");
        r = too_short(job, d, bytes);
        assert_int_equal(job[1].testany(1, &r, &index, &flag, d.statuses.data()), MPI_ERR_TRUNCATE);
        was_cut(job, d, "MPI_Testany");
        r = too_short(job, d, bytes);
        assert_int_equal(job[1].waitsome(1, &r, &done, d.indices.data(), d.statuses.data()), MPI_ERR_IN_STATUS);
        assert_int_equal(done, 1);
        assert_int_equal(d.statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
        was_cut(job, d, "MPI_Waitsome");
        r = too_short(job, d, bytes);
        assert_int_equal(job[1].testsome(1, &r, &done, d.indices.data(), d.statuses.data()), MPI_ERR_IN_STATUS);
        was_cut(job, d, "MPI_Testsome");
    }
}

void truncation_is_raised_from_sendrecv(Job& job)
{
    Desk& d = fresh();
    MPI_Request r = too_short(job, d, 100);
    assert_int_equal(job[1].wait_as(Call::sendrecv, &r, &d.statuses[0]), MPI_ERR_TRUNCATE);
    was_cut(job, d, "MPI_Sendrecv");
    r = too_short(job, d, 100);
    assert_int_equal(job[1].wait_as(Call::sendrecv_replace, &r, &d.statuses[0]), MPI_ERR_TRUNCATE);
    was_cut(job, d, "MPI_Sendrecv_replace");
}

void truncation_is_raised_from_receives(Job& job)
{
    for (const std::size_t bytes : kCut) {
        Desk& d = fresh();
        MPI_Request r = too_short(job, d, bytes);
        job[1].wait(&r, MPI_STATUS_IGNORE);
        d.data[0] = Bytes(26, std::byte{0xee});
        d.requests = {job.isend(0, d.data[1], 1, 1), job.isend(0, d.data[1], 1, 1)};
        job.settle();
        job.mpi.returned.clear();
        assert_int_equal(job[1].recv(d.data[0].data(), 10, job.bytes(1), 0, 1, job.comm(1), &d.statuses[0]),
                         MPI_ERR_TRUNCATE);
        if (bytes <= 32768) // else the payload's own receive may say it too
            was_cut(job, d, "MPI_Recv");
        assert_string_equal(job.mpi.returned.back().c_str(), "MPI_Recv");
        MPI_Message message = job[1].mprobe(0, 1, job.comm(1), &d.statuses[0]);
        d.data[0] = Bytes(26, std::byte{0xee});
        assert_int_equal(job[1].mrecv(d.data[0].data(), 10, job.bytes(1), message, &d.statuses[0]), MPI_ERR_TRUNCATE);
        assert_string_equal(job.mpi.returned.back().c_str(), "MPI_Mrecv");
        assert_int_equal(d.data[0][10], 0xee);
        job.settle();
    }
}

void truncation_is_raised_on_the_communicator_of_the_receive(Job& job)
{
    Desk& d = fresh();
    d.made = job.duplicate();
    job.use(d.made);
    d.data[0] = Bytes(10);
    MPI_Request receive = job.irecv(1, d.data[0], 0, 1);
    assert_int_equal(job.send(0, d.data[1], 1, 1), MPI_SUCCESS);
    job.settle();
    job.free(d.made); // and when that is gone, on MPI_COMM_WORLD
    assert_int_equal(job[1].wait(&receive, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    job.use_world();
    assert_int_equal(job[1].counters().truncations, 1);
}

// ---- a communicator that is being duplicated

// The real duplication of rank 0 ends while that rank only turns its progress, and the
// agreement on the new communicator is its own: rank 1 sees it end although rank 0 does
// not look at its request.
void duplicate_completes_with_its_identity(Job& job)
{
    Desk& d = fresh();
    const auto handles = job.mpi.make_comm({0, 1});
    const std::uint64_t identity = job[0].next_identity();
    MPI_Comm where[2] = {handles[0], handles[1]};
    for (int i = 0; i < 2; ++i) {
        const RealMpi& real = job.mpi.real(i);
        MPI_Request made;
        real.Ibarrier(real.comm_world, &made);
        const std::int64_t rank = i == 0 ? static_cast<std::int64_t>(identity >> 32) : -1;
        const std::int64_t counter = i == 0 ? static_cast<std::int64_t>(identity & 0xffffffff) : -1;
        d.requests.push_back(job[i].duplicate(made, &where[i], {rank, counter, 0}));
        if (i == 0)
            assert_false(job.done(0, d.requests[0])); // the other one has not entered
    }
    for (int turns = 0; turns < 100; ++turns)
        job[0].poll();
    assert_true(job.done(1, d.requests[1]));
    assert_true(job.done(0, d.requests[0]));
    for (int i = 0; i < 2; ++i) {
        Comm* comm = job[i].find(handles[static_cast<std::size_t>(i)]);
        assert_non_null(comm);
        assert_int_equal(comm->id, identity);
    }
}

// A member that the program made inside the real MPI makes it native for all of them.
void duplicate_made_inside_is_not_routed(Job& job)
{
    Desk& d = fresh();
    const auto handles = job.mpi.make_comm({0, 1});
    MPI_Comm where[2] = {handles[0], handles[1]};
    for (int i = 0; i < 2; ++i) {
        MPI_Request made;
        job.mpi.real(i).Ibarrier(job.mpi.real(i).comm_world, &made);
        d.requests.push_back(job[i].duplicate(made, &where[i], {i - 1, i, 1 - i}));
    }
    for (int i = 0; i < 2; ++i)
        job[i].poll();
    for (int i = 0; i < 2; ++i) {
        assert_true(job.done(i, d.requests[static_cast<std::size_t>(i)]));
        assert_null(job[i].find(handles[static_cast<std::size_t>(i)]));
    }
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT_IN_RINGS(eager_send_is_complete_at_once),
        UNIT_EVERYWHERE(test_of_nothing_counts_and_changes_nothing),
        UNIT_EVERYWHERE(waitall_takes_every_kind_of_request),
        UNIT_EVERYWHERE(testall_completes_all_or_none),
        UNIT_EVERYWHERE(waitany_gives_one_that_is_complete),
        UNIT_EVERYWHERE(waitsome_gives_all_that_are_complete),
        UNIT_EVERYWHERE(get_status_leaves_the_request),
        UNIT_IN_RINGS(fortran_index_names_the_request),
        UNIT_EVERYWHERE(persistent_requests_start_again),
        UNIT_EVERYWHERE(cancelled_persistent_receive_starts_again),
        UNIT_EVERYWHERE(cancelled_receive_takes_no_message),
        UNIT_EVERYWHERE(matched_receive_is_not_cancelled),
        UNIT_EVERYWHERE(send_is_never_cancelled),
        UNIT_EVERYWHERE(freed_requests_still_deliver),
        UNIT_EVERYWHERE(copy_of_an_ended_handle_is_harmless),
        UNIT_EVERYWHERE(truncation_is_raised_from_wait),
        UNIT_EVERYWHERE(truncation_is_raised_from_test),
        UNIT_EVERYWHERE(truncation_is_raised_from_the_array_calls),
        UNIT_EVERYWHERE(truncation_is_raised_from_sendrecv),
        UNIT_EVERYWHERE(truncation_is_raised_from_receives),
        UNIT_EVERYWHERE(truncation_is_raised_on_the_communicator_of_the_receive),
        UNIT_EVERYWHERE(duplicate_completes_with_its_identity),
        UNIT_EVERYWHERE(duplicate_made_inside_is_not_routed),
    };
    return run_all(tests, argc, argv);
}
