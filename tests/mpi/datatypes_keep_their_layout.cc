// SPDX-License-Identifier: MIT
// Every kind of datatype on either side: the elements arrive in type-map order, the
// bytes between them stay as they were; different types with one signature match.
// run: ranks=2 timeout=60
#include <algorithm>
#include <functional>

#include "check.h"
using namespace check;

// A layout of ints: the type, and in which int slot of an element its parts lie.
struct Layout {
    const char *name;
    MPI_Datatype type;
    std::vector<int> slots;  // in type-map order
    int extent;              // in ints
};

static MPI_Datatype committed(MPI_Datatype type) {
    MPI_Type_commit(&type);
    return type;
}

static std::vector<Layout> layouts() {
    std::vector<Layout> all;
    MPI_Datatype t, u;
    auto add = [&](const char *name, std::vector<int> slots, int extent) {
        all.push_back({name, committed(t), std::move(slots), extent});
    };
    MPI_Type_contiguous(6, MPI_INT, &t);
    add("contiguous", {0, 1, 2, 3, 4, 5}, 6);
    MPI_Type_vector(3, 2, 4, MPI_INT, &t);
    add("vector", {0, 1, 4, 5, 8, 9}, 10);
    MPI_Type_create_hvector(3, 2, 12, MPI_INT, &t);
    add("hvector", {0, 1, 3, 4, 6, 7}, 8);
    MPI_Type_vector(3, 2, -3, MPI_INT, &u);
    MPI_Type_create_resized(u, -24, 40, &t);
    add("negative stride", {6, 7, 3, 4, 0, 1}, 10);
    all.back().slots = {0, 1, -3, -2, -6, -5};
    const int lengths[] = {1, 3, 2}, places[] = {7, 0, 4};
    MPI_Type_indexed(3, lengths, places, MPI_INT, &t);
    add("indexed, not in order", {7, 0, 1, 2, 4, 5}, 8);
    const MPI_Aint bytes[] = {4, 20, 36};
    MPI_Type_create_hindexed(3, lengths, bytes, MPI_INT, &u);
    MPI_Type_create_resized(u, 0, 48, &t);
    add("hindexed, resized", {1, 5, 6, 7, 9, 10}, 12);
    const int permuted[] = {5, 3, 4, 0, 2, 1};
    MPI_Type_create_indexed_block(6, 1, permuted, MPI_INT, &t);
    add("permuted, as dense as contiguous", {5, 3, 4, 0, 2, 1}, 6);
    const int whole[] = {6, 5}, part[] = {3, 2}, start[] = {2, 1};
    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT, &t);
    add("subarray", {11, 12, 16, 17, 21, 22}, 30);
    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_FORTRAN, MPI_INT, &t);
    add("fortran subarray", {8, 9, 10, 14, 15, 16}, 30);
    const int one[] = {1, 1};
    const MPI_Aint apart[] = {0, 16};
    MPI_Datatype parts[] = {MPI_INT, MPI_INT};
    MPI_Type_create_struct(2, one, apart, parts, &u);  // ints 0 and 4 of 5
    MPI_Type_contiguous(3, u, &t);
    add("contiguous of struct with holes", {0, 4, 5, 9, 10, 14}, 15);
    MPI_Type_vector(3, 2, 4, MPI_INT, &u);
    MPI_Type_commit(&u);
    MPI_Type_dup(u, &t);
    add("dup of vector", {0, 1, 4, 5, 8, 9}, 10);
    MPI_Type_create_resized(MPI_INT, 0, 12, &u);
    MPI_Type_contiguous(6, u, &t);
    add("resized int", {0, 3, 6, 9, 12, 15}, 18);
    return all;
}

static const int untouched = -1111;

static void exchange(const Layout &out, const Layout &in, int count, int tag) {
    const int margin = 8;  // negative lower bounds
    int n = count * int(out.slots.size()), peer = 1 - rank;
    std::vector<int> from(count * out.extent + 2 * margin, -5),
        to(count * in.extent + 2 * margin, untouched);
    std::vector<int> expected = to;
    for (int i = 0; i < n; ++i) {
        from[margin + i / 6 * out.extent + out.slots[i % 6]] =
            peer * 1000 + i;  // what the peer expects
        expected[margin + i / 6 * in.extent + in.slots[i % 6]] = rank * 1000 + i;
    }
    MPI_Request requests[2];
    MPI_Status statuses[2];
    if (tag % 2) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Irecv(to.data() + margin, count, in.type, peer, tag, MPI_COMM_WORLD, &requests[0]);
    if (tag % 3 == 0) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Isend(from.data() + margin, count, out.type, peer, tag, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    int elements = -1;
    MPI_Get_elements(&statuses[0], in.type, &elements);
    expect(count_of(statuses[0], in.type) == count && elements == n,
           "%s to %s: count %d elements %d", out.name, in.name, count_of(statuses[0], in.type),
           elements);
    expect(to == expected, "%s to %s, %d elements of it", out.name, in.name, count);
}

// Elements left over: a receive that ends within an element.
static void partial(const Layout &in) {
    const int margin = 8;
    if (rank == 0) {
        std::vector<int> ints(40);
        for (int i = 0; i < 40; ++i) ints[i] = i;
        for (int n : {1, 5, 6, 7, 13, 18}) MPI_Send(ints.data(), n, MPI_INT, 1, 3, MPI_COMM_WORLD);
        return;
    }
    for (int n : {1, 5, 6, 7, 13, 18}) {
        std::vector<int> to(4 * in.extent + 2 * margin, untouched);
        MPI_Status status = fresh_status();
        MPI_Recv(to.data() + margin, 3, in.type, 0, 3, MPI_COMM_WORLD, &status);
        int filled = 0;
        for (int value : to) filled += value != untouched;
        expect(filled == n, "%s: %d ints of %d", in.name, filled, n);
        say("%s, %d ints: %s", in.name, n, in_words(status, in.type).c_str());
    }
}

static void zero_size() {
    MPI_Datatype nothing, later;
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    MPI_Type_vector(0, 3, 5, MPI_DOUBLE, &later);
    MPI_Type_commit(&later);
    for (MPI_Datatype type : {nothing, later}) {
        Guarded in(16);
        MPI_Status status = fresh_status();
        MPI_Sendrecv(&rank, 5, type, 1 - rank, 1, in.data(), 7, type, 1 - rank, 1, MPI_COMM_WORLD,
                     &status);
        say("zero size: %s", in_words(status, type).c_str());
        expect(in.untouched(0), "a zero-size type wrote");
        MPI_Sendrecv(nullptr, 0, type, 1 - rank, 1, in.data(), 16, MPI_BYTE, 1 - rank, 1,
                     MPI_COMM_WORLD, &status);
        say("count 0: %s", in_words(status, MPI_BYTE).c_str());
        MPI_Type_free(&type);
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    auto all = layouts();
    int tag = 0;
    for (auto &out : all)
        for (auto &in : all)
            for (int count : {1, 3, 50, 300, 5000}) {
                if (count == 5000 && &out != &in) continue;
                exchange(out, in, count, tag++);
            }
    for (auto &in : all) partial(in);
    zero_size();
    say("%d layouts", int(all.size()));
    return finish();
}
