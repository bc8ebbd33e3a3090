// SPDX-License-Identifier: MIT
// Null, inactive, persistent, plain, native collective and generalized requests,
// receives and sends in one array, in every rotation, through every completion call.
// run: ranks=2,3 timeout=60
#include "check.h"
using namespace check;

enum Kind {
    null_kind,
    inactive,
    persistent_receive,
    persistent_send,
    small_receive,
    large_receive,
    small_send,
    large_send,
    allreduce,
    barrier,
    generalized,
    self_receive,
    self_send,
    nobody,
    kinds
};
enum Call { wait, test, waitany, testany, waitsome, testsome, waitall, testall, get_status, calls };
static const char *call_names[] = {"wait",     "test",    "waitany", "testany",   "waitsome",
                                   "testsome", "waitall", "testall", "get_status"};
static const int large = 100000;
static int query_calls, free_calls;

struct Round {
    int left = (rank + size - 1) % size, right = (rank + 1) % size, shift;
    std::vector<unsigned char> in_large, out_large;
    int in_small = -1, in_persistent = -1, in_self = -1, out = rank * 10, mine = 1, sum = -1;
    MPI_Request requests[kinds];
    MPI_Request made[kinds];
    bool done[kinds] = {};
    MPI_Status statuses[kinds];

    int at(int kind) const { return (kind + shift) % kinds; }
    int kind_at(int index) const { return (index - shift + kinds) % kinds; }

    explicit Round(int k) : shift(k), in_large(large), out_large(check::made(large, rank)) {
        MPI_Comm world = MPI_COMM_WORLD;
        for (auto &status : statuses) status = fresh_status();
        requests[at(null_kind)] = MPI_REQUEST_NULL;
        MPI_Send_init(&out, 1, MPI_INT, right, 90, world, &requests[at(inactive)]);
        MPI_Recv_init(&in_persistent, 1, MPI_INT, left, 1, world,
                      &requests[at(persistent_receive)]);
        MPI_Send_init(&out, 1, MPI_INT, right, 1, world, &requests[at(persistent_send)]);
        MPI_Irecv(&in_small, 1, MPI_INT, MPI_ANY_SOURCE, 2, world, &requests[at(small_receive)]);
        MPI_Irecv(in_large.data(), large, MPI_BYTE, left, 3, world, &requests[at(large_receive)]);
        MPI_Start(&requests[at(persistent_receive)]);
        MPI_Irecv(&in_self, 1, MPI_INT, rank, 4, world, &requests[at(self_receive)]);
        MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, world, &requests[at(allreduce)]);
        MPI_Isend(out_large.data(), large, MPI_BYTE, right, 3, world, &requests[at(large_send)]);
        MPI_Ibarrier(world, &requests[at(barrier)]);
        MPI_Isend(&out, 1, MPI_INT, right, 2, world, &requests[at(small_send)]);
        MPI_Start(&requests[at(persistent_send)]);
        MPI_Isend(&out, 1, MPI_INT, rank, 4, world, &requests[at(self_send)]);
        MPI_Irecv(&out, 1, MPI_INT, MPI_PROC_NULL, 5, world, &requests[at(nobody)]);
        MPI_Grequest_start(
            [](void *extra, MPI_Status *status) {
                ++query_calls;
                MPI_Status_set_elements(status, MPI_INT, 3);
                MPI_Status_set_cancelled(status, 0);
                status->MPI_SOURCE = *static_cast<int *>(extra);
                status->MPI_TAG = 44;
                return MPI_SUCCESS;
            },
            [](void *) { return ++free_calls, MPI_SUCCESS; },
            [](void *, int) { return MPI_SUCCESS; }, &left, &requests[at(generalized)]);
        MPI_Grequest_complete(requests[at(generalized)]);
        std::copy(requests, requests + kinds, made);
    }

    void completed(int index, const MPI_Status &status) {
        expect(!done[index], "index %d twice", index);
        done[index] = true;
        statuses[index] = status;
    }
    int left_over() const {
        int n = 0;
        for (int i = 0; i < kinds; ++i) n += !done[i];
        return n;
    }

    void complete(Call call) {
        MPI_Status some[kinds], one;
        int flag = 0, index = -1, count = 0, indices[kinds];
        for (auto &status : some) status = fresh_status();
        one = fresh_status();
        if (call == waitall || call == testall) {
            if (call == waitall) MPI_Waitall(kinds, requests, some);
            for (long i = 0; call == testall && !flag && i < 50'000'000; ++i) {
                MPI_Testall(kinds, requests, &flag, some);
            }
            for (int i = 0; i < kinds; ++i) completed(i, some[i]);
            return;
        }
        if (call == wait || call == test || call == get_status) {
            for (int i = kinds - 1; i >= 0; --i) {
                one = fresh_status();
                if (call == test)
                    expect(test_until_done(&requests[i], &one), "test %d never true", i);
                for (flag = 0; call == get_status && !flag;)
                    MPI_Request_get_status(requests[i], &flag, &one);
                if (call == wait) MPI_Wait(&requests[i], &one);
                if (call == get_status) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
                completed(i, one);
            }
            return;
        }
        while (true) {
            one = fresh_status();
            if (call == waitany) {
                MPI_Waitany(kinds, requests, &index, &one);
                if (index == MPI_UNDEFINED) break;
                completed(index, one);
            } else if (call == testany) {
                MPI_Testany(kinds, requests, &index, &flag, &one);
                if (flag && index == MPI_UNDEFINED) break;
                if (flag) completed(index, one);
            } else {
                if (call == waitsome) MPI_Waitsome(kinds, requests, &count, indices, some);
                else
                    MPI_Testsome(kinds, requests, &count, indices, some);
                if (count == MPI_UNDEFINED) break;
                expect(call == testsome || count > 0, "waitsome gave %d", count);
                for (int i = 0; i < count; ++i) completed(indices[i], some[i]);
            }
        }
        // null and inactive ones are never reported by these
        say("%s did not report %d", call_names[call], left_over());
        done[at(null_kind)] = done[at(inactive)] = true;
    }

    void verify(Call call, bool print) {
        expect(left_over() == 0, "%s left %d", call_names[call], left_over());
        expect(in_small == left * 10 && in_persistent == left * 10 && in_self == rank * 10,
               "%s: values %d %d %d", call_names[call], in_small, in_persistent, in_self);
        expect(sum == size && same(in_large.data(), large, left), "%s: sum %d or large data",
               call_names[call], sum);
        for (int kind = 0; kind < kinds; ++kind) {
            MPI_Request &request = requests[at(kind)];
            bool stays = kind == inactive || kind == persistent_receive || kind == persistent_send;
            expect((request == MPI_REQUEST_NULL) != stays, "%s: handle of kind %d",
                   call_names[call], kind);
            if (stays)
                expect(request == made[at(kind)], "%s: handle of kind %d changed", call_names[call],
                       kind);
            if (stays) MPI_Request_free(&request);
            if (!print) continue;
            MPI_Status &status = statuses[at(kind)];
            bool send = kind == small_send || kind == large_send || kind == self_send ||
                        kind == persistent_send || kind == allreduce || kind == barrier;
            if (!send)
                say("%s kind %d %s", call_names[call], kind,
                    in_words(status, kind == large_receive ? MPI_BYTE : MPI_INT).c_str());
        }
    }
};

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int call = 0; call < calls; ++call)
        for (int shift = 0; shift < kinds; ++shift) {
            Round round(shift);
            round.complete(Call(call));
            round.verify(Call(call), shift == call % kinds);
        }
    say("generalized: %d queries %d frees", query_calls, free_calls);
    return finish();
}
