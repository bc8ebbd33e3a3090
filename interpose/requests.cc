// SPDX-License-Identifier: MIT
// Completion calls and request handles: ours when an array holds one of ours.
#include "process.hh"

namespace storm::interpose {
namespace {

bool mine(const Rank* rank, const MPI_Request* request)
{
    return rank != nullptr && request != nullptr &&
           (rank->owns(*request) || rank->is_done(*request));
}

enum class Array { native, ours, broken };

// `broken`: a C null among the handles, which the real MPI reports as an error.
Array look_at(const Rank* rank, int count, const MPI_Request* requests)
{
    if (rank == nullptr || count <= 0 || requests == nullptr)
        return Array::native;
    bool any = false;
    for (int i = 0; i < count; ++i) {
        if (requests[i] == nullptr)
            return Array::broken;
        any = any || rank->owns(requests[i]) || rank->is_done(requests[i]);
    }
    return any ? Array::ours : Array::native;
}

// After a call of the real MPI: `ended` if one of its requests has, which may be that of a
// collective.
int native(Rank* rank, int rc, bool ended)
{
    if (ended && rank != nullptr && rc == MPI_SUCCESS)
        rank->look_soon();
    return rc;
}
bool said(const int* flag)
{
    return flag != nullptr && *flag > 0; // not MPI_UNDEFINED
}

} // namespace

int Wait(MPI_Request* request, MPI_Status* status)
{
    Rank* rank = routed();
    return mine(rank, request) ? rank->wait(request, status) : native(rank, process.real.Wait(request, status), true);
}

namespace {
// Apart from Test, so that a test that finds nothing saves no registers.
[[gnu::noinline]] int Test_slowly(MPI_Request* request, int* flag, MPI_Status* status)
{
    Rank* rank = routed();
    if (rank != nullptr && request != nullptr && flag != nullptr && *request == process.real.request_null) {
        rank->null_test(flag, status); // codes test requests that ended long ago, often
        return MPI_SUCCESS;
    }
    if (mine(rank, request) && flag != nullptr)
        return rank->test(request, flag, status);
    const int rc = process.real.Test(request, flag, status);
    return native(rank, rc, said(flag));
}
} // namespace

int Test(MPI_Request* request, int* flag, MPI_Status* status)
{
    Rank* rank = routed();
    if (rank != nullptr && request != nullptr && flag != nullptr && rank->test_is_empty(*request)) [[likely]] {
        *flag = 0;
        return MPI_SUCCESS;
    }
    return Test_slowly(request, flag, status);
}

#define STORM_ARRAY(function, name, verb, params, pass, refuse, ended)                             \
    int function params                                                                            \
    {                                                                                              \
        Rank* rank = routed();                                                                     \
        MPI_Request none = nullptr;                                                                \
        switch (look_at(rank, count, requests)) {                                                  \
        case Array::ours: return rank->verb pass;                                                  \
        case Array::broken: return process.real.name refuse;                                       \
        default: break;                                                                            \
        }                                                                                          \
        const int rc = process.real.name pass;                                                     \
        return native(rank, rc, ended);                                                            \
    }

STORM_ARRAY(Waitall, Waitall, waitall, (int count, MPI_Request requests[], MPI_Status* statuses),
            (count, requests, statuses), (1, &none, statuses), true)
STORM_ARRAY(Testall, Testall, testall, (int count, MPI_Request requests[], int* flag, MPI_Status statuses[]),
            (count, requests, flag, statuses), (1, &none, flag, statuses), said(flag))
STORM_ARRAY(Waitany, Waitany, waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status),
            (count, requests, index, status), (1, &none, index, status), true)
STORM_ARRAY(Testany_slowly, Testany, testany,
            (int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status),
            (count, requests, index, flag, status), (1, &none, index, flag, status), said(flag))
STORM_ARRAY(Waitsome, Waitsome, waitsome,
            (int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]),
            (count, requests, done, indices, statuses), (1, &none, done, indices, statuses), true)
STORM_ARRAY(Testsome, Testsome, testsome,
            (int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]),
            (count, requests, done, indices, statuses), (1, &none, done, indices, statuses), said(done))

int Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status)
{
    Rank* rank = routed();
    if (rank != nullptr && requests != nullptr && index != nullptr && flag != nullptr &&
        rank->testany_is_empty(count, requests)) [[likely]] {
        *flag = 0;
        *index = MPI_UNDEFINED;
        return MPI_SUCCESS;
    }
    return Testany_slowly(count, requests, index, flag, status);
}

int Start(MPI_Request* request)
{
    Rank* rank = routed();
    if (rank == nullptr || request == nullptr || !rank->owns(*request))
        return process.real.Start(request);
    auto& r = *reinterpret_cast<Request*>(*request);
    if (r.what == Request::What::free || !r.persistent) {
        MPI_Request none = process.real.request_null;
        return process.real.Start(&none); // not a persistent request: the real MPI's error
    }
    if (r.state() == Request::State::inactive)
        rank->start(r);
    return MPI_SUCCESS; // an active one stays as it is, as natively
}

int Startall(int count, MPI_Request requests[])
{
    Rank* rank = routed();
    if (look_at(rank, count, requests) != Array::ours)
        return process.real.Startall(count, requests);
    int rc = MPI_SUCCESS;
    for (int i = 0; i < count && rc == MPI_SUCCESS; ++i)
        rc = rank->owns(requests[i]) ? Start(requests + i) : process.real.Startall(1, requests + i);
    return rc;
}

int Request_free(MPI_Request* request)
{
    Rank* rank = routed();
    if (rank == nullptr || request == nullptr || !rank->owns(*request))
        return process.real.Request_free(request);
    rank->free_request(request);
    return MPI_SUCCESS;
}

int Request_get_status(MPI_Request request, int* flag, MPI_Status* status)
{
    Rank* rank = routed();
    if (rank == nullptr || flag == nullptr || !rank->owns(request))
        return process.real.Request_get_status(request, flag, status);
    return rank->get_status(request, flag, status);
}

int Cancel(MPI_Request* request)
{
    Rank* rank = routed();
    if (rank == nullptr || request == nullptr || !rank->owns(*request))
        return process.real.Cancel(request);
    rank->cancel(*reinterpret_cast<Request*>(*request));
    return MPI_SUCCESS;
}

MPI_Fint Request_c2f(MPI_Request request)
{
    Rank* rank = routed();
    return rank != nullptr && rank->owns(request) ? rank->index_of(request)
                                                  : process.real.Request_c2f(request);
}

MPI_Request Request_f2c(MPI_Fint request)
{
    Rank* rank = routed();
    Request* ours = rank != nullptr ? rank->request_at(request) : nullptr;
    return ours != nullptr ? reinterpret_cast<MPI_Request>(ours) : process.real.Request_f2c(request);
}

} // namespace storm::interpose
