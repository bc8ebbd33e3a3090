// SPDX-License-Identifier: MIT
// shim/communicator: the two queues of matching.
#include "cmocka.hh"

#include "communicator.hh"

#include <deque>

namespace storm::unit {
namespace {

struct Matching {
    Matching() : comm(5, 0), one(comm.add(1, 1)), two(comm.add(2, 2)) {}

    Request& post(Source* source, int tag)
    {
        Request& r = requests.emplace_back();
        r.source = source;
        r.tag = tag;
        r.order = ++order;
        comm.post(r);
        return r;
    }
    Message& arrive(Source& source, int tag)
    {
        Message& m = messages.emplace_back();
        m.source = &source;
        m.tag = tag;
        comm.arrive(m);
        return m;
    }

    Comm comm;
    Source& one;
    Source& two;
    std::deque<Request> requests;
    std::deque<Message> messages;
    std::uint64_t order = 0;
};

void message_takes_the_specific_receive_posted_first(Matching& f)
{
    Request& specific = f.post(&f.one, 3);
    Request& wild = f.post(nullptr, 3);
    assert_ptr_equal(f.comm.take_posted(f.one, 3), &specific);
    assert_ptr_equal(f.comm.take_posted(f.one, 3), &wild);
    assert_null(f.comm.take_posted(f.one, 3));
}

void message_takes_the_wildcard_receive_posted_first(Matching& f)
{
    Request& wild = f.post(nullptr, 3);
    Request& specific = f.post(&f.one, 3);
    assert_ptr_equal(f.comm.take_posted(f.one, 3), &wild);
    assert_ptr_equal(f.comm.take_posted(f.one, 3), &specific);
}

void message_takes_the_first_tag_that_fits(Matching& f)
{
    Request& four = f.post(&f.one, 4);
    Request& any_tag = f.post(&f.one, MPI_ANY_TAG);
    Request& three = f.post(&f.one, 3);
    assert_ptr_equal(f.comm.take_posted(f.one, 3), &any_tag);
    assert_ptr_equal(f.comm.take_posted(f.one, 3), &three);
    assert_null(f.comm.take_posted(f.one, 3));
    assert_ptr_equal(f.comm.take_posted(f.one, 4), &four);
}

void wildcard_with_another_tag_is_passed_over(Matching& f)
{
    Request& wild_four = f.post(nullptr, 4);
    Request& specific = f.post(&f.one, 3);
    Request& wild_any = f.post(nullptr, MPI_ANY_TAG);
    assert_ptr_equal(f.comm.take_posted(f.one, 3), &specific);
    assert_ptr_equal(f.comm.take_posted(f.two, 3), &wild_any);
    assert_ptr_equal(f.comm.take_posted(f.two, 4), &wild_four);
}

void receive_for_another_source_is_never_taken(Matching& f)
{
    Request& for_two = f.post(&f.two, MPI_ANY_TAG);
    assert_null(f.comm.take_posted(f.one, 3));
    assert_true(for_two.queued);
    assert_ptr_equal(f.comm.take_posted(f.two, 3), &for_two);
    assert_false(for_two.queued);
}

void receives_of_one_envelope_keep_their_order(Matching& f)
{
    for (int i = 0; i < 5; ++i)
        f.post(i % 2 == 0 ? &f.one : nullptr, i % 3 == 0 ? MPI_ANY_TAG : 9);
    for (int i = 0; i < 5; ++i)
        assert_ptr_equal(f.comm.take_posted(f.one, 9), &f.requests[static_cast<std::size_t>(i)]);
}

void withdrawn_receive_is_never_taken(Matching& f)
{
    Request& first = f.post(&f.one, 3);
    Request& middle = f.post(&f.one, 3);
    Request& wild = f.post(nullptr, 3);
    Request& last = f.post(&f.one, 3);
    f.comm.withdraw(middle);
    f.comm.withdraw(wild);
    assert_false(middle.queued || wild.queued);
    assert_ptr_equal(f.comm.take_posted(f.one, 3), &first);
    assert_ptr_equal(f.comm.take_posted(f.one, 3), &last);
    assert_null(f.comm.take_posted(f.one, 3));
}

void receive_finds_the_earliest_message_of_its_source(Matching& f)
{
    Message& of_two = f.arrive(f.two, 3);
    Message& first = f.arrive(f.one, 3);
    f.arrive(f.one, 3);
    assert_ptr_equal(f.comm.find_arrived(1, 3), &first);
    assert_ptr_equal(f.comm.find_arrived(1, MPI_ANY_TAG), &first);
    assert_ptr_equal(f.comm.find_arrived(MPI_ANY_SOURCE, 3), &of_two);
}

void wildcard_finds_messages_in_order_of_arrival(Matching& f)
{
    for (int i = 0; i < 6; ++i)
        f.arrive(i % 2 == 0 ? f.one : f.two, i);
    for (int i = 0; i < 6; ++i) {
        Message* m = f.comm.find_arrived(MPI_ANY_SOURCE, MPI_ANY_TAG);
        assert_ptr_equal(m, &f.messages[static_cast<std::size_t>(i)]);
        f.comm.remove(*m);
    }
    assert_null(f.comm.find_arrived(MPI_ANY_SOURCE, MPI_ANY_TAG));
    assert_null(f.comm.find_arrived(1, MPI_ANY_TAG));
}

void tag_passes_over_earlier_messages(Matching& f)
{
    f.arrive(f.one, 1);
    Message& two = f.arrive(f.one, 2);
    assert_ptr_equal(f.comm.find_arrived(1, 2), &two);
    assert_ptr_equal(f.comm.find_arrived(MPI_ANY_SOURCE, 2), &two);
    assert_null(f.comm.find_arrived(1, 3));
    assert_null(f.comm.find_arrived(2, 2));
}

void finding_leaves_the_message_in_its_queue(Matching& f)
{
    Message& m = f.arrive(f.one, 1);
    assert_ptr_equal(f.comm.find_arrived(1, 1), &m);
    assert_ptr_equal(f.comm.find_arrived(1, 1), &m);
    f.comm.remove(m);
    assert_null(f.comm.find_arrived(1, 1));
}

void removal_from_the_middle_keeps_the_rest(Matching& f)
{
    Message& first = f.arrive(f.one, 1);
    Message& middle = f.arrive(f.one, 1);
    Message& last = f.arrive(f.one, 1);
    f.comm.remove(middle);
    assert_ptr_equal(f.comm.find_arrived(1, 1), &first);
    f.comm.remove(first);
    assert_ptr_equal(f.comm.find_arrived(MPI_ANY_SOURCE, 1), &last);
    f.comm.remove(last);
    assert_true(f.comm.arrivals.empty());
}

void unknown_member_has_no_messages(Matching& f)
{
    assert_null(f.comm.known(0));
    assert_null(f.comm.known(99999));
    assert_null(f.comm.find_arrived(99999, MPI_ANY_TAG));
}

void members_are_found_again_near_and_far(Matching& f)
{
    for (const int member : {0, 3, 700, 1023, 1024, 13439, 100000}) {
        Source& added = f.comm.add(member, member + 1);
        assert_ptr_equal(f.comm.known(member), &added);
        assert_int_equal(added.world, member + 1);
    }
    assert_ptr_equal(f.comm.known(1), &f.one);
    assert_null(f.comm.known(699));
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Matching, message_takes_the_specific_receive_posted_first),
        UNIT(Matching, message_takes_the_wildcard_receive_posted_first),
        UNIT(Matching, message_takes_the_first_tag_that_fits),
        UNIT(Matching, wildcard_with_another_tag_is_passed_over),
        UNIT(Matching, receive_for_another_source_is_never_taken),
        UNIT(Matching, receives_of_one_envelope_keep_their_order),
        UNIT(Matching, withdrawn_receive_is_never_taken),
        UNIT(Matching, receive_finds_the_earliest_message_of_its_source),
        UNIT(Matching, wildcard_finds_messages_in_order_of_arrival),
        UNIT(Matching, tag_passes_over_earlier_messages),
        UNIT(Matching, finding_leaves_the_message_in_its_queue),
        UNIT(Matching, removal_from_the_middle_keeps_the_rest),
        UNIT(Matching, unknown_member_has_no_messages),
        UNIT(Matching, members_are_found_again_near_and_far),
    };
    return run_all(tests, argc, argv);
}
