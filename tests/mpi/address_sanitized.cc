// SPDX-License-Identifier: MIT
// A program built with the address sanitizer starts and runs.
// run: ranks=2 timeout=60 env=ASAN_OPTIONS=detect_leaks=0
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int bytes : {0, 8, 4000, 5000, 300000})
        for (int i = 0; i < 20; ++i) {
            auto out = made(bytes, rank + i);
            std::vector<unsigned char> in(bytes);
            MPI_Sendrecv(out.data(), bytes, MPI_BYTE, 1 - rank, 1, in.data(), bytes, MPI_BYTE,
                         1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect(same(in.data(), bytes, 1 - rank + i), "data of %d", bytes);
        }
    return finish();
}
