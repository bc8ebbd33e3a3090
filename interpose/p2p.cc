// SPDX-License-Identifier: MIT
// Point-to-point calls. Each asks whether its communicator is routed and its arguments
// are sound; if not, the real MPI gets the call unchanged and answers it.
#include "process.hh"

#include <algorithm>
#include <memory>

namespace storm::interpose {
namespace {

// A call that can be served: its rank object, communicator and datatype.
struct Sound {
    Rank* rank = nullptr;
    Comm* comm = nullptr; // routed, also when the arguments are not sound
    TypeInfo* type = nullptr;
    explicit operator bool() const { return type != nullptr; }
};

bool sound_buffer(const void* buffer, int count, const TypeInfo& type)
{
    return buffer != nullptr || count == 0 || type.size == 0 || type.absolute;
}

inline Sound sound_send(const void* buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    Sound s;
    s.rank = routed();
    if (s.rank == nullptr || (s.comm = s.rank->find(comm)) == nullptr) [[unlikely]]
        return s;
    if (dest < 0 || dest >= s.comm->size || tag < 0 || tag > s.rank->tag_max() || count < 0) [[unlikely]]
        return s;
    TypeInfo* known = s.rank->type_of(type);
    if (known != nullptr && sound_buffer(buffer, count, *known)) [[likely]]
        s.type = known;
    return s;
}

inline Sound sound_recv(const void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm)
{
    Sound s;
    s.rank = routed();
    if (s.rank == nullptr || (s.comm = s.rank->find(comm)) == nullptr) [[unlikely]]
        return s;
    if ((source < 0 && source != MPI_ANY_SOURCE) || source >= s.comm->size ||
        (tag < 0 && tag != MPI_ANY_TAG) || tag > s.rank->tag_max() || count < 0) [[unlikely]]
        return s;
    TypeInfo* known = s.rank->type_of(type);
    if (known != nullptr && sound_buffer(buffer, count, *known)) [[likely]]
        s.type = known;
    return s;
}

// The real MPI's answer to arguments that looked wrong. If it took them after all, a
// message would be on a way where nobody looks for it.
int answered(const Sound& s, int rc, int peer, const char* call)
{
    if (s.comm != nullptr && rc == MPI_SUCCESS && peer != MPI_PROC_NULL) {
        process.log.error("%s on a routed communicator was refused here and taken by the real MPI: "
                          "the job ends rather than lose a message; run it with STORM_DISABLE=1",
                          call);
        process.real.Abort(process.real.comm_world, 1);
    }
    return rc;
}

} // namespace

#define STORM_SEND(name, mode)                                                                     \
    int name(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)      \
    {                                                                                              \
        const Sound s = sound_send(buf, count, type, dest, tag, comm);                             \
        if (!s) [[unlikely]]                                                                       \
            return answered(s, process.real.name(buf, count, type, dest, tag, comm), dest,         \
                            "MPI_" #name);                                                         \
        return s.rank->send(buf, count, *s.type, dest, tag, *s.comm, mode);                        \
    }
STORM_SEND(Send, Mode::standard)
STORM_SEND(Ssend, Mode::synchronous)
STORM_SEND(Rsend, Mode::ready)

#define STORM_ISEND(name, verb, mode)                                                              \
    int name(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,      \
             MPI_Request* request)                                                                 \
    {                                                                                              \
        const Sound s = sound_send(buf, count, type, dest, tag, comm);                             \
        if (!s || request == nullptr) [[unlikely]]                                                 \
            return answered(s, process.real.name(buf, count, type, dest, tag, comm, request),      \
                            dest, "MPI_" #name);                                                   \
        *request = s.rank->verb(buf, count, *s.type, dest, tag, *s.comm, mode);                    \
        return MPI_SUCCESS;                                                                        \
    }
STORM_ISEND(Isend, isend, Mode::standard)
STORM_ISEND(Issend, isend, Mode::synchronous)
STORM_ISEND(Irsend, isend, Mode::ready)

// These send nothing yet: what the real MPI says of their arguments stands.
#define STORM_SEND_INIT(name, mode)                                                                \
    int name(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,      \
             MPI_Request* request)                                                                 \
    {                                                                                              \
        const Sound s = sound_send(buf, count, type, dest, tag, comm);                             \
        if (!s || request == nullptr) [[unlikely]]                                                 \
            return process.real.name(buf, count, type, dest, tag, comm, request);                  \
        *request = s.rank->send_init(buf, count, *s.type, dest, tag, *s.comm, mode);               \
        return MPI_SUCCESS;                                                                        \
    }
STORM_SEND_INIT(Send_init, Mode::standard)
STORM_SEND_INIT(Ssend_init, Mode::synchronous)
STORM_SEND_INIT(Rsend_init, Mode::ready)
STORM_SEND_INIT(Bsend_init, Mode::buffered)

// Buffered sends: the program's buffer stays with the real MPI (other communicators
// need it). The real MPI takes a small message without any buffer and refuses a larger
// one that the buffer cannot hold: its error is provoked with a message that is larger
// than the buffer and than any limit below which it would be taken.
namespace {

bool buffer_holds(const Sound& s, int count)
{
    constexpr std::uint64_t kTakenAnyway = 4000;
    const std::uint64_t bytes = s.type->size * static_cast<std::uint64_t>(count);
    return bytes <= kTakenAnyway || s.rank->buffer_allows(bytes);
}

int too_large(const Sound& s)
{
    constexpr std::uint64_t kAboveAllLimits = 64 << 20;
    return static_cast<int>(std::min<std::uint64_t>(s.rank->attached() + kAboveAllLimits, INT32_MAX));
}

} // namespace

int Bsend(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    const Sound s = sound_send(buf, count, type, dest, tag, comm);
    if (!s) [[unlikely]]
        return answered(s, process.real.Bsend(buf, count, type, dest, tag, comm), dest, "MPI_Bsend");
    if (!buffer_holds(s, count)) [[unlikely]]
        return answered(s, process.real.Bsend(buf, too_large(s), process.real.byte, dest, tag, comm),
                        dest, "MPI_Bsend");
    return s.rank->send(buf, count, *s.type, dest, tag, *s.comm, Mode::buffered);
}

int Ibsend(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
           MPI_Request* request)
{
    const Sound s = sound_send(buf, count, type, dest, tag, comm);
    if (!s || request == nullptr) [[unlikely]]
        return answered(s, process.real.Ibsend(buf, count, type, dest, tag, comm, request), dest,
                        "MPI_Ibsend");
    if (!buffer_holds(s, count)) [[unlikely]]
        return answered(s, process.real.Ibsend(buf, too_large(s), process.real.byte, dest, tag, comm, request),
                        dest, "MPI_Ibsend");
    *request = s.rank->isend(buf, count, *s.type, dest, tag, *s.comm, Mode::buffered);
    return MPI_SUCCESS;
}

int Buffer_attach(void* buffer, int size)
{
    const int rc = process.real.Buffer_attach(buffer, size);
    if (rc == MPI_SUCCESS && routed())
        routed()->attach_buffer(static_cast<std::uint64_t>(size));
    return rc;
}

int Buffer_detach(void* buffer, int* size)
{
    if (Rank* rank = routed()) {
        rank->drain_buffered();
        rank->attach_buffer(0);
    }
    return process.real.Buffer_detach(buffer, size);
}

// ---- receives

int Recv(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status)
{
    const Sound s = sound_recv(buf, count, type, source, tag, comm);
    if (!s) [[unlikely]]
        return answered(s, process.real.Recv(buf, count, type, source, tag, comm, status), source,
                        "MPI_Recv");
    return s.rank->recv(buf, count, *s.type, source, tag, *s.comm, status);
}

#define STORM_IRECV(name, verb)                                                                    \
    int name(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,          \
             MPI_Request* request)                                                                 \
    {                                                                                              \
        const Sound s = sound_recv(buf, count, type, source, tag, comm);                           \
        if (!s || request == nullptr) [[unlikely]]                                                 \
            return answered(s, process.real.name(buf, count, type, source, tag, comm, request),    \
                            source, "MPI_" #name);                                                 \
        *request = s.rank->verb(buf, count, *s.type, source, tag, *s.comm);                        \
        return MPI_SUCCESS;                                                                        \
    }
STORM_IRECV(Irecv, irecv)
STORM_IRECV(Recv_init, recv_init)

int Sendrecv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
             void* recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
             MPI_Comm comm, MPI_Status* status)
{
    const auto pass = [&](const Sound& s, int peer) {
        return answered(s,
                        process.real.Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,
                                              recvcount, recvtype, source, recvtag, comm, status),
                        peer, "MPI_Sendrecv");
    };
    const bool sends = dest != MPI_PROC_NULL, receives = source != MPI_PROC_NULL;
    const Sound out = sound_send(sendbuf, sendcount, sendtype, sends ? dest : 0, sendtag, comm);
    const Sound in = sound_recv(recvbuf, recvcount, recvtype, receives ? source : 0, recvtag, comm);
    if (!out || !in || (!sends && !receives))
        return pass(out, sends || receives ? 0 : MPI_PROC_NULL);
    Rank& rank = *out.rank;
    MPI_Request request = process.real.request_null;
    if (receives)
        request = rank.irecv(recvbuf, recvcount, *in.type, source, recvtag, *in.comm);
    int rc = MPI_SUCCESS;
    if (sends)
        rc = rank.send(sendbuf, sendcount, *out.type, dest, sendtag, *out.comm, Mode::standard);
    if (!receives)
        request = process.real.request_done; // its status is that of a PROC_NULL receive
    const int received = rank.wait_as(Call::sendrecv, &request, status);
    return rc != MPI_SUCCESS ? rc : received;
}

namespace {

// So many plain bytes, also more than an int counts.
MPI_Datatype plain_bytes(std::uint64_t bytes)
{
    const RealMpi& real = process.real;
    constexpr int kBlock = 1 << 20;
    const int lengths[] = {static_cast<int>(bytes / kBlock), static_cast<int>(bytes % kBlock)};
    const MPI_Aint places[] = {0, static_cast<MPI_Aint>(bytes - bytes % kBlock)};
    MPI_Datatype block, made;
    real.Type_contiguous(kBlock, real.byte, &block);
    const MPI_Datatype types[] = {block, real.byte};
    real.Type_create_struct(2, lengths, places, types, &made);
    real.Type_free(&block);
    real.Type_commit(&made);
    return made;
}

// What is sent stands where the other message will be written: its bytes are copied, by
// the real MPI where the CPU may not touch them or an int cannot count them.
int replace(const Sound& out, const Sound& in, void* buf, int count, int dest, int sendtag, int source,
            int recvtag, MPI_Comm comm, MPI_Status* status)
{
    const RealMpi& real = process.real;
    Rank& rank = *out.rank;
    const std::uint64_t bytes = out.type->size * static_cast<std::uint64_t>(count);
    const std::unique_ptr<std::byte[]> copy(new std::byte[bytes + 1]);
    const bool counted = bytes <= INT32_MAX;
    MPI_Datatype plain = counted ? real.byte : plain_bytes(bytes);
    const int elements = counted ? static_cast<int>(bytes) : 1;
    int rc, position = 0;
    if (counted && !rank.on_device(buf, count, *out.type))
        rc = real.Pack(buf, count, out.type->handle, copy.get(), elements, &position, comm);
    else
        rc = rank.fetch_from_device(buf, count, *out.type, copy.get(), elements, plain);
    if (rc == MPI_SUCCESS) {
        MPI_Request request = rank.irecv(buf, count, *in.type, source, recvtag, *in.comm);
        rc = rank.send(copy.get(), elements, *rank.type_of(plain), dest, sendtag, *out.comm, Mode::standard);
        const int received = rank.wait_as(Call::sendrecv_replace, &request, status);
        rc = rc != MPI_SUCCESS ? rc : received;
    }
    if (!counted) {
        rank.forget_type(plain);
        real.Type_free(&plain);
    }
    return rc;
}

} // namespace

int Sendrecv_replace(void* buf, int count, MPI_Datatype type, int dest, int sendtag, int source,
                     int recvtag, MPI_Comm comm, MPI_Status* status)
{
    const bool sends = dest != MPI_PROC_NULL, receives = source != MPI_PROC_NULL;
    const Sound out = sound_send(buf, count, type, sends ? dest : 0, sendtag, comm);
    const Sound in = sound_recv(buf, count, type, receives ? source : 0, recvtag, comm);
    if (!out || !in || (!sends && !receives))
        return answered(out,
                        process.real.Sendrecv_replace(buf, count, type, dest, sendtag, source,
                                                      recvtag, comm, status),
                        sends || receives ? 0 : MPI_PROC_NULL, "MPI_Sendrecv_replace");
    Rank& rank = *out.rank;
    if (sends && receives)
        return replace(out, in, buf, count, dest, sendtag, source, recvtag, comm, status);
    int rc = MPI_SUCCESS;
    MPI_Request request = process.real.request_done; // its status is that of a PROC_NULL receive
    if (sends)
        rc = rank.send(buf, count, *out.type, dest, sendtag, *out.comm, Mode::standard);
    else
        request = rank.irecv(buf, count, *in.type, source, recvtag, *in.comm);
    const int received = rank.wait_as(Call::sendrecv_replace, &request, status);
    return rc != MPI_SUCCESS ? rc : received;
}

// ---- probes

namespace {
inline Sound sound_probe(int source, int tag, MPI_Comm comm)
{
    static constinit TypeInfo nothing;
    Sound s;
    s.rank = routed();
    if (s.rank == nullptr || (s.comm = s.rank->find(comm)) == nullptr ||
        (source < 0 && source != MPI_ANY_SOURCE) || source >= s.comm->size ||
        (tag < 0 && tag != MPI_ANY_TAG) || tag > s.rank->tag_max()) [[unlikely]]
        return s;
    s.type = &nothing;
    return s;
}
} // namespace

int Probe(int source, int tag, MPI_Comm comm, MPI_Status* status)
{
    const Sound s = sound_probe(source, tag, comm);
    if (!s)
        return process.real.Probe(source, tag, comm, status);
    s.rank->probe(source, tag, *s.comm, status);
    return MPI_SUCCESS;
}

int Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status)
{
    const Sound s = sound_probe(source, tag, comm);
    if (!s || flag == nullptr) [[unlikely]]
        return process.real.Iprobe(source, tag, comm, flag, status);
    if (s.rank->probe_is_empty(*s.comm)) [[likely]] {
        *flag = 0;
        return MPI_SUCCESS;
    }
    *flag = s.rank->iprobe(source, tag, *s.comm, status) ? 1 : 0;
    return MPI_SUCCESS;
}

int Mprobe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status)
{
    const Sound s = sound_probe(source, tag, comm);
    if (!s || message == nullptr)
        return process.real.Mprobe(source, tag, comm, message, status);
    *message = s.rank->mprobe(source, tag, *s.comm, status);
    return MPI_SUCCESS;
}

int Improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status)
{
    const Sound s = sound_probe(source, tag, comm);
    if (!s || message == nullptr || flag == nullptr)
        return process.real.Improbe(source, tag, comm, flag, message, status);
    const MPI_Message found = s.rank->improbe(source, tag, *s.comm, status);
    *flag = found != nullptr ? 1 : 0;
    *message = found != nullptr ? found : process.real.message_null;
    return MPI_SUCCESS;
}

int Mrecv(void* buf, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status)
{
    Rank* rank = routed();
    if (rank == nullptr || message == nullptr || !rank->owns_message(*message))
        return process.real.Mrecv(buf, count, type, message, status);
    TypeInfo* known = count < 0 ? nullptr : rank->type_of(type);
    if (known == nullptr || !sound_buffer(buf, count, *known)) {
        // the error is the real MPI's, on a message that is not there
        MPI_Message none = process.real.message_no_proc;
        return process.real.Mrecv(buf, count, type, &none, status);
    }
    const MPI_Message taken = *message;
    *message = process.real.message_null;
    return rank->mrecv(buf, count, *known, taken, status);
}

int Imrecv(void* buf, int count, MPI_Datatype type, MPI_Message* message, MPI_Request* request)
{
    Rank* rank = routed();
    if (rank == nullptr || message == nullptr || request == nullptr || !rank->owns_message(*message))
        return process.real.Imrecv(buf, count, type, message, request);
    TypeInfo* known = count < 0 ? nullptr : rank->type_of(type);
    if (known == nullptr || !sound_buffer(buf, count, *known)) {
        MPI_Message none = process.real.message_no_proc;
        return process.real.Imrecv(buf, count, type, &none, request);
    }
    *request = rank->imrecv(buf, count, *known, *message);
    *message = process.real.message_null;
    return MPI_SUCCESS;
}

MPI_Fint Message_c2f(MPI_Message message)
{
    Rank* rank = routed();
    return rank != nullptr && rank->owns_message(message) ? rank->message_index(message)
                                                          : process.real.Message_c2f(message);
}

MPI_Message Message_f2c(MPI_Fint message)
{
    Rank* rank = routed();
    const MPI_Message ours = rank != nullptr && message <= -2 ? rank->message_at(message) : nullptr;
    return ours != nullptr ? ours : process.real.Message_f2c(message);
}

} // namespace storm::interpose
