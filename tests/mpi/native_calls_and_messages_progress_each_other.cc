// SPDX-License-Identifier: MIT
// A rank that sits in a blocking native call still receives: one side waits for its
// send before it enters the call, the other enters first. And native nonblocking
// operations move in loops that test messages.
// run: ranks=2 timeout=60
#include <functional>

#include "check.h"
using namespace check;

static MPI_Comm other, inter;
static MPI_Win win;
static MPI_File file;
static int memory[16];

struct Native {
    const char *name;
    std::function<void()> call;
};

static std::vector<Native> natives() {
    static int in[64], out[64];
    MPI_Comm world = MPI_COMM_WORLD;
    return {
        {"barrier", [=] { MPI_Barrier(world); }},
        {"barrier on another", [=] { MPI_Barrier(other); }},
        {"allreduce", [=] { MPI_Allreduce(out, in, 4, MPI_INT, MPI_SUM, world); }},
        {"bcast", [=] { MPI_Bcast(in, 4, MPI_INT, 0, world); }},
        {"reduce", [=] { MPI_Reduce(out, in, 4, MPI_INT, MPI_SUM, 1, world); }},
        {"allgather", [=] { MPI_Allgather(out, 4, MPI_INT, in, 4, MPI_INT, other); }},
        {"alltoall", [=] { MPI_Alltoall(out, 4, MPI_INT, in, 4, MPI_INT, world); }},
        {"scan",
         [=] {
             MPI_Scan(out, in, 1, MPI_INT, MPI_SUM, world);
             MPI_Barrier(world);
         }},
        {"reduce_scatter", [=] { MPI_Reduce_scatter_block(out, in, 2, MPI_INT, MPI_SUM, world); }},
        {"fence", [=] { MPI_Win_fence(0, win); }},
        {"write_at_all",
         [=] { MPI_File_write_at_all(file, rank * 64, out, 16, MPI_INT, MPI_STATUS_IGNORE); }},
        {"comm_dup",
         [=] {
             MPI_Comm c;
             MPI_Comm_dup(world, &c);
             MPI_Comm_free(&c);
         }},
        {"comm_split",
         [=] {
             MPI_Comm c;
             MPI_Comm_split(world, 0, 0, &c);
             MPI_Comm_free(&c);
         }},
        {"ibarrier and wait",
         [=] {
             MPI_Request r;
             MPI_Ibarrier(world, &r);
             MPI_Wait(&r, MPI_STATUS_IGNORE);
         }},
        {"native receive",
         [=] {
             if (rank == 0) MPI_Send(out, 1, MPI_INT, 0, 3, inter);
             else
                 MPI_Recv(in, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE);
         }},
        {"native probe",
         [=] {
             if (rank == 0) MPI_Send(out, 1, MPI_INT, 0, 3, inter);
             else
                 MPI_Probe(0, 3, inter, MPI_STATUS_IGNORE),
                     MPI_Recv(in, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE);
         }},
        {"receive",
         [=] {
             if (rank == 0) MPI_Send(out, 1, MPI_INT, 1, 4, other);
             else
                 MPI_Recv(in, 1, MPI_INT, 0, 4, other, MPI_STATUS_IGNORE);
         }},
        {"probe",
         [=] {
             if (rank == 0) MPI_Send(out, 1, MPI_INT, 1, 4, other);
             else
                 MPI_Probe(0, 4, other, MPI_STATUS_IGNORE),
                     MPI_Recv(in, 1, MPI_INT, 0, 4, other, MPI_STATUS_IGNORE);
         }},
        {"ssend",
         [=] {
             if (rank == 1) MPI_Ssend(out, 1, MPI_INT, 0, 5, other);
             else
                 MPI_Recv(in, 1, MPI_INT, 1, 5, other, MPI_STATUS_IGNORE);
         }},
    };
}

// 0: waits for its sends and then calls. 1: has posted, calls, and waits later.
static void while_it_sits_there(const Native &native, int bytes) {
    const int n = 3;
    std::vector<MPI_Request> requests(n);
    std::vector<std::vector<unsigned char>> data;
    for (int i = 0; i < n; ++i) {
        data.push_back(made(bytes, rank == 0 ? i : 99));
        if (rank == 1)
            MPI_Irecv(data[i].data(), bytes, MPI_BYTE, i ? 0 : MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
                      &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < n; ++i) {
        MPI_Issend(data[i].data(), bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
        if (i == n - 1) MPI_Waitall(n, requests.data(), MPI_STATUSES_IGNORE);
    }
    native.call();
    MPI_Waitall(n, requests.data(), MPI_STATUSES_IGNORE);
    for (int i = 0; rank == 1 && i < n; ++i)
        expect(same(data[i].data(), bytes, i), "%s: data", native.name);
}

// A plain large Isend; Wait; Barrier, both directions at once.
static void both_ways(int bytes) {
    auto out = made(bytes, rank);
    std::vector<unsigned char> in(bytes);
    MPI_Request send, receive;
    MPI_Irecv(in.data(), bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &receive);
    MPI_Isend(out.data(), bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &send);
    if (rank == 0) MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    expect(same(in.data(), bytes, 1 - rank), "both ways, %d bytes", bytes);
}

// A loop that tests particle receives and an Iallreduce; it ends when both move.
static void beside_iallreduce(int bytes, int messages) {
    std::vector<unsigned char> in(bytes), out = made(bytes, 7);
    MPI_Request receive, send = MPI_REQUEST_NULL, reduction = MPI_REQUEST_NULL;
    int got = 0, sent = 0, mine = 0, sum = 0, rounds = 0;
    MPI_Irecv(in.data(), bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &receive);
    while (true) {
        int flag = 0;
        if (send == MPI_REQUEST_NULL && sent < messages) {
            MPI_Isend(out.data(), bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &send);
            ++sent;
        }
        MPI_Test(&send, &flag, MPI_STATUS_IGNORE);
        if (got < messages) MPI_Test(&receive, &flag, MPI_STATUS_IGNORE);
        if (got < messages && flag && ++got < messages)
            MPI_Irecv(in.data(), bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &receive);
        MPI_Test(&reduction, &flag, MPI_STATUS_IGNORE);
        if (!flag) continue;
        if (rounds++ && sum == 2 * messages) break;
        mine = got;
        MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &reduction);
    }
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    expect(got == messages && same(in.data(), bytes, 7), "beside iallreduce: %d of %d", got,
           messages);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm self;
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &self);
    MPI_Intercomm_create(self, 0, MPI_COMM_WORLD, 1 - rank, 1, &inter);
    MPI_Win_create(memory, sizeof memory, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_File_open(MPI_COMM_WORLD, "storm-progress-test.tmp",
                  MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    for (auto &native : natives())
        for (int bytes : {4, 4000, 100000, 3 << 20}) while_it_sits_there(native, bytes);
    for (int bytes : {4, 5000, 100000, 8 << 20})
        for (int i = 0; i < 5; ++i) both_ways(bytes);
    for (int bytes : {8, 3000, 20000, 200000}) beside_iallreduce(bytes, bytes > 100000 ? 50 : 500);
    say("%d native calls", int(natives().size()));
    MPI_File_close(&file);
    MPI_Win_free(&win);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&self);
    MPI_Comm_free(&other);
    return finish();
}
