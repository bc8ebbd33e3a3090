// SPDX-License-Identifier: MIT
// NBX: Issend to random neighbours, Iprobe for whatever comes, Ibarrier once all own
// sends are matched. Nobody leaves a round with a message of it unreceived (two tags
// in turn, as a rank may begin the next round early).
// run: ranks=2,4 timeout=60 long
#include "check.h"
using namespace check;

static long round_of(int round, MPI_Comm comm, bool testall) {
    // Who sends to whom is known to all: what each must get is, too.
    Random shared(round + 1);
    std::vector<int> expected(size, 0);
    std::vector<std::vector<int>> data;
    std::vector<MPI_Request> sends;
    for (int from = 0; from < size; ++from) {
        int n = shared.below(size + 2);
        for (int i = 0; i < n; ++i) {
            int to = shared.below(size), ints = shared.once_in(10) ? 3000 : shared.below(40);
            if (to == rank) ++expected[from];
            if (from != rank) continue;
            data.push_back(std::vector<int>(ints + 2, round));
            data.back()[1] = ints;
            sends.emplace_back();
        }
    }
    shared = Random(round + 1);
    for (int from = 0, k = 0; from < size; ++from) {
        int n = shared.below(size + 2);
        for (int i = 0; i < n; ++i) {
            int to = shared.below(size);
            if (!shared.once_in(10)) shared.below(40);
            if (from != rank) continue;
            MPI_Issend(data[k].data(), int(data[k].size()), MPI_INT, to, 6 + round % 2, comm,
                       &sends[k]);
            ++k;
        }
    }
    MPI_Request barrier = MPI_REQUEST_NULL;
    std::vector<int> got(size, 0);
    long received = 0;
    for (bool in_barrier = false;;) {
        int flag = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, 6 + round % 2, comm, &flag, &status);
        if (flag) {
            std::vector<int> in(count_of(status, MPI_INT));
            MPI_Recv(in.data(), int(in.size()), MPI_INT, status.MPI_SOURCE, 6 + round % 2, comm,
                     MPI_STATUS_IGNORE);
            expect(in[0] == round && in[1] == int(in.size()) - 2, "a message of round %d in %d",
                   in[0], round);
            ++got[status.MPI_SOURCE];
            ++received;
        }
        if (in_barrier) {
            MPI_Test(&barrier, &flag, MPI_STATUS_IGNORE);
            if (flag) break;
        } else {
            int n = int(sends.size()), left = n;
            flag = 1;
            if (testall) MPI_Testall(n, sends.data(), &flag, MPI_STATUSES_IGNORE);
            for (int i = 0; !testall && i < n; ++i) {
                int one = 0;
                MPI_Test(&sends[i], &one, MPI_STATUS_IGNORE);
                left -= one;
            }
            if (testall ? flag : left == 0) {
                MPI_Ibarrier(comm, &barrier);
                in_barrier = true;
            }
        }
    }
    for (int from = 0; from < size; ++from)
        expect(got[from] == expected[from], "round %d: %d of %d from %d", round, got[from],
               expected[from], from);
    return received;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    long received = 0;
    int rounds = given("long") ? 10000 : 2000;
    for (int round = 0; round < rounds; ++round) received += round_of(round, comm, round % 2);
    say("%ld messages in %d rounds", received, rounds);
    MPI_Comm_free(&comm);
    return finish();
}
