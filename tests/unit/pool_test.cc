// SPDX-License-Identifier: MIT
// shim/pool: requests in one range of addresses.
#include "cmocka.hh"

#include "pool.hh"

#include <algorithm>
#include <vector>

namespace storm::unit {
namespace {

struct Pool {
    Pool() : reserved(pool.reserve()) {}
    RequestPool pool;
    bool reserved;
    std::vector<Request*> taken;
    int elsewhere = 0;
};

void pool_without_a_range_owns_nothing(Pool& f)
{
    const RequestPool empty;
    assert_false(empty.owns(nullptr));
    assert_false(empty.owns(&f.elsewhere));
    assert_null(empty.at(RequestPool::kFirstIndex));
}

void pool_owns_what_it_gives_and_nothing_else(Pool& f)
{
    assert_true(f.reserved);
    Request* r = f.pool.take();
    assert_true(f.pool.owns(r));
    assert_false(f.pool.owns(nullptr));
    assert_false(f.pool.owns(&f.elsewhere));
    assert_false(f.pool.owns(&f));
}

void requests_are_distinct_beyond_one_chunk(Pool& f)
{
    for (int i = 0; i < 5000; ++i) {
        f.taken.push_back(f.pool.take());
        assert_non_null(f.taken.back());
        assert_true(f.pool.owns(f.taken.back()));
    }
    std::sort(f.taken.begin(), f.taken.end());
    assert_true(std::adjacent_find(f.taken.begin(), f.taken.end()) == f.taken.end());
}

void fortran_index_names_its_request(Pool& f)
{
    for (int i = 0; i < 3000; ++i) {
        Request* r = f.pool.take();
        assert_true(r->fortran_index >= RequestPool::kFirstIndex);
        assert_ptr_equal(f.pool.at(r->fortran_index), r);
    }
}

void foreign_index_names_nothing(Pool& f)
{
    for (const std::int32_t index : {0, 1, -1, RequestPool::kFirstIndex - 1, INT32_MAX, INT32_MIN})
        assert_null(f.pool.at(index));
}

void returned_request_is_given_again_as_new(Pool& f)
{
    Request* r = f.pool.take();
    const std::int32_t index = r->fortran_index;
    r->what = Request::What::send;
    r->set(Request::State::complete);
    r->persistent = r->cancelled = true;
    r->error = MPI_ERR_TRUNCATE;
    f.pool.give_back(r);
    Request* again = f.pool.take();
    assert_ptr_equal(again, r);
    assert_int_equal(again->fortran_index, index);
    assert_int_equal(again->what, Request::What::free);
    assert_int_equal(again->state(), Request::State::inactive);
    assert_false(again->persistent || again->cancelled);
    assert_int_equal(again->error, MPI_SUCCESS);
}

void pool_reuses_before_it_grows(Pool& f)
{
    for (int i = 0; i < 100000; ++i) {
        Request* r = f.pool.take();
        assert_true(r->fortran_index < RequestPool::kFirstIndex + 1024);
        f.pool.give_back(r);
    }
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Pool, pool_without_a_range_owns_nothing),
        UNIT(Pool, pool_owns_what_it_gives_and_nothing_else),
        UNIT(Pool, requests_are_distinct_beyond_one_chunk),
        UNIT(Pool, fortran_index_names_its_request),
        UNIT(Pool, foreign_index_names_nothing),
        UNIT(Pool, returned_request_is_given_again_as_new),
        UNIT(Pool, pool_reuses_before_it_grows),
    };
    return run_all(tests, argc, argv);
}
