// The receiving half of the message path: records from rings meet posted receives, or
// wait as unexpected messages.
#include "copy.hh"
#include "rank.hh"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <utility>

namespace storm {
namespace {

template <class Prefix>
Prefix read_prefix(const std::byte* payload)
{
    Prefix prefix;
    std::memcpy(&prefix, payload, sizeof prefix);
    return prefix;
}

std::uint64_t fixed_bytes(Kind kind)
{
    switch (kind) {
    case Kind::first: return sizeof(LongPrefix);
    case Kind::native: return sizeof(NativePrefix);
    case Kind::ack: return sizeof(AckPrefix);
    case Kind::define: return sizeof(DefinePrefix);
    case Kind::grow: return sizeof(GrowPrefix);
    default: return 0;
    }
}

// An extra look at a ring that is never empty must not starve the other ones.
constexpr int kRecordsPerLook = 256;

} // namespace

// ---- calls

int Rank::recv(void* buffer, int count, TypeInfo& type, int source_rank, int tag, Comm& comm,
               MPI_Status* status)
{
    MPI_Comm where = nullptr;
    int error;
    {
        Guard guard(*this);
        Request r;
        fill(r, Request::What::receive, buffer, count, type, source_rank, tag, comm);
        where = comm.handle;
        start_receive(r);
        wait_until(guard, [&] { return r.state == Request::State::complete; });
        fill_status(r, status, false);
        error = r.error;
    }
    return error == MPI_SUCCESS ? error : raise(Call::recv, where, error);
}

MPI_Request Rank::recv_init(void* buffer, int count, TypeInfo& type, int source_rank, int tag,
                            Comm& comm)
{
    const Guard guard(*this);
    Request& r = keep(Request::What::receive, buffer, count, type, source_rank, tag, comm);
    r.persistent = true;
    return reinterpret_cast<MPI_Request>(&r);
}

MPI_Request Rank::irecv(void* buffer, int count, TypeInfo& type, int source_rank, int tag,
                        Comm& comm)
{
    const Guard guard(*this);
    Request& r = keep(Request::What::receive, buffer, count, type, source_rank, tag, comm);
    start_receive(r);
    return reinterpret_cast<MPI_Request>(&r);
}

int Rank::mrecv(void* buffer, int count, TypeInfo& type, MPI_Message handle, MPI_Status* status)
{
    MPI_Comm where = nullptr;
    int error;
    {
        Guard guard(*this);
        Message* m = message_of(handle);
        Request r;
        fill(r, Request::What::receive, buffer, count, type, m->source->rank, m->tag, *m->source->comm);
        where = r.comm->handle;
        r.capacity = type.size * static_cast<std::uint64_t>(count);
        r.state = Request::State::active;
        exposed_.erase(m);
        take(*m, r);
        wait_until(guard, [&] { return r.state == Request::State::complete; });
        fill_status(r, status, false);
        error = r.error;
    }
    return error == MPI_SUCCESS ? error : raise(Call::mrecv, where, error);
}

MPI_Request Rank::imrecv(void* buffer, int count, TypeInfo& type, MPI_Message handle)
{
    const Guard guard(*this);
    Message* m = message_of(handle);
    Request& r = keep(Request::What::receive, buffer, count, type, m->source->rank, m->tag, *m->source->comm);
    r.capacity = type.size * static_cast<std::uint64_t>(count);
    r.state = Request::State::active;
    exposed_.erase(m);
    take(*m, r);
    return reinterpret_cast<MPI_Request>(&r);
}

// The message that a probe would tell of, if it is here.
Message* Rank::look(int source_rank, int tag, Comm& comm)
{
    if (Message* m = comm.find_arrived(source_rank, tag))
        return m;
    return poll() ? comm.find_arrived(source_rank, tag) : nullptr;
}

void Rank::probed(const Message& m, MPI_Status* status) const
{
    Request r;
    r.from = m.source->rank;
    r.from_tag = m.tag;
    r.received = m.total;
    fill_status(r, status, false);
}

bool Rank::iprobe(int source_rank, int tag, Comm& comm, MPI_Status* status)
{
    const Guard guard(*this);
    const Message* m = look(source_rank, tag, comm);
    if (m == nullptr) {
        ++counters_.empty_tests;
        return false;
    }
    probed(*m, status);
    return true;
}

void Rank::probe(int source_rank, int tag, Comm& comm, MPI_Status* status)
{
    Guard guard(*this);
    const Message* m = nullptr;
    wait_until(guard, [&] { return (m = comm.find_arrived(source_rank, tag)) != nullptr; });
    probed(*m, status);
}

MPI_Message Rank::improbe(int source_rank, int tag, Comm& comm, MPI_Status* status)
{
    const Guard guard(*this);
    Message* m = look(source_rank, tag, comm);
    if (m == nullptr) {
        ++counters_.empty_tests;
        return nullptr;
    }
    comm.remove(*m);
    m->matched = true;
    exposed_.insert(m);
    probed(*m, status);
    return reinterpret_cast<MPI_Message>(m);
}

MPI_Message Rank::mprobe(int source_rank, int tag, Comm& comm, MPI_Status* status)
{
    Guard guard(*this);
    Message* m = nullptr;
    wait_until(guard, [&] { return (m = comm.find_arrived(source_rank, tag)) != nullptr; });
    comm.remove(*m);
    m->matched = true;
    exposed_.insert(m);
    probed(*m, status);
    return reinterpret_cast<MPI_Message>(m);
}

Message* Rank::message_of(MPI_Message handle) const
{
    return reinterpret_cast<Message*>(handle);
}

bool Rank::owns_message(MPI_Message handle) const
{
    const Guard guard(*this);
    return exposed_.contains(reinterpret_cast<const Message*>(handle));
}

// Fortran handles of messages count down from -2: the real MPI's count up from 0.
MPI_Fint Rank::message_index(MPI_Message handle)
{
    const Guard guard(*this);
    Message* m = message_of(handle);
    if (m->fortran_index == -1) {
        const auto free_slot = std::find(message_handles_.begin(), message_handles_.end(), nullptr);
        m->fortran_index = -2 - static_cast<MPI_Fint>(free_slot - message_handles_.begin());
        if (free_slot == message_handles_.end())
            message_handles_.push_back(m);
        else
            *free_slot = m;
    }
    return m->fortran_index;
}

MPI_Message Rank::message_at(MPI_Fint index) const
{
    const Guard guard(*this);
    const std::int64_t slot = -2 - std::int64_t{index};
    if (slot < 0 || static_cast<std::size_t>(slot) >= message_handles_.size())
        return nullptr;
    return reinterpret_cast<MPI_Message>(message_handles_[static_cast<std::size_t>(slot)]);
}

// ---- a receive meets what has arrived

void Rank::start_receive(Request& r)
{
    r.state = Request::State::active;
    r.capacity = r.type->size * static_cast<std::uint64_t>(r.count);
    r.source = r.rank == MPI_ANY_SOURCE ? nullptr : &source(*r.comm, r.rank);
    if (Message* m = r.comm->find_arrived(r.rank, r.tag)) {
        r.comm->remove(*m);
        take(*m, r);
        return;
    }
    r.order = ++order_;
    r.comm->post(r);
}

// `m` is in no queue any more; it ends here or when its last piece has come.
void Rank::take(Message& m, Request& r)
{
    Source& s = *m.source;
    if (m.cookie != 0)
        acknowledge(s, std::exchange(m.cookie, 0));
    if (m.native) {
        r.from_tag = m.tag;
        receive_native(r, s, m.native_tag, m.total);
    } else if (m.arrived < m.total) {
        m.taker = &r;
        return;
    } else {
        types_.unpack(*r.type, r.buffer, r.count, m.bytes, std::min(m.total, r.capacity));
        finish_receive(r, s.rank, m.tag, m.total, m.error);
    }
    free_message(&m); // last: a communicator that was freed may end with it
}

void Rank::finish_receive(Request& r, int from, int tag, std::uint64_t bytes, int error)
{
    r.from = from;
    r.from_tag = tag;
    r.received = bytes;
    r.error = error == MPI_SUCCESS && bytes > r.capacity ? MPI_ERR_TRUNCATE : error;
    counters_.truncations += bytes > r.capacity ? 1 : 0;
    r.state = Request::State::complete;
    if (r.freed)
        release(r);
}

void Rank::receive_native(Request& r, Source& s, int native_tag, std::uint64_t total)
{
    r.from = s.rank;
    r.received = total;
    const InReal in(*this);
    MPI_Request native;
    if (total > r.capacity && total <= INT32_MAX) {
        // The real MPI may write past a buffer that is too small (seen with 4.1.4 over
        // shared memory), so a truncated payload goes through a buffer of ours.
        auto* whole = static_cast<std::byte*>(std::malloc(total));
        real_.Irecv(whole, static_cast<int>(total), real_.byte, s.world, native_tag,
                    setup_.private_comm, &native);
        track(native, {&r, whole, 0});
        return;
    }
    real_.Irecv(r.buffer, r.count, r.type->handle, s.world, native_tag, setup_.private_comm,
                &native);
    track(native, {&r, nullptr, 0});
}

Message* Rank::new_message(Source& s, int tag, std::uint64_t total, bool keep_bytes)
{
    void* at = std::malloc(sizeof(Message) + (keep_bytes ? total : 0));
    if (at == nullptr) {
        setup_.log->error("no memory for an unexpected message of %llu bytes from rank %d: "
                          "receive earlier or send less at once",
                          static_cast<unsigned long long>(total), s.world);
        real_.Abort(real_.comm_world, 1);
    }
    auto* m = new (at) Message;
    m->tag = tag;
    m->total = total;
    m->source = &s;
    m->bytes = static_cast<std::byte*>(at) + sizeof(Message);
    ++s.comm->users;
    ++backlog_;
    backlog_peak_ = std::max(backlog_peak_, backlog_);
    return m;
}

void Rank::free_message(Message* m)
{
    if (m->fortran_index != -1)
        message_handles_[static_cast<std::size_t>(-2 - m->fortran_index)] = nullptr;
    Comm& comm = *m->source->comm;
    std::free(m);
    --comm.users;
    maybe_destroy(comm);
    constexpr std::uint64_t kLargeBacklog = 16384;
    if (--backlog_ == 0 && std::exchange(backlog_peak_, 0) > kLargeBacklog)
        ::malloc_trim(0); // a large backlog is over: its memory goes back to the system
}

// ---- records

// Handles what is in one ring; true when there was something.
bool Rank::drain(Channel& ch)
{
    int handled = 0;
    sent_since_receive_ = 0;
    RecordHeader header;
    while (handled < kRecordsPerLook) {
        const std::byte* payload = ch.in.peek(header);
        if (payload == nullptr)
            break;
        if (!ch.in.sound(header) || header.bytes < fixed_bytes(header.kind)) [[unlikely]]
            corrupt(ch, "a malformed record");
        ++handled;
        if (header.kind == Kind::grow) {
            on_grow(ch, read_prefix<GrowPrefix>(payload));
            continue;
        }
        handle(ch, header, payload);
        ch.in.pop(header);
    }
    return handled != 0;
}

void Rank::handle(Channel& ch, const RecordHeader& header, const std::byte* payload)
{
    switch (header.kind) {
    case Kind::eager:
        return on_eager(entry_source(ch, header.comm), header.tag, payload, header.bytes);
    case Kind::first:
        return on_first(ch, entry_source(ch, header.comm), header.tag, payload, header.bytes,
                        (header.flags & kSynchronous) != 0);
    case Kind::more:
        return on_more(ch, payload, header.bytes);
    case Kind::native:
        return on_native(entry_source(ch, header.comm), header.tag,
                         read_prefix<NativePrefix>(payload));
    case Kind::ack:
        return on_ack(read_prefix<AckPrefix>(payload).cookie);
    case Kind::define:
        return on_define(ch, header.comm, read_prefix<DefinePrefix>(payload));
    case Kind::retire:
        return on_retire(ch, header.comm);
    case Kind::grow:
    case Kind::skip:
    case Kind::none:
        break;
    }
    corrupt(ch, "a record of unknown kind");
}

void Rank::corrupt(const Channel& ch, const char* what)
{
    setup_.log->error("%s from rank %d (memory overwritten or a defect of STORM): the job ends "
                      "rather than deliver wrong data",
                      what, ch.peer);
    real_.Abort(real_.comm_world, 1);
    std::abort();
}

Source& Rank::entry_source(Channel& ch, std::uint32_t number)
{
    if (number >= ch.entries.size() || ch.entries[number].source == nullptr) [[unlikely]]
        corrupt(ch, "a message on a communicator that was never announced");
    return *ch.entries[number].source;
}

void Rank::on_eager(Source& s, int tag, const std::byte* payload, std::uint64_t bytes)
{
    Request* r = s.comm->take_posted(s, tag);
    if (r != nullptr) {
        if (r->type->contiguous) [[likely]]
            copy_bytes(r->buffer + r->type->first, payload, std::min(bytes, r->capacity));
        else
            types_.unpack(*r->type, r->buffer, r->count, payload, bytes);
        return finish_receive(*r, s.rank, tag, bytes);
    }
    if (s.comm->out_of_reach()) [[unlikely]]
        return;
    Message* m = new_message(s, tag, bytes, true);
    std::memcpy(m->bytes, payload, bytes);
    m->arrived = bytes;
    s.comm->arrive(*m);
    ++counters_.unexpected;
}

void Rank::on_first(Channel& ch, Source& s, int tag, const std::byte* payload,
                    std::uint64_t bytes, bool synchronous)
{
    const auto prefix = read_prefix<LongPrefix>(payload);
    const std::uint64_t piece = bytes - sizeof prefix;
    if (piece > prefix.total || ch.gathered != ch.expected) [[unlikely]]
        corrupt(ch, "a message that begins inside another");
    ch.gathered = 0;
    ch.expected = prefix.total;
    Request* r = s.comm->take_posted(s, tag);
    if (r != nullptr && synchronous)
        acknowledge(s, prefix.cookie);
    if (r != nullptr && r->type->contiguous) {
        // straight into the program's buffer, piece by piece
        r->from = s.rank;
        r->from_tag = tag;
        ch.assembling = r;
        ch.gathering = nullptr;
    } else {
        Message* m = new_message(s, tag, prefix.total, true);
        ch.assembling = nullptr;
        ch.gathering = m;
        if (r != nullptr) {
            m->taker = r;
        } else {
            m->cookie = synchronous ? prefix.cookie : 0;
            s.comm->arrive(*m);
            ++counters_.unexpected;
        }
    }
    on_more(ch, payload + sizeof prefix, piece);
}

void Rank::on_more(Channel& ch, const std::byte* payload, std::uint64_t bytes)
{
    if (bytes > ch.expected - ch.gathered) [[unlikely]]
        corrupt(ch, "a message longer than it said");
    if (ch.assembling != nullptr) {
        Request& r = *ch.assembling;
        if (ch.gathered < r.capacity)
            copy_bytes(r.buffer + r.type->first + ch.gathered, payload,
                       std::min(bytes, r.capacity - ch.gathered));
        ch.gathered += bytes;
        if (ch.gathered == ch.expected) {
            ch.assembling = nullptr;
            finish_receive(r, r.from, r.from_tag, ch.expected);
        }
        return;
    }
    Message& m = *ch.gathering;
    copy_bytes(m.bytes + m.arrived, payload, bytes);
    m.arrived += bytes;
    ch.gathered += bytes;
    if (m.arrived < m.total)
        return;
    ch.gathering = nullptr;
    if (m.taker != nullptr)
        take(m, *m.taker);
}

void Rank::on_native(Source& s, int tag, const NativePrefix& prefix)
{
    Request* r = s.comm->take_posted(s, tag);
    if (r != nullptr) {
        r->from_tag = tag;
        return receive_native(*r, s, prefix.native_tag, prefix.total);
    }
    const bool small = prefix.total <= small_ && (prefix.flags & kSynchronous) == 0;
    Message* m = new_message(s, tag, prefix.total, small);
    m->native_tag = prefix.native_tag;
    s.comm->arrive(*m);
    ++counters_.unexpected;
    if (small)
        pull(*m);
    else
        m->native = true;
}

// A small payload that nobody waits for comes to us at once: an unexpected message costs
// the real MPI several times the memory, which it never gives back.
void Rank::pull(Message& m)
{
    MPI_Request native;
    {
        const InReal in(*this);
        real_.Irecv(m.bytes, static_cast<int>(m.total), real_.byte, m.source->world, m.native_tag,
                    setup_.private_comm, &native);
    }
    m.filling = true;
    track(native, {.message = &m});
}

void Rank::pulled(Message& m, int error)
{
    m.filling = false;
    m.arrived = m.total;
    m.error = error;
    if (m.taker != nullptr)
        take(m, *m.taker);
    else
        discard(*m.source->comm);
}

void Rank::on_ack(std::uint64_t cookie)
{
    Request* r = pool_.at(static_cast<std::int32_t>(cookie));
    if (r == nullptr || r->what != Request::What::send || !r->awaits_ack) {
        setup_.log->error("an acknowledgement for no send of ours (a defect of STORM)");
        real_.Abort(real_.comm_world, 1);
        return;
    }
    r->awaits_ack = false;
    finish_send(*r);
}

void Rank::on_define(Channel& ch, std::uint32_t number, const DefinePrefix& prefix)
{
    constexpr std::uint32_t kMostComms = 1 << 24;
    if (number >= kMostComms || prefix.sender_rank < 0 || prefix.sender_rank >= setup_.world_size)
        corrupt(ch, "a communicator with an impossible number");
    if (number >= ch.entries.size())
        ch.entries.resize(number + 1);
    if (ch.entries[number].source != nullptr)
        corrupt(ch, "a communicator announced twice");
    Comm* comm = by_id(prefix.id);
    Source* s = comm->known(prefix.sender_rank);
    if (s == nullptr) {
        s = &comm->add(prefix.sender_rank, ch.peer);
        s->channel = &ch;
    }
    ++comm->users;
    ch.entries[number] = {comm, s};
}

void Rank::on_retire(Channel& ch, std::uint32_t number)
{
    entry_source(ch, number);
    Comm& comm = *ch.entries[number].comm;
    ch.entries[number] = {};
    --comm.users;
    maybe_destroy(comm);
}

void Rank::on_grow(Channel& ch, const GrowPrefix& prefix)
{
    Lane next;
    if (prefix.bytes == 0 || (prefix.bytes & (prefix.bytes - 1)) != 0 ||
        backend_->open(ch.peer, prefix.ref, prefix.bytes, next) != Status::ok)
        corrupt(ch, "a successor ring that cannot be opened");
    backend_->close(ch.peer, ch.in.lane());
    ch.in = RingReader(next);
}

void Rank::accept_lanes()
{
    Claim claim;
    while (backend_->accept(claim)) {
        if (claim.peer < 0 || claim.peer >= setup_.world_size || claim.peer == setup_.world_rank) {
            setup_.log->error("a ring was claimed by a rank %d that does not exist", claim.peer);
            real_.Abort(real_.comm_world, 1);
            continue;
        }
        Channel& ch = channel(claim.peer);
        if (ch.has_in)
            corrupt(ch, "a second ring");
        ch.in = RingReader(claim.lane);
        ch.has_in = true;
        inbound_.push_back({ch.in.word(), &ch});
    }
    doorbell_ = backend_->doorbell();
}

} // namespace storm
