// SPDX-License-Identifier: MIT
// Completion: the Wait and Test families over requests of ours, of the real MPI, null
// and inactive ones in any mixture; freeing, cancelling and Fortran handles.
//
// What a status shows follows the real MPI (4.1): MPI_ERROR is written by the calls
// that return several statuses only; a send that was complete at once, and nothing
// else, shows MPI_PROC_NULL as its source.
#include "rank.hh"

#include <algorithm>
#include <cstdlib>

namespace storm {
namespace {

Request& ours(MPI_Request handle)
{
    return *reinterpret_cast<Request*>(handle);
}

// True when nothing is left to wait for: complete, inactive, or long given back.
bool complete(const Request& r)
{
    return !r.active();
}

void set_status(MPI_Status* status, int source, int tag, std::uint64_t bytes, bool cancelled)
{
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    status->_ucount = bytes;
    status->_cancelled = cancelled ? 1 : 0;
}

} // namespace

// The requests of the real MPI in an array, packed for one call, and where they stood.
struct Rank::Split {
    std::vector<MPI_Request> native;
    std::vector<int> at;

    Split(const Rank& rank, int count, const MPI_Request* requests)
    {
        for (int i = 0; i < count; ++i)
            if (!rank.owns(requests[i]) && requests[i] != rank.real_.request_null &&
                !rank.is_done(requests[i])) {
                native.push_back(requests[i]);
                at.push_back(i);
            }
    }
    int size() const { return static_cast<int>(native.size()); }
    void put_back(MPI_Request* requests) const
    {
        for (std::size_t i = 0; i < at.size(); ++i)
            requests[at[i]] = native[i];
    }
};

// ---- statuses

void Rank::fill_status(const Request& r, MPI_Status* status, bool with_error) const
{
    if (status == MPI_STATUS_IGNORE)
        return;
    set_status(status, r.from, r.from_tag, r.received, r.cancelled);
    if (with_error)
        status->MPI_ERROR = r.error;
}

// Writes the status of a request that is complete, and ends it. `slot` holds a request
// of ours, a null one, or the shared complete send.
void Rank::settle(MPI_Request* slot, MPI_Status* status, bool with_error, int& error, MPI_Comm& where)
{
    if (!owns(*slot)) {
        if (is_done(*slot) && status != MPI_STATUS_IGNORE) {
            set_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0, false);
            if (with_error)
                status->MPI_ERROR = MPI_SUCCESS;
        } else {
            empty_status(status, with_error);
        }
        *slot = real_.request_null;
        return;
    }
    Request& r = ours(*slot);
    if (r.state() == Request::State::inactive) {
        empty_status(status, with_error);
        if (!r.persistent)
            *slot = real_.request_null; // a copy of a handle that was waited for before
        return;
    }
    fill_status(r, status, with_error);
    if (r.error != MPI_SUCCESS && error == MPI_SUCCESS) {
        error = r.error;
        where = r.comm != nullptr ? glance_at(r.comm->handle) : nullptr;
    }
    // the real MPI frees a persistent request that ended in an error
    if (r.persistent && r.error == MPI_SUCCESS) {
        r.set(Request::State::inactive);
        return;
    }
    *slot = real_.request_null;
    release(r);
}

// ---- single requests

int Rank::wait_as(Call call, MPI_Request* request, MPI_Status* status)
{
    int error = MPI_SUCCESS;
    MPI_Comm where = nullptr;
    leave_held();
    if (owns(*request))
        wait_until([&, r = &ours(*request)] { return complete(*r); });
    settle(request, status, false, error, where);
    return error == MPI_SUCCESS ? error : raise(call, where, error);
}

int Rank::test(MPI_Request* request, int* flag, MPI_Status* status)
{
    int error = MPI_SUCCESS;
    MPI_Comm where = nullptr;
    flush_held();
    if (owns(*request) && ours(*request).active()) {
        poll();
        if (ours(*request).active()) {
            tally(counters_.empty_tests);
            *flag = 0;
            return MPI_SUCCESS;
        }
    }
    *flag = 1;
    settle(request, status, false, error, where);
    return error == MPI_SUCCESS ? error : raise(Call::test, where, error);
}

int Rank::get_status(MPI_Request request, int* flag, MPI_Status* status)
{
    const Request& r = ours(request);
    if (r.active())
        poll();
    *flag = complete(r) ? 1 : 0;
    if (*flag == 0)
        return MPI_SUCCESS;
    if (r.state() == Request::State::inactive)
        empty_status(status, false);
    else
        fill_status(r, status, false);
    return MPI_SUCCESS;
}

// ---- arrays

int Rank::waitall(int count, MPI_Request* requests, MPI_Status* statuses)
{
    Split split(*this, count, requests);
    MPI_Comm where = nullptr;
    int error = MPI_SUCCESS;
    bool ours_failed = false;
    leave_held();
    for (int i = 0; i < count; ++i)
        if (owns(requests[i])) {
            const Request& r = ours(requests[i]);
            wait_until([&] { return complete(r); });
            ours_failed = ours_failed || (r.state() == Request::State::complete && r.error != MPI_SUCCESS);
        }
    // What is left belongs to the real MPI; ours goes on moving inside it.
    int native_rc = MPI_SUCCESS;
    std::vector<MPI_Status> native_statuses(split.native.size());
    if (split.size() != 0) {
        native_rc = real_.Waitall(split.size(), split.native.data(), native_statuses.data());
        split.put_back(requests);
        look_soon();
    }
    std::size_t next = 0;
    const bool failed = ours_failed || native_rc != MPI_SUCCESS;
    for (int i = 0; i < count; ++i) {
        MPI_Status* status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i;
        if (next < split.at.size() && split.at[next] == i) {
            if (status != MPI_STATUS_IGNORE) {
                *status = native_statuses[next];
                if (failed && native_rc == MPI_SUCCESS)
                    status->MPI_ERROR = MPI_SUCCESS;
            }
            ++next;
        } else {
            settle(requests + i, status, true, error, where);
        }
    }
    return error == MPI_SUCCESS ? native_rc : raise(Call::waitall, where, error);
}

int Rank::testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses)
{
    Split split(*this, count, requests);
    const auto all_ours = [&] {
        return std::all_of(requests, requests + count, [&](MPI_Request q) {
            return !owns(q) || complete(ours(q));
        });
    };
    *flag = 0;
    flush_held();
    if (!all_ours()) {
        poll();
        if (!all_ours()) {
            tally(counters_.empty_tests);
            if (split.size() == 0)
                return MPI_SUCCESS;
            const InReal in(*this);
            real_.progress();
            return MPI_SUCCESS;
        }
    }
    int native_rc = MPI_SUCCESS;
    std::vector<MPI_Status> native_statuses(split.native.size());
    if (split.size() != 0) {
        int native_flag = 0;
        native_rc = real_.Testall(split.size(), split.native.data(), &native_flag, native_statuses.data());
        split.put_back(requests);
        if (native_flag == 0)
            return native_rc;
        look_soon();
    }
    *flag = 1;
    int error = MPI_SUCCESS;
    MPI_Comm where = nullptr;
    std::size_t next = 0;
    for (int i = 0; i < count; ++i) {
        MPI_Status* status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i;
        if (next < split.at.size() && split.at[next] == i) {
            if (status != MPI_STATUS_IGNORE)
                *status = native_statuses[next];
            ++next;
        } else {
            settle(requests + i, status, true, error, where);
        }
    }
    return error == MPI_SUCCESS ? native_rc : raise(Call::testall, where, error);
}

int Rank::testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status)
{
    return any(count, requests, index, flag, status, Call::testany);
}

int Rank::waitany(int count, MPI_Request* requests, int* index, MPI_Status* status)
{
    return any(count, requests, index, nullptr, status, Call::waitany);
}

// One look at an array: the first complete request of ours, whether any is active, and
// whether the array holds requests of the real MPI.
Rank::Glance Rank::glance(int count, const MPI_Request* requests)
{
    Glance g;
    for (int i = 0; i < count; ++i) {
        if (owns(requests[i])) {
            const Request& r = ours(requests[i]);
            if (r.state() == Request::State::inactive)
                continue;
            if (complete(r)) {
                g.first = i;
                return g;
            }
            g.active = true;
        } else if (is_done(requests[i])) {
            g.first = i;
            return g;
        } else if (requests[i] != real_.request_null) {
            g.native = true;
        }
    }
    return g;
}

int Rank::any(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status, Call call)
{
    MPI_Comm where = nullptr;
    int error = MPI_SUCCESS;
    Idle idle(*this);
    const Look look = call == Call::waitany || call == Call::waitsome ? Look::wait : Look::test;
    bool moved = poll(look);
    for (;;) {
        const Glance g = glance(count, requests);
        if (g.native) {
            // those of the real MPI that stand before the first complete one of ours
            Split split(*this, g.first < 0 ? count : g.first, requests);
            int at = MPI_UNDEFINED, native_flag = 0;
            const int rc = real_.Testany(split.size(), split.native.data(), &at, &native_flag, status);
            split.put_back(requests);
            if (native_flag != 0 && at != MPI_UNDEFINED) {
                look_soon();
                *index = split.at[static_cast<std::size_t>(at)];
                if (flag != nullptr)
                    *flag = 1;
                return rc;
            }
            // inactive ones of the real MPI do not keep a wait waiting
            if (native_flag != 0 && !g.active && g.first < 0)
                return none_active(index, flag, status);
        } else if (!g.active && g.first < 0) {
            return none_active(index, flag, status);
        }
        if (g.first >= 0) {
            *index = g.first;
            if (flag != nullptr)
                *flag = 1;
            settle(requests + g.first, status, false, error, where);
            break;
        }
        if (flag != nullptr) {
            tally(counters_.empty_tests);
            *flag = 0;
            *index = MPI_UNDEFINED;
            return MPI_SUCCESS;
        }
        if (!moved)
            idle.step();
        moved = poll(look);
    }
    return error == MPI_SUCCESS ? error : raise(call, where, error);
}

int Rank::none_active(int* index, int* flag, MPI_Status* status) const
{
    *index = MPI_UNDEFINED;
    if (flag != nullptr)
        *flag = 1;
    empty_status(status, false);
    return MPI_SUCCESS;
}

int Rank::testsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses)
{
    return some(count, requests, done, indices, statuses, Call::testsome);
}

int Rank::waitsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses)
{
    return some(count, requests, done, indices, statuses, Call::waitsome);
}

int Rank::some(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses, Call call)
{
    MPI_Comm where = nullptr;
    int error = MPI_SUCCESS, native_rc = MPI_SUCCESS;
    Idle idle(*this);
    const Look look = call == Call::waitany || call == Call::waitsome ? Look::wait : Look::test;
    bool moved = poll(look);
    for (;;) {
        bool active = false;
        std::vector<int> ready;
        for (int i = 0; i < count; ++i) {
            if (is_done(requests[i])) {
                ready.push_back(i);
            } else if (owns(requests[i]) && ours(requests[i]).state() != Request::State::inactive) {
                if (complete(ours(requests[i])))
                    ready.push_back(i);
                else
                    active = true;
            }
        }
        Split split(*this, count, requests);
        int native_done = MPI_UNDEFINED;
        std::vector<int> native_at(split.native.size());
        std::vector<MPI_Status> native_statuses(split.native.size());
        if (split.size() != 0) {
            native_rc = real_.Testsome(split.size(), split.native.data(), &native_done,
                                       native_at.data(), native_statuses.data());
            split.put_back(requests);
        }
        if (native_done == MPI_UNDEFINED && !active && ready.empty()) {
            *done = MPI_UNDEFINED;
            return native_rc;
        }
        const int native_count = native_done == MPI_UNDEFINED ? 0 : native_done;
        if (native_count != 0)
            look_soon();
        if (native_count != 0 || !ready.empty()) {
            report_some(requests, done, indices, statuses, ready, split, native_count, native_at,
                        native_statuses, error, where);
            break;
        }
        if (call == Call::testsome) {
            tally(counters_.empty_tests);
            *done = 0;
            return native_rc;
        }
        if (!moved)
            idle.step();
        moved = poll(look);
    }
    return error == MPI_SUCCESS ? native_rc : raise(call, where, error);
}

// Merges what completed here and in the real MPI in the order of the array.
void Rank::report_some(MPI_Request* requests, int* done, int* indices, MPI_Status* statuses,
                       const std::vector<int>& ready, const Split& split, int native_count,
                       const std::vector<int>& native_at,
                       const std::vector<MPI_Status>& native_statuses, int& error, MPI_Comm& where)
{
    std::vector<std::pair<int, int>> all; // place in the array, place in native_statuses or -1
    for (const int i : ready)
        all.emplace_back(i, -1);
    for (int k = 0; k < native_count; ++k)
        all.emplace_back(split.at[static_cast<std::size_t>(native_at[static_cast<std::size_t>(k)])], k);
    std::sort(all.begin(), all.end());
    *done = 0;
    for (const auto& [i, k] : all) {
        MPI_Status* status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + *done;
        if (k < 0)
            settle(requests + i, status, true, error, where);
        else if (status != MPI_STATUS_IGNORE)
            *status = native_statuses[static_cast<std::size_t>(k)];
        indices[(*done)++] = i;
    }
}

// ---- the life of a request

Request* Rank::new_request()
{
    Request* r;
    {
        const Hold pool(pool_lock_, threaded_);
        r = pool_.take();
    }
    if (r == nullptr) {
        setup_.log->error("no memory for one more request: complete some before starting more");
        real_.Abort(real_.comm_world, 1);
        std::abort();
    }
    return r;
}

void Rank::fill(Request& r, Request::What what, const void* buffer, int count, TypeInfo& type,
                int rank, int tag, Comm& comm)
{
    r.what = what;
    r.rank = rank;
    r.tag = tag;
    r.count = count;
    r.buffer = const_cast<std::byte*>(static_cast<const std::byte*>(buffer));
    r.type = &type;
    r.comm = &comm;
}

Request& Rank::keep(Request::What what, const void* buffer, int count, TypeInfo& type, int rank,
                    int tag, Comm& comm)
{
    Request& r = *new_request();
    fill(r, what, buffer, count, type, rank, tag, comm);
    types_.hold(type);
    adjust(comm.users, 1, threaded_);
    adjust(comm.requests, 1, threaded_);
    return r;
}

void Rank::give_back(Request& r)
{
    const Hold pool(pool_lock_, threaded_);
    pool_.give_back(&r);
}

// Gives back what a request held; the object may be used again at once.
void Rank::release(Request& r)
{
    Comm* comm = r.comm;
    if (r.type != nullptr)
        types_.release(*r.type);
    give_back(r);
    if (comm != nullptr) {
        adjust(comm->requests, ~std::uint32_t{0}, threaded_);
        discard(*comm);
        drop(*comm);
    }
}

void Rank::free_request(MPI_Request* request)
{
    Request& r = ours(*request);
    *request = real_.request_null;
    if (r.what == Request::What::free)
        return;
    if (!Request::Words::abandon(r.phase)) // an active one goes on, and ends itself
        end_unseen(r);
}

void Rank::cancel(Request& r)
{
    // A send is never cancelled: its envelope may be matched already, and natively it
    // is not either. A receive is, unless a message has taken it.
    if (r.what != Request::What::receive)
        return;
    {
        const Hold queues(r.comm->lock, threaded_);
        if (!r.queued && !STORM_PLANTED(cancelled_and_received))
            return;
        if (r.queued && !STORM_PLANTED(cancelled_stays_posted))
            r.comm->withdraw(r);
    }
    r.cancelled = true;
    r.from = MPI_ANY_SOURCE;
    r.from_tag = MPI_ANY_TAG;
    r.received = 0;
    r.error = MPI_SUCCESS;
    finish(r);
}

// ---- a communicator that is being duplicated

// Every member has to move it, whatever it waits for: it is advanced by all progress.
MPI_Request Rank::duplicate(MPI_Request made, MPI_Comm* where, std::array<std::int64_t, 3> identity)
{
    Request* r = new_request();
    r->what = Request::What::duplicate;
    r->set(Request::State::active);
    r->from = MPI_ANY_SOURCE;
    r->from_tag = MPI_ANY_TAG;
    r->native = made;
    // Fortran's wrappers keep it in a variable of theirs, which ends with the call
    const bool given = *where != nullptr && *where != real_.comm_null;
    r->made = given ? *where : real_.comm_null;
    r->made_at = given ? nullptr : where;
    r->identity = identity;
    {
        const Hold tables(tables_, threaded_);
        duplicates_inbox_.push_back(r);
    }
    adjust(transfers_, 1, threaded_);
    return reinterpret_cast<MPI_Request>(r);
}

bool Rank::advance_duplicates()
{
    bool moved = false;
    for (std::size_t i = 0; i < duplicates_.size();) {
        if (!advance(*duplicates_[i])) {
            ++i;
            continue;
        }
        Request* ended = duplicates_[i];
        duplicates_.erase(duplicates_.begin() + static_cast<std::ptrdiff_t>(i));
        adjust(transfers_, ~std::size_t{0}, threaded_);
        moved = true;
        finish(*ended);
    }
    return moved;
}

// True when it has ended, well or not.
bool Rank::advance(Request& r)
{
    for (;;) {
        int flag = 0;
        r.error = real_.Test(&r.native, &flag, MPI_STATUS_IGNORE);
        if (r.error != MPI_SUCCESS)
            return true; // the real MPI could not make it, and has told its handler
        if (flag == 0)
            return false;
        if (r.made_at != nullptr)
            r.made = *std::exchange(r.made_at, nullptr);
        if (r.agreeing || r.made == real_.comm_null)
            break;
        r.agreeing = true;
        r.error = real_.Iallreduce(MPI_IN_PLACE, r.identity.data(), 3, real_.int64, real_.op_max,
                                   r.made, &r.native);
        if (r.error != MPI_SUCCESS)
            return true;
    }
    if (r.agreeing && r.identity[2] == 0)
        adopt(r.made, static_cast<std::uint64_t>(r.identity[0]) << 32 |
                          static_cast<std::uint64_t>(r.identity[1]));
    return true;
}

// ---- Fortran

MPI_Fint Rank::index_of(MPI_Request request) const
{
    return ours(request).fortran_index;
}

// ---- errors

// Only we can see a truncation, and only the real MPI can report it as a program
// expects: the same error is provoked in the same call, by a native one-byte message
// to ourselves on the program's communicator, where no other native message is.
int Rank::raise(Call call, MPI_Comm where, int error)
{
    if (error != MPI_ERR_TRUNCATE) { // of the private communicator: told on the program's
        if (where != nullptr)
            real_.Comm_call_errhandler(where, error);
        const bool several = call == Call::waitall || call == Call::testall ||
                             call == Call::waitsome || call == Call::testsome;
        return several ? MPI_ERR_IN_STATUS : error;
    }
    // a communicator that was freed since has no handle to raise it on
    MPI_Comm comm = where != nullptr ? where : real_.comm_world;
    int me = 0, index = 0, flag = 0, done = 0, rc = MPI_SUCCESS;
    real_.Comm_rank(comm, &me);
    char bytes[2] = {}, none = 0;
    constexpr int kTag = 0;
    MPI_Request sent, request;
    MPI_Message message;
    MPI_Status status;
    if (call == Call::sendrecv)
        return real_.Sendrecv(bytes, 1, real_.byte, me, kTag, &none, 0, real_.byte, me, kTag, comm, &status);
    real_.Isend(bytes, call == Call::sendrecv_replace ? 2 : 1, real_.byte, me, kTag, comm, &sent);
    switch (call) {
    case Call::recv:
        rc = real_.Recv(&none, 0, real_.byte, me, kTag, comm, &status);
        break;
    case Call::mrecv:
        real_.Mprobe(me, kTag, comm, &message, &status);
        rc = real_.Mrecv(&none, 0, real_.byte, &message, &status);
        break;
    case Call::sendrecv_replace:
        rc = real_.Sendrecv_replace(bytes, 1, real_.byte, me, kTag, me, kTag, comm, &status);
        real_.Recv(bytes, 1, real_.byte, me, kTag, comm, &status); // what it sent
        break;
    default:
        real_.Irecv(&none, 0, real_.byte, me, kTag, comm, &request);
        switch (call) {
        case Call::wait: rc = real_.Wait(&request, &status); break;
        case Call::waitall: rc = real_.Waitall(1, &request, &status); break;
        case Call::waitany: rc = real_.Waitany(1, &request, &index, &status); break;
        case Call::waitsome: rc = real_.Waitsome(1, &request, &done, &index, &status); break;
        case Call::testall:
            while (flag == 0)
                rc = real_.Testall(1, &request, &flag, &status);
            break;
        case Call::testany:
            while (flag == 0)
                rc = real_.Testany(1, &request, &index, &flag, &status);
            break;
        case Call::testsome:
            while (done == 0)
                rc = real_.Testsome(1, &request, &done, &index, &status);
            break;
        default:
            while (flag == 0)
                rc = real_.Test(&request, &flag, &status);
            break;
        }
    }
    real_.Wait(&sent, &status);
    return rc;
}

} // namespace storm
