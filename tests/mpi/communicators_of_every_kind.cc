// SPDX-License-Identifier: MIT
// Messages on communicators made by every constructor arrive at the right ranks, with
// one tag on many communicators at once and never on another one.
// run: ranks=2,4 timeout=60
#include "check.h"
using namespace check;

static std::vector<std::pair<const char *, MPI_Comm>> all;

static void add(const char *name, MPI_Comm comm) {
    if (comm != MPI_COMM_NULL) all.emplace_back(name, comm);
}

static void make() {
    MPI_Comm world = MPI_COMM_WORLD, comm;
    MPI_Request request;
    add("world", world);
    add("self", MPI_COMM_SELF);
    MPI_Comm_dup(world, &comm);
    add("dup", comm);
    MPI_Comm_idup(world, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    add("idup", comm);
    MPI_Comm idups[3];
    MPI_Request requests[4];
    int value = -1;
    for (int i = 0; i < 3; ++i) MPI_Comm_idup(world, &idups[i], &requests[i]);
    MPI_Irecv(&value, 1, MPI_INT, rank ^ 1, 60, world, &requests[3]);
    MPI_Send(&rank, 1, MPI_INT, rank ^ 1, 60, world);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    expect(value == (rank ^ 1), "beside idup: %d", value);
    for (MPI_Comm idup : idups) add("one of three idups", idup);
    MPI_Comm_dup_with_info(world, MPI_INFO_NULL, &comm);
    add("dup with info", comm);
    MPI_Comm_split(world, 0, -rank, &comm);
    add("reversed", comm);
    MPI_Comm_split(world, rank % 2, rank, &comm);
    add(rank % 2 ? "odd" : "even", comm);
    MPI_Comm_split(world, rank ? 1 : MPI_UNDEFINED, rank, &comm);
    add("without 0", comm);
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
    add("node", comm);
    MPI_Group group, some;
    MPI_Comm_group(world, &group);
    const int first[] = {1, 0};
    MPI_Group_incl(group, 2, first, &some);
    MPI_Comm_create(world, some, &comm);
    add("create", comm);
    if (rank < 2) {
        MPI_Comm_create_group(world, some, 5, &comm);
        add("create_group", comm);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&some);
    const int dims[] = {size}, wrap[] = {1};
    MPI_Cart_create(world, 1, dims, wrap, 1, &comm);
    add("cart", comm);
    const int two[] = {2, size / 2}, open[] = {0, 1}, keep[] = {1, 0};
    MPI_Comm grid, row;
    MPI_Cart_create(world, 2, two, open, 0, &grid);
    add("grid", grid);
    MPI_Cart_sub(grid, keep, &row);
    add("row", row);
    std::vector<int> index, edges;
    for (int i = 0; i < size; ++i) edges.push_back((i + 1) % size), index.push_back(i + 1);
    MPI_Graph_create(world, size, index.data(), edges.data(), 0, &comm);
    add("graph", comm);
    const int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Dist_graph_create_adjacent(world, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &comm);
    add("dist graph", comm);
    const int degree = 1;
    MPI_Dist_graph_create(world, 1, &rank, &degree, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                          &comm);
    add("dist graph 2", comm);
}

static void ring_on(const char *name, MPI_Comm comm, int bytes) {
    int me, n, kind = 0;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    MPI_Topo_test(comm, &kind);
    int left = (me + n - 1) % n, right = (me + 1) % n;
    auto out = made(bytes, me);
    Guarded in(bytes);
    MPI_Status status = fresh_status();
    MPI_Sendrecv(out.data(), bytes, MPI_BYTE, right, 1, in.data(), bytes, MPI_BYTE,
                 n > 1 ? MPI_ANY_SOURCE : left, 1, comm, &status);
    expect(status.MPI_SOURCE == left && same(in.data(), bytes, left), "%s: from %d, not %d", name,
           status.MPI_SOURCE, left);
    if (bytes == 8)
        say("%s: rank %d of %d, topology %s, from %d", name, me, n, in_words(kind).c_str(),
            status.MPI_SOURCE);
}

// All at once, one tag; received in another order of communicators.
static void all_at_once(int bytes) {
    std::vector<MPI_Request> requests;
    std::vector<std::vector<unsigned char>> out;
    for (std::size_t c = 0; c < all.size(); ++c) {
        int me, n;
        MPI_Comm_rank(all[c].second, &me);
        MPI_Comm_size(all[c].second, &n);
        out.push_back(made(bytes, me * 100 + std::uint32_t(std::string(all[c].first).size())));
        MPI_Isend(out.back().data(), bytes, MPI_BYTE, (me + 1) % n, 7, all[c].second,
                  &requests.emplace_back());
    }
    for (std::size_t k = 0; k < all.size(); ++k) {
        std::size_t c = (k * 7 + 3) % all.size();
        if (all.size() % 7 == 0) c = all.size() - 1 - k;
        int me, n;
        MPI_Comm_rank(all[c].second, &me);
        MPI_Comm_size(all[c].second, &n);
        std::vector<unsigned char> in(bytes);
        MPI_Recv(in.data(), bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, all[c].second,
                 MPI_STATUS_IGNORE);
        if (std::string(all[c].first) == "odd" || std::string(all[c].first) == "even") continue;
        expect(same(in.data(), bytes,
                    (me + n - 1) % n * 100 + std::uint32_t(std::string(all[c].first).size())),
               "%s among all", all[c].first);
    }
    MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

static void neighbours() {
    for (auto &[name, comm] : all) {
        if (std::string(name) != "cart") continue;
        int from, to, out = rank, in = -1;
        MPI_Cart_shift(comm, 0, 1, &from, &to);
        MPI_Sendrecv(&out, 1, MPI_INT, to, 1, &in, 1, MPI_INT, from, 1, comm, MPI_STATUS_IGNORE);
        say("shift: %d", in);
        MPI_Neighbor_allgather(&out, 1, MPI_INT, std::vector<int>(2).data(), 1, MPI_INT, comm);
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    make();
    for (int bytes : {8, 5000, 200000})
        for (auto &[name, comm] : all) ring_on(name, comm, bytes);
    for (int bytes : {8, 5000}) all_at_once(bytes);
    neighbours();
    for (std::size_t i = 2; i < all.size(); ++i) MPI_Comm_free(&all[i].second);
    return finish();
}
