// SPDX-License-Identifier: MIT
// Rsend, Irsend and Rsend_init to receives that are surely posted, itself included.
// run: ranks=2,3 timeout=30
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int bytes : {0, 8, 304, 4032, 4096, 17000, 82000, 1 << 20})
        for (int form = 0; form < 3; ++form) {
            std::vector<Guarded> in;
            std::vector<MPI_Request> receives, sends;
            auto out = made(bytes, rank * 7 + form);
            in.reserve(size);
            for (int from = 0; from < size; ++from) {
                in.emplace_back(bytes + 100);
                MPI_Irecv(in[from].data(), bytes + 100, MPI_BYTE, from, form, MPI_COMM_WORLD,
                          &receives.emplace_back());
            }
            MPI_Barrier(MPI_COMM_WORLD);
            for (int to = 0; to < size; ++to) {
                MPI_Request request = MPI_REQUEST_NULL;
                if (form == 0) MPI_Rsend(out.data(), bytes, MPI_BYTE, to, form, MPI_COMM_WORLD);
                if (form == 1)
                    MPI_Irsend(out.data(), bytes, MPI_BYTE, to, form, MPI_COMM_WORLD, &request);
                if (form == 2) {
                    MPI_Rsend_init(out.data(), bytes, MPI_BYTE, to, form, MPI_COMM_WORLD, &request);
                    MPI_Start(&request);
                }
                sends.push_back(request);
            }
            std::vector<MPI_Status> statuses(size);
            MPI_Waitall(size, receives.data(), statuses.data());
            MPI_Waitall(size, sends.data(), MPI_STATUSES_IGNORE);
            for (int from = 0; from < size; ++from) {
                expect(count_of(statuses[from]) == bytes, "%d bytes", count_of(statuses[from]));
                expect(same(in[from].data(), bytes, from * 7 + form) && in[from].untouched(bytes),
                       "data from %d, form %d, %d bytes", from, form, bytes);
                if (form == 2) MPI_Request_free(&sends[from]);
            }
        }
    return finish();
}
