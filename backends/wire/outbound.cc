// SPDX-License-Identifier: MIT
// How what was published leaves: in batches, staged, so that a write in flight never reads
// what a sender may change.
#include "body.hh"

namespace storm::wire {
namespace {

constexpr std::uint64_t kPieceMax = 32 << 10; // of one write: the next piece is staged while it flies
constexpr std::uint64_t kLarge = 16 << 10;    // so much does not wait for a write in flight
constexpr std::uint64_t kWord = sizeof(std::uint64_t);

} // namespace

void Wire::copy_out(const Outbound& o, std::uint64_t from, std::uint64_t bytes, std::byte* to)
{
    const std::uint64_t first = std::min(bytes, o.shape.to_end(from));
    std::memcpy(to, o.in_mirror(from), first);
    std::memcpy(to + first, o.mirror.get(), bytes - first);
}

// While a write to this peer is in flight what follows is gathered.
bool Wire::waits(const Outbound& o) const
{
    return (o.hot || o.under_way() != 0) && o.limits.empty() && o.ready - o.sent < kLarge;
}

void Wire::advance(Outbound& o)
{
    while (o.state == Outbound::State::granted && step(o)) {
    }
    if (!o.idle()) // relaxed: a hint for flush
        held_.store(true, std::memory_order_relaxed);
}

// One step of what there is to be sent; false when nothing is, or there is no room.
bool Wire::step(Outbound& o)
{
    if (!o.in_batch) {
        if (o.sent == o.ready)
            return send_question(o);
        begin_batch(o);
    }
    if (o.whole)
        return announce(o);
    switch (o.shape.mode) {
    case Mode::stamped:
        return send_cells(o);
    case Mode::remote_cq:
        return send_signalled(o);
    default:
        return send_in_place(o);
    }
}

void Wire::begin_batch(Outbound& o)
{
    o.in_batch = true;
    o.whole = false;
    o.batch_at = o.sent;
    o.batch_to = o.limits.empty() ? o.ready : o.limits.front();
    std::memcpy(&o.batch_word, o.in_mirror(o.sent), kWord);
    if (!o.shape.verify)
        return;
    const std::uint64_t bytes = o.batch_to - o.sent, first = std::min(bytes, o.shape.to_end(o.sent));
    o.batch_crc = crc32c(crc32c(0, o.in_mirror(o.sent), first), o.mirror.get(), bytes - first);
}

void Wire::end_batch(Outbound& o)
{
    o.in_batch = false;
    o.sent = o.batch_to;
    if (!o.limits.empty())
        o.limits.pop_front();
    if (o.sent == o.ready)
        o.records = 0;
    ++batches_;
}

// `w` has its place, bytes, source and flags.
bool Wire::write(Outbound& o, Write& w, std::uint64_t stage_end, std::uint64_t unit_end)
{
    if (o.under_way() == kFlights)
        return false;
    const bool free_at_once = w.bytes <= inline_max_ && (w.flags & kDeliveryComplete) == 0;
    w.source = o.stage.region;
    w.key = o.key;
    w.cookie = free_at_once ? 0 : o.id << 8 | o.next_flight % kFlights;
    const Status status = transport_->write(o.peer, w);
    if (status != Status::ok) {
        if (status == Status::refused)
            fail(o.peer, transport_->why(o.peer));
        return false;
    }
    o.flights[o.next_flight++ % kFlights] = {stage_end, unit_end, free_at_once};
    o.hot = true;
    ++writes_;
    if (free_at_once)
        retire(o);
    return true;
}

// Gives back what writes in their order have left.
void Wire::retire(Outbound& o)
{
    while (o.first_flight != o.next_flight && o.flights[o.first_flight % kFlights].done) {
        const Flight& f = o.flights[o.first_flight++ % kFlights];
        o.stage_floor = f.stage_end;
        o.unit_floor = f.unit_end;
    }
}

void Wire::on_written(std::uint64_t cookie)
{
    if (cookie == 0)
        return;
    if ((cookie & kOfInbound) != 0) {
        if (Inbound* in = in_of(cookie & ~kOfInbound); in != nullptr)
            in->telling = false;
        return;
    }
    const std::uint64_t number = cookie >> 8;
    Outbound* o = number <= outs_.size() ? outs_[number - 1].get() : nullptr;
    if (o == nullptr)
        return;
    o->flights[cookie & (kFlights - 1)].done = true;
    retire(*o);
}

// Stamped: payload in cells. Those that stand side by side leave in one write.
bool Wire::send_cells(Outbound& o)
{
    const Shape& s = o.shape;
    const std::uint64_t slot = o.unit % s.cells;
    const std::uint64_t most = std::min({o.credit(), s.cells - slot, kPieceMax / s.cell_bytes});
    std::uint64_t n = 0, at = o.batch_at, end = 0;
    for (; n < most && at < o.batch_to; ++n) {
        std::byte* cell = o.cells() + s.cell(o.unit + n);
        const std::uint64_t bytes = std::min<std::uint64_t>(o.batch_to - at, s.cell_room());
        copy_out(o, at, bytes, cell + sizeof(CellHead));
        at += bytes;
        const std::uint8_t flags = at == o.batch_to ? kLast : 0;
        seal_cell(cell,
                  {s.lap(o.unit + n), 0, static_cast<std::uint16_t>(bytes), kData, flags, flags != 0 ? o.batch_crc : 0},
                  s.checked);
        end = s.cell(o.unit + n) + sizeof(CellHead) + bytes;
    }
    if (n == 0)
        return false;
    const std::uint64_t begin = s.cell(o.unit);
    Write w{.from = o.cells() + begin, .bytes = end - begin, .address = o.landing + begin};
    if (!write(o, w, o.stage_at, o.unit + n))
        return false;
    o.unit += n;
    o.batch_at = at;
    if (at == o.batch_to)
        end_batch(o);
    return true;
}

// Ordered, fence, complete: payload to its place, all but the first commit word, which
// the announcement brings.
bool Wire::send_in_place(Outbound& o)
{
    const bool first = o.batch_at == o.sent;
    const std::uint64_t from = o.batch_at + (first ? kWord : 0);
    const std::uint64_t stage_room = std::min(o.stage_room - (o.stage_at - o.stage_floor),
                                              o.stage_room - o.stage_at % o.stage_room);
    const std::uint64_t bytes = std::min({o.batch_to - from, o.shape.to_end(from), stage_room, kPieceMax,
                                          transport_->write_max()});
    if (bytes == 0)
        return false;
    std::byte* at = o.stage.at + o.stage_at % o.stage_room;
    std::memcpy(at, o.in_mirror(from), bytes);
    Write w{.from = at, .bytes = bytes, .address = o.ring + o.shape.at(from),
            .flags = o.shape.mode == Mode::complete ? static_cast<unsigned>(kDeliveryComplete) : 0U};
    if (!write(o, w, o.stage_at + bytes, o.unit))
        return false;
    o.stage_at += bytes;
    o.batch_at = from + bytes;
    o.whole = o.batch_at == o.batch_to;
    return true;
}

// Remote-cq: a piece without its first word, which stands behind it, as the receiver
// puts words to their places when the signal has come.
bool Wire::send_signalled(Outbound& o)
{
    const std::uint64_t stage_room = std::min(o.stage_room - (o.stage_at - o.stage_floor),
                                              o.stage_room - o.stage_at % o.stage_room);
    const std::uint64_t most = std::min({kPieceMax, transport_->write_max(), stage_room}) & ~std::uint64_t{15};
    const std::uint64_t bytes = std::min({o.batch_to - o.batch_at, o.shape.to_end(o.batch_at), most});
    if (bytes == 0 || o.credit() == 0)
        return false;
    std::byte* at = o.stage.at + o.stage_at % o.stage_room;
    std::memcpy(at, o.in_mirror(o.batch_at) + kWord, bytes - kWord);
    std::memcpy(at + bytes - kWord, o.in_mirror(o.batch_at), kWord);
    const bool last = o.batch_at + bytes == o.batch_to;
    const Signal signal{o.slot, static_cast<std::uint8_t>(o.unit), !last || o.shape.verify,
                        static_cast<std::uint32_t>(bytes / 16)};
    Write w{.from = at, .bytes = bytes, .address = o.ring + o.shape.at(o.batch_at) + kWord,
            .flags = kSignal, .signal = signal.number()};
    if (!write(o, w, o.stage_at + bytes, o.unit + 1))
        return false;
    ++o.unit;
    o.stage_at += bytes;
    o.batch_at += bytes;
    if (!last)
        return true;
    o.whole = o.shape.verify;
    if (!o.whole)
        end_batch(o);
    return true;
}

// The whole of a batch has left: its commit word may follow.
bool Wire::announce(Outbound& o)
{
    if (o.shape.mode == Mode::complete && o.under_way() != 0)
        return false;
    const Place place{o.batch_to - o.sent, o.batch_word};
    const bool signalled = o.shape.mode == Mode::remote_cq;
    const CellHead head{0, 0, signalled ? std::uint16_t{0} : std::uint16_t{sizeof place}, kPlace, kLast, o.batch_crc};
    if (!send_cell(o, head, &place, o.shape.mode == Mode::fence ? static_cast<unsigned>(kFenced) : 0U))
        return false;
    end_batch(o);
    return true;
}

bool Wire::send_question(Outbound& o)
{
    if (!o.ask || o.seen == o.unit || o.asked_at == o.unit)
        return false;
    if (!send_cell(o, {0, 0, 0, kQuestion, 0, 0}, nullptr, 0))
        return false;
    o.asked_at = o.unit;
    o.ask = false;
    return true;
}

// One cell that is no stamped payload. Under remote-cq its signal tells it.
bool Wire::send_cell(Outbound& o, const CellHead& head, const void* payload, unsigned flags)
{
    if (o.credit() == 0)
        return false;
    const bool question = head.kind == kQuestion;
    std::byte* cell = o.cells() + o.shape.cell(o.unit);
    Write w{.from = cell, .bytes = sizeof head + head.used, .address = o.landing + o.shape.cell(o.unit),
            .flags = flags};
    if (o.shape.mode == Mode::remote_cq) {
        w.flags |= kSignal;
        w.signal = Signal{o.slot, static_cast<std::uint8_t>(o.unit), question, 0}.number();
        w.bytes = question ? 0 : w.bytes;
    }
    if (w.bytes != 0) {
        if (head.used != 0)
            std::memcpy(cell + sizeof head, payload, head.used);
        CellHead sealed = head;
        sealed.lap = o.shape.lap(o.unit);
        seal_cell(cell, sealed, o.shape.checked);
    }
    if (!write(o, w, o.stage_at, o.unit + 1))
        return false;
    ++o.unit;
    return true;
}

// What the receiver wrote about how far it is.
void Wire::read_block(Outbound& o)
{
    HeadBlock block;
    // acquire: what the receiver read comes before it is overwritten; the checksum tells
    // a block that is not all there
    const std::uint64_t head =
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(o.block.at)).load(std::memory_order_acquire);
    std::memcpy(&block, o.block.at, sizeof block);
    // relaxed: we alone store it
    const std::uint64_t known = o.head.load(std::memory_order_relaxed);
    if ((head == known && block.seen == o.seen) || block.lane != o.id || block.check != block_check(block))
        return;
    if (block.head > known && block.head <= o.sent)
        // release: pairs with the acquire in RingWriter::used
        o.head.store(block.head, std::memory_order_release);
    if (block.seen > o.seen && block.seen <= o.unit)
        o.seen = block.seen;
}

} // namespace storm::wire
