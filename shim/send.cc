// SPDX-License-Identifier: MIT
// The sending half of the message path: a call becomes a record in the peer's ring,
// or an envelope there with the payload by the real MPI.
#include "copy.hh"
#include "rank.hh"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace storm {
namespace {

constexpr int kCarryTag = 1;           // on the private communicator
constexpr int kFirstNativeTag = 2;
constexpr std::uint64_t kCarriedMax = 4000; // payload of a carried record

// The longest payload of one record: longer messages go in pieces, so that the
// receiver copies one while we write the next.
constexpr std::uint64_t kPiece = 4096;

std::uint64_t bytes_of(const TypeInfo& type, int count)
{
    return type.size * static_cast<std::uint64_t>(count);
}

} // namespace

int Rank::send(const void* buffer, int count, TypeInfo& type, int dest, int tag, Comm& comm,
               Mode mode)
{
    const std::uint64_t bytes = bytes_of(type, count);
    if (mode != Mode::synchronous && rides(comm, tag, bytes) && !on_device(buffer, count, type) &&
        send_at_once(source(comm, dest), buffer, count, type, bytes, tag)) [[likely]] {
        leave_held();
        return MPI_SUCCESS;
    }
    // A synchronous send is named in its ack, so it needs a request with an index.
    Request here;
    Request& r = mode == Mode::synchronous ? *new_request() : here;
    fill(r, Request::What::send, buffer, count, type, dest, tag, comm);
    r.mode = mode;
    start_send(r, mode != Mode::buffered);
    wait_until([&] {
        return r.state() == Request::State::complete && glance_at(carried_bytes_) <= settings_.send_buffer;
    });
    leave_held();
    const int error = r.error;
    if (&r != &here)
        give_back(r);
    return error == MPI_SUCCESS ? error : raise(Call::wait, glance_at(comm.handle), error);
}

MPI_Request Rank::isend(const void* buffer, int count, TypeInfo& type, int dest, int tag,
                        Comm& comm, Mode mode)
{
    const std::uint64_t bytes = bytes_of(type, count);
    if (mode != Mode::synchronous && rides(comm, tag, bytes) && !on_device(buffer, count, type) &&
        send_at_once(source(comm, dest), buffer, count, type, bytes, tag)) [[likely]]
        return real_.request_done;
    Request& r = keep(Request::What::send, buffer, count, type, dest, tag, comm);
    r.mode = mode;
    start_send(r, false);
    if (r.state() == Request::State::complete && r.error == MPI_SUCCESS && mode != Mode::synchronous) {
        // as the real MPI does: a send that is complete at once has no request of its own
        release(r);
        return real_.request_done;
    }
    return reinterpret_cast<MPI_Request>(&r);
}

MPI_Request Rank::send_init(const void* buffer, int count, TypeInfo& type, int dest, int tag,
                            Comm& comm, Mode mode)
{
    Request& r = keep(Request::What::send, buffer, count, type, dest, tag, comm);
    r.persistent = true;
    r.mode = mode;
    return reinterpret_cast<MPI_Request>(&r);
}

void Rank::start(Request& r)
{
    r.error = MPI_SUCCESS;
    r.cancelled = false;
    if (r.what == Request::What::send)
        start_send(r, false);
    else
        start_receive(r);
}

bool Rank::rides(const Comm& comm, int tag, std::uint64_t bytes) const
{
    return bytes <= glance_at(comm.eager_max) &&
           (bytes == 0 || (glance_at(comm.selected) && glance_at(comm.tags)->has(tag)));
}

void Rank::copy(std::byte* to, const std::byte* from, std::uint64_t bytes)
{
    if (adjust(sent_since_receive_, 1, threaded_) == 1)
        copy_bytes(to, from, bytes);
    else
        copy_in_burst(to, from, bytes);
}

// The fast path: one whole record, nothing before it, room for it. False: the general
// path must see to it.
bool Rank::send_at_once(Source& s, const void* buffer, int count, const TypeInfo& type,
                        std::uint64_t bytes, int tag)
{
    Channel* ch = s.channel;
    if (ch == nullptr) [[unlikely]]
        return false;
    const Hold out(ch->out_lock, threaded_);
    if (!s.defined || ch->path != Channel::Path::ring || (!ch->pending.empty() && !STORM_PLANTED(pending_passed)) ||
        bytes > kPiece || bytes > ch->out.largest_payload()) [[unlikely]]
        return false;
    std::byte* at = ch->out.reserve(bytes);
    if (at == nullptr) [[unlikely]]
        return false;
    if (type.contiguous) [[likely]]
        copy(at, static_cast<const std::byte*>(buffer) + type.first, bytes);
    else
        types_.pack(type, buffer, count, at);
    ch->out.commit(Kind::eager, 0, bytes, tag, s.comm->index);
    ch->out.warm(bytes);
    if (ch->over_fabric) [[unlikely]]
        publish(*ch);
    Channel::count(ch->at_once);
    Channel::count(ch->ring_bytes, bytes);
    return true;
}

// The general path. `blocking`: the caller waits for the request before it returns to
// the program, so its buffer needs no copy.
void Rank::start_send(Request& r, bool blocking)
{
    const std::uint64_t bytes = bytes_of(*r.type, r.count);
    Source& s = source(*r.comm, r.rank);
    r.from = r.comm->rank;
    r.from_tag = r.tag;
    r.received = bytes;
    r.device = on_device(r.buffer, r.count, *r.type);
    tally(counters_.device_messages, r.device ? 1 : 0);
    r.awaits = r.mode == Mode::synchronous ? Request::kCopy | Request::kAck : Request::kCopy;
    r.set(Request::State::active);
    if (s.channel == nullptr)
        return send_self(r, bytes);
    Channel& ch = *s.channel;
    Hold out(ch.out_lock, threaded_);
    if (ch.path == Channel::Path::fresh)
        connect(ch);
    if (!s.defined)
        define(s);
    const bool eligible = bytes <= glance_at(r.comm->eager_max);
    tally(counters_.eligible, eligible ? 1 : 0);
    const bool carried = ch.path == Channel::Path::carried;
    if (!rides(*r.comm, r.tag, bytes) || r.device || (carried && bytes > kCarriedMax)) {
        const std::int32_t native_tag = announce_native(r, s, bytes);
        out.release();
        post_native(r, s.world, native_tag, bytes);
        return;
    }
    Outgoing o;
    o.flags = r.mode == Mode::synchronous ? kSynchronous : std::uint8_t{0};
    o.tag = r.tag;
    o.comm = r.comm->index;
    o.total = bytes;
    o.cookie = o.flags != 0 ? static_cast<std::uint64_t>(r.fortran_index) : 0;
    o.request = &r;
    if (r.type->contiguous) {
        o.data = r.buffer + r.type->first;
    } else {
        auto* packed = static_cast<std::byte*>(std::malloc(bytes + 1));
        types_.pack(*r.type, r.buffer, r.count, packed);
        o.data = packed;
        o.owned = true;
    }
    if (carried) {
        Channel::count(ch.native_messages);
        Channel::count(ch.native_bytes, bytes);
        carry(ch, o);
        return sent(o);
    }
    Channel::count(ch.ring_messages);
    Channel::count(ch.ring_bytes, bytes);
    tally(counters_.eligible_in_ring, eligible ? 1 : 0);
    if ((ch.pending.empty() || STORM_PLANTED(pending_passed_by_large)) && push(ch, o))
        return sent(o);
    // No room now. What the real MPI would take at the call is copied, as far as
    // STORM_SEND_BUFFER goes; else the program's buffer is read later.
    if (!blocking && !o.owned &&
        ((bytes <= small_ && glance_at(buffered_) + bytes <= settings_.send_buffer) || r.mode == Mode::buffered)) {
        auto* copy = static_cast<std::byte*>(std::malloc(bytes + 1));
        if (!STORM_PLANTED(waiting_send_not_copied))
            std::memcpy(copy + o.sent, o.data + o.sent, bytes - o.sent);
        o.data = copy;
        o.owned = true;
    }
    const bool free_to_go = o.owned && !blocking;
    if (free_to_go) {
        adjust(buffered_, bytes, threaded_);
        o.request = nullptr;
    }
    enqueue(ch, std::move(o));
    if (free_to_go)
        finish_part(r, Request::kCopy);
}

// One thing less that a send waits for. With the last one it is complete, and another
// thread may end it: nothing may touch it afterwards.
void Rank::finish_part(Request& r, std::uint8_t part)
{
    bool last;
    if (threaded_)
        last = Request::Words::part_done(r.awaits, part);
    else
        last = (r.awaits = r.awaits & static_cast<std::uint8_t>(~part)) == 0;
    if (last)
        finish(r);
}

// Complete, or gone if the program has given its handle back.
void Rank::finish(Request& r)
{
    if (threaded_) {
        if (Request::Words::complete(r.phase))
            end_unseen(r);
        return;
    }
    const bool abandoned = r.phase == Request::State::abandoned;
    r.phase = Request::State::complete;
    if (abandoned)
        end_unseen(r);
}

// Nobody will be told of its error, so the job is: its message is lost.
void Rank::end_unseen(Request& r)
{
    if (r.what == Request::What::send && r.error != MPI_SUCCESS)
        cut_off(source(*r.comm, r.rank).world, r.error);
    release(r);
}

// The last byte of a pending message has left.
void Rank::sent(Outgoing& o)
{
    if (o.owned) {
        if (o.request == nullptr)
            adjust(buffered_, std::uint64_t{0} - o.total, threaded_);
        std::free(const_cast<std::byte*>(o.data));
    }
    if (o.request != nullptr)
        finish_part(*o.request, Request::kCopy);
}

void Rank::send_self(Request& r, std::uint64_t bytes)
{
    Source& s = source(*r.comm, r.comm->rank);
    tally(counters_.self_messages);
    const bool synchronous = r.mode == Mode::synchronous;
    if (bytes > settings_.eager_max || r.device) {
        const std::int32_t native_tag = native_tag_after(adjust(self_tag_, 1, threaded_));
        const int tag = r.tag;
        if (post_native(r, setup_.world_rank, native_tag, bytes) == MPI_SUCCESS)
            on_native(s, tag, {bytes, native_tag, synchronous ? kSynchronous : 0u});
        return; // no envelope without its payload
    }
    Request* posted;
    {
        const Hold queues(r.comm->lock, threaded_);
        posted = r.comm->take_posted(s, r.tag);
        if (posted == nullptr) {
            Message* m = new_message(s, r.tag, bytes, true);
            types_.pack(*r.type, r.buffer, r.count, m->bytes);
            m->whole = true;
            m->cookie = synchronous ? static_cast<std::uint64_t>(r.fortran_index) : 0;
            r.comm->arrive(*m);
        }
    }
    if (posted == nullptr) {
        tally(counters_.unexpected);
        return finish_part(r, Request::kCopy);
    }
    if (posted->plain && r.type->contiguous) {
        copy_bytes(posted->buffer + posted->type->first, r.buffer + r.type->first,
                   std::min(bytes, posted->capacity));
        finish_receive(*posted, s.rank, r.tag, bytes);
    } else {
        auto* packed = static_cast<std::byte*>(std::malloc(bytes + 1));
        types_.pack(*r.type, r.buffer, r.count, packed);
        deliver_bytes(*posted, s.rank, r.tag, packed, bytes, MPI_SUCCESS);
        std::free(packed);
    }
    finish_part(r, Request::kCopy | Request::kAck);
}

std::int32_t Rank::native_tag_after(std::uint32_t number) const
{
    return static_cast<std::int32_t>(kFirstNativeTag + number % static_cast<std::uint32_t>(tag_max_ - kFirstNativeTag));
}

// Payload by the real MPI, zero-copy, under a tag that the envelope names. The
// envelope is in order with all other messages of this pair.
std::int32_t Rank::announce_native(Request& r, Source& s, std::uint64_t bytes)
{
    Channel& ch = *s.channel;
    Channel::count(ch.native_messages);
    Channel::count(ch.native_bytes, bytes);
    const std::int32_t native_tag = native_tag_after(STORM_PLANTED(native_tag_not_counted) ? 0 : ch.next_native_tag++);
    const NativePrefix prefix{bytes, native_tag, r.mode == Mode::synchronous ? kSynchronous : 0u};
    control(ch, Kind::native, r.tag, r.comm->index, &prefix, sizeof prefix);
    return native_tag;
}

// Returns the real MPI's answer; the request may be gone by then.
int Rank::post_native(Request& r, int world, int native_tag, std::uint64_t bytes)
{
    int error = MPI_SUCCESS;
    r.awaits = Request::kCopy; // the payload's own synchronous send tells
    MPI_Request native;
    const bool small = !r.device && bytes <= small_ && glance_at(carried_bytes_) + bytes <= settings_.send_buffer &&
                       r.mode != Mode::synchronous;
    if (small || (r.mode == Mode::buffered && bytes <= INT32_MAX)) {
        // complete for the program at once: the copy is ours until the real MPI is done
        auto* copy = static_cast<std::byte*>(std::malloc(bytes + 1));
        if (r.device)
            error = fetch_from_device(r.buffer, r.count, *r.type, copy, static_cast<int>(bytes), real_.byte);
        else
            types_.pack(*r.type, r.buffer, r.count, copy);
        if (error == MPI_SUCCESS) {
            const InReal in(*this);
            error = real_.Isend(copy, static_cast<int>(bytes), real_.byte, world, native_tag,
                                setup_.private_comm, &native);
        }
        if (error == MPI_SUCCESS)
            track(native, {.owned = copy, .owned_bytes = bytes, .buffered = r.mode == Mode::buffered, .to = world});
        else
            std::free(copy);
        r.error = error;
        finish_part(r, Request::kCopy);
        return error;
    }
    const auto post = r.mode == Mode::synchronous ? real_.Issend : real_.Isend;
    {
        const InReal in(*this);
        error = post(r.buffer, r.count, r.type->handle, world, native_tag, setup_.private_comm, &native);
    }
    if (error == MPI_SUCCESS) {
        track(native, {.request = &r});
        return error;
    }
    r.error = error;
    finish_part(r, Request::kCopy);
    return error;
}

// By a message to ourselves, which the real MPI reads where the CPU may not.
int Rank::fetch_from_device(const void* buffer, int count, const TypeInfo& type, void* out, int out_count,
                            MPI_Datatype out_type)
{
    const int tag = native_tag_after(adjust(self_tag_, 1, threaded_));
    const InReal in(*this);
    return real_.Sendrecv(buffer, count, type.handle, setup_.world_rank, tag, out, out_count, out_type,
                          setup_.world_rank, tag, setup_.private_comm, MPI_STATUS_IGNORE);
}

// ---- channels

void Rank::define(Source& s)
{
    const DefinePrefix prefix{s.comm->id, s.comm->rank, 0};
    control(*s.channel, Kind::define, 0, s.comm->index, &prefix, sizeof prefix);
    s.defined = true;
}

// The receiver has matched a synchronous send: its ack leaves with the next look, when
// no queue is held.
void Rank::acknowledge(Source& s, std::uint64_t cookie)
{
    if (s.channel == nullptr)
        return on_ack(cookie);
    if (STORM_PLANTED(ack_lost))
        return;
    const Hold tables(tables_, threaded_);
    acks_.push_back({s.channel, cookie});
    adjust(acks_waiting_, 1, threaded_);
}

// From inside the real MPI (not `may_wait`) the acks of a channel that another thread has
// stay for the next look: it may hold the channel over a call of the real MPI.
void Rank::send_acks(bool may_wait)
{
    if (glance_at(acks_waiting_) == 0) [[likely]]
        return;
    std::vector<Ack> ready;
    {
        const Hold tables(tables_, threaded_);
        ready.swap(acks_);
        adjust(acks_waiting_, std::size_t{0} - ready.size(), threaded_);
    }
    for (const Ack& ack : ready) {
        Channel& ch = *ack.channel;
        std::unique_lock out(ch.out_lock, std::defer_lock);
        if (threaded_ && may_wait)
            out.lock();
        else if (threaded_ && !out.try_lock()) {
            const Hold tables(tables_, threaded_);
            acks_.push_back(ack);
            adjust(acks_waiting_, 1, threaded_);
            continue;
        }
        if (ch.path == Channel::Path::fresh)
            connect(ch);
        const AckPrefix prefix{ack.cookie};
        control(ch, Kind::ack, 0, 0, &prefix, sizeof prefix);
    }
}

void Rank::control(Channel& ch, Kind kind, std::int32_t tag, std::uint32_t comm,
                   const void* prefix, std::uint32_t bytes)
{
    Outgoing o;
    o.kind = kind;
    o.tag = tag;
    o.comm = comm;
    if (bytes != 0)
        std::memcpy(o.prefix, prefix, bytes);
    o.prefix_bytes = bytes;
    if (ch.path == Channel::Path::carried)
        return carry(ch, o);
    if (!ch.pending.empty() || !push_control(ch, o))
        enqueue(ch, std::move(o));
}

void Rank::enqueue(Channel& ch, Outgoing&& o)
{
    ch.pending.push_back(std::move(o));
    const Hold tables(tables_, threaded_);
    if (!ch.waiting) {
        ch.waiting = true;
        waiting_.push_back(&ch);
    }
}

bool Rank::push_control(Channel& ch, Outgoing& o)
{
    if (ch.path != Channel::Path::ring)
        return push_carried(ch, o);
    std::byte* at = ch.out.reserve(o.prefix_bytes);
    while (at == nullptr) {
        if (!make_room(ch))
            return false;
        at = ch.out.reserve(o.prefix_bytes);
    }
    std::memcpy(at, o.prefix, o.prefix_bytes);
    ch.out.commit(o.kind, o.flags, o.prefix_bytes, o.tag, o.comm);
    if (ch.over_fabric)
        publish(ch);
    return true;
}

// Writes as much of a message as there is room for; true when it is all in the ring.
bool Rank::push(Channel& ch, Outgoing& o)
{
    if (ch.path != Channel::Path::ring)
        return push_carried(ch, o);
    for (;;) {
        const std::uint64_t longest = std::min(kPiece, ch.out.largest_payload());
        const bool whole = !o.begun && o.flags == 0 && o.total <= longest;
        const std::uint64_t prefix = o.begun || whole ? 0 : sizeof(LongPrefix);
        const std::uint64_t piece = std::min(o.total - o.sent, longest - prefix);
        std::byte* at = ch.out.reserve(prefix + piece);
        if (at == nullptr) {
            if (!make_room(ch))
                return false;
            continue;
        }
        const Kind kind = whole ? Kind::eager : o.begun ? Kind::more : Kind::first;
        if (prefix != 0) {
            const LongPrefix head{o.total, o.cookie};
            std::memcpy(at, &head, sizeof head);
        }
        if (piece != 0)
            copy(at + prefix, o.data + o.sent, piece);
        ch.out.commit(kind, o.flags, prefix + piece, o.tag, o.comm);
        if (ch.over_fabric)
            publish(ch);
        o.begun = true;
        o.sent += piece;
        if (o.sent == o.total) {
            ch.out.warm(o.total);
            return true;
        }
    }
}

// Records as messages of the real MPI, in order by MPI's own rule: all of a message that
// is not in a ring yet.
void Rank::carry(Channel& ch, Outgoing& o)
{
    if (o.kind != Kind::eager)
        return carry_record(ch, {o.prefix_bytes, o.kind, o.flags, 0, o.tag, o.comm}, o.prefix, o.prefix_bytes);
    do {
        const bool whole = !o.begun && o.flags == 0 && o.total <= kCarriedMax;
        const LongPrefix head{o.total, o.cookie};
        const std::uint64_t prefix = o.begun || whole ? 0 : sizeof head;
        const std::uint64_t piece = std::min(o.total - o.sent, kCarriedMax - prefix);
        const Kind kind = whole ? Kind::eager : o.begun ? Kind::more : Kind::first;
        carry_record(ch, {static_cast<std::uint32_t>(prefix + piece), kind, o.flags, 0, o.tag, o.comm}, &head, prefix,
                     o.data + o.sent, piece);
        o.begun = true;
        o.sent += piece;
    } while (o.sent < o.total);
}

void Rank::carry_record(Channel& ch, RecordHeader header, const void* prefix, std::uint64_t prefix_bytes,
                        const std::byte* data, std::uint64_t data_bytes)
{
    const std::uint64_t length = sizeof header + prefix_bytes + data_bytes;
    auto* bytes = static_cast<std::byte*>(std::malloc(length));
    std::memcpy(bytes, &header, sizeof header);
    if (prefix_bytes != 0)
        std::memcpy(bytes + sizeof header, prefix, prefix_bytes);
    if (data_bytes != 0)
        std::memcpy(bytes + sizeof header + prefix_bytes, data, data_bytes);
    tally(counters_.carried_records);
    Channel::count(ch.sent_elsewhere);
    const InReal in(*this);
    MPI_Request native;
    const int rc = real_.Isend(bytes, static_cast<int>(length), real_.byte, ch.peer, kCarryTag,
                               setup_.private_comm, &native);
    if (rc != MPI_SUCCESS)
        return cut_off(ch.peer, rc);
    track(native, {.owned = bytes, .owned_bytes = length, .to = ch.peer});
}

// What waited for a ring that has failed since: nothing leaves before the peer has told
// where the records of that ring go on.
bool Rank::push_carried(Channel& ch, Outgoing& o)
{
    if (ch.path == Channel::Path::sealing)
        return false;
    carry(ch, o);
    return true;
}

// ---- what waits for room

bool Rank::push_pending(Channel& ch)
{
    bool moved = false;
    while (!ch.pending.empty()) {
        Outgoing& o = ch.pending.front();
        const std::uint64_t before = o.sent;
        const bool done = o.kind == Kind::eager ? push(ch, o) : push_control(ch, o);
        moved = moved || done || o.sent != before;
        if (!done)
            break;
        if (o.kind == Kind::eager)
            sent(o);
        ch.pending.pop_front();
    }
    return moved;
}

bool Rank::any_waiting() const
{
    const Hold tables(tables_, threaded_);
    return !waiting_.empty();
}

// `placing`: rings may grow past STORM_RING_MAX rather than make us wait.
bool Rank::push_all_pending(bool placing)
{
    std::vector<Channel*> waiting;
    {
        const Hold tables(tables_, threaded_);
        waiting = waiting_;
    }
    bool moved = false;
    for (Channel* ch : waiting) {
        const TryHold out(ch->out_lock, threaded_);
        if (!out)
            continue; // another thread is at it
        ch->placing = placing;
        moved = push_pending(*ch) || moved;
        ch->placing = false;
        if (!ch->pending.empty())
            continue;
        const Hold tables(tables_, threaded_);
        if (std::exchange(ch->waiting, false))
            std::erase(waiting_, ch);
    }
    return moved;
}

void Rank::place_sends(bool may_wait)
{
    look_soon();
    if (!threaded_ && fabric_ == nullptr && waiting_.empty()) [[likely]]
        return;
    push_all_pending(true);
    // Over a fabric a nonblocking collective waits as well: it may be complete elsewhere
    // before what was sent earlier has been placed.
    if ((may_wait || fabric_ != nullptr) && !STORM_PLANTED(places_without_waiting))
        wait_until([&] { return at_rest(); });
}

void Rank::drain_buffered()
{
    wait_until([&] { return !any_waiting() && glance_at(carried_bytes_) + glance_at(buffered_native_) == 0; });
}

} // namespace storm
