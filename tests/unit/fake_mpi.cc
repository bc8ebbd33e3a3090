// SPDX-License-Identifier: MIT
#include "fake_mpi.hh"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <mutex>

namespace storm::unit {
namespace {

FakeMpi* live = nullptr; // whom the calls without a communicator mean

template <class T, class Handle>
T* as(Handle handle)
{
    return reinterpret_cast<T*>(handle);
}

bool fits(int wanted_source, int wanted_tag, int source, int tag)
{
    return (wanted_source == MPI_ANY_SOURCE || wanted_source == source) &&
           (wanted_tag == MPI_ANY_TAG || wanted_tag == tag);
}

// Byte i of the packed stream of many elements.
std::byte* place(const FakeType& type, void* buffer, std::uint64_t i)
{
    const std::uint64_t element = i / type.bytes.size(), byte = i % type.bytes.size();
    return static_cast<std::byte*>(buffer) + static_cast<MPI_Aint>(element) * type.extent +
           type.bytes[byte];
}

struct Touching {
    Touching() { tell(true); }
    ~Touching() { tell(false); }
    static void tell(bool now)
    {
        if (live->touches)
            live->touches(now);
    }
};

void pack(const FakeType& type, const void* buffer, std::uint64_t bytes, std::byte* out)
{
    const Touching touching;
    for (std::uint64_t i = 0; i < bytes; ++i)
        out[i] = *place(type, const_cast<void*>(buffer), i);
}

void unpack(const FakeType& type, void* buffer, std::uint64_t bytes, const std::byte* in)
{
    const Touching touching;
    for (std::uint64_t i = 0; i < bytes; ++i)
        *place(type, buffer, i) = in[i];
}

} // namespace

std::uint64_t packed_size(const FakeType& type, int count)
{
    return type.bytes.size() * static_cast<std::uint64_t>(count);
}

// ---- the calls themselves

struct FakeCalls {
    static FakeMpi& mpi() { return *live; }

    static FakeType& type_of(MPI_Datatype handle)
    {
        auto& type = *as<FakeType>(handle);
        mpi().type_misused = mpi().type_misused || type.freed;
        return type;
    }

    static int Abort(MPI_Comm, int) { throw Aborted(); }
    static void progress()
    {
        ++mpi().progress_calls;
        mpi().tick();
    }

    // communicators and groups
    static int Comm_rank(MPI_Comm comm, int* rank)
    {
        *rank = as<FakeComm>(comm)->rank;
        return MPI_SUCCESS;
    }
    static int Comm_size(MPI_Comm comm, int* size)
    {
        *size = static_cast<int>(as<FakeComm>(comm)->members.size());
        return MPI_SUCCESS;
    }
    static int Comm_test_inter(MPI_Comm, int* flag)
    {
        *flag = 0;
        return MPI_SUCCESS;
    }
    static int Comm_get_name(MPI_Comm comm, char* name, int* length)
    {
        const std::string& text = as<FakeComm>(comm)->name;
        std::memcpy(name, text.c_str(), text.size() + 1);
        *length = static_cast<int>(text.size());
        return MPI_SUCCESS;
    }
    static int Comm_get_attr(MPI_Comm, int key, void* value, int* found)
    {
        *found = key == MPI_TAG_UB ? 1 : 0;
        if (*found != 0)
            *static_cast<int**>(value) = &mpi().tag_max_;
        return MPI_SUCCESS;
    }
    static int Comm_group(MPI_Comm comm, MPI_Group* group)
    {
        auto made = std::make_unique<std::vector<int>>(as<FakeComm>(comm)->members);
        *group = as<std::remove_pointer_t<MPI_Group>>(made.get());
        mpi().groups_[made.get()] = std::move(made);
        return MPI_SUCCESS;
    }
    static int Group_size(MPI_Group group, int* size)
    {
        *size = static_cast<int>(as<std::vector<int>>(group)->size());
        return MPI_SUCCESS;
    }
    static int Group_free(MPI_Group* group)
    {
        mpi().groups_.erase(*group);
        *group = nullptr;
        return MPI_SUCCESS;
    }
    static int Group_translate_ranks(MPI_Group from, int n, const int* ranks, MPI_Group to, int* out)
    {
        const auto& source = *as<std::vector<int>>(from);
        const auto& target = *as<std::vector<int>>(to);
        for (int i = 0; i < n; ++i) {
            const auto at = std::find(target.begin(), target.end(),
                                      source[static_cast<std::size_t>(ranks[i])]);
            out[i] = at == target.end() ? MPI_UNDEFINED : static_cast<int>(at - target.begin());
        }
        return MPI_SUCCESS;
    }

    // datatypes
    static int Type_size_x(MPI_Datatype type, MPI_Count* size)
    {
        *size = static_cast<MPI_Count>(type_of(type).bytes.size());
        return MPI_SUCCESS;
    }
    static int Type_get_envelope(MPI_Datatype type, int* ints, int* addresses, int* types, int* combiner)
    {
        *ints = *addresses = *types = 0;
        *combiner = type_of(type).predefined ? MPI_COMBINER_NAMED : MPI_COMBINER_STRUCT;
        return MPI_SUCCESS;
    }
    static int Type_get_extent(MPI_Datatype type, MPI_Aint* lb, MPI_Aint* extent)
    {
        *lb = type_of(type).lb;
        *extent = type_of(type).extent;
        return MPI_SUCCESS;
    }
    static int Type_get_true_extent(MPI_Datatype type, MPI_Aint* lb, MPI_Aint* extent)
    {
        const auto& bytes = type_of(type).bytes;
        *lb = *extent = 0;
        if (!bytes.empty()) {
            const auto [low, high] = std::minmax_element(bytes.begin(), bytes.end());
            *lb = *low;
            *extent = *high - *low + 1;
        }
        return MPI_SUCCESS;
    }
    static int Type_contiguous(int count, MPI_Datatype old, MPI_Datatype* made)
    {
        const FakeType from = type_of(old);
        std::vector<std::ptrdiff_t> bytes;
        for (int i = 0; i < count; ++i)
            for (const std::ptrdiff_t b : from.bytes)
                bytes.push_back(b + i * from.extent);
        *made = mpi().make_type(bytes, from.lb, from.extent * count, false);
        return MPI_SUCCESS;
    }
    static int Type_commit(MPI_Datatype* type)
    {
        type_of(*type).committed = true;
        return MPI_SUCCESS;
    }
    static int Type_free(MPI_Datatype* type)
    {
        mpi().free_type(*type);
        *type = as<std::remove_pointer_t<MPI_Datatype>>(&mpi().no_type_);
        return MPI_SUCCESS;
    }
    static int Pack(const void* in, int count, MPI_Datatype type, void* out, int size, int* position,
                    MPI_Comm)
    {
        const std::uint64_t bytes = packed_size(type_of(type), count);
        if (static_cast<std::uint64_t>(size - *position) < bytes)
            return MPI_ERR_TRUNCATE;
        pack(type_of(type), in, bytes, static_cast<std::byte*>(out) + *position);
        *position += static_cast<int>(bytes);
        return MPI_SUCCESS;
    }
    static int Unpack(const void* in, int size, int* position, void* out, int count, MPI_Datatype type,
                      MPI_Comm)
    {
        const std::uint64_t bytes = packed_size(type_of(type), count);
        if (static_cast<std::uint64_t>(size - *position) < bytes)
            return MPI_ERR_TRUNCATE;
        unpack(type_of(type), out, bytes, static_cast<const std::byte*>(in) + *position);
        *position += static_cast<int>(bytes);
        return MPI_SUCCESS;
    }

    // messages
    static int Send(const void* buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
    {
        if (!type_of(type).committed)
            return MPI_ERR_TYPE;
        if (dest == MPI_PROC_NULL)
            return MPI_SUCCESS;
        MPI_Request request;
        mpi().send(buffer, count, type, dest, tag, as<FakeComm>(comm), false, &request);
        return Wait(&request, MPI_STATUS_IGNORE);
    }
    static int Isend(const void* buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                     MPI_Request* request)
    {
        mpi().send(buffer, count, type, dest, tag, as<FakeComm>(comm), false, request);
        return MPI_SUCCESS;
    }
    static int Issend(const void* buffer, int count, MPI_Datatype type, int dest, int tag,
                      MPI_Comm comm, MPI_Request* request)
    {
        mpi().send(buffer, count, type, dest, tag, as<FakeComm>(comm), true, request);
        return MPI_SUCCESS;
    }
    static int Irecv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                     MPI_Request* request)
    {
        mpi().receive(buffer, count, type, source, tag, as<FakeComm>(comm), request);
        return MPI_SUCCESS;
    }
    static int Recv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                    MPI_Status* status)
    {
        MPI_Request request;
        mpi().receive(buffer, count, type, source, tag, as<FakeComm>(comm), &request);
        mpi().wait(request);
        return mpi().report("MPI_Recv", mpi().finish(&request, status, false));
    }
    static int Mprobe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status*)
    {
        const auto* c = as<FakeComm>(comm);
        for (int tries = 0; tries < 100000; ++tries) {
            auto& arrived = mpi().arrived_;
            for (auto m = arrived.begin(); m != arrived.end(); ++m)
                if (m->context == c->context && m->to == c->rank && fits(source, tag, m->from, m->tag)) {
                    auto kept = std::make_unique<FakeMessage>(std::move(*m));
                    arrived.erase(m);
                    *message = as<std::remove_pointer_t<MPI_Message>>(kept.get());
                    mpi().matched_[kept.get()] = std::move(kept);
                    return MPI_SUCCESS;
                }
            mpi().tick();
        }
        throw std::runtime_error("MPI_Mprobe of the fake waits for ever");
    }
    static int Mrecv(void* buffer, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status)
    {
        FakeRequest receive;
        receive.what = FakeRequest::What::receive;
        receive.buffer = buffer;
        receive.elements = count;
        receive.type = type_of(type);
        auto* taken = as<FakeMessage>(*message);
        mpi().meet(*taken, receive);
        mpi().matched_.erase(taken);
        status->MPI_SOURCE = receive.source;
        status->MPI_TAG = receive.tag;
        return mpi().report("MPI_Mrecv", receive.error);
    }
    static int Sendrecv(const void* out, int out_count, MPI_Datatype out_type, int dest, int out_tag,
                        void* in, int in_count, MPI_Datatype in_type, int source, int in_tag,
                        MPI_Comm comm, MPI_Status* status)
    {
        return both("MPI_Sendrecv", out, out_count, out_type, dest, out_tag, in, in_count, in_type,
                    source, in_tag, comm, status);
    }
    static int Sendrecv_replace(void* buffer, int count, MPI_Datatype type, int dest, int out_tag,
                                int source, int in_tag, MPI_Comm comm, MPI_Status* status)
    {
        return both("MPI_Sendrecv_replace", buffer, count, type, dest, out_tag, buffer, count, type,
                    source, in_tag, comm, status);
    }
    static int both(const char* name, const void* out, int out_count, MPI_Datatype out_type, int dest,
                    int out_tag, void* in, int in_count, MPI_Datatype in_type, int source, int in_tag,
                    MPI_Comm comm, MPI_Status* status)
    {
        MPI_Request sent, received;
        mpi().receive(in, in_count, in_type, source, in_tag, as<FakeComm>(comm), &received);
        mpi().send(out, out_count, out_type, dest, out_tag, as<FakeComm>(comm), false, &sent);
        mpi().wait(received);
        mpi().wait(sent);
        mpi().finish(&sent, MPI_STATUS_IGNORE, false);
        return mpi().report(name, mpi().finish(&received, status, false));
    }
    static int Ibarrier(MPI_Comm comm, MPI_Request* request)
    {
        auto* c = as<FakeComm>(comm);
        FakeRequest* r = mpi().new_request(FakeRequest::What::barrier, c);
        r->round = mpi().barrier_round_[{c->context, c->rank}]++;
        ++mpi().barrier_entered_[{c->context, r->round}];
        *request = as<std::remove_pointer_t<MPI_Request>>(r);
        return MPI_SUCCESS;
    }
    // The maximum of 64-bit integers in place: what a duplication agrees by.
    static int Iallreduce(const void*, void* values, int count, MPI_Datatype, MPI_Op, MPI_Comm comm,
                          MPI_Request* request)
    {
        Ibarrier(comm, request);
        auto* r = as<FakeRequest>(*request);
        r->buffer = values;
        r->elements = count;
        const auto* mine = static_cast<const std::int64_t*>(values);
        auto& most = mpi().reduced_[{r->comm->context, r->round}];
        most.resize(static_cast<std::size_t>(count), INT64_MIN);
        for (std::size_t i = 0; i < most.size(); ++i)
            most[i] = std::max(most[i], mine[i]);
        return MPI_SUCCESS;
    }
    static int Cancel(MPI_Request* request)
    {
        auto* r = as<FakeRequest>(*request);
        auto& posted = mpi().posted_;
        const auto at = std::find(posted.begin(), posted.end(), r);
        if (at != posted.end()) {
            posted.erase(at);
            r->cancelled = r->complete = true;
        }
        return MPI_SUCCESS;
    }

    // completion
    static int Wait(MPI_Request* request, MPI_Status* status)
    {
        mpi().wait(*request);
        return mpi().report("MPI_Wait", mpi().finish(request, status, false));
    }
    static int Test(MPI_Request* request, int* flag, MPI_Status* status)
    {
        mpi().tick();
        *flag = mpi().done(*request) ? 1 : 0;
        return *flag == 0 ? MPI_SUCCESS
                          : mpi().report("MPI_Test", mpi().finish(request, status, false));
    }
    static int end_all(const char* name, int count, MPI_Request* requests, MPI_Status* statuses)
    {
        int rc = MPI_SUCCESS;
        for (int i = 0; i < count; ++i) {
            MPI_Status here;
            MPI_Status* status = statuses == MPI_STATUSES_IGNORE ? &here : statuses + i;
            if (mpi().finish(requests + i, status, true) != MPI_SUCCESS)
                rc = MPI_ERR_IN_STATUS;
        }
        return mpi().report(name, rc);
    }
    static int Waitall(int count, MPI_Request* requests, MPI_Status* statuses)
    {
        for (int i = 0; i < count; ++i)
            mpi().wait(requests[i]);
        return end_all("MPI_Waitall", count, requests, statuses);
    }
    static int Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses)
    {
        mpi().tick();
        *flag = std::all_of(requests, requests + count, [](MPI_Request q) { return mpi().done(q); });
        return *flag == 0 ? MPI_SUCCESS : end_all("MPI_Testall", count, requests, statuses);
    }
    static bool all_null(int count, const MPI_Request* requests)
    {
        return std::all_of(requests, requests + count,
                           [](MPI_Request q) { return as<FakeRequest>(q) == &mpi().null_; });
    }
    static int end_any(const char* name, int count, MPI_Request* requests, int* index, int* flag,
                       MPI_Status* status)
    {
        *index = MPI_UNDEFINED;
        *flag = all_null(count, requests) ? 1 : 0;
        for (int i = 0; i < count; ++i)
            if (as<FakeRequest>(requests[i]) != &mpi().null_ && mpi().done(requests[i])) {
                *index = i;
                *flag = 1;
                return mpi().report(name, mpi().finish(requests + i, status, false));
            }
        return MPI_SUCCESS;
    }
    static int Testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status)
    {
        mpi().tick();
        return end_any("MPI_Testany", count, requests, index, flag, status);
    }
    static int Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status)
    {
        int flag = 0, rc = MPI_SUCCESS;
        for (int tries = 0; flag == 0 && tries < 100000; ++tries) {
            mpi().tick();
            rc = end_any("MPI_Waitany", count, requests, index, &flag, status);
        }
        return rc;
    }
    static int end_some(const char* name, int count, MPI_Request* requests, int* ended, int* indices,
                        MPI_Status* statuses)
    {
        int rc = MPI_SUCCESS;
        *ended = all_null(count, requests) ? MPI_UNDEFINED : 0;
        for (int i = 0; i < count; ++i)
            if (as<FakeRequest>(requests[i]) != &mpi().null_ && mpi().done(requests[i])) {
                if (mpi().finish(requests + i, statuses + *ended, true) != MPI_SUCCESS)
                    rc = MPI_ERR_IN_STATUS;
                indices[(*ended)++] = i;
            }
        return mpi().report(name, rc);
    }
    static int Testsome(int count, MPI_Request* requests, int* ended, int* indices, MPI_Status* statuses)
    {
        mpi().tick();
        return end_some("MPI_Testsome", count, requests, ended, indices, statuses);
    }
    static int Waitsome(int count, MPI_Request* requests, int* ended, int* indices, MPI_Status* statuses)
    {
        int rc = MPI_SUCCESS;
        *ended = 0;
        for (int tries = 0; *ended == 0 && tries < 100000; ++tries) {
            mpi().tick();
            rc = end_some("MPI_Waitsome", count, requests, ended, indices, statuses);
        }
        return rc;
    }
};

// Ranks with threads call from all of them: the calls of a fake MPI exclude each other.
std::recursive_mutex one_call;

template <class Result, class... Args, class Tag>
auto one_at_a_time(Result (*call)(Args...), Tag)
{
    static Result (*fake)(Args...) = call; // Tag makes it one function a call
    return +[](Args... args) -> Result {
        const std::lock_guard lock(one_call);
        return fake(args...);
    };
}

// ---- what stands behind them

FakeMpi::FakeMpi(int ranks, const Options& options)
    : options_(options), random_(options.seed), real_(static_cast<std::size_t>(ranks)),
      tag_max_(options.tag_max)
{
    live = this;
    null_.complete = done_.complete = true;
    std::vector<int> all;
    for (int i = 0; i < ranks; ++i)
        all.push_back(i);
    const auto world = make_comm(all, "MPI_COMM_WORLD");
    private_ = make_comm(all, "private");
    MPI_Datatype byte = make_type({0}, 0, 1, true, true);
    MPI_Datatype int64 = make_type({0, 1, 2, 3, 4, 5, 6, 7}, 0, 8, true, true);
    for (int i = 0; i < ranks; ++i) {
        RealMpi& real = real_[static_cast<std::size_t>(i)];
        real.comm_world = world[static_cast<std::size_t>(i)];
        real.comm_self = make_comm({i}, "MPI_COMM_SELF").front();
        real.request_null = as<std::remove_pointer_t<MPI_Request>>(&null_);
        real.request_done = as<std::remove_pointer_t<MPI_Request>>(&done_);
        real.message_null = as<std::remove_pointer_t<MPI_Message>>(&no_message_);
        real.message_no_proc = as<std::remove_pointer_t<MPI_Message>>(&no_proc_);
        real.datatype_null = as<std::remove_pointer_t<MPI_Datatype>>(&no_type_);
        real.byte = byte;
        real.int64 = int64;
        real.progress = one_at_a_time(FakeCalls::progress, [] {});
#define STORM_FAKE(name) real.name = one_at_a_time(FakeCalls::name, [] {});
        STORM_FAKE(Abort) STORM_FAKE(Comm_rank) STORM_FAKE(Comm_size) STORM_FAKE(Comm_test_inter)
        STORM_FAKE(Comm_get_name) STORM_FAKE(Comm_get_attr) STORM_FAKE(Comm_group)
        STORM_FAKE(Group_size) STORM_FAKE(Group_free) STORM_FAKE(Group_translate_ranks)
        STORM_FAKE(Type_size_x) STORM_FAKE(Type_get_envelope) STORM_FAKE(Type_get_extent)
        STORM_FAKE(Type_get_true_extent) STORM_FAKE(Type_contiguous) STORM_FAKE(Type_commit)
        STORM_FAKE(Type_free) STORM_FAKE(Pack) STORM_FAKE(Unpack) STORM_FAKE(Send)
        STORM_FAKE(Isend) STORM_FAKE(Issend) STORM_FAKE(Irecv) STORM_FAKE(Recv) STORM_FAKE(Mprobe)
        STORM_FAKE(Mrecv) STORM_FAKE(Sendrecv) STORM_FAKE(Sendrecv_replace) STORM_FAKE(Ibarrier)
        STORM_FAKE(Iallreduce)
        STORM_FAKE(Cancel) STORM_FAKE(Wait) STORM_FAKE(Test) STORM_FAKE(Waitall) STORM_FAKE(Testall)
        STORM_FAKE(Waitany) STORM_FAKE(Testany) STORM_FAKE(Waitsome) STORM_FAKE(Testsome)
#undef STORM_FAKE
    }
}

FakeMpi::~FakeMpi()
{
    live = nullptr;
}

MPI_Comm FakeMpi::private_comm(int rank) const
{
    return private_[static_cast<std::size_t>(rank)];
}

std::vector<MPI_Comm> FakeMpi::make_comm(const std::vector<int>& members, const std::string& name)
{
    std::vector<MPI_Comm> handles;
    const int context = contexts_++;
    for (std::size_t i = 0; i < members.size(); ++i) {
        comms_.push_back(std::make_unique<FakeComm>(FakeComm{context, static_cast<int>(i), members, name}));
        handles.push_back(as<std::remove_pointer_t<MPI_Comm>>(comms_.back().get()));
    }
    return handles;
}

MPI_Datatype FakeMpi::make_type(std::vector<std::ptrdiff_t> bytes, MPI_Aint lb, MPI_Aint extent,
                                bool committed, bool predefined)
{
    auto type = std::make_unique<FakeType>();
    type->bytes = std::move(bytes);
    type->lb = lb;
    type->extent = extent;
    type->committed = committed;
    type->predefined = predefined;
    const auto handle = as<std::remove_pointer_t<MPI_Datatype>>(type.get());
    types_[type.get()] = std::move(type);
    return handle;
}

// A freed type stays readable, so that its use is noticed.
void FakeMpi::free_type(MPI_Datatype handle)
{
    const auto at = types_.find(handle);
    if (at == types_.end()) {
        type_misused = true;
        return;
    }
    at->second->freed = true;
    graveyard_.push_back(std::move(at->second));
    types_.erase(at);
}

FakeRequest* FakeMpi::new_request(FakeRequest::What what, FakeComm* comm)
{
    auto made = std::make_unique<FakeRequest>();
    made->what = what;
    made->comm = comm;
    FakeRequest* r = made.get();
    requests_[r] = std::move(made);
    return r;
}

void FakeMpi::send(const void* buffer, int count, MPI_Datatype handle, int dest, int tag,
                   FakeComm* comm, bool synchronous, MPI_Request* request)
{
    const FakeType& type = FakeCalls::type_of(handle);
    FakeMessage m;
    m.context = comm->context;
    m.from = comm->rank;
    m.to = dest;
    m.tag = tag;
    m.size = packed_size(type, count);
    if (!synchronous && m.size <= options_.eager_max) {
        m.bytes.resize(m.size);
        pack(type, buffer, m.size, m.bytes.data());
        *request = as<std::remove_pointer_t<MPI_Request>>(&done_);
    } else {
        m.sender = new_request(FakeRequest::What::send, comm);
        m.sender->buffer = const_cast<void*>(buffer);
        m.sender->type = type;
        *request = as<std::remove_pointer_t<MPI_Request>>(m.sender);
    }
    m.due = now_ + random_() % (options_.delay_max + 1);
    for (const FakeMessage& other : under_way_) // no message passes another of its pair
        if (other.context == m.context && other.from == m.from && other.to == m.to)
            m.due = std::max(m.due, other.due);
    under_way_.push_back(std::move(m));
}

void FakeMpi::receive(void* buffer, int count, MPI_Datatype type, int source, int tag, FakeComm* comm,
                      MPI_Request* request)
{
    FakeRequest* r = new_request(FakeRequest::What::receive, comm);
    r->buffer = buffer;
    r->elements = count;
    r->type = FakeCalls::type_of(type);
    r->source = source;
    r->tag = tag;
    *request = as<std::remove_pointer_t<MPI_Request>>(r);
    for (auto m = arrived_.begin(); m != arrived_.end(); ++m)
        if (m->context == comm->context && m->to == comm->rank && fits(source, tag, m->from, m->tag)) {
            meet(*m, *r);
            arrived_.erase(m);
            return;
        }
    posted_.push_back(r);
}

void FakeMpi::arrive(FakeMessage&& m)
{
    for (auto at = posted_.begin(); at != posted_.end(); ++at) {
        FakeRequest& r = **at;
        if (r.comm->context == m.context && r.comm->rank == m.to && fits(r.source, r.tag, m.from, m.tag)) {
            posted_.erase(at);
            return meet(m, r);
        }
    }
    arrived_.push_back(std::move(m));
}

void FakeMpi::meet(FakeMessage& m, FakeRequest& r)
{
    if (m.sender != nullptr) {
        m.bytes.resize(m.size);
        pack(m.sender->type, m.sender->buffer, m.size, m.bytes.data());
        m.sender->complete = true;
    }
    const std::uint64_t room = packed_size(r.type, r.elements);
    unpack(r.type, r.buffer, std::min(room, m.size), m.bytes.data());
    r.source = m.from;
    r.tag = m.tag;
    r.count = std::min(room, m.size);
    r.error = m.size > room ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    r.complete = true;
}

void FakeMpi::tick()
{
    ++now_;
    for (auto m = under_way_.begin(); m != under_way_.end();) {
        if (m->due > now_) {
            ++m;
            continue;
        }
        FakeMessage arriving = std::move(*m);
        m = under_way_.erase(m);
        arrive(std::move(arriving));
    }
}

bool FakeMpi::busy() const
{
    return !under_way_.empty() || std::any_of(arrived_.begin(), arrived_.end(), [](const FakeMessage& m) {
        return m.sender != nullptr;
    });
}

bool FakeMpi::done(MPI_Request request)
{
    auto* r = as<FakeRequest>(request);
    if (r->what == FakeRequest::What::barrier && !r->complete)
        r->complete = barrier_entered_[{r->comm->context, r->round}] ==
                      static_cast<int>(r->comm->members.size());
    if (r->what == FakeRequest::What::barrier && r->complete && r->elements != 0) {
        const auto& most = reduced_[{r->comm->context, r->round}];
        std::copy(most.begin(), most.end(), static_cast<std::int64_t*>(r->buffer));
    }
    return r->complete;
}

int FakeMpi::finish(MPI_Request* request, MPI_Status* status, bool with_error)
{
    auto* r = as<FakeRequest>(*request);
    const bool received = r->what == FakeRequest::What::receive && !r->cancelled;
    const int error = r->error;
    if (status != MPI_STATUS_IGNORE) {
        status->MPI_SOURCE = received ? r->source : MPI_ANY_SOURCE;
        status->MPI_TAG = received ? r->tag : MPI_ANY_TAG;
        status->_ucount = r->count;
        status->_cancelled = r->cancelled ? 1 : 0;
        if (with_error)
            status->MPI_ERROR = error;
    }
    requests_.erase(r);
    *request = as<std::remove_pointer_t<MPI_Request>>(&null_);
    return error;
}

int FakeMpi::report(const char* call, int error)
{
    if (error != MPI_SUCCESS)
        returned.emplace_back(call);
    return error;
}

void FakeMpi::wait(MPI_Request request)
{
    for (int tries = 0; !done(request); ++tries) {
        if (tries > 100000)
            throw std::runtime_error("the fake MPI waits for ever");
        tick();
        if (while_blocked)
            while_blocked();
    }
}

} // namespace storm::unit
