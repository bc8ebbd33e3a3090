// SPDX-License-Identifier: MIT
// A message of more than INT_MAX bytes, with its counts.
// run: ranks=2 timeout=60 long-only long
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    const int n = 2100, mebi = 1 << 20;
    MPI_Datatype type;
    MPI_Type_contiguous(mebi, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    std::size_t bytes = std::size_t(n) * mebi;
    auto *data = static_cast<unsigned char *>(std::calloc(bytes, 1));
    if (rank == 0) {
        data[bytes - 1] = 42;
        MPI_Send(data, n, type, 1, 1, MPI_COMM_WORLD);
    } else {
        MPI_Status status;
        MPI_Recv(data, n, type, 0, 1, MPI_COMM_WORLD, &status);
        MPI_Count elements = 0;
        MPI_Get_elements_x(&status, type, &elements);
        say("count %d, bytes %s, elements_x %lld, last %d", count_of(status, type),
            in_words(count_of(status)).c_str(), static_cast<long long>(elements), data[bytes - 1]);
    }
    std::free(data);
    MPI_Type_free(&type);
    return finish();
}
