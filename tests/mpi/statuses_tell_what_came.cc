// SPDX-License-Identifier: MIT
// Every field of the status of every receiving call; MPI_ERROR left alone where
// the real MPI leaves it; statuses ignored; Request_get_status does not complete.
// run: ranks=2 timeout=30
#include "check.h"
using namespace check;

static void show(const char *what, const MPI_Status &status, MPI_Datatype type = MPI_INT) {
    say("%s: %s", what, in_words(status, type).c_str());
}

static void receives(int n, MPI_Datatype type) {
    std::vector<double> in(n + 5);
    MPI_Request request;
    MPI_Status status = fresh_status();
    int flag = 0, index = -1, count = 0, where[1];
    auto post = [&] {
        status = fresh_status();
        MPI_Irecv(in.data(), n + 5, type, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    };
    MPI_Recv(in.data(), n + 5, type, 0, 1, MPI_COMM_WORLD, &status);
    show("recv", status, type);
    post();
    MPI_Wait(&request, &status);
    show("wait", status, type);
    post();
    test_until_done(&request, &status);
    show("test", status, type);
    post();
    MPI_Waitall(1, &request, &status);
    show("waitall", status, type);
    post();
    for (flag = 0; !flag;) MPI_Testall(1, &request, &flag, &status);
    show("testall", status, type);
    post();
    MPI_Waitany(1, &request, &index, &status);
    show("waitany", status, type);
    post();
    for (flag = 0; !flag;) MPI_Testany(1, &request, &index, &flag, &status);
    show("testany", status, type);
    post();
    MPI_Waitsome(1, &request, &count, where, &status);
    show("waitsome", status, type);
    post();
    for (count = 0; !count;) MPI_Testsome(1, &request, &count, where, &status);
    show("testsome", status, type);
    post();
    for (flag = 0; !flag;) MPI_Request_get_status(request, &flag, &status);
    expect(request != MPI_REQUEST_NULL, "get_status freed the request");
    show("get_status", status, type);
    MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    expect(flag, "get_status twice");
    MPI_Wait(&request, &status);
    show("wait after get_status", status, type);
    status = fresh_status();
    MPI_Sendrecv(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0, in.data(), n + 5, type, 0, 1,
                 MPI_COMM_WORLD, &status);
    show("sendrecv", status, type);
    status = fresh_status();
    MPI_Sendrecv_replace(in.data(), n, type, MPI_PROC_NULL, 0, 0, 1, MPI_COMM_WORLD, &status);
    show("sendrecv_replace", status, type);
    MPI_Recv(in.data(), n + 5, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    post();
    MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    // In other units: a count of bytes, and of something that does not divide it.
    MPI_Recv(in.data(), n + 5, type, 0, 1, MPI_COMM_WORLD, &status);
    MPI_Datatype seven;
    MPI_Type_contiguous(7, MPI_BYTE, &seven);
    MPI_Type_commit(&seven);
    MPI_Count big = -1;
    MPI_Get_elements_x(&status, type, &big);
    int elements = -1;
    MPI_Get_elements(&status, seven, &elements);
    say("bytes %d, sevens %s, of which bytes %d, elements_x %lld", count_of(status),
        in_words(count_of(status, seven)).c_str(), elements, static_cast<long long>(big));
    MPI_Type_free(&seven);
}

// Sends: only what the standard defines.
static void sends(int n, MPI_Datatype type) {
    std::vector<double> out(n + 1);
    for (int i = 0; i < 15; ++i) {
        MPI_Request request;
        MPI_Status status = fresh_status();
        MPI_Isend(out.data(), n, type, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, &status);
        int cancelled = -1;
        MPI_Test_cancelled(&status, &cancelled);
        expect(!cancelled, "a sent message is cancelled");
        if (i == 0) say("send: error %d", status.MPI_ERROR);
    }
}

// MPI_ERROR in arrays, on success.
static void arrays() {
    int value = 1, in[3];
    MPI_Request requests[3];
    MPI_Status statuses[3] = {fresh_status(), fresh_status(), fresh_status()};
    for (int i = 0; i < 3; ++i)
        MPI_Irecv(&in[i], 1, MPI_INT, 1 - rank, 5 + i, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < 3; ++i) MPI_Send(&value, 1, MPI_INT, 1 - rank, 5 + i, MPI_COMM_WORLD);
    MPI_Waitall(3, requests, statuses);
    for (auto &status : statuses) show("array", status);
    // Status_set_* on a status of the user's own
    MPI_Status own = fresh_status();
    MPI_Status_set_elements(&own, MPI_DOUBLE, 4);
    MPI_Status_set_cancelled(&own, 1);
    show("own", own, MPI_DOUBLE);
    MPI_Fint fortran[64];
    MPI_Status back;
    MPI_Status_c2f(&statuses[1], fortran);
    MPI_Status_f2c(fortran, &back);
    show("through fortran", back);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int n : {0, 1, 3, 600, 20000})
        for (MPI_Datatype type : {MPI_INT, MPI_DOUBLE}) {
            if (rank == 0) sends(n, type);
            else
                receives(n, type);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    arrays();
    return finish();
}
