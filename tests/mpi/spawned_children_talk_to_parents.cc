// SPDX-License-Identifier: MIT
// MPI_Comm_spawn of this program: messages over the intercommunicator (ranks of the
// remote group), within both worlds at the same time, on the merged one; disconnect.
// run: ranks=1,2 timeout=60
#include "check.h"
using namespace check;

static const char *side;

static void over(MPI_Comm inter, int bytes) {
    int remote = 0, me = 0;
    MPI_Comm_remote_size(inter, &remote);
    MPI_Comm_rank(inter, &me);
    std::vector<MPI_Request> requests;
    std::vector<MPI_Status> statuses(4 * remote);
    std::vector<std::vector<unsigned char>> in(remote), out(remote);
    for (int r = 0; r < remote; ++r) {
        in[r].resize(bytes + 1);
        MPI_Irecv(in[r].data(), bytes, MPI_BYTE, r, 1, inter, &requests.emplace_back());
    }
    int world_in = -1, left = (rank + size - 1) % size;  // same tag and ranks, another world
    MPI_Irecv(&world_in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests.emplace_back());
    for (int r = 0; r < remote; ++r) {
        out[r] = made(bytes, me * 100 + r);
        MPI_Isend(out[r].data(), bytes, MPI_BYTE, r, 1, inter, &requests.emplace_back());
    }
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests.emplace_back());
    MPI_Waitall(int(requests.size()), requests.data(), statuses.data());
    for (int r = 0; r < remote; ++r) {
        expect(same(in[r].data(), bytes, r * 100 + me), "%s: from %d, %d bytes", side, r, bytes);
        say("%s: %s", side, in_words(statuses[r], MPI_BYTE).c_str());
    }
    expect(world_in == left, "%s: own world %d", side, world_in);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Comm parent, inter, merged;
    MPI_Comm_get_parent(&parent);
    side = parent == MPI_COMM_NULL ? "parent" : "child";
    if (parent == MPI_COMM_NULL) {
        std::vector<int> errors(2);
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                       errors.data());
    } else {
        inter = parent;
    }
    say("%s: world of %d", side, size);
    for (int bytes : {8, 4000, 100000}) over(inter, bytes);
    MPI_Intercomm_merge(inter, parent != MPI_COMM_NULL, &merged);
    int me, n, value = -1;
    MPI_Comm_rank(merged, &me);
    MPI_Comm_size(merged, &n);
    MPI_Status status;
    MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 3, &value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 merged, &status);
    expect(value == (me + n - 1) % n && status.MPI_SOURCE == value, "%s: merged %d", side, value);
    say("%s: rank %d of %d merged", side, me, n);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&inter);
    return finish();
}
