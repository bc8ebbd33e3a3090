// SPDX-License-Identifier: MIT
#include "slab.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace storm::wire {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{1} << 20;

} // namespace

Slab::~Slab()
{
    for (auto& chunk : chunks_) {
        std::byte* const at = chunk->region.base;
        const std::uint64_t bytes = chunk->region.bytes;
        transport_.withdraw(chunk->region);
        ::munmap(at, bytes);
    }
}

Status Slab::take(std::uint64_t bytes, Piece& piece, std::string& why)
{
    bytes = round_up(bytes, kPage);
    if (bytes > most_ || in_use_ > most_ - bytes) {
        why = "the budget of " + std::to_string(most_) + " bytes for rings (" + setting_ + ") is used up";
        return Status::refused;
    }
    auto has_room = [&](auto& chunk) { return carve(*chunk, bytes, piece); };
    if (std::none_of(chunks_.begin(), chunks_.end(), has_room)) {
        if (add_chunk(std::max(bytes, std::min(kChunk, most_)), why) != Status::ok)
            return Status::refused;
        carve(*chunks_.back(), bytes, piece);
    }
    in_use_ += bytes;
    std::memset(piece.at, 0, bytes);
    return Status::ok;
}

bool Slab::carve(Chunk& chunk, std::uint64_t bytes, Piece& piece)
{
    const auto at = std::find_if(chunk.free.begin(), chunk.free.end(),
                                 [&](const auto& range) { return range.second >= bytes; });
    if (at == chunk.free.end())
        return false;
    const auto [offset, room] = *at;
    chunk.free.erase(at);
    if (room > bytes)
        chunk.free[offset + bytes] = room - bytes;
    piece = {chunk.region.base + offset, bytes, &chunk.region};
    return true;
}

Status Slab::add_chunk(std::uint64_t bytes, std::string& why)
{
    bytes = round_up(bytes, kPage);
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) {
        why = std::string("no memory for a ring: ") + std::strerror(errno);
        return Status::refused;
    }
    ::madvise(at, bytes, MADV_DONTDUMP);
    auto chunk = std::make_unique<Chunk>();
    if (transport_.expose(static_cast<std::byte*>(at), bytes, chunk->region, why) != Status::ok) {
        ::munmap(at, bytes);
        return Status::refused;
    }
    chunk->free[0] = bytes;
    chunks_.push_back(std::move(chunk));
    return Status::ok;
}

void Slab::give(Piece& piece)
{
    if (piece.at == nullptr)
        return;
    in_use_ -= piece.bytes;
    for (auto& chunk : chunks_) {
        if (&chunk->region != piece.region)
            continue;
        auto at = chunk->free.emplace(static_cast<std::uint64_t>(piece.at - chunk->region.base), piece.bytes).first;
        if (const auto next = std::next(at); next != chunk->free.end() && at->first + at->second == next->first) {
            at->second += next->second;
            chunk->free.erase(next);
        }
        if (at != chunk->free.begin()) {
            const auto before = std::prev(at);
            if (before->first + before->second == at->first) {
                before->second += at->second;
                chunk->free.erase(at);
            }
        }
    }
    piece = {};
}

} // namespace storm::wire
