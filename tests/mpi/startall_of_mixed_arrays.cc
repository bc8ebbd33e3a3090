// SPDX-License-Identifier: MIT
// One array of persistent requests of every mode and kind: on routed communicators, to
// oneself, to nobody and over an intercommunicator, started by one MPI_Startall or one
// by one, completed by every array call, restarted, some freed while active.
// run: ranks=2,4 timeout=60
#include "check.h"
using namespace check;

enum Kind { standard, synchronous, buffered, ready, large, self, nobody, across, kinds };
enum Call { waitall, testall, waitany, testany, waitsome, testsome, calls };

static MPI_Comm inter, copy;
static std::vector<char> attached(1 << 20);

struct Pair {
    std::vector<int> in, out;
    int from_value = 0;  // whose data comes
};

static void make(Kind kind, Pair &pair, MPI_Request &receive, MPI_Request &send) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size, n = kind == large ? 30000 : 40;
    MPI_Comm comm = kind % 2 ? copy : MPI_COMM_WORLD;
    if (kind == self) left = right = rank;
    if (kind == nobody) left = right = MPI_PROC_NULL;
    if (kind == across) comm = inter, left = right = rank / 2;
    pair.in.assign(n, -1), pair.out.assign(n, 0);
    pair.from_value = kind == across ? rank ^ 1 : left;
    void *out = pair.out.data();
    MPI_Recv_init(pair.in.data(), n, MPI_INT, left, kind, comm, &receive);
    if (kind == synchronous) MPI_Ssend_init(out, n, MPI_INT, right, kind, comm, &send);
    else if (kind == buffered)
        MPI_Bsend_init(out, n, MPI_INT, right, kind, comm, &send);
    else if (kind == ready)
        MPI_Rsend_init(out, n, MPI_INT, right, kind, comm, &send);
    else
        MPI_Send_init(out, n, MPI_INT, right, kind, comm, &send);
}

static void complete(Call call, std::vector<MPI_Request> &requests) {
    int n = int(requests.size()), flag = 0, index, count;
    std::vector<int> indices(n), times(n, 0);
    std::vector<MPI_Status> statuses(n);
    if (call == waitall) MPI_Waitall(n, requests.data(), statuses.data());
    while (call == testall && !flag) MPI_Testall(n, requests.data(), &flag, statuses.data());
    while (call == waitany || call == testany) {
        flag = 1;
        if (call == waitany) MPI_Waitany(n, requests.data(), &index, statuses.data());
        else
            MPI_Testany(n, requests.data(), &index, &flag, statuses.data());
        if (flag && index == MPI_UNDEFINED) break;
        if (flag) ++times[index];
    }
    while (call == waitsome || call == testsome) {
        if (call == waitsome) MPI_Waitsome(n, requests.data(), &count, indices.data(), statuses.data());
        else
            MPI_Testsome(n, requests.data(), &count, indices.data(), statuses.data());
        if (count == MPI_UNDEFINED) break;
        for (int i = 0; i < count; ++i) ++times[indices[i]];
    }
    for (int i = 0; i < n; ++i)
        expect(call <= testall || times[i] == 1, "call %d completes %d %d times", call, i, times[i]);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Buffer_attach(attached.data(), int(attached.size()));
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &inter);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    std::vector<Pair> pairs(kinds);
    std::vector<MPI_Request> requests(2 * kinds);
    for (int kind = 0; kind < kinds; ++kind) {  // all receives first: ready sends need them
        int shift = (kind * 3 + 2) % kinds;
        make(Kind(kind), pairs[kind], requests[shift], requests[kinds + (kind * 5 + 1) % kinds]);
    }
    for (int round = 0; round < 6 * calls; ++round) {
        for (auto &pair : pairs) {
            pair.in.assign(pair.in.size(), -1);
            pair.out.assign(pair.out.size(), rank * 1000 + round);
        }
        if (round % 3 == 0) {
            MPI_Startall(kinds, requests.data());
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Startall(kinds, requests.data() + kinds);
        } else {
            for (int i = 0; i < 2 * kinds; ++i) {
                if (i == kinds) MPI_Barrier(MPI_COMM_WORLD);
                if (round % 3 == 1) MPI_Start(&requests[i]);
                else
                    MPI_Startall(1, &requests[i]);
            }
        }
        complete(Call(round % calls), requests);
        for (int kind = 0; kind < kinds; ++kind) {
            int wanted = kind == nobody ? -1 : pairs[kind].from_value * 1000 + round;
            expect(pairs[kind].in.front() == wanted && pairs[kind].in.back() == wanted,
                   "kind %d round %d: %d", kind, round, pairs[kind].in.front());
        }
        for (auto &request : requests)
            expect(request != MPI_REQUEST_NULL, "a handle went in round %d", round);
    }
    MPI_Startall(kinds, requests.data());
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Startall(kinds, requests.data() + kinds);
    for (int i = 0; i < kinds; ++i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    for (auto &request : requests) MPI_Request_free(&request);
    MPI_Barrier(MPI_COMM_WORLD);
    void *address;
    int bytes;
    MPI_Buffer_detach(&address, &bytes);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    return finish();
}
