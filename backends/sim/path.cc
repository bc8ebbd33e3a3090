// SPDX-License-Identifier: MIT
#include "path.hh"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace storm::sim {
namespace {

constexpr std::uint64_t kLine = 64, kWord = 8, kUnit = 16;
constexpr unsigned kUnitBits = 24;

Memory zeroed(std::uint64_t bytes)
{
    auto* at = static_cast<std::byte*>(std::aligned_alloc(kLine, bytes));
    if (at != nullptr)
        std::memset(at, 0, bytes);
    return Memory(at);
}

// FNV-1a over words.
std::uint64_t checksum(const std::uint64_t* words, std::size_t n)
{
    std::uint64_t sum = 14695981039346656037u;
    for (std::size_t i = 0; i < n; ++i)
        sum = (sum ^ words[i]) * 1099511628211u;
    return sum;
}

} // namespace

void Free::operator()(std::byte* at) const
{
    std::free(at);
}

struct Path::Cell {
    static constexpr std::uint64_t kData = 48;
    std::uint64_t data[kData / 8];
    std::uint64_t stamp; // number of the cell, from 1, then 8 bits: bytes of data, and 1 at a range's end
    std::uint64_t check;

    std::uint64_t sum() const { return checksum(data, kData / 8 + 1); }
};

Path::Path(Fabric& fabric, Mode mode, int from_rank, int to_rank, std::uint64_t n)
    : from(from_rank), to(to_rank), bytes(n), fabric_(fabric), mode_(mode)
{
    static_assert(sizeof(Cell) == kLine);
    const std::uint64_t landing = mode == Mode::stamped ? cells() * sizeof(Cell) : n;
    ring_ = zeroed(landing);
    if (fabric.attributes().direct)
        return;
    mirror_ = zeroed(n);
    if (!in_place())
        seen_ = zeroed(n);
    if (mode == Mode::stamped)
        stamps_ = zeroed(landing);
    ring_key_ = fabric.expose(to, ring_.get(), landing);
    head_key_ = fabric.expose(from, reinterpret_cast<std::byte*>(&head_here), sizeof head_here);
}

Path::~Path()
{
    fabric_.withdraw(ring_key_);
    fabric_.withdraw(head_key_);
}

// What the fabric writes stays: a cell is whole when its last bytes do not differ from
// those that they replace, and then a piece of it may still come.
void Path::close()
{
    closed = true;
    seen_.reset();
}

// ---- the sender's side

void Path::post(const std::byte* at, std::uint64_t offset, std::uint64_t n, unsigned flags, std::uint64_t signal,
                std::uint64_t number)
{
    waiting_.push_back({at, n, offset, flags, signal, cookie(number)});
}

// Bytes [begin, end) of the mirror to the same places of the ring; the number of writes.
unsigned Path::post_ring(std::uint64_t begin, std::uint64_t end, unsigned flags, std::uint64_t number)
{
    unsigned writes = 0;
    while (begin < end) {
        const std::uint64_t at = begin & (bytes - 1), n = std::min(end - begin, bytes - at);
        post(mirror_.get() + at, at, n, flags, 0, number);
        begin += n;
        ++writes;
    }
    return writes;
}

// All of a range but its first commit word, and the zero behind it. In the mirror that
// zero soon becomes the next range's commit word, so it is sent from elsewhere.
unsigned Path::post_payload(std::uint64_t begin, std::uint64_t end, unsigned flags, std::uint64_t number)
{
    alignas(kLine) static constexpr std::byte kZero[kWord] = {};
    const unsigned writes = post_ring(begin + kWord, end, flags, number);
    post(kZero, end & (bytes - 1), kWord, flags, 0, number);
    return writes + 1;
}

void Path::post_commit(std::uint64_t position, unsigned flags)
{
    post_ring(position, position + kWord, flags, 0);
}

void Path::publish(std::uint64_t begin, std::uint64_t end)
{
    published = end;
    if (fabric_.attributes().at_once) {
        post_ring(begin, end, kClearBehind, 0);
        return push();
    }
    switch (mode_) {
    case Mode::stamped: publish_stamped(begin, end); break;
    case Mode::remote_cq: publish_signalled(begin, end); break;
    case Mode::ordered:
    case Mode::fence:
        post_payload(begin, end, 0, 0);
        post_commit(begin, mode_ == Mode::fence ? kFenced : 0u);
        break;
    case Mode::complete:
        ++ranges_;
        uncommitted_[ranges_] = {begin, end, 0};
        uncommitted_[ranges_].unwritten = post_payload(begin, end, kDeliveryComplete, ranges_);
        break;
    }
    push();
}

void Path::publish_stamped(std::uint64_t begin, std::uint64_t end)
{
    auto* all = reinterpret_cast<Cell*>(stamps_.get());
    while (begin < end) {
        Cell& cell = all[cells_sent_ % cells()];
        const std::uint64_t at = begin & (bytes - 1);
        const std::uint64_t n = std::min({Cell::kData, end - begin, bytes - at});
        std::memset(cell.data, 0, sizeof cell.data);
        std::memcpy(cell.data, mirror_.get() + at, n);
        begin += n;
        ++cells_sent_;
        cell.stamp = cells_sent_ << 8 | n << 1 | (begin == end ? 1u : 0u);
        cell.check = cell.sum();
        const std::uint64_t offset = (cells_sent_ - 1) % cells() * sizeof(Cell);
        if (!waiting_.empty() && waiting_.back().offset + waiting_.back().bytes == offset)
            waiting_.back().bytes += sizeof(Cell); // goes with the cells before it
        else
            post(stamps_.get() + offset, offset, sizeof(Cell), 0, 0, 0);
    }
}

void Path::publish_signalled(std::uint64_t begin, std::uint64_t end)
{
    while (begin < end) {
        const std::uint64_t at = begin & (bytes - 1), n = std::min(end - begin, bytes - at);
        const std::uint64_t signal = std::uint64_t(in_number) << kSignalBits | at / kUnit << kUnitBits | n / kUnit;
        post(mirror_.get() + at, at, n, kSignal, signal, 0);
        begin += n;
    }
}

void Path::push()
{
    while (!waiting_.empty()) {
        const Segment& s = waiting_.front();
        const Write write{s.from, s.bytes, ring_key_, s.offset, s.flags, s.signal, s.cookie};
        if (fabric_.write(from, to, write) != Status::ok)
            return;
        ++under_way_;
        waiting_.pop_front();
    }
}

void Path::payload_written(std::uint64_t cookie)
{
    --under_way_;
    const auto range = uncommitted_.find(cookie & (kOfHead - 1));
    if (range != uncommitted_.end())
        --range->second.unwritten;
    // the zero behind a range is the next one's commit word: they are committed in order
    while (!uncommitted_.empty() && uncommitted_.begin()->second.unwritten == 0) {
        post_commit(uncommitted_.begin()->second.from, 0);
        uncommitted_.erase(uncommitted_.begin());
    }
}

// ---- the receiver's side

void Path::signalled(std::uint64_t signal)
{
    const std::uint64_t units = (std::uint64_t{1} << kUnitBits) - 1;
    arrived_[(signal >> kUnitBits & units) * kUnit] = (signal & units) * kUnit;
}

// What stands up to `end` is all in the receiver's ring. The word behind it is cleared:
// last lap's bytes stand there.
void Path::show(std::uint64_t end)
{
    std::memset(seen_.get() + (end & (bytes - 1)), 0, kWord);
    visible_ = end;
}

void Path::collect()
{
    if (closed || seen_ == nullptr)
        return;
    if (mode_ == Mode::stamped)
        collect_cells();
    else
        collect_signalled();
}

void Path::collect_signalled()
{
    for (auto range = arrived_.find(visible_ & (bytes - 1)); range != arrived_.end();
         range = arrived_.find(visible_ & (bytes - 1))) {
        std::memcpy(seen_.get() + range->first, ring_.get() + range->first, range->second);
        show(visible_ + range->second);
        arrived_.erase(range);
    }
}

// Cells that have come whole, up to the last end of a range among them.
void Path::collect_cells()
{
    const auto* all = reinterpret_cast<const Cell*>(ring_.get());
    std::uint64_t seen = cells_seen_, end = visible_;
    for (;;) {
        Cell cell;
        std::memcpy(&cell, &all[seen % cells()], sizeof cell);
        if (cell.stamp >> 8 != ++seen || cell.check != cell.sum())
            return;
        end += cell.stamp >> 1 & 0x7f;
        if ((cell.stamp & 1) == 0)
            continue;
        for (std::uint64_t to_copy = visible_; cells_seen_ < seen; ++cells_seen_) {
            const Cell& whole = all[cells_seen_ % cells()];
            const std::uint64_t n = whole.stamp >> 1 & 0x7f;
            std::memcpy(seen_.get() + (to_copy & (bytes - 1)), whole.data, n);
            to_copy += n;
        }
        show(end);
    }
}

void Path::return_head()
{
    const std::uint64_t head = head_there.load(std::memory_order_relaxed); // relaxed: one thread
    if (closed || head == head_sent_ || head_under_way_)
        return;
    // Without an order among writes to one place an older head may land last: the next
    // one waits until this one is delivered.
    const unsigned flags = fabric_.attributes().overlap_order ? 0u : kDeliveryComplete;
    head_source_ = head;
    const Write write{reinterpret_cast<const std::byte*>(&head_source_), sizeof head_source_, head_key_, 0, flags, 0,
                      std::uint64_t(in_number) << 32 | kOfHead};
    if (fabric_.write(to, from, write) != Status::ok)
        return;
    head_sent_ = head;
    head_under_way_ = true;
}

} // namespace storm::sim
