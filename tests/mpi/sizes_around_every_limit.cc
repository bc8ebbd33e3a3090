// SPDX-License-Identifier: MIT
// Messages whose size is one below, at and one above every likely limit arrive
// whole, posted or unexpected, and leave the bytes around them alone.
// run: ranks=2 timeout=60
#include "check.h"
using namespace check;

static std::vector<int> sizes() {
    std::vector<int> all = {0, 1, 2, 3};
    for (int limit : {8,     16,    32,     40,     48,     64,      128,    256,   512,
                      1024,  2048,  4032,   4064,   4080,   4096,    8192,   16384, 32768,
                      65000, 65536, 131072, 262144, 524288, 1 << 20, 2 << 20})
        for (int shift : {-17, -16, -15, -1, 0, 1, 15, 16, 17})
            if (limit + shift > 3) all.push_back(limit + shift);
    return all;
}

static void exchange(int bytes, bool posted, int mode) {
    const int tag = bytes % 23;
    if (rank == 0) {
        auto data = made(bytes, bytes);
        MPI_Request request = MPI_REQUEST_NULL;
        if (posted) MPI_Barrier(MPI_COMM_WORLD);
        if (mode == 0) MPI_Isend(data.data(), bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request);
        else if (mode == 1)
            MPI_Issend(data.data(), bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request);
        else
            MPI_Ibsend(data.data(), bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request);
        if (!posted) MPI_Barrier(MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        Guarded buffer(bytes + 1);
        MPI_Request request;
        MPI_Status status;
        if (!posted) MPI_Barrier(MPI_COMM_WORLD);
        MPI_Irecv(buffer.data(), bytes + (bytes % 2), MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request);
        if (posted) MPI_Barrier(MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        expect(count_of(status) == bytes, "%d bytes came as %d", bytes, count_of(status));
        expect(same(buffer.data(), bytes, bytes), "data of %d bytes", bytes);
        expect(buffer.untouched(bytes), "bytes after %d", bytes);
    }
}

int main(int argc, char **argv) {
    begin(argc, argv);
    std::vector<char> attached(8 << 20);
    MPI_Buffer_attach(attached.data(), int(attached.size()));
    for (int bytes : sizes())
        for (bool posted : {true, false})
            for (int mode = 0; mode < 3; ++mode) exchange(bytes, posted, mode);
    void *address;
    int attached_bytes;
    MPI_Buffer_detach(&address, &attached_bytes);
    say("%d sizes", int(sizes().size()));
    return finish();
}
