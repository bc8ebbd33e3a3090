// SPDX-License-Identifier: MIT
// shim/datatype: what is plain bytes, and types that outlive their handles.
#include "cmocka.hh"
#include "fake_mpi.hh"

#include "datatype.hh"

#include <cstring>
#include <memory>
#include <numeric>

namespace storm::unit {
namespace {

struct Types {
    Types() : mpi(1, {}), types(std::make_unique<TypeCache>(mpi.real(0), false))
    {
        types->set_private(mpi.private_comm(0));
        std::iota(reinterpret_cast<unsigned char*>(from), reinterpret_cast<unsigned char*>(from) + sizeof from, 1);
        std::memset(to, 0xee, sizeof to);
    }
    TypeInfo& info(MPI_Datatype handle) { return *types->find(handle); }
    unsigned at(std::size_t i) const { return std::to_integer<unsigned>(to[i]); }

    FakeMpi mpi;
    std::unique_ptr<TypeCache> types;
    std::byte from[64], to[64], packed[64];
};

void plain_type_is_contiguous(Types& f)
{
    TypeInfo& byte = f.info(f.mpi.real(0).byte);
    assert_true(byte.contiguous && byte.predefined && !byte.absolute);
    assert_int_equal(byte.size, 1);
    TypeInfo& four = f.info(f.mpi.make_type({0, 1, 2, 3}, 0, 4));
    assert_true(four.contiguous && !four.predefined);
    assert_int_equal(four.size, 4);
}

void type_that_begins_elsewhere_is_contiguous_with_an_offset(Types& f)
{
    TypeInfo& type = f.info(f.mpi.make_type({8, 9, 10, 11}, 8, 4));
    assert_true(type.contiguous);
    assert_int_equal(type.first, 8);
    f.types->pack(type, f.from, 2, f.packed);
    assert_memory_equal(f.packed, f.from + 8, 8);
}

void permuted_type_of_full_extent_is_not_contiguous(Types& f)
{
    TypeInfo& type = f.info(f.mpi.make_type({2, 3, 0, 1}, 0, 4));
    assert_false(type.contiguous);
    f.types->pack(type, f.from, 1, f.packed);
    const unsigned char expected[] = {3, 4, 1, 2};
    assert_memory_equal(f.packed, expected, 4);
}

void permutation_beyond_one_byte_of_counting_is_seen(Types& f)
{
    std::vector<std::ptrdiff_t> bytes(1024);
    std::iota(bytes.begin(), bytes.end(), 0);
    std::swap(bytes[1], bytes[257]); // alike in their low eight bits
    assert_false(f.info(f.mpi.make_type(bytes, 0, 1024)).contiguous);
    std::swap(bytes[1], bytes[257]);
    assert_true(f.info(f.mpi.make_type(bytes, 0, 1024)).contiguous);
}

void type_with_holes_is_packed_and_unpacked(Types& f)
{
    TypeInfo& type = f.info(f.mpi.make_type({0, 1, 4, 5}, 0, 8));
    assert_false(type.contiguous);
    f.types->pack(type, f.from, 2, f.packed);
    const unsigned char expected[] = {1, 2, 5, 6, 9, 10, 13, 14};
    assert_memory_equal(f.packed, expected, 8);
    f.types->unpack(type, f.to, 2, f.packed, 8);
    assert_int_equal(f.at(0), 1);
    assert_int_equal(f.at(2), 0xee); // a hole stays as it was
    assert_int_equal(f.at(4), 5);
    assert_int_equal(f.at(13), 14);
    assert_int_equal(f.at(16), 0xee);
}

void type_with_a_gap_behind_it_is_not_contiguous(Types& f)
{
    assert_false(f.info(f.mpi.make_type({0, 1, 2, 3}, 0, 8)).contiguous);
}

void overlapping_elements_are_not_contiguous(Types& f)
{
    assert_false(f.info(f.mpi.make_type({0, 1, 2, 3}, 0, 2)).contiguous);
}

void partial_last_element_keeps_the_rest_of_its_data(Types& f)
{
    TypeInfo& type = f.info(f.mpi.make_type({0, 1, 4, 5}, 0, 8));
    const unsigned char stream[] = {1, 2, 3, 4, 5, 6, 7, 8};
    f.types->unpack(type, f.to, 2, reinterpret_cast<const std::byte*>(stream), 5);
    assert_int_equal(f.at(5), 4);
    assert_int_equal(f.at(8), 5); // the one byte of the second element
    for (const std::size_t i : {9u, 10u, 11u, 12u, 13u, 16u})
        assert_int_equal(f.at(i), 0xee);
}

void longer_stream_stops_at_the_last_element(Types& f)
{
    TypeInfo& plain = f.info(f.mpi.make_type({0, 1, 2, 3}, 0, 4));
    f.types->unpack(plain, f.to, 2, f.from, 40);
    assert_int_equal(f.at(7), 8);
    assert_int_equal(f.at(8), 0xee);
    TypeInfo& holes = f.info(f.mpi.make_type({0, 2}, 0, 4));
    f.types->unpack(holes, f.to + 16, 2, f.from, 40);
    assert_int_equal(f.at(22), 4);
    assert_int_equal(f.at(24), 0xee);
}

void empty_type_moves_nothing(Types& f)
{
    TypeInfo& type = f.info(f.mpi.make_type({}, 0, 16));
    assert_true(type.contiguous);
    f.types->pack(type, f.from, 3, f.packed);
    f.types->unpack(type, f.to, 3, f.packed, 0);
    assert_int_equal(f.at(0), 0xee);
}

void uncommitted_and_null_types_are_unknown(Types& f)
{
    assert_null(f.types->find(nullptr));
    assert_null(f.types->find(f.mpi.real(0).datatype_null));
    MPI_Datatype type = f.mpi.make_type({0, 1}, 0, 2, false);
    assert_null(f.types->find(type));
    f.mpi.real(0).Type_commit(&type);
    assert_non_null(f.types->find(type)); // and the refusal was not remembered
}

void type_is_asked_about_once(Types& f)
{
    const MPI_Datatype type = f.mpi.make_type({0, 1}, 0, 2);
    assert_ptr_equal(f.types->find(type), f.types->find(type));
}

void type_of_addresses_is_absolute(Types& f)
{
    assert_true(f.info(f.mpi.make_type({0x10000, 0x10001, 0x10004}, 0x10000, 8)).absolute);
    assert_false(f.info(f.mpi.make_type({0, 4}, 0, 8)).absolute);
}

void forgotten_type_is_asked_about_anew(Types& f)
{
    const MPI_Datatype type = f.mpi.make_type({0, 1}, 0, 2);
    assert_int_equal(f.info(type).size, 2);
    f.types->forget(type);
    // the handle's address may come back for another type
    reinterpret_cast<FakeType*>(type)->bytes = {0, 1, 2};
    reinterpret_cast<FakeType*>(type)->extent = 3;
    assert_int_equal(f.info(type).size, 3);
    f.types->forget(f.mpi.make_type({0}, 0, 1)); // one that was never known
}

void type_freed_while_in_use_still_unpacks(Types& f)
{
    const MPI_Datatype handle = f.mpi.make_type({0, 2}, 0, 4);
    const std::size_t before = f.mpi.live_types();
    TypeInfo& type = f.info(handle);
    f.types->hold(type);
    f.types->hold(type);
    f.types->forget(handle);
    f.mpi.free_type(handle);
    f.types->release(type);
    f.types->unpack(type, f.to, 2, f.from, 4);
    assert_int_equal(f.at(0), 1);
    assert_int_equal(f.at(1), 0xee);
    assert_int_equal(f.at(6), 4);
    f.types->release(type);
    assert_int_equal(f.mpi.live_types(), before - 1); // and its stand-in is gone with the last use
    assert_false(f.mpi.type_misused);
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Types, plain_type_is_contiguous),
        UNIT(Types, type_that_begins_elsewhere_is_contiguous_with_an_offset),
        UNIT(Types, permuted_type_of_full_extent_is_not_contiguous),
        UNIT(Types, permutation_beyond_one_byte_of_counting_is_seen),
        UNIT(Types, type_with_holes_is_packed_and_unpacked),
        UNIT(Types, type_with_a_gap_behind_it_is_not_contiguous),
        UNIT(Types, overlapping_elements_are_not_contiguous),
        UNIT(Types, partial_last_element_keeps_the_rest_of_its_data),
        UNIT(Types, longer_stream_stops_at_the_last_element),
        UNIT(Types, empty_type_moves_nothing),
        UNIT(Types, uncommitted_and_null_types_are_unknown),
        UNIT(Types, type_is_asked_about_once),
        UNIT(Types, type_of_addresses_is_absolute),
        UNIT(Types, forgotten_type_is_asked_about_anew),
        UNIT(Types, type_freed_while_in_use_still_unpacks),
    };
    return run_all(tests, argc, argv);
}
