// SPDX-License-Identifier: MIT
// Communicators that the MPI library makes inside MPI_File_open and MPI_Win_create
// are invisible: files and windows work while the program's own messages are pending.
// run: ranks=2,4 timeout=60
#include "check.h"
using namespace check;

static int left, right;

struct Pending {  // receives posted, sends outstanding, around a foreign call
    int bytes;
    std::vector<unsigned char> out;
    Guarded in;
    MPI_Request requests[2];
    explicit Pending(int n) : bytes(n), out(made(n, rank + n)), in(n) {
        MPI_Irecv(in.data(), n, MPI_BYTE, left, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out.data(), n, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[1]);
    }
    void end(const char *what) {
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        expect(same(in.data(), bytes, left + bytes) && in.intact(), "around %s, %d bytes", what,
               bytes);
    }
};

static void file(int bytes) {
    char name[] = "storm-file-test.tmp";
    MPI_File handle;
    Pending open(bytes);
    int error = MPI_File_open(MPI_COMM_WORLD, name,
                              MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                              MPI_INFO_NULL, &handle);
    open.end("open");
    if (!expect(error == MPI_SUCCESS, "open")) return;
    std::vector<int> out(10000, rank), in(10000, -1);
    MPI_Datatype stripes;
    MPI_Type_vector(100, 100, 100 * size, MPI_INT, &stripes);
    MPI_Type_commit(&stripes);
    Pending write(bytes);
    MPI_File_set_view(handle, rank * 100 * sizeof(int), MPI_INT, stripes, "native", MPI_INFO_NULL);
    MPI_File_write_at_all(handle, 0, out.data(), 10000, MPI_INT, MPI_STATUS_IGNORE);
    write.end("write_at_all");
    Pending read(bytes);
    MPI_Request request;
    MPI_File_iread_at(handle, 0, in.data(), 10000, MPI_INT, &request);
    MPI_Status status;
    MPI_Wait(&request, &status);
    expect(in == out && count_of(status, MPI_INT) == 10000, "read back");
    read.end("iread");
    Pending close(bytes);
    MPI_File_close(&handle);
    close.end("close");
    MPI_Type_free(&stripes);
}

static void window(int bytes) {
    std::vector<int> memory(100, -1), out(100, rank);
    MPI_Win win;
    Pending create(bytes);
    MPI_Win_create(memory.data(), 400, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    create.end("win_create");
    for (int i = 0; i < 10; ++i) {
        Pending fence(bytes);
        MPI_Win_fence(0, win);
        MPI_Put(out.data(), 100, MPI_INT, right, 0, 100, MPI_INT, win);
        MPI_Win_fence(0, win);
        fence.end("fence");
        expect(memory[99] == left, "put");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    Pending locked(bytes);
    int got = -1;
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
    MPI_Get(&got, 1, MPI_INT, right, 0, 1, MPI_INT, win);
    MPI_Win_unlock(right, win);
    locked.end("lock");
    expect(got == rank, "get %d", got);
    // A request-based operation in one array with ours.
    MPI_Win_lock_all(0, win);
    MPI_Request requests[3];
    int value = -1;
    MPI_Irecv(&value, 1, MPI_INT, left, 4, MPI_COMM_WORLD, &requests[0]);
    MPI_Rput(out.data(), 1, MPI_INT, right, 5, 1, MPI_INT, win, &requests[1]);
    MPI_Isend(&rank, 1, MPI_INT, right, 4, MPI_COMM_WORLD, &requests[2]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Win_unlock_all(win);
    expect(value == left, "beside rput: %d", value);
    Pending freed(bytes);
    MPI_Win_free(&win);
    freed.end("win_free");
}

int main(int argc, char **argv) {
    begin(argc, argv);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    for (int bytes : {8, 4000, 100000}) {
        file(bytes);
        window(bytes);
    }
    return finish();
}
