// SPDX-License-Identifier: MIT
// Completion calls on arrays of no, only null, or only inactive requests return at
// once with the values and empty statuses that the MPI standard gives.
// run: ranks=1,2 timeout=20
#include "check.h"
using namespace check;

static void all_calls(const char *what, std::vector<MPI_Request> requests) {
    int n = int(requests.size());
    requests.resize(n + 1, MPI_REQUEST_NULL);
    auto before = requests;
    std::vector<MPI_Status> statuses(n + 1);
    std::vector<int> indices(n + 1, -7);
    int index = -7, flag = -7, outcount = -7;
    auto fresh = [&] {
        for (auto &status : statuses) status = fresh_status();
        index = flag = outcount = -7;
    };
    auto first = [&] { return in_words(statuses[0], MPI_INT); };
    auto every = [&](const char *call) {
        for (int i = 0; i < n; ++i)
            say("%s %s[%d] %s", what, call, i, in_words(statuses[i], MPI_INT).c_str());
        expect(statuses[n].MPI_TAG == -66, "%s %s wrote past the array", what, call);
    };
    fresh();
    MPI_Waitany(n, requests.data(), &index, statuses.data());
    say("%s waitany %s %s", what, in_words(index).c_str(), first().c_str());
    fresh();
    MPI_Testany(n, requests.data(), &index, &flag, statuses.data());
    say("%s testany %d %s %s", what, flag, in_words(index).c_str(), first().c_str());
    fresh();
    MPI_Waitsome(n, requests.data(), &outcount, indices.data(), statuses.data());
    say("%s waitsome %s %s", what, in_words(outcount).c_str(), first().c_str());
    fresh();
    MPI_Testsome(n, requests.data(), &outcount, indices.data(), statuses.data());
    say("%s testsome %s %s", what, in_words(outcount).c_str(), first().c_str());
    fresh();
    MPI_Waitall(n, requests.data(), statuses.data());
    every("waitall");
    fresh();
    MPI_Testall(n, requests.data(), &flag, statuses.data());
    say("%s testall %d", what, flag);
    every("testall");
    MPI_Waitall(n, requests.data(), MPI_STATUSES_IGNORE);
    MPI_Testall(n, requests.data(), &flag, MPI_STATUSES_IGNORE);
    MPI_Waitany(n, requests.data(), &index, MPI_STATUS_IGNORE);
    MPI_Testany(n, requests.data(), &index, &flag, MPI_STATUS_IGNORE);
    MPI_Waitsome(n, requests.data(), &outcount, indices.data(), MPI_STATUSES_IGNORE);
    MPI_Testsome(n, requests.data(), &outcount, indices.data(), MPI_STATUSES_IGNORE);
    expect(requests == before, "%s: a handle changed", what);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int value = 0, flag = -1;
    MPI_Request null = MPI_REQUEST_NULL;
    MPI_Status status = fresh_status();
    MPI_Wait(&null, &status);
    say("wait null %s", in_words(status, MPI_INT).c_str());
    status = fresh_status();
    MPI_Test(&null, &flag, &status);
    say("test null %d %s", flag, in_words(status, MPI_INT).c_str());
    status = fresh_status();
    MPI_Request_get_status(null, &flag, &status);
    say("get_status null %d %s", flag, in_words(status, MPI_INT).c_str());
    for (int i = 0; i < 1000; ++i) {  // codes do call these ten times as often as needed
        MPI_Wait(&null, MPI_STATUS_IGNORE);
        MPI_Test(&null, &flag, MPI_STATUS_IGNORE);
        expect(flag, "test of null");
    }

    MPI_Request send, receive, other;
    int peer = (rank + 1) % size;
    MPI_Send_init(&value, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, &send);
    MPI_Recv_init(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &receive);
    MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &other);
    all_calls("none", {});
    all_calls("null", {null, null, null});
    all_calls("inactive", {send, receive});
    all_calls("mixed", {null, send, null, receive, other, null});
    for (MPI_Request *request : {&send, &receive, &other}) MPI_Request_free(request);
    return finish();
}
