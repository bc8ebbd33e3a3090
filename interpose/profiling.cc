// SPDX-License-Identifier: MIT
// Counts calls of the program on their way to the real MPI. While a job is profiled
// nothing is routed, so every call of ours ends in process.real: its functions are
// replaced by counting ones, and put back at the end.
#include "profiling.hh"

#include "profile.hh"
#include "report.hh"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <unistd.h>
#include <unordered_map>

namespace storm::interpose::profiling {
namespace {

constexpr std::uint64_t kEmptyMax_us = 20;
constexpr std::uint64_t kTimedEvery = 16; // of the calls that may find nothing

struct Handles {
    MPI_Comm comm;
    MPI_Datatype type; // null: none, of a probe
    int tag;
    bool operator==(const Handles&) const = default;
};
struct HandlesHash {
    std::size_t operator()(const Handles& h) const
    {
        const auto a = reinterpret_cast<std::uintptr_t>(h.comm), b = reinterpret_cast<std::uintptr_t>(h.type);
        return (a ^ b * 31) * 0x9e3779b97f4a7c15u + static_cast<unsigned>(h.tag);
    }
};

// What a request was made for.
struct Pending {
    ProfileRow* row = nullptr;
    bool persistent = false, sends = false, synchronous = false;
    std::uint64_t bytes = 0;
    int peer = 0, tag = 0;
};

struct Profiler {
    RealMpi real; // what process.real was
    const Settings* settings = nullptr;
    Clock* clock = nullptr;
    bool threaded = false;
    std::mutex mutex;
    RankProfile profile; // its ns are ticks until the end
    std::uint64_t begun = 0;
    std::unordered_map<Handles, ProfileRow*, HandlesHash> rows;
    std::unordered_map<MPI_Datatype, std::uint64_t> sizes;
    std::unordered_map<MPI_Request, Pending> pending;
};
constinit Profiler* profiler = nullptr;

class Locked {
public:
    Locked()
    {
        if (profiler->threaded)
            profiler->mutex.lock();
    }
    ~Locked()
    {
        if (profiler->threaded)
            profiler->mutex.unlock();
    }
    Locked(const Locked&) = delete;
};

std::uint64_t size_of(MPI_Datatype type)
{
    const auto at = profiler->sizes.find(type);
    if (at != profiler->sizes.end())
        return at->second;
    MPI_Count size = 0;
    if (profiler->real.Type_size_x(type, &size) != MPI_SUCCESS || size < 0)
        size = 0;
    return profiler->sizes[type] = static_cast<std::uint64_t>(size);
}

ProfileRow& row(MPI_Comm comm, MPI_Datatype type, int tag)
{
    ProfileRow*& slot = profiler->rows[{comm, type, tag}];
    if (slot != nullptr)
        return *slot;
    char text[MPI_MAX_OBJECT_NAME] = "";
    int length = 0, size = 0;
    ProfileKey key;
    key.tag = tag == MPI_ANY_TAG ? -1 : tag;
    profiler->real.Comm_get_name(comm, text, &length);
    key.comm = text;
    if (key.comm.empty()) {
        profiler->real.Comm_size(comm, &size);
        key.comm = "one of " + std::to_string(size) + " ranks";
    }
    text[0] = '\0';
    if (type != nullptr) {
        profiler->real.Type_get_name(type, text, &length);
        key.type = text;
        if (key.type.empty())
            key.type = "of " + std::to_string(size_of(type)) + " bytes";
    }
    slot = &profiler->profile.rows[key];
    return *slot;
}

void send_counted(ProfileRow& r, std::uint64_t bytes, int dest, bool synchronous)
{
    ++r.sent;
    r.sent_bytes += bytes;
    r.sent_largest = std::max(r.sent_largest, bytes);
    r.synchronous += synchronous ? 1 : 0;
    ++r.sizes[static_cast<std::size_t>(size_bin(bytes))];
    r.to.insert(dest);
}

void receive_counted(ProfileRow& r, std::uint64_t bytes, int source, int tag)
{
    ++r.receives;
    r.posted_bytes += bytes;
    r.any_source += source == MPI_ANY_SOURCE ? 1 : 0;
    r.any_tag += tag == MPI_ANY_TAG ? 1 : 0;
}

bool sound(MPI_Comm comm, MPI_Datatype type, int count)
{
    const RealMpi& real = profiler->real;
    return comm != nullptr && comm != real.comm_null && type != nullptr && type != real.datatype_null && count >= 0;
}

// Counts one send or receive; `request` is what the real MPI made of it, if anything.
void post(bool sends, MPI_Comm comm, MPI_Datatype type, int count, int peer, int tag, bool synchronous,
          const MPI_Request* request, bool persistent)
{
    if (!sound(comm, type, count) || (peer < 0 && peer != MPI_ANY_SOURCE))
        return;
    const Locked locked;
    Pending p{&row(comm, type, tag), persistent, sends, synchronous,
              size_of(type) * static_cast<std::uint64_t>(count), peer, tag};
    if (!persistent && sends)
        send_counted(*p.row, p.bytes, peer, synchronous);
    else if (!persistent)
        receive_counted(*p.row, p.bytes, peer, tag);
    const RealMpi& real = profiler->real;
    if (request != nullptr && *request != real.request_null && *request != real.request_done)
        profiler->pending[*request] = p;
}

void started(MPI_Request request)
{
    const Locked locked;
    const auto at = profiler->pending.find(request);
    if (at == profiler->pending.end())
        return;
    const Pending& p = at->second;
    if (p.sends)
        send_counted(*p.row, p.bytes, p.peer, p.synchronous);
    else
        receive_counted(*p.row, p.bytes, p.peer, p.tag);
}

// A request is no longer what it was.
void ended(MPI_Request before, MPI_Request after)
{
    if (before != after)
        profiler->pending.erase(before);
}

ProfileCalls& calls(ProfileKind kind)
{
    return profiler->profile.calls[static_cast<std::size_t>(kind)];
}

// A call that waits: all of its time counts.
class Waiting {
public:
    explicit Waiting(ProfileKind kind) : kind_(kind), begun_(profiler->clock->ticks()) {}
    ~Waiting()
    {
        const std::uint64_t now = profiler->clock->ticks();
        const Locked locked;
        ProfileCalls& c = calls(kind_);
        ++c.calls;
        ++c.timed;
        c.ns += now - begun_;
    }
    Waiting(const Waiting&) = delete;

private:
    ProfileKind kind_;
    std::uint64_t begun_;
};

// A call that may find nothing: some of those that do are timed.
template <class Call, class Empty>
int poll(ProfileKind kind, Call call, Empty empty)
{
    bool timed;
    {
        const Locked locked;
        timed = ++calls(kind).calls % kTimedEvery == 0;
    }
    const std::uint64_t begun = timed ? profiler->clock->ticks() : 0;
    const int rc = call();
    // what took longer was not this call: another process had the core
    const std::uint64_t took = timed ? profiler->clock->ticks() - begun : 0;
    timed = timed && took < kEmptyMax_us * profiler->clock->ticks_per_us();
    if (rc == MPI_SUCCESS && empty()) {
        const Locked locked;
        ProfileCalls& c = calls(kind);
        ++c.empty;
        if (timed) {
            ++c.timed;
            c.ns += took;
        }
    }
    return rc;
}

// ---- the counting functions

namespace counted {

#define STORM_COUNT_SEND(name, synchronous)                                                        \
    int name##_counted(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)      \
    {                                                                                              \
        post(true, comm, type, count, dest, tag, synchronous, nullptr, false);                     \
        const Waiting waiting(ProfileKind::send);                                                  \
        return profiler->real.name(buf, count, type, dest, tag, comm);                             \
    }
STORM_COUNT_SEND(Send, false)
STORM_COUNT_SEND(Ssend, true)
STORM_COUNT_SEND(Rsend, false)
STORM_COUNT_SEND(Bsend, false)

#define STORM_COUNT_ISEND(name, synchronous, persistent)                                           \
    int name##_counted(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,      \
             MPI_Request* request)                                                                 \
    {                                                                                              \
        const int rc = profiler->real.name(buf, count, type, dest, tag, comm, request);            \
        if (rc == MPI_SUCCESS)                                                                     \
            post(true, comm, type, count, dest, tag, synchronous, request, persistent);            \
        return rc;                                                                                 \
    }
STORM_COUNT_ISEND(Isend, false, false)
STORM_COUNT_ISEND(Issend, true, false)
STORM_COUNT_ISEND(Irsend, false, false)
STORM_COUNT_ISEND(Ibsend, false, false)
STORM_COUNT_ISEND(Send_init, false, true)
STORM_COUNT_ISEND(Ssend_init, true, true)
STORM_COUNT_ISEND(Rsend_init, false, true)
STORM_COUNT_ISEND(Bsend_init, false, true)

#define STORM_COUNT_IRECV(name, persistent)                                                        \
    int name##_counted(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,          \
             MPI_Request* request)                                                                 \
    {                                                                                              \
        const int rc = profiler->real.name(buf, count, type, source, tag, comm, request);          \
        if (rc == MPI_SUCCESS)                                                                     \
            post(false, comm, type, count, source, tag, false, request, persistent);               \
        return rc;                                                                                 \
    }
STORM_COUNT_IRECV(Irecv, false)
STORM_COUNT_IRECV(Recv_init, true)

int Recv_counted(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status)
{
    post(false, comm, type, count, source, tag, false, nullptr, false);
    const Waiting waiting(ProfileKind::receive);
    return profiler->real.Recv(buf, count, type, source, tag, comm, status);
}

int Sendrecv_counted(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag, void* recvbuf,
             int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status* status)
{
    post(true, comm, sendtype, sendcount, dest, sendtag, false, nullptr, false);
    post(false, comm, recvtype, recvcount, source, recvtag, false, nullptr, false);
    const Waiting waiting(ProfileKind::receive);
    return profiler->real.Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                                   source, recvtag, comm, status);
}

int Sendrecv_replace_counted(void* buf, int count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag,
                     MPI_Comm comm, MPI_Status* status)
{
    post(true, comm, type, count, dest, sendtag, false, nullptr, false);
    post(false, comm, type, count, source, recvtag, false, nullptr, false);
    const Waiting waiting(ProfileKind::receive);
    return profiler->real.Sendrecv_replace(buf, count, type, dest, sendtag, source, recvtag, comm, status);
}

int Start_counted(MPI_Request* request)
{
    started(*request);
    return profiler->real.Start(request);
}

int Startall_counted(int count, MPI_Request requests[])
{
    for (int i = 0; i < count; ++i)
        started(requests[i]);
    return profiler->real.Startall(count, requests);
}

// ---- probes

void probe_counted(MPI_Comm comm, int source, int tag, bool found)
{
    if (comm == nullptr || comm == profiler->real.comm_null)
        return;
    const Locked locked;
    ProfileRow& r = row(comm, nullptr, tag);
    ++r.probes;
    r.empty_probes += found ? 0 : 1;
    r.any_source += source == MPI_ANY_SOURCE ? 1 : 0;
}

int Probe_counted(int source, int tag, MPI_Comm comm, MPI_Status* status)
{
    probe_counted(comm, source, tag, true);
    const Waiting waiting(ProfileKind::receive);
    return profiler->real.Probe(source, tag, comm, status);
}

int Mprobe_counted(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status)
{
    probe_counted(comm, source, tag, true);
    const Waiting waiting(ProfileKind::receive);
    return profiler->real.Mprobe(source, tag, comm, message, status);
}

int Iprobe_counted(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status)
{
    const int rc = poll(ProfileKind::probe, [&] { return profiler->real.Iprobe(source, tag, comm, flag, status); },
                        [&] { return *flag == 0; });
    if (rc == MPI_SUCCESS)
        probe_counted(comm, source, tag, *flag != 0);
    return rc;
}

int Improbe_counted(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status)
{
    const int rc = poll(ProfileKind::probe,
                        [&] { return profiler->real.Improbe(source, tag, comm, flag, message, status); },
                        [&] { return *flag == 0; });
    if (rc == MPI_SUCCESS)
        probe_counted(comm, source, tag, *flag != 0);
    return rc;
}

// ---- completion

// The requests of an array before a call; afterwards those that ended are forgotten.
class Watched {
public:
    Watched(int count, const MPI_Request* requests)
        : now_(requests), before_(requests, requests + (count > 0 && requests != nullptr ? count : 0))
    {
    }
    // Counts a test of them; it stands at the first that is known.
    void tested(bool found)
    {
        const Locked locked;
        for (std::size_t i = 0; i < before_.size(); ++i) {
            const auto at = profiler->pending.find(before_[i]);
            if (at == profiler->pending.end())
                continue;
            ++at->second.row->tests;
            at->second.row->empty_tests += found ? 0 : 1;
            break;
        }
        forget();
    }
    void waited()
    {
        const Locked locked;
        forget();
    }

private:
    void forget()
    {
        for (std::size_t i = 0; i < before_.size(); ++i)
            ended(before_[i], now_[i]);
    }
    const MPI_Request* now_;
    std::vector<MPI_Request> before_;
};

int Test_counted(MPI_Request* request, int* flag, MPI_Status* status)
{
    if (request == nullptr || *request == profiler->real.request_null) {
        const Locked locked;
        ++profiler->profile.null_tests;
        return profiler->real.Test(request, flag, status);
    }
    const MPI_Request before = *request;
    const int rc = poll(ProfileKind::test, [&] { return profiler->real.Test(request, flag, status); },
                        [&] { return *flag == 0; });
    const Locked locked;
    if (const auto at = profiler->pending.find(before); at != profiler->pending.end()) {
        ++at->second.row->tests;
        at->second.row->empty_tests += rc == MPI_SUCCESS && *flag == 0 ? 1 : 0;
        ended(before, *request);
    }
    return rc;
}

int Testall_counted(int count, MPI_Request requests[], int* flag, MPI_Status statuses[])
{
    Watched watched(count, requests);
    const int rc = poll(ProfileKind::testany, [&] { return profiler->real.Testall(count, requests, flag, statuses); },
                        [&] { return *flag == 0; });
    watched.tested(*flag != 0);
    return rc;
}

int Testany_counted(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status)
{
    Watched watched(count, requests);
    const int rc = poll(ProfileKind::testany,
                        [&] { return profiler->real.Testany(count, requests, index, flag, status); },
                        [&] { return *flag == 0; });
    watched.tested(*flag != 0);
    return rc;
}

int Testsome_counted(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[])
{
    Watched watched(count, requests);
    const int rc = poll(ProfileKind::testany,
                        [&] { return profiler->real.Testsome(count, requests, done, indices, statuses); },
                        [&] { return *done == 0; });
    watched.tested(*done != 0);
    return rc;
}

int Wait_counted(MPI_Request* request, MPI_Status* status)
{
    Watched watched(request != nullptr ? 1 : 0, request);
    const Waiting waiting(ProfileKind::wait);
    const int rc = profiler->real.Wait(request, status);
    watched.waited();
    return rc;
}

#define STORM_COUNT_WAIT(name, params, args)                                                       \
    int name##_counted params                                                                                \
    {                                                                                              \
        Watched watched(count, requests);                                                          \
        const Waiting waiting(ProfileKind::wait);                                                  \
        const int rc = profiler->real.name args;                                                   \
        watched.waited();                                                                          \
        return rc;                                                                                 \
    }
STORM_COUNT_WAIT(Waitall, (int count, MPI_Request requests[], MPI_Status* statuses), (count, requests, statuses))
STORM_COUNT_WAIT(Waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status),
                 (count, requests, index, status))
STORM_COUNT_WAIT(Waitsome, (int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]),
                 (count, requests, done, indices, statuses))

int Request_free_counted(MPI_Request* request)
{
    if (request != nullptr) {
        const Locked locked;
        profiler->pending.erase(*request);
    }
    return profiler->real.Request_free(request);
}

// ---- handles whose names may change, or whose addresses may come again

void forget_names()
{
    const Locked locked;
    profiler->rows.clear();
    profiler->sizes.clear();
}

int Comm_free_counted(MPI_Comm* comm)
{
    forget_names();
    return profiler->real.Comm_free(comm);
}

int Comm_disconnect_counted(MPI_Comm* comm)
{
    forget_names();
    return profiler->real.Comm_disconnect(comm);
}

int Comm_set_name_counted(MPI_Comm comm, const char* name)
{
    forget_names();
    return profiler->real.Comm_set_name(comm, name);
}

int Type_free_counted(MPI_Datatype* type)
{
    forget_names();
    return profiler->real.Type_free(type);
}

// ---- collective calls, timed as they are

template <auto member>
struct Collective;
template <class... Args, int (*RealMpi::*member)(Args...)>
struct Collective<member> {
    static int call(Args... args)
    {
        const Waiting waiting(ProfileKind::collective);
        return (profiler->real.*member)(args...);
    }
};

} // namespace counted

#define STORM_COUNTED_CALLS(X)                                                                     \
    X(Send) X(Ssend) X(Rsend) X(Bsend) X(Isend) X(Issend) X(Irsend) X(Ibsend) X(Send_init)         \
    X(Ssend_init) X(Rsend_init) X(Bsend_init) X(Irecv) X(Recv_init) X(Recv) X(Sendrecv)            \
    X(Sendrecv_replace) X(Start) X(Startall) X(Probe) X(Mprobe) X(Iprobe) X(Improbe) X(Test)       \
    X(Testall) X(Testany) X(Testsome) X(Wait) X(Waitall) X(Waitany) X(Waitsome) X(Request_free)    \
    X(Comm_free) X(Comm_disconnect) X(Comm_set_name) X(Type_free)
#define STORM_TIMED_CALLS(X)                                                                       \
    X(Barrier) X(Bcast) X(Gather) X(Gatherv) X(Scatter) X(Scatterv) X(Allgather) X(Allgatherv)     \
    X(Alltoall) X(Alltoallv) X(Alltoallw) X(Reduce) X(Allreduce) X(Reduce_scatter)                 \
    X(Reduce_scatter_block) X(Scan) X(Exscan)

// The program and its arguments, as one would type them.
std::string command()
{
    std::string text;
    char part[1024];
    const int fd = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const auto n = fd >= 0 ? ::read(fd, part, sizeof part) : 0;
    if (fd >= 0)
        ::close(fd);
    for (int i = 0; i + 1 < n; ++i)
        text += part[i] == '\0' ? ' ' : part[i];
    return text.empty() ? "the program" : text;
}

void write(const JobProfile& job)
{
    const std::string& setting = profiler->settings->profile;
    const std::size_t colon = setting.find(':');
    const std::string file = colon == std::string::npos ? "" : setting.substr(colon + 1);
    const bool as_json = setting.compare(0, 4, "json") == 0;
    if (write_text(file, as_json ? profile_json(job) : profile_text(job)))
        return;
    process.log.error("the profile cannot be written (%s: %s): choose another file in STORM_PROFILE%s",
                      file.empty() ? "standard error" : file.c_str(), std::strerror(errno),
                      file.empty() ? "" : "; as text it is");
    if (!file.empty())
        write_text("", profile_text(job));
}

} // namespace

void begin(const Settings& settings, Clock& clock)
{
    profiler = new Profiler;
    profiler->real = process.real;
    profiler->settings = &settings;
    profiler->clock = &clock;
    int level = MPI_THREAD_SINGLE;
    process.real.Query_thread(&level);
    profiler->threaded = level == MPI_THREAD_MULTIPLE;
#define STORM_COUNT_IT(name) process.real.name = counted::name##_counted;
    STORM_COUNTED_CALLS(STORM_COUNT_IT)
#undef STORM_COUNT_IT
#define STORM_TIME_IT(name) process.real.name = counted::Collective<&RealMpi::name>::call;
    STORM_TIMED_CALLS(STORM_TIME_IT)
#undef STORM_TIME_IT
    profiler->begun = clock.ticks();
}

void end(MPI_Comm everybody)
{
    process.real = profiler->real;
    const RealMpi& real = process.real;
    const std::uint64_t per_us = std::max<std::uint64_t>(profiler->clock->ticks_per_us(), 1);
    RankProfile& mine = profiler->profile;
    mine.elapsed_us = (profiler->clock->ticks() - profiler->begun) / per_us;
    for (ProfileCalls& c : mine.calls)
        c.ns = c.ns * 1000 / per_us;
    int me = 0, ranks = 1;
    real.Comm_rank(everybody, &me);
    real.Comm_size(everybody, &ranks);
    // one after the other: the job's table grows with what differs, not with ranks
    constexpr int kTag = 3;
    if (me != 0) {
        const std::string bytes = packed(mine);
        real.Send(bytes.data(), static_cast<int>(bytes.size()), real.byte, 0, kTag, everybody);
        return;
    }
    JobProfile job;
    job.command = command();
    if (profiler->settings->profile_costs != "none")
        job.measured = profiler->settings->profile_costs;
    for (int rank = 0; rank < ranks; ++rank) {
        std::string bytes = rank == 0 ? packed(mine) : "";
        if (rank != 0) {
            MPI_Status status;
            real.Probe(rank, kTag, everybody, &status);
            bytes.resize(status._ucount);
            real.Recv(bytes.data(), static_cast<int>(bytes.size()), real.byte, rank, kTag, everybody,
                      MPI_STATUS_IGNORE);
        }
        RankProfile part;
        if (unpack(bytes, part))
            merge(job, part);
        else
            process.log.error("the profile of rank %d did not arrive whole: its calls are missing", rank);
    }
    write(job);
}

} // namespace storm::interpose::profiling
