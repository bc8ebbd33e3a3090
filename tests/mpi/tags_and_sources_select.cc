// SPDX-License-Identifier: MIT
// Receives pick by tag and source, in an order of their own; tags up to
// MPI_TAG_UB arrive; what was not picked stays, in order.
// run: ranks=2,4 timeout=30
#include "check.h"
using namespace check;

static void tags_in_another_order() {
    const int tags = 20;
    for (int bytes : {4, 4500, 70000}) {
        std::vector<std::vector<unsigned char>> out;
        std::vector<MPI_Request> requests;
        for (int to = 0; to < size; ++to)
            for (int tag = 0; tag < tags; ++tag) {
                if (to == rank) continue;
                out.push_back(made(bytes, rank * 100 + tag));
                MPI_Isend(out.back().data(), bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD,
                          &requests.emplace_back());
            }
        std::vector<unsigned char> in(bytes);
        for (int i = 0; i < tags; ++i)
            for (int from = size - 1; from >= 0; --from) {
                int tag = (i * 7 + 5) % tags;
                if (from == rank) continue;
                MPI_Status status;
                MPI_Recv(in.data(), bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status);
                expect(status.MPI_SOURCE == from && status.MPI_TAG == tag, "envelope %d %d",
                       status.MPI_SOURCE, status.MPI_TAG);
                expect(same(in.data(), bytes, from * 100 + tag), "data from %d tag %d", from, tag);
            }
        MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// The rest after a pick by tag keeps its order for wildcards.
static void rest_keeps_its_order() {
    const int n = 30;
    if (rank == 0) {
        for (int i = 0; i < n; ++i) MPI_Send(&i, 1, MPI_INT, 1, i % 3, MPI_COMM_WORLD);
    } else if (rank == 1) {
        int value = -1;
        for (int i = 1; i < n; i += 3) {
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(value == i, "picked %d, not %d", value, i);
        }
        for (int i = 0; i < n; ++i) {
            if (i % 3 == 1) continue;
            MPI_Recv(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(value == i, "rest gave %d, not %d", value, i);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

// Posted: an exact receive behind a wildcard one takes only what the first leaves.
static void posted_in_layers() {
    if (rank == 1) {
        int values[4] = {-1, -1, -1, -1};
        MPI_Request requests[4];
        MPI_Irecv(&values[0], 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&values[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                  &requests[1]);
        MPI_Irecv(&values[2], 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &requests[2]);
        MPI_Irecv(&values[3], 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[3]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        say("layers %d %d %d %d", values[0], values[1], values[2], values[3]);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        const int tags[] = {6, 5, 5, 6};
        for (int i = 0; rank == 0 && i < 4; ++i)
            MPI_Send(&i, 1, MPI_INT, 1, tags[i], MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void upper_bound() {
    int *upper = nullptr, flag = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &flag);
    say("tag_ub %d", flag ? *upper : -1);
    for (int tag : {*upper, *upper - 1, 65535, 65536, 1 << 20}) {
        int out = rank, in = -1;
        MPI_Status status;
        MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, tag, &in, 1, MPI_INT,
                     (rank + size - 1) % size, tag, MPI_COMM_WORLD, &status);
        expect(in == (rank + size - 1) % size && status.MPI_TAG == tag, "tag %d", tag);
        MPI_Request request;
        MPI_Isend(&out, 1, MPI_INT, rank ^ 1, tag, MPI_COMM_WORLD, &request);
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        expect(in == (rank ^ 1) && status.MPI_TAG == tag, "wildcard and tag %d: %d", tag,
               status.MPI_TAG);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    tags_in_another_order();
    rest_keeps_its_order();
    posted_in_layers();
    upper_bound();
    return finish();
}
