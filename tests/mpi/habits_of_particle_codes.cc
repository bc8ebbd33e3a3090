// SPDX-License-Identifier: MIT
// What traced particle codes do: constant and computed tags, two neighbours that are
// one rank, receives far larger than what comes, Test every few particles, Test of
// null, counts by Reduce_scatter, dummies that close posted receives, Rsend, sorting.
// run: ranks=2,4 timeout=60
#include <algorithm>

#include "check.h"
using namespace check;

static int left, right;

// Left and right are told apart by the tag; several messages to one peer per step.
static void tags_by_direction() {
    const int directions = 30, room = 60000;
    std::vector<std::vector<char>> in(directions), out(directions);
    std::vector<MPI_Request> requests(2 * directions);
    for (auto &buffer : in) buffer.resize(room);
    for (int step = 0; step < 50; ++step) {
        for (int d = 0; d < directions; ++d)
            MPI_Irecv(in[d].data(), room, MPI_BYTE, d % 2 ? left : right, 100 + d, MPI_COMM_WORLD,
                      &requests[d]);
        for (int d = 0; d < directions; ++d) {
            int k = (d * 7 + step) % directions, bytes = (k * 997 + step * 313 + rank) % 13000;
            out[k].assign(bytes + 1, char(k));
            MPI_Isend(out[k].data(), bytes, MPI_BYTE, k % 2 ? right : left, 100 + k, MPI_COMM_WORLD,
                      &requests[directions + k]);
        }
        std::vector<MPI_Status> statuses(2 * directions);
        MPI_Waitall(2 * directions, requests.data(), statuses.data());
        for (int d = 0; d < directions; ++d) {
            int from = d % 2 ? left : right, bytes = (d * 997 + step * 313 + from) % 13000;
            expect(count_of(statuses[d]) == bytes && (!bytes || in[d][bytes - 1] == char(d)),
                   "direction %d step %d", d, step);
        }
    }
}

// 10^5 tests: each request every few particles, also when it is null already.
static void polled_exchange() {
    const int steps = 40;
    long tests = 0;
    std::vector<double> in[2], out[2];
    for (auto &buffer : in) buffer.resize(100000);
    for (int step = 0; step < steps; ++step) {
        MPI_Request requests[4];
        MPI_Status statuses[4];
        int done[4] = {};
        for (int side = 0; side < 2; ++side)
            MPI_Irecv(in[side].data(), 100000, MPI_DOUBLE, side ? right : left, side,
                      MPI_COMM_WORLD, &requests[side]);
        for (int side = 0; side < 2; ++side) {
            out[side].assign(step * 50 + side + 1, rank + step);
            MPI_Isend(out[side].data(), int(out[side].size()), MPI_DOUBLE, side ? left : right,
                      side, MPI_COMM_WORLD, &requests[2 + side]);
        }
        for (int i = 0; i < 625 || done[0] + done[1] + done[2] + done[3] < 4; ++i)
            for (int k = 0; k < 4; ++k) {
                int flag = 0;
                MPI_Status status;
                MPI_Test(&requests[k], &flag, &status);
                ++tests;
                if (flag && !done[k]) statuses[k] = status;
                if (flag) done[k] = 1;
            }
        for (int side = 0; side < 2; ++side)
            expect(count_of(statuses[side], MPI_DOUBLE) == step * 50 + side + 1 &&
                       in[side][0] == (side ? right : left) + step,
                   "polled step %d", step);
    }
    expect(tests >= 100000, "%ld tests", tests);
}

// How many messages come is told by Reduce_scatter; who sends is not.
static void counted_by_reduce_scatter() {
    for (int step = 0; step < 100; ++step) {
        Random random(step * 64 + rank + 1);
        std::vector<int> targets(size);
        for (int &target : targets) target = random.below(4);
        targets[rank] = 0;
        int coming = 0;
        MPI_Reduce_scatter_block(targets.data(), &coming, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        std::vector<MPI_Request> sends;
        std::vector<std::vector<int>> out;
        for (int to = 0; to < size; ++to)
            for (int i = 0; i < targets[to]; ++i) {
                out.emplace_back(1 + (step * 13 + to) % 2000, rank);
                MPI_Isend(out.back().data(), int(out.back().size()), MPI_INT, to, 77,
                          MPI_COMM_WORLD, &sends.emplace_back());
            }
        std::vector<int> in(2001), from(size, 0);
        for (int i = 0; i < coming; ++i) {
            MPI_Status status;
            MPI_Recv(in.data(), 2001, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &status);
            expect(count_of(status, MPI_INT) == 1 + (step * 13 + rank) % 2000 &&
                       in[0] == status.MPI_SOURCE,
                   "counted");
            ++from[status.MPI_SOURCE];
        }
        MPI_Waitall(int(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// Each posted receive is closed by a dummy or an empty message.
static void closed_by_dummies() {
    for (int step = 0; step < 200; ++step) {
        int in[10], real = (step * 3 + left) % 9;
        MPI_Request requests[10];
        for (int i = 0; i < 10; ++i)
            MPI_Irecv(&in[i], 1, MPI_INT, left, 8, MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < 10; ++i) {
            int mine = (step * 3 + rank) % 9;
            if (i < mine) MPI_Send(&step, 1, MPI_INT, right, 8, MPI_COMM_WORLD);
            else
                MPI_Send(nullptr, 0, MPI_INT, right, 8, MPI_COMM_WORLD);
        }
        int full = 0, index;
        for (int i = 0; i < 10; ++i) {
            MPI_Status status;
            MPI_Waitany(10, requests, &index, &status);
            full += count_of(status, MPI_INT);
        }
        expect(full == real, "step %d: %d real of %d", step, full, real);
    }
}

// Ready sends after a barrier; contributions sorted by source give one sum.
static void sorted_sums() {
    double total = 0;
    for (int step = 0; step < 100; ++step) {
        std::vector<double> in(size), out(1, 1.0 / (rank + 3 + step));
        std::vector<std::pair<int, double>> parts;
        std::vector<MPI_Request> requests(size);
        for (int i = 0; i < size; ++i)
            MPI_Irecv(&in[i], 1, MPI_DOUBLE, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &requests[i]);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int to = 0; to < size; ++to)
            MPI_Rsend(out.data(), 1, MPI_DOUBLE, to, 9, MPI_COMM_WORLD);
        for (int done = 0; done < size;) {
            int count;
            std::vector<int> indices(size);
            std::vector<MPI_Status> statuses(size);
            MPI_Waitsome(size, requests.data(), &count, indices.data(), statuses.data());
            for (int i = 0; i < count; ++i)
                parts.emplace_back(statuses[i].MPI_SOURCE, in[indices[i]]);
            done += count;
        }
        std::sort(parts.begin(), parts.end());
        for (auto &part : parts) total = total * 0.99 + part.second;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    say("sum %.17g", total);
}

// Iprobe of one source and tag, Get_count, Recv, as often as there is something.
static void probed_and_received() {
    int got = 0;
    for (int i = 0; i < 300; ++i) {
        std::vector<int> out(i % 40 * 20 + 1, i);
        MPI_Send(out.data(), int(out.size()), MPI_INT, right, 11, MPI_COMM_WORLD);
        for (int flag = 1; flag || (i == 299 && got < 300);) {
            MPI_Status status;
            MPI_Iprobe(left, 11, MPI_COMM_WORLD, &flag, &status);
            if (!flag) continue;
            std::vector<int> in(count_of(status, MPI_INT));
            MPI_Recv(in.data(), int(in.size()), MPI_INT, left, 11, MPI_COMM_WORLD, &status);
            expect(in[0] == got && int(in.size()) == got % 40 * 20 + 1, "probed %d", got);
            ++got;
        }
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    for (auto part : {tags_by_direction, polled_exchange, counted_by_reduce_scatter,
                      closed_by_dummies, sorted_sums, probed_and_received}) {
        part();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return finish();
}
