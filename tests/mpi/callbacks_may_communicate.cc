// SPDX-License-Identifier: MIT
// Attribute callbacks that send and receive: copy in Comm_dup, delete in Comm_free
// and on COMM_SELF within MPI_Finalize; a generalized request's callbacks too.
// run: ranks=2,3 timeout=30
#include "check.h"
using namespace check;

static int exchanges;

static void exchange(int tag) {
    int in = -1, out = rank * 100 + tag, left = (rank + size - 1) % size;
    MPI_Request request;
    MPI_Irecv(&in, 1, MPI_INT, left, tag, MPI_COMM_WORLD, &request);
    MPI_Send(&out, 1, MPI_INT, (rank + 1) % size, tag, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(in == left * 100 + tag, "in a callback: %d", in);
    std::vector<char> big(20000, char(tag)), got(20000);
    MPI_Sendrecv(big.data(), 20000, MPI_BYTE, (rank + 1) % size, tag, got.data(), 20000, MPI_BYTE,
                 left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(got[19999] == char(tag), "large in a callback");
    ++exchanges;
}

static int on_copy(MPI_Comm, int, void *, void *, void *out, int *flag) {
    exchange(1);
    *static_cast<void **>(out) = nullptr;
    *flag = 1;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Comm, int, void *, void *) {
    exchange(2);
    return MPI_SUCCESS;
}

static int in_finalize(MPI_Comm, int, void *, void *) {
    int finalized = -1;
    MPI_Finalized(&finalized);
    for (int tag = 3; tag < 8; ++tag) exchange(tag);
    say("in finalize: finalized %d, %d exchanges", finalized, exchanges);
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int on_comm, on_self;
    MPI_Comm comm, copy;
    MPI_Comm_create_keyval(on_copy, on_delete, &on_comm, nullptr);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, in_finalize, &on_self, nullptr);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_attr(comm, on_comm, nullptr);
    MPI_Comm_dup(comm, &copy);
    say("after dup: %d", exchanges);
    MPI_Comm_free(&copy);
    say("after free: %d", exchanges);
    MPI_Comm_delete_attr(comm, on_comm);
    say("after delete: %d", exchanges);
    MPI_Comm_free(&comm);
    MPI_Request request;
    MPI_Grequest_start(
        [](void *, MPI_Status *status) {
            exchange(20);
            MPI_Status_set_elements(status, MPI_INT, 0);
            MPI_Status_set_cancelled(status, 0);
            return MPI_SUCCESS;
        },
        [](void *) { return exchange(21), MPI_SUCCESS; }, [](void *, int) { return MPI_SUCCESS; },
        nullptr, &request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("after a generalized request: %d", exchanges);
    MPI_Comm_set_attr(MPI_COMM_SELF, on_self, nullptr);
    return finish();
}
