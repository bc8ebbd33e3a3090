// SPDX-License-Identifier: MIT
// All ranks exchange and then exit without MPI_Finalize; or abort; or are killed.
// run: ranks=2 timeout=30 exit=same args=exit0
// run: ranks=2 timeout=30 exit=same args=exit3
// run: ranks=2 timeout=30 exit=same args=abort output=ignore
// run: ranks=2 timeout=30 exit=same args=abort-self output=ignore
// run: ranks=2 timeout=30 exit=nonzero args=kill output=ignore leaves=nothing
// run: ranks=4 timeout=30 exit=nonzero args=kill-one output=ignore leaves=nothing
// run: ranks=2 timeout=30 exit=nonzero args=segv output=ignore leaves=nothing
#include <csignal>

#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int i = 0; i < 100; ++i) {
        std::vector<int> out(1 + i * 20, rank), in(1 + i * 20, -1);
        int peer = rank ^ 1, n = int(out.size());
        MPI_Sendrecv(out.data(), n, MPI_INT, peer, 1, in.data(), n, MPI_INT, peer, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(in[n - 1] == peer, "exchange %d", i);
    }
    verdict();
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(300000);  // the first to exit ends the others: let them print
    if (given("exit0")) std::exit(0);
    if (given("exit3")) std::exit(3);
    if (given("abort") && rank == 0) MPI_Abort(MPI_COMM_WORLD, 17);
    if (given("abort-self")) MPI_Abort(MPI_COMM_SELF, 18);
    if (given("kill") || (given("kill-one") && rank == 1)) raise(SIGKILL);
    if (given("segv") && rank == 1) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    int never;
    MPI_Recv(&never, 1, MPI_INT, rank ^ 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return finish();
}
