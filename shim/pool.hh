// SPDX-License-Identifier: MIT
// Requests: one reserved range of addresses, committed in chunks as they are needed.
#pragma once

#include "request.hh"

#include <cstddef>
#include <cstdint>

namespace storm {

class RequestPool {
public:
    static constexpr std::int32_t kFirstIndex = 0x40000000; // Fortran; the real MPI counts from 0
    static constexpr std::size_t kSlot = 256;
    static_assert(sizeof(Request) <= kSlot);

    ~RequestPool();
    // False when no range of addresses can be had. `most`: bytes of it, for processes that
    // hold many ranks.
    bool reserve(std::size_t most = std::size_t{1} << 32);

    bool owns(const void* handle) const
    {
        return reinterpret_cast<std::uintptr_t>(handle) - base_ < bytes_;
    }

    std::uintptr_t address() const { return base_; }
    std::size_t bytes() const { return bytes_; }

    // Null when memory is exhausted.
    Request* take();
    void give_back(Request* request);

    // The request with this Fortran index, or null when there is none.
    Request* at(std::int32_t fortran_index) const;

private:
    bool commit_more();
    Request* make();

    std::uintptr_t base_ = 0;
    std::size_t bytes_ = 0;
    std::size_t committed_ = 0;
    std::size_t made_ = 0;    // requests: memory that was never used costs nothing
    Request* free_ = nullptr; // through `posted.next`
};

} // namespace storm
