// SPDX-License-Identifier: MIT
// Sendrecv and Sendrecv_replace along chains and rings; messages to itself in every
// mode, posted before and after; PROC_NULL in every call.
// run: ranks=1,2,3 timeout=30
#include "check.h"
using namespace check;

static const int sizes[] = {0, 4, 304, 4032, 4096, 17000, 300000};

static void chain(int left, int right, const char *what) {
    for (int bytes : sizes) {
        auto out = made(bytes, rank + 1), replaced = made(bytes, rank + 1);
        Guarded in(bytes);
        MPI_Status status = fresh_status();
        MPI_Sendrecv(out.data(), bytes, MPI_BYTE, right, 1, in.data(), bytes, MPI_BYTE, left, 1,
                     MPI_COMM_WORLD, &status);
        say("%s sendrecv: %s", what, in_words(status, MPI_BYTE).c_str());
        bool nobody = left == MPI_PROC_NULL;
        expect(nobody ? in.untouched(0) : same(in.data(), bytes, left + 1) && in.intact(),
               "%s: %d bytes", what, bytes);
        status = fresh_status();
        MPI_Sendrecv_replace(replaced.data(), bytes, MPI_BYTE, right, 2, left, MPI_ANY_TAG,
                             MPI_COMM_WORLD, &status);
        say("%s replace: %s", what, in_words(status, MPI_BYTE).c_str());
        expect(same(replaced.data(), bytes, (nobody ? rank : left) + 1), "%s replace: %d bytes",
               what, bytes);
        // Other sizes and types on the two sides.
        std::vector<int> ints(bytes / 4 + 1, rank), others(bytes / 4 + 1, -1);
        MPI_Sendrecv(ints.data(), bytes / 4, MPI_INT, right, 3, others.data(), bytes / 4 * 4,
                     MPI_BYTE, left, 3, MPI_COMM_WORLD, &status);
        if (bytes && !nobody) expect(others[bytes / 4 - 1] == left, "%s: int to byte", what);
    }
}

static void to_itself(int bytes, int mode, bool posted) {
    auto out = made(bytes, mode);
    Guarded in(bytes);
    MPI_Request receive = MPI_REQUEST_NULL, send = MPI_REQUEST_NULL;
    MPI_Status status = fresh_status();
    MPI_Comm self = bytes % 3 ? MPI_COMM_SELF : MPI_COMM_WORLD;
    int me = self == MPI_COMM_SELF ? 0 : rank;
    if (posted)
        MPI_Irecv(in.data(), bytes, MPI_BYTE, mode % 2 ? MPI_ANY_SOURCE : me, MPI_ANY_TAG, self,
                  &receive);
    switch (mode) {
        case 0: MPI_Isend(out.data(), bytes, MPI_BYTE, me, 4, self, &send); break;
        case 1: MPI_Issend(out.data(), bytes, MPI_BYTE, me, 4, self, &send); break;
        case 2: MPI_Ibsend(out.data(), bytes, MPI_BYTE, me, 4, self, &send); break;
        case 3: MPI_Send_init(out.data(), bytes, MPI_BYTE, me, 4, self, &send); break;
        case 4: MPI_Ssend_init(out.data(), bytes, MPI_BYTE, me, 4, self, &send); break;
        case 5: MPI_Irsend(out.data(), bytes, MPI_BYTE, me, 4, self, &send); break;
        case 6: MPI_Send(out.data(), bytes, MPI_BYTE, me, 4, self); break;
        case 7: MPI_Ssend(out.data(), bytes, MPI_BYTE, me, 4, self); break;
        case 8: MPI_Rsend(out.data(), bytes, MPI_BYTE, me, 4, self); break;
        case 9: MPI_Bsend(out.data(), bytes, MPI_BYTE, me, 4, self); break;
    }
    if (mode == 3 || mode == 4) MPI_Start(&send);
    if (!posted) {
        if (mode == 1 || mode == 4) {
            int flag = 0;
            for (int i = 0; i < 100 && !flag; ++i)
                MPI_Request_get_status(send, &flag, MPI_STATUS_IGNORE);
            expect(!flag, "synchronous and complete without a receive");
        }
        MPI_Probe(MPI_ANY_SOURCE, 4, self, &status);
        expect(count_of(status) == bytes && status.MPI_SOURCE == me, "probe of itself");
        MPI_Irecv(in.data(), bytes, MPI_BYTE, me, 4, self, &receive);
    }
    MPI_Wait(&receive, &status);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    if (send != MPI_REQUEST_NULL) MPI_Request_free(&send);
    expect(count_of(status) == bytes && same(in.data(), bytes, mode) && in.intact(),
           "itself, mode %d, %d bytes", mode, bytes);
}

static void nobody() {
    int value = 6;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request;
    MPI_Status status;
    MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 1, world);
    MPI_Ssend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, world);
    MPI_Bsend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, world);
    MPI_Rsend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, world);
    using Send = int (*)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    for (Send send : {Send(MPI_Isend), Send(MPI_Issend), Send(MPI_Ibsend), Send(MPI_Irsend)}) {
        send(&value, 1, MPI_INT, MPI_PROC_NULL, 1, world, &request);
        int flag = 0;
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        expect(flag && request == MPI_REQUEST_NULL, "send to nobody is not complete at once");
    }
    status = fresh_status();
    MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, world, &status);
    say("recv: %s", in_words(status, MPI_INT).c_str());
    status = fresh_status();
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, world, &request);
    MPI_Wait(&request, &status);
    say("irecv: %s", in_words(status, MPI_INT).c_str());
    status = fresh_status();
    MPI_Probe(MPI_PROC_NULL, 1, world, &status);
    say("probe: %s", in_words(status, MPI_INT).c_str());
    int flag = 0;
    status = fresh_status();
    MPI_Iprobe(MPI_PROC_NULL, MPI_ANY_TAG, world, &flag, &status);
    say("iprobe: %d %s", flag, in_words(status, MPI_INT).c_str());
    expect(value == 6, "value changed");
}

int main(int argc, char **argv) {
    begin(argc, argv);
    std::vector<char> space(2 << 20);
    MPI_Buffer_attach(space.data(), int(space.size()));
    chain(rank ? rank - 1 : MPI_PROC_NULL, rank < size - 1 ? rank + 1 : MPI_PROC_NULL, "chain");
    chain((rank + size - 1) % size, (rank + 1) % size, "ring");
    chain(rank, rank, "itself");
    for (int bytes : sizes)
        for (int mode = 0; mode < 10; ++mode) {
            to_itself(bytes, mode, true);
            if (mode < 5) to_itself(bytes, mode, false);
        }
    nobody();
    void *address;
    int bytes;
    MPI_Buffer_detach(&address, &bytes);
    return finish();
}
