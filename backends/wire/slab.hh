// SPDX-License-Identifier: MIT
// Memory that the fabric knows: taken from the system in chunks, each exposed once, given
// out by pages. What is given is zeroed.
#pragma once

#include "transport.hh"

#include <map>
#include <memory>
#include <vector>

namespace storm::wire {

struct Piece {
    std::byte* at = nullptr;
    std::uint64_t bytes = 0;
    const Region* region = nullptr;

    std::uint64_t address(const std::byte* inside) const
    {
        return region->address + static_cast<std::uint64_t>(inside - region->base);
    }
};

class Slab {
public:
    // All that is given at one time is at most `most` bytes.
    Slab(Transport& transport, std::uint64_t most, const char* setting)
        : transport_(transport), most_(most), setting_(setting)
    {
    }
    ~Slab();
    Slab(const Slab&) = delete;

    Status take(std::uint64_t bytes, Piece& piece, std::string& why);
    void give(Piece& piece);
    std::uint64_t in_use() const { return in_use_; }

private:
    struct Chunk {
        Region region;
        std::map<std::uint64_t, std::uint64_t> free; // offset -> bytes
    };
    bool carve(Chunk& chunk, std::uint64_t bytes, Piece& piece);
    Status add_chunk(std::uint64_t bytes, std::string& why);

    Transport& transport_;
    const std::uint64_t most_;
    const char* const setting_;
    std::uint64_t in_use_ = 0;
    std::vector<std::unique_ptr<Chunk>> chunks_;
};

} // namespace storm::wire
