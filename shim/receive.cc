// SPDX-License-Identifier: MIT
// The receiving half of the message path: posted receives and unexpected messages.
#include "copy.hh"
#include "rank.hh"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <optional>
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
    Request r;
    fill(r, Request::What::receive, buffer, count, type, source_rank, tag, comm);
    start_receive(r);
    wait_until([&] { return r.state() == Request::State::complete; });
    fill_status(r, status, false);
    return r.error == MPI_SUCCESS ? r.error : raise(Call::recv, glance_at(comm.handle), r.error);
}

MPI_Request Rank::recv_init(void* buffer, int count, TypeInfo& type, int source_rank, int tag,
                            Comm& comm)
{
    Request& r = keep(Request::What::receive, buffer, count, type, source_rank, tag, comm);
    r.persistent = true;
    return reinterpret_cast<MPI_Request>(&r);
}

MPI_Request Rank::irecv(void* buffer, int count, TypeInfo& type, int source_rank, int tag,
                        Comm& comm)
{
    Request& r = keep(Request::What::receive, buffer, count, type, source_rank, tag, comm);
    start_receive(r);
    return reinterpret_cast<MPI_Request>(&r);
}

// A matched message meets its receive.
void Rank::receive_matched(MPI_Message handle, Request& r)
{
    Message* m = message_of(handle);
    open_receive(r);
    {
        const Hold tables(tables_, threaded_);
        exposed_.erase(m);
    }
    take(*m, r);
    send_acks(true);
}

int Rank::mrecv(void* buffer, int count, TypeInfo& type, MPI_Message handle, MPI_Status* status)
{
    const Message* m = message_of(handle);
    Comm& comm = *m->source->comm;
    Request r;
    fill(r, Request::What::receive, buffer, count, type, m->source->rank, m->tag, comm);
    const MPI_Comm where = glance_at(comm.handle);
    receive_matched(handle, r);
    wait_until([&] { return r.state() == Request::State::complete; });
    fill_status(r, status, false);
    return r.error == MPI_SUCCESS ? r.error : raise(Call::mrecv, where, r.error);
}

MPI_Request Rank::imrecv(void* buffer, int count, TypeInfo& type, MPI_Message handle)
{
    const Message* m = message_of(handle);
    Request& r = keep(Request::What::receive, buffer, count, type, m->source->rank, m->tag, *m->source->comm);
    receive_matched(handle, r);
    return reinterpret_cast<MPI_Request>(&r);
}

void Rank::probed(const Message& m, MPI_Status* status) const
{
    Request r;
    r.from = m.source->rank;
    r.from_tag = m.tag;
    r.received = m.total;
    fill_status(r, status, false);
}

// What a probe finds among the messages that are here: told, and taken if `matched`.
Message* Rank::probe_arrived(int source_rank, int tag, Comm& comm, bool matched, MPI_Status* status)
{
    Message* m;
    {
        const Hold queues(comm.lock, threaded_);
        m = comm.find_arrived(source_rank, tag);
        if (m == nullptr)
            return nullptr;
        probed(*m, status);
        if (!matched)
            return m;
        if (!STORM_PLANTED(matched_stays))
            comm.remove(*m);
        m->matched = true;
    }
    const Hold tables(tables_, threaded_);
    exposed_.insert(m);
    return m;
}

// The same after one look, if there was nothing.
Message* Rank::probe_once(int source_rank, int tag, Comm& comm, bool matched, MPI_Status* status)
{
    Message* m = probe_arrived(source_rank, tag, comm, matched, status);
    if (m == nullptr && poll())
        m = probe_arrived(source_rank, tag, comm, matched, status);
    if (m == nullptr)
        tally(counters_.empty_tests);
    return m;
}

bool Rank::iprobe(int source_rank, int tag, Comm& comm, MPI_Status* status)
{
    return probe_once(source_rank, tag, comm, false, status) != nullptr;
}

void Rank::probe(int source_rank, int tag, Comm& comm, MPI_Status* status)
{
    wait_until([&] { return probe_arrived(source_rank, tag, comm, false, status) != nullptr; });
}

MPI_Message Rank::improbe(int source_rank, int tag, Comm& comm, MPI_Status* status)
{
    return reinterpret_cast<MPI_Message>(probe_once(source_rank, tag, comm, true, status));
}

MPI_Message Rank::mprobe(int source_rank, int tag, Comm& comm, MPI_Status* status)
{
    Message* m = nullptr;
    wait_until([&] { return (m = probe_arrived(source_rank, tag, comm, true, status)) != nullptr; });
    return reinterpret_cast<MPI_Message>(m);
}

Message* Rank::message_of(MPI_Message handle) const
{
    return reinterpret_cast<Message*>(handle);
}

bool Rank::owns_message(MPI_Message handle) const
{
    const Hold tables(tables_, threaded_);
    return exposed_.contains(reinterpret_cast<const Message*>(handle));
}

// Fortran handles of messages count down from -2: the real MPI's count up from 0.
MPI_Fint Rank::message_index(MPI_Message handle)
{
    const Hold tables(tables_, threaded_);
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
    const Hold tables(tables_, threaded_);
    const std::int64_t slot = -2 - std::int64_t{index};
    if (slot < 0 || static_cast<std::size_t>(slot) >= message_handles_.size())
        return nullptr;
    return reinterpret_cast<MPI_Message>(message_handles_[static_cast<std::size_t>(slot)]);
}

// ---- a receive meets what has arrived

void Rank::open_receive(Request& r)
{
    r.set(Request::State::active);
    r.capacity = r.type->size * static_cast<std::uint64_t>(r.count);
    r.device = on_device(r.buffer, r.count, *r.type);
    r.plain = r.type->contiguous && !r.device;
}

void Rank::start_receive(Request& r)
{
    open_receive(r);
    r.source = r.rank == MPI_ANY_SOURCE ? nullptr : &source(*r.comm, r.rank);
    Message* m;
    {
        const Hold queues(r.comm->lock, threaded_);
        m = r.comm->find_arrived(r.rank, r.tag);
        if (m == nullptr)
            return r.comm->post(r);
        r.comm->remove(*m);
    }
    take(*m, r);
    send_acks(true);
}

// `m` is in no queue any more; it ends here or when its last byte has come.
void Rank::take(Message& m, Request& r)
{
    Source& s = *m.source;
    if (m.cookie != 0)
        acknowledge(s, std::exchange(m.cookie, 0));
    if (m.native) {
        r.from_tag = m.tag;
        receive_native(r, s, m.native_tag, m.total);
        return free_message(&m);
    }
    {
        const Hold queues(s.comm->lock, threaded_);
        if (!m.whole) {
            m.taker = &r;
            return;
        }
    }
    deliver(m, r);
}

void Rank::deliver(Message& m, Request& r)
{
    deliver_bytes(r, m.source->rank, m.tag, m.bytes, m.total, m.error);
    free_message(&m); // last: a communicator that was freed may end with it
}

// The last byte of a message has come. From here on another thread may take it.
void Rank::all_here(Message& m)
{
    Comm& comm = *m.source->comm;
    Request* taker;
    bool unreachable;
    {
        const Hold queues(comm.lock, threaded_);
        m.whole = true;
        taker = m.taker;
        unreachable = taker == nullptr && comm.out_of_reach();
        if (unreachable)
            adjust(comm.users, 1, threaded_);
    }
    if (taker != nullptr)
        return deliver(m, *taker);
    if (unreachable) {
        discard(comm);
        drop(comm);
    }
}

void Rank::finish_receive(Request& r, int from, int tag, std::uint64_t bytes, int error)
{
    r.from = from;
    r.from_tag = tag;
    r.received = STORM_PLANTED(length_of_the_buffer) ? r.capacity : bytes;
    r.error = error == MPI_SUCCESS && bytes > r.capacity ? MPI_ERR_TRUNCATE : error;
    if (bytes > r.capacity)
        tally(counters_.truncations);
    finish(r);
}

void Rank::deliver_bytes(Request& r, int from, int tag, const std::byte* bytes, std::uint64_t total, int error)
{
    if (r.device && error == MPI_SUCCESS && std::min(total, r.capacity) != 0)
        return place_on_device(r, from, tag, bytes, total);
    if (!r.device)
        types_.unpack(*r.type, r.buffer, r.count, bytes, std::min(total, r.capacity));
    finish_receive(r, from, tag, total, error);
}

// The CPU must not write there: the real MPI does, as the receiver of a message from
// ourselves, with which the program's receive ends.
void Rank::place_on_device(Request& r, int from, int tag, const std::byte* bytes, std::uint64_t total)
{
    r.from = from;
    r.from_tag = tag;
    r.received = total;
    const std::uint64_t fit = std::min(total, r.capacity);
    auto* copy = static_cast<std::byte*>(std::malloc(fit));
    std::memcpy(copy, bytes, fit);
    const int native_tag = native_tag_after(adjust(self_tag_, 1, threaded_));
    MPI_Request sending, receiving;
    int rc;
    {
        const InReal in(*this);
        rc = real_.Isend(copy, static_cast<int>(fit), real_.byte, setup_.world_rank, native_tag,
                         setup_.private_comm, &sending);
        if (rc != MPI_SUCCESS)
            std::free(copy);
        else
            rc = real_.Irecv(r.buffer, r.count, r.type->handle, setup_.world_rank, native_tag,
                             setup_.private_comm, &receiving);
    }
    if (rc != MPI_SUCCESS)
        return finish_receive(r, from, tag, total, rc);
    track(sending, {.owned = copy, .owned_bytes = fit});
    track(receiving, {.request = &r});
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
        const int rc = real_.Irecv(whole, static_cast<int>(total), real_.byte, s.world, native_tag,
                                   setup_.private_comm, &native);
        if (rc == MPI_SUCCESS)
            return track(native, {&r, whole, 0});
        std::free(whole);
        return finish_receive(r, s.rank, r.from_tag, total, rc);
    }
    const int rc = real_.Irecv(r.buffer, r.count, r.type->handle, s.world, native_tag,
                               setup_.private_comm, &native);
    if (rc == MPI_SUCCESS)
        return track(native, {&r, nullptr, 0});
    finish_receive(r, s.rank, r.from_tag, total, rc);
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
    adjust(s.comm->users, 1, threaded_);
    const std::uint64_t backlog = adjust(backlog_, 1, threaded_);
    if (backlog > glance_at(backlog_peak_))
        set_word(backlog_peak_, backlog);
    return m;
}

void Rank::free_message(Message* m)
{
    if (m->fortran_index != -1) {
        const Hold tables(tables_, threaded_);
        message_handles_[static_cast<std::size_t>(-2 - m->fortran_index)] = nullptr;
    }
    Comm& comm = *m->source->comm;
    std::free(m);
    drop(comm);
    constexpr std::uint64_t kLargeBacklog = 16384;
    if (adjust(backlog_, ~std::uint64_t{0}, threaded_) != 0)
        return;
    const std::uint64_t peak = glance_at(backlog_peak_);
    set_word(backlog_peak_, 0);
    if (peak > kLargeBacklog)
        ::malloc_trim(0); // a large backlog is over: its memory goes back to the system
}

// ---- records

// Handles what is in one ring; true when there was something.
bool Rank::drain(Channel& ch)
{
    int handled = 0;
    set_word(sent_since_receive_, 0);
    RecordHeader header;
    while (handled < kRecordsPerLook) {
        const std::byte* payload = ch.in.peek(header);
        if (payload == nullptr)
            break;
        if (!ch.in.sound(header) || header.bytes < fixed_bytes(header.kind)) [[unlikely]]
            corrupt(ch, "a malformed record");
        ++handled;
        if (header.kind == Kind::grow) {
            on_grow(ch, read_prefix<GrowPrefix>(payload), false);
            continue;
        }
        handle(ch, header, payload);
        if (STORM_PLANTED(record_read_twice) && header.kind == Kind::eager && ch.in.turn() % 64 == 63)
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
    default: break;
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
    Request* r;
    {
        const Hold queues(s.comm->lock, threaded_);
        r = s.comm->take_posted(s, tag);
        if (r == nullptr) [[unlikely]] {
            if (s.comm->out_of_reach()) [[unlikely]]
                return;
            Message* m = new_message(s, tag, bytes, true);
            std::memcpy(m->bytes, payload, bytes);
            m->whole = true;
            s.comm->arrive(*m);
        }
    }
    if (r == nullptr) [[unlikely]]
        return tally(counters_.unexpected);
    if (!r->plain) [[unlikely]]
        return deliver_bytes(*r, s.rank, tag, payload, bytes, MPI_SUCCESS);
    copy_bytes(r->buffer + r->type->first, payload, std::min(bytes, r->capacity));
    finish_receive(*r, s.rank, tag, bytes);
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
    Request* r;
    Message* m = nullptr;
    {
        const Hold queues(s.comm->lock, threaded_);
        r = s.comm->take_posted(s, tag);
        if (r == nullptr || !r->plain) {
            m = new_message(s, tag, prefix.total, true);
            m->taker = r;
            if (r == nullptr) {
                if (STORM_PLANTED(ack_before_match) && synchronous)
                    acknowledge(s, prefix.cookie);
                m->cookie = synchronous && !STORM_PLANTED(ack_before_match) ? prefix.cookie : 0;
                s.comm->arrive(*m);
            }
        }
    }
    ch.gathering = m;
    ch.assembling = m == nullptr ? r : nullptr; // straight into the program's buffer
    if (r == nullptr) {
        tally(counters_.unexpected);
    } else {
        r->from = s.rank;
        r->from_tag = tag;
        if (synchronous)
            acknowledge(s, prefix.cookie);
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
            copy_bytes(r.buffer + r.type->first + (STORM_PLANTED(piece_at_the_wrong_place) ? 0 : ch.gathered), payload,
                       std::min(bytes, r.capacity - ch.gathered));
        ch.gathered += bytes;
        if (ch.gathered == ch.expected) {
            ch.assembling = nullptr;
            finish_receive(r, r.from, r.from_tag, ch.expected);
        }
        return;
    }
    copy_bytes(ch.gathering->bytes + ch.gathered, payload, bytes);
    ch.gathered += bytes;
    if (ch.gathered == ch.expected)
        all_here(*std::exchange(ch.gathering, nullptr));
}

void Rank::on_native(Source& s, int tag, const NativePrefix& prefix)
{
    const bool small = prefix.total <= small_ && (prefix.flags & kSynchronous) == 0;
    Request* r;
    Message* m = nullptr;
    {
        const Hold queues(s.comm->lock, threaded_);
        r = s.comm->take_posted(s, tag);
        if (r == nullptr) {
            m = new_message(s, tag, prefix.total, small);
            m->native_tag = prefix.native_tag;
            m->native = !small;
            m->filling = small;
            s.comm->arrive(*m);
        }
    }
    if (r != nullptr) {
        r->from_tag = tag;
        return receive_native(*r, s, prefix.native_tag, prefix.total);
    }
    tally(counters_.unexpected);
    if (small)
        pull(*m);
}

// A small payload that nobody waits for comes to us at once: an unexpected message costs
// the real MPI several times the memory, which it never gives back.
void Rank::pull(Message& m)
{
    MPI_Request native;
    int rc;
    {
        const InReal in(*this);
        rc = real_.Irecv(m.bytes, static_cast<int>(m.total), real_.byte, m.source->world, m.native_tag,
                         setup_.private_comm, &native);
    }
    if (rc != MPI_SUCCESS)
        return pulled(m, rc);
    track(native, {.message = &m});
}

void Rank::pulled(Message& m, int error)
{
    m.filling = false;
    m.error = error;
    all_here(m);
}

void Rank::on_ack(std::uint64_t cookie)
{
    Request* r = pool_.at(static_cast<std::int32_t>(cookie));
    if (r == nullptr || r->what != Request::What::send ||
        (glance_at(r->awaits) & Request::kAck) == 0) {
        setup_.log->error("an acknowledgement for no send of ours (a defect of STORM)");
        real_.Abort(real_.comm_world, 1);
        return;
    }
    finish_part(*r, Request::kAck);
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
    Comm* comm = hold_by_id(prefix.id); // the entry's hold
    const Hold queues(comm->lock, threaded_);
    Source* s = comm->known(prefix.sender_rank);
    if (s == nullptr) {
        s = &comm->add(prefix.sender_rank, ch.peer);
        s->channel = &ch;
    }
    ch.entries[number] = {comm, s};
}

void Rank::on_retire(Channel& ch, std::uint32_t number)
{
    entry_source(ch, number);
    Comm& comm = *ch.entries[number].comm;
    ch.entries[number] = {};
    drop(comm);
}

// A ring of the peer, which its record names: the first one, in the carried stream, or the
// successor of the one that is read, which ends with it.
void Rank::on_grow(Channel& ch, const GrowPrefix& prefix, bool carried)
{
    if (ch.stopped)
        return; // the peer has our word
    if (carried == ch.has_in || prefix.bytes == 0 || (prefix.bytes & (prefix.bytes - 1)) != 0)
        corrupt(ch, "a ring that cannot be");
    const bool fabric = carried || ch.in_fabric;
    Backend* backend = fabric ? fabric_ : near_;
    Lane next;
    bool opened;
    {
        const Hold lock(backend_lock_, threaded_);
        std::optional<AtFabric> at;
        if (fabric && fabric_ != nullptr)
            at.emplace(*this);
        opened = backend != nullptr && backend->open(ch.peer, prefix.ref, prefix.bytes, next) == Status::ok;
        if (!carried) // the record that ends this ring
            Channel::count(ch.arrived_elsewhere, record_bytes(sizeof prefix));
        if (opened && !carried) {
            Channel::count(ch.arrived_elsewhere, ch.in.position());
            backend->close(ch.peer, ch.in.lane());
            ch.in = RingReader(next);
        } else if (opened) {
            read_from(ch, next, true);
        }
        if (at)
            collect_words();
    }
    if (!opened && !fabric)
        corrupt(ch, "a successor ring that cannot be opened");
    if (!opened)
        return stop_reading(ch, prefix.ref, "its ring cannot be opened");
    if (fabric && !carried)
        post_letter(ch, Kind::moved, "", 0);
}

// A new ring is looked at from now on; under the backend's lock.
void Rank::read_from(Channel& ch, const Lane& lane, bool fabric)
{
    ch.in = RingReader(lane);
    ch.has_in = true;
    ch.in_fabric = fabric;
    inbound_.push_back({ch.in.word(), &ch});
    // release: pairs with the acquire in poll, which then sees the ring
    std::atomic_ref(inbound_count_).store(inbound_.size(), std::memory_order_release);
}

void Rank::accept_lanes(Backend& from)
{
    Claim claim;
    const Hold backend(backend_lock_, threaded_);
    while (from.accept(claim)) {
        if (claim.peer < 0 || claim.peer >= setup_.world_size || claim.peer == setup_.world_rank) {
            setup_.log->error("a ring was claimed by a rank %d that does not exist", claim.peer);
            real_.Abort(real_.comm_world, 1);
            continue;
        }
        Channel& ch = channel(claim.peer);
        if (ch.stopped) {
            from.strand(claim.peer, claim.lane);
            continue;
        }
        if (ch.has_in)
            corrupt(ch, "a second ring");
        read_from(ch, claim.lane, &from == fabric_);
    }
    if (&from == near_)
        doorbell_ = from.doorbell();
}

} // namespace storm
