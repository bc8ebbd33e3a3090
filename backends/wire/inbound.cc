// SPDX-License-Identifier: MIT
// How what a peer wrote becomes visible in the ring, in its order, and how heads return.
#include "body.hh"

namespace storm::wire {
namespace {

constexpr std::uint64_t kWord = sizeof(std::uint64_t);

// Where writes may pass each other an older head can come over a newer one: the last one
// is told again some looks later.
bool again(std::uint32_t looks)
{
    return looks == 1 << 12 || looks == 1 << 16 || looks == 1 << 20;
}

} // namespace

// All that has arrived behind what was taken so far.
void Wire::take(Inbound& in)
{
    if (in.shape.mode == Mode::remote_cq) {
        for (;;) {
            std::uint32_t& number = in.signals[in.unit % in.signals.size()];
            if (number == 0 || !take_signal(in, Signal::of(number)))
                return;
            number = 0;
            ++in.unit;
        }
    }
    for (;;) {
        std::byte* cell = in.landing() + in.shape.cell(in.unit);
        CellHead head;
        if (!open_cell(cell, in.shape.lap(in.unit), in.shape.cell_bytes, in.shape.checked, head) ||
            !take_cell(in, head, cell + sizeof head))
            return;
        ++in.unit;
    }
}

// False when it is not what our sender can have sent; the lane is then read no more.
bool Wire::take_cell(Inbound& in, const CellHead& head, const std::byte* payload)
{
    if (head.kind == kQuestion) {
        in.owes = true;
        return true;
    }
    if (head.kind == kPlace && head.used == sizeof(Place)) {
        Place place;
        std::memcpy(&place, payload, sizeof place);
        if (!room_for(in, place.bytes))
            return false;
        in.word = place.word;
        in.at += place.bytes;
    } else if (head.kind == kData && head.used % 16 == 0 && room_for(in, head.used)) {
        append(in, payload, head.used);
    } else {
        tear(in, "a cell that no sender writes");
        return false;
    }
    return (head.flags & kLast) == 0 || finish(in, head.crc);
}

bool Wire::take_signal(Inbound& in, const Signal& signal)
{
    if (signal.units == 0 && signal.more) {
        in.owes = true;
        return true;
    }
    if (signal.units == 0) { // the batch's CRC stands in a cell
        CellHead head;
        std::byte* cell = in.landing() + in.shape.cell(in.unit);
        if (!open_cell(cell, in.shape.lap(in.unit), in.shape.cell_bytes, true, head)) {
            tear(in, "completion data came before the bytes of its write");
            return false;
        }
        return finish(in, head.crc);
    }
    const std::uint64_t bytes = std::uint64_t{signal.units} * 16;
    if (bytes > in.shape.to_end(in.at) || !room_for(in, bytes))
        return false;
    std::uint64_t word;
    std::memcpy(&word, in.ring_at(in.at) + bytes, kWord); // behind the piece, maybe behind the ring
    if (in.at == in.begun)
        in.word = word;
    else
        std::memcpy(in.ring_at(in.at), &word, kWord);
    in.at += bytes;
    return signal.more || finish(in, 0);
}

// Into the ring, but for the first word of the batch.
void Wire::append(Inbound& in, const std::byte* payload, std::uint64_t bytes)
{
    std::uint64_t at = in.at;
    in.at += bytes;
    if (at == in.begun) {
        std::memcpy(&in.word, payload, kWord);
        payload += kWord;
        bytes -= kWord;
        at += kWord;
    }
    const std::uint64_t first = std::min(bytes, in.shape.to_end(at));
    std::memcpy(in.ring_at(at), payload, first);
    std::memcpy(in.memory.at, payload + first, bytes - first);
}

// The batch is whole: it becomes visible by its first commit word.
bool Wire::finish(Inbound& in, std::uint32_t crc)
{
    if (in.shape.verify) {
        const std::uint64_t begin = in.begun + kWord, bytes = in.at - begin;
        const std::uint64_t first = std::min(bytes, in.shape.to_end(begin));
        const std::uint32_t seen = crc32c(crc32c(crc32c(0, &in.word, kWord), in.ring_at(begin), first),
                                          in.memory.at, bytes - first);
        if (seen != crc) {
            tear(in, "a batch was announced before all of it could be seen");
            return false;
        }
    }
    // relaxed: nothing stands behind the batch; ordered by the release below
    std::atomic_ref(*in.word_at(in.at)).store(0, std::memory_order_relaxed);
    // release: the whole batch comes first; pairs with the acquire in RingReader::peek
    std::atomic_ref(*in.word_at(in.begun)).store(in.word, std::memory_order_release);
    in.begun = in.at;
    return true;
}

bool Wire::room_for(Inbound& in, std::uint64_t bytes)
{
    // acquire: what the reader has read comes before it is overwritten
    const std::uint64_t head = in.head.load(std::memory_order_acquire);
    if (bytes % 16 == 0 && bytes != 0 && bytes <= in.shape.bytes && in.at - head + bytes + 16 <= in.shape.bytes)
        return true;
    tear(in, "a length that does not fit into the ring");
    return false;
}

// What came is not what was sent. The lane is left alone from now on.
void Wire::tear(Inbound& in, const char* what)
{
    in.stranded = true;
    const std::string why = std::string("torn read over ") + transport_->promises().provider + " (" +
                            mode_name(in.shape.mode) + ") of what rank " + std::to_string(in.peer) +
                            " sent to rank " + std::to_string(rank_) + ": " + what;
    log_.error("%s; another STORM_ORDERING may be needed", why.c_str());
    tears_.push_back({in.peer, why});
}

void Wire::on_arrived(std::uint32_t number)
{
    const Signal signal = Signal::of(number);
    Inbound* in = signal.slot < slots_.size() ? slots_[signal.slot] : nullptr;
    if (in != nullptr)
        in->signals[signal.turn] = number;
}

// The head, and how much was taken, to the sender: when the reader has freed something,
// when a part of the window is used, or when the sender asks.
void Wire::tell(Inbound& in)
{
    // acquire: what the reader read comes before the sender may overwrite it
    const std::uint64_t head = in.head.load(std::memory_order_acquire);
    const std::uint64_t window = in.shape.mode == Mode::remote_cq ? kSignalWindow : in.shape.cells;
    const bool news = head != in.told_head || in.owes || in.unit - in.told_seen >= window / 4;
    if (in.telling || (!news && !again(in.silent++)))
        return;
    in.silent = news ? 0 : in.silent;
    HeadBlock block{head, in.unit, in.theirs, 0};
    block.check = block_check(block);
    std::memcpy(in.block.at, &block, sizeof block);
    Write w{.from = in.block.at, .source = in.block.region, .bytes = sizeof block, .address = in.block_address,
            .key = in.block_key, .cookie = sizeof block <= inline_max_ ? 0 : kOfInbound | in.id};
    const Status status = transport_->write(in.peer, w);
    if (status == Status::refused)
        fail(in.peer, transport_->why(in.peer));
    if (status != Status::ok)
        return;
    in.telling = w.cookie != 0;
    in.told_head = head;
    in.told_seen = in.unit;
    in.owes = false;
    ++heads_;
}

} // namespace storm::wire
