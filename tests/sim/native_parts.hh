// SPDX-License-Identifier: MIT
// What the simulated real MPI is made of: shared by what stands behind its calls
// (native.cc) and the calls (native_calls.cc).
#pragma once

#include "native.hh"

#include "world.hh"

#include <algorithm>
#include <cstring>

namespace storm::sim {

template <class T, class Handle>
T* as(Handle handle)
{
    return reinterpret_cast<T*>(handle);
}

struct Native::Type {
    std::vector<std::pair<std::ptrdiff_t, std::size_t>> blocks; // of one element
    std::uint64_t size = 0;
    MPI_Aint extent = 0;
    bool predefined = false, freed = false;

    // Each block of `count` elements, up to `bytes` of data.
    template <class Visit>
    void each(std::byte* buffer, std::uint64_t bytes, Visit visit) const
    {
        for (std::uint64_t done = 0; done < bytes; buffer += extent)
            for (const auto& [place, length] : blocks) {
                const std::uint64_t n = std::min<std::uint64_t>(length, bytes - done);
                visit(buffer + place, done, n);
                done += n;
                if (n == 0)
                    break;
            }
    }
    void pack(const void* buffer, std::uint64_t bytes, std::byte* out) const
    {
        each(static_cast<std::byte*>(const_cast<void*>(buffer)), bytes,
             [out](std::byte* at, std::uint64_t done, std::uint64_t n) { std::memcpy(out + done, at, n); });
    }
    void unpack(void* buffer, std::uint64_t bytes, const std::byte* in) const
    {
        each(static_cast<std::byte*>(buffer), bytes,
             [in](std::byte* at, std::uint64_t done, std::uint64_t n) { std::memcpy(at, in + done, n); });
    }
};

struct Native::Comm {
    int context = 0;
    bool world = false, self = false;
    std::vector<int> members; // world ranks, when it is neither of these
    int world_size = 0;

    int size() const { return self ? 1 : world ? world_size : static_cast<int>(members.size()); }
    int rank_of(int world_rank) const
    {
        if (self || world)
            return self ? 0 : world_rank;
        const auto at = std::find(members.begin(), members.end(), world_rank);
        return at == members.end() ? MPI_UNDEFINED : static_cast<int>(at - members.begin());
    }
    int world_rank(int rank, int caller) const
    {
        return self ? caller : world ? rank : members[static_cast<std::size_t>(rank)];
    }
};

struct Native::Request {
    enum class What { send, receive, collective } what = What::send;
    int owner = -1;
    bool complete = false, cancelled = false;
    int error = MPI_SUCCESS;
    Comm* comm = nullptr;
    int source = MPI_ANY_SOURCE, tag = MPI_ANY_TAG; // a receive: wanted, then what came
    void* buffer = nullptr;
    std::uint64_t room = 0, count = 0;
    Type type; // a copy: the program may free its handle
    std::int64_t* values = nullptr;
};

struct Native::Packet {
    enum class Kind { eager, ready, go, data } kind = Kind::eager;
    int from = -1, to = -1; // world ranks
    int context = 0, source = 0, tag = 0;
    std::uint64_t size = 0;
    std::vector<std::byte> bytes;
    Request *sender = nullptr, *receiver = nullptr;
};

struct Native::Side final : Actor {
    void fire(std::uint64_t what) override
    {
        constexpr std::uint64_t kRound = std::uint64_t{1} << 40;
        World& world = mpi->world_;
        world.moved();
        if (what >= kRound) {
            as<Request>(what - kRound)->complete = true;
        } else {
            if (!dead)
                incoming.push_back(std::move(mpi->flight_[what]));
            mpi->free_flight_.push_back(what);
        }
        world.poke(rank);
    }
    Native* mpi = nullptr;
    int rank = -1;
    std::list<Packet> incoming;
    std::list<Packet> unexpected;
    std::list<Request*> posted;
    std::unordered_map<int, Time> latest; // arrival of each sender's last packet
    std::unordered_map<int, std::uint64_t> rounds; // by context: collectives entered
    std::vector<std::unique_ptr<Request>> requests;
    std::vector<Request*> free_requests;
    void (*inside)(void*) = nullptr;
    void* inside_with = nullptr;
    bool dead = false, turning = false;
};

} // namespace storm::sim
