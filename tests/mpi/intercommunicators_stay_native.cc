// SPDX-License-Identifier: MIT
// Messages over an intercommunicator (ranks of the remote group), beside messages
// with the same tags on intracommunicators; merge; requests of both in one array.
// run: ranks=2,4 timeout=30
#include "check.h"
using namespace check;

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Comm half, inter, merged, merged_dup, inter_dup;
    int side = rank % 2, me, others, in_merged, n_merged;
    MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 12, &inter);
    MPI_Comm_rank(inter, &me);
    MPI_Comm_remote_size(inter, &others);
    MPI_Intercomm_merge(inter, side, &merged);
    MPI_Comm_dup(merged, &merged_dup);
    MPI_Comm_dup(inter, &inter_dup);
    MPI_Comm_rank(merged, &in_merged);
    MPI_Comm_size(merged, &n_merged);
    say("local %d, remote size %d, merged %d of %d", me, others, in_merged, n_merged);
    for (int bytes : {0, 8, 4000, 5000, 300000}) {
        struct {
            MPI_Comm comm;
            int to, from;
            unsigned seed;
        } paths[] = {
            {inter, me % others, me % others, 1},
            {inter_dup, me % others, me % others, 2},
            {MPI_COMM_WORLD, rank ^ 1, rank ^ 1, 3},
            {merged, (in_merged + 1) % n_merged, (in_merged + n_merged - 1) % n_merged, 4},
            {merged_dup, (in_merged + 1) % n_merged, (in_merged + n_merged - 1) % n_merged, 5}};
        std::vector<MPI_Request> requests;
        std::vector<MPI_Status> statuses(10);
        std::vector<Guarded> in;
        std::vector<std::vector<unsigned char>> out;
        in.reserve(5);
        for (auto &path : paths) {
            in.emplace_back(bytes);
            MPI_Irecv(in.back().data(), bytes, MPI_BYTE, path.seed % 2 ? path.from : MPI_ANY_SOURCE,
                      9, path.comm, &requests.emplace_back());
        }
        for (auto &path : paths) {
            out.push_back(made(bytes, path.seed));
            MPI_Isend(out.back().data(), bytes, MPI_BYTE, path.to, 9, path.comm,
                      &requests.emplace_back());
        }
        MPI_Waitall(10, requests.data(), statuses.data());
        for (int i = 0; i < 5; ++i) {
            expect(same(in[i].data(), bytes, paths[i].seed) && in[i].intact(), "path %d, %d bytes",
                   i, bytes);
            say("path %d: %s", i, in_words(statuses[i], MPI_BYTE).c_str());
        }
    }
    MPI_Status status = fresh_status();
    int value = rank, got = -1;
    MPI_Request request;
    MPI_Issend(&value, 1, MPI_INT, me % others, 3, inter, &request);
    MPI_Probe(MPI_ANY_SOURCE, 3, inter, &status);
    MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, 3, inter, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("probed on it: %d from %d", got, status.MPI_SOURCE);
    int flag = -1;
    MPI_Message message;
    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &flag, &message, &status);
    expect(!flag, "a message is left");
    MPI_Barrier(inter);
    for (MPI_Comm *comm : {&half, &inter, &merged, &merged_dup, &inter_dup}) MPI_Comm_free(comm);
    return finish();
}
