// SPDX-License-Identifier: MIT
#include "fabric.hh"

#include <algorithm>
#include <cstring>

namespace storm::sim {
namespace {

constexpr std::uint64_t kLine = 64, kWord = 8; // an aligned word is never seen in part
constexpr std::uint64_t kWritten = 100, kArrived = 101;

} // namespace

// One write on its way. Its pieces are dealt to a few chunks, each placed at a time of its own.
struct Fabric::Op final : Actor {
    Op(Fabric& f, int from_rank, int to_rank, const Write& w) : fabric(f), from(from_rank), to(to_rank), write(w) {}
    void fire(std::uint64_t what) override
    {
        if (lost)
            return;
        if (what == kWritten)
            fabric.written(*this);
        else if (what == kArrived)
            fabric.arrived(*this);
        else
            fabric.place(*this, static_cast<unsigned>(what));
    }
    bool placed() const { return chunks_left == 0; }

    Fabric& fabric;
    const int from, to;
    const Write write;
    std::uint64_t grain = kLine;
    std::vector<std::uint8_t> chunk_of; // of each piece
    unsigned chunks_left = 0;
    bool told_written = false, told_arrived = false, lost = false;
    std::vector<std::byte> captured; // the source as it was when `written` was told
};

Fabric::Fabric(Timeline& time, const Attributes& attributes, const FabricOptions& options)
    : time_(time), attributes_(attributes), options_(options), random_(options.seed * 31 + 7)
{
}

Fabric::~Fabric() = default;

Fabric::Port& Fabric::port(int rank)
{
    while (ports_.size() <= static_cast<std::size_t>(rank))
        ports_.emplace_back();
    return ports_[static_cast<std::size_t>(rank)];
}

Fabric::Pair& Fabric::pair(int from, int to)
{
    return pairs_[std::uint64_t(std::uint32_t(from)) << 32 | std::uint32_t(to)];
}

Time Fabric::delay()
{
    Time d = random_.below(options_.delay_max);
    if (options_.stalls_one_in != 0 && random_.one_in(options_.stalls_one_in))
        d += random_.below(options_.stall_max);
    return d;
}

std::uint64_t Fabric::expose(int rank, std::byte* base, std::uint64_t bytes)
{
    regions_[++keys_] = {rank, base, bytes};
    return keys_;
}

void Fabric::withdraw(std::uint64_t key)
{
    regions_.erase(key);
}

Status Fabric::write(int from, int to, const Write& w)
{
    Port& here = port(from);
    if (here.under_way >= options_.room)
        return Status::again;
    const auto region = regions_.find(w.key);
    if (region != regions_.end() && (region->second.owner != to || w.offset + w.bytes > region->second.bytes))
        broken.push_back("a write outside of the region that it names");
    auto made = std::make_unique<Op>(*this, from, to, w);
    Op& op = *made;
    ++here.under_way;
    ++here.unplaced;
    ++under_way_;
    pair(from, to).ops.push_back(std::move(made));
    if (attributes_.at_once) {
        op.chunks_left = 1;
        op.told_arrived = true;
        time_.at(arrival ? arrival(from, to, w.bytes) : time_.now() + delay(), op, 0);
        return Status::ok;
    }
    op.grain = attributes_.whole_lines ? kLine : kWord;
    const std::uint64_t begin = w.offset / op.grain, end = (w.offset + w.bytes + op.grain - 1) / op.grain;
    op.chunks_left = 1 + static_cast<unsigned>(random_.below(3));
    for (std::uint64_t i = begin; i < end; ++i)
        op.chunk_of.push_back(static_cast<std::uint8_t>(random_.below(op.chunks_left)));
    for (unsigned chunk = 0; chunk < op.chunks_left; ++chunk)
        time_.at(time_.now() + delay(), op, chunk);
    const bool waits = (w.flags & kDeliveryComplete) != 0 && attributes_.delivery_complete;
    if (!waits)
        time_.at(time_.now() + delay(), op, kWritten);
    return Status::ok;
}

void Fabric::again_later(Op& op, std::uint64_t what, Time not_before)
{
    const Time most = options_.delay_max + options_.stall_max / 64;
    time_.at(std::max(not_before, time_.now()) + 1 + random_.below(most), op, what);
}

// Everything that the attributes promise about this write and earlier ones of its pair.
bool Fabric::may_place(const Op& op, Pair& pair) const
{
    const bool fenced = (op.write.flags & kFenced) != 0;
    for (const auto& before : pair.ops) {
        if (before.get() == &op)
            return true;
        const bool overlaps = before->write.key == op.write.key &&
                              before->write.offset < op.write.offset + op.write.bytes &&
                              op.write.offset < before->write.offset + before->write.bytes;
        if (!before->placed() && (attributes_.placement_order || (fenced && attributes_.fence_places) ||
                                  (overlaps && attributes_.overlap_order)))
            return false;
        if (fenced && !before->told_written)
            return false;
    }
    return true;
}

// A chunk's time has come: now, when its target moves it, or later if it must wait.
void Fabric::place(Op& op, unsigned chunk)
{
    Pair& p = pair(op.from, op.to);
    if (p.down_until > time_.now())
        return again_later(op, chunk, p.down_until);
    if (!may_place(op, p))
        return again_later(op, chunk, 0);
    const int to = op.to;
    if (attributes_.at_once)
        place_whole(op);
    else if (attributes_.auto_progress)
        copy_pieces(op, chunk); // which may end it
    else
        port(to).ready.emplace_back(&op, chunk);
    if (poke)
        poke(to);
}

void Fabric::place_whole(Op& op)
{
    const Write& w = op.write;
    if (const auto region = regions_.find(w.key); region != regions_.end() && !port(op.to).dead) {
        const Region& r = region->second;
        if ((w.flags & kClearBehind) != 0)
            std::memset(r.base + (w.offset + w.bytes) % r.bytes, 0, kWord);
        std::memcpy(r.base + w.offset, w.from, w.bytes);
    }
    op.chunks_left = 0;
    op.told_written = true;
    Port& here = port(op.from);
    --here.unplaced;
    --here.under_way;
    here.events.push_back({Event::Kind::written, op.to, 0, w.cookie});
    end_if_over(op);
}

void Fabric::copy_pieces(Op& op, unsigned chunk)
{
    const auto region = regions_.find(op.write.key);
    const Write& w = op.write;
    const bool any = std::find(op.chunk_of.begin(), op.chunk_of.end(), chunk) != op.chunk_of.end();
    if (any && region != regions_.end() && !port(op.to).dead) {
        const std::byte* source = op.captured.empty() ? w.from : op.captured.data();
        std::uint64_t piece = w.offset / op.grain;
        for (const std::uint8_t of : op.chunk_of) {
            const std::uint64_t begin = std::max(piece * op.grain, w.offset);
            const std::uint64_t end = std::min((piece + 1) * op.grain, w.offset + w.bytes);
            if (of == chunk)
                std::memcpy(region->second.base + begin, source + (begin - w.offset), end - begin);
            ++piece;
        }
    } else if (any && !port(op.to).dead) {
        broken.push_back("a write into memory that its owner has withdrawn");
    }
    if (--op.chunks_left != 0)
        return;
    if ((w.flags & kSignal) == 0)
        --port(op.from).unplaced;
    if ((w.flags & kDeliveryComplete) != 0 && attributes_.delivery_complete)
        time_.at(time_.now() + delay(), op, kWritten);
    if ((w.flags & kSignal) != 0)
        time_.at(time_.now() + delay(), op, kArrived);
    else
        op.told_arrived = true;
    end_if_over(op);
}

void Fabric::written(Op& op)
{
    if (const Time until = pair(op.from, op.to).down_until; until > time_.now())
        return again_later(op, kWritten, until);
    if (!op.placed())
        op.captured.assign(op.write.from, op.write.from + op.write.bytes);
    op.told_written = true;
    Port& here = port(op.from);
    --here.under_way;
    here.events.push_back({Event::Kind::written, op.to, 0, op.write.cookie});
    if (poke)
        poke(op.from);
    end_if_over(op);
}

void Fabric::arrived(Op& op)
{
    op.told_arrived = true;
    --port(op.from).unplaced;
    port(op.to).events.push_back({Event::Kind::arrived, op.from, op.write.signal, 0});
    if (poke)
        poke(op.to);
    end_if_over(op);
}

void Fabric::end_if_over(Op& op)
{
    if (!op.placed() || !op.told_written || !op.told_arrived)
        return;
    --under_way_;
    std::erase_if(pair(op.from, op.to).ops, [&](const auto& kept) { return kept.get() == &op; });
}

bool Fabric::next(int rank, Event& event)
{
    Port& here = port(rank);
    if (!here.ready.empty()) {
        auto ready = std::move(here.ready);
        here.ready.clear();
        if (!attributes_.placement_order)
            for (std::size_t i = ready.size(); i > 1; --i)
                std::swap(ready[i - 1], ready[random_.below(i)]);
        for (auto& [op, chunk] : ready)
            if (may_place(*op, pair(op->from, op->to)))
                copy_pieces(*op, chunk);
            else
                here.ready.emplace_back(op, chunk);
    }
    if (here.events.empty())
        return false;
    // completions are in no order
    const std::size_t at = random_.below(std::min<std::size_t>(here.events.size(), 4));
    event = here.events[at];
    here.events.erase(here.events.begin() + static_cast<std::ptrdiff_t>(at));
    return true;
}

bool Fabric::flushed(int from) const
{
    return static_cast<std::size_t>(from) >= ports_.size() || ports_[static_cast<std::size_t>(from)].unplaced == 0;
}

void Fabric::drop_link(int a, int b, Time until)
{
    pair(a, b).down_until = std::max(pair(a, b).down_until, until);
    pair(b, a).down_until = std::max(pair(b, a).down_until, until);
}

void Fabric::kill(int rank)
{
    Port& gone = port(rank);
    gone.dead = true;
    gone.ready.clear();
    gone.events.clear();
    std::erase_if(regions_, [&](const auto& region) { return region.second.owner == rank; });
    for (auto& [key, p] : pairs_) {
        const bool from = static_cast<int>(key >> 32) == rank, to = static_cast<int>(key & 0xffffffffu) == rank;
        if (!from && !to)
            continue;
        for (auto& op : p.ops) {
            if (op->lost || (to && op->placed() && op->told_arrived))
                continue;
            op->lost = true; // torn where it stands
            --under_way_;
            if (!op->placed() || !op->told_arrived)
                --port(op->from).unplaced;
            if (!op->told_written)
                --port(op->from).under_way;
            std::erase_if(port(op->to).ready, [&](const auto& r) { return r.first == op.get(); });
            lost_.push_back(std::move(op));
        }
        std::erase(p.ops, nullptr);
    }
}

} // namespace storm::sim
