// SPDX-License-Identifier: MIT
// Calm steps, then a burst of many times more over one face, calm again: no particle
// is lost, doubled or changed, in both directions at once, three times.
// run: ranks=2,4 timeout=100 long
#include <deque>

#include "check.h"
using namespace check;

struct Particle {
    double position[3], weight;
    std::uint64_t id;
    std::uint64_t cell;
};

static std::uint64_t made_count, made_sum, got_count, got_sum;

static Particle particle(std::uint64_t id) { return {{id * 0.5, id * 0.25, 1.0}, 2.0, id, id * 7}; }

static std::deque<std::vector<Particle>> in_flight;

static void post(int to, long count, int batch, std::vector<MPI_Request> &requests) {
    for (long done = 0; done <= count;) {  // the last one is empty
        auto &list = in_flight.emplace_back();
        for (int i = 0; i < batch && done < count; ++i, ++done) {
            std::uint64_t id = made_count++ * 64 + rank;
            made_sum += id;
            list.push_back(particle(id));
        }
        MPI_Isend(list.data(), int(list.size() * sizeof(Particle)), MPI_BYTE, to, 1, MPI_COMM_WORLD,
                  &requests.emplace_back());
        if (list.empty()) break;
    }
}

static void receive(int from) {
    static std::vector<Particle> in(5000);
    while (true) {
        MPI_Status status;
        MPI_Recv(in.data(), int(in.size() * sizeof(Particle)), MPI_BYTE, from, 1, MPI_COMM_WORLD,
                 &status);
        int n = count_of(status) / int(sizeof(Particle));
        if (n == 0) break;
        for (int i = 0; i < n; ++i) {
            expect(in[i].cell == in[i].id * 7 && in[i].position[0] == in[i].id * 0.5,
                   "a changed particle");
            got_sum += in[i].id;
            ++got_count;
        }
    }
}

static void step(long count, int batch) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    std::vector<MPI_Request> requests;
    in_flight.clear();
    post(right, count, batch, requests);
    post(left, count / 2, batch, requests);
    if (left == right) {  // two streams from one rank: told apart by their ends
        receive(left);
        receive(left);
    } else {
        receive(left);
        receive(right);
    }
    MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    long burst = given("long") ? 1000000 : 100000;
    for (int burst_number = 0; burst_number < 3; ++burst_number) {
        for (int i = 0; i < 100; ++i) step(100, 20);
        step(burst, burst_number == 1 ? 3000 : 60);
        if (burst_number == 2) step(burst / 10, 1);
    }
    for (int i = 0; i < 100; ++i) step(100, 20);
    std::uint64_t mine[4] = {made_count, made_sum, got_count, got_sum}, all[4];
    MPI_Allreduce(mine, all, 4, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect(all[0] == all[2] && all[1] == all[3], "made %llu, got %llu",
           static_cast<unsigned long long>(all[0]), static_cast<unsigned long long>(all[2]));
    say("%llu particles", static_cast<unsigned long long>(all[0]));
    return finish();
}
