// SPDX-License-Identifier: MIT
#include "pool.hh"

#include <algorithm>
#include <new>
#include <sys/mman.h>

namespace storm {
namespace {
constexpr std::size_t kChunk = std::size_t{1} << 18;
}

RequestPool::~RequestPool()
{
    if (base_ != 0)
        ::munmap(reinterpret_cast<void*>(base_), bytes_);
}

bool RequestPool::reserve(std::size_t most)
{
    // 16 million requests at best; less where addresses are limited (ulimit -v)
    constexpr std::size_t kLeast = std::size_t{1} << 24;
    for (std::size_t bytes = most; bytes >= std::min(most, kLeast); bytes >>= 2) {
        void* at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                          -1, 0);
        if (at != MAP_FAILED) {
            base_ = reinterpret_cast<std::uintptr_t>(at);
            bytes_ = bytes;
            return commit_more();
        }
    }
    return false;
}

bool RequestPool::commit_more()
{
    if (committed_ == bytes_)
        return false;
    auto* chunk = reinterpret_cast<std::byte*>(base_ + committed_);
    if (::mprotect(chunk, kChunk, PROT_READ | PROT_WRITE) != 0)
        return false;
    committed_ += kChunk;
    return true;
}

// The next one that was never used.
Request* RequestPool::make()
{
    if (made_ * kSlot == committed_ && !commit_more())
        return nullptr;
    auto* request = new (reinterpret_cast<std::byte*>(base_ + made_ * kSlot)) Request;
    request->fortran_index = kFirstIndex + static_cast<std::int32_t>(made_);
    // release: pairs with the acquire in at(), which needs no lock
    std::atomic_ref(made_).store(made_ + 1, std::memory_order_release);
    return request;
}

Request* RequestPool::take()
{
    if (free_ == nullptr)
        return make();
    Request* request = free_;
    free_ = request->posted.next;
    const std::int32_t index = request->fortran_index;
    *request = Request{};
    request->fortran_index = index;
    return request;
}

void RequestPool::give_back(Request* request)
{
    // a copy of the handle that the program waits for once more finds nothing to do
    request->what = Request::What::free;
    request->set(Request::State::inactive);
    request->persistent = false;
    request->posted = {free_, nullptr};
    free_ = request;
}

Request* RequestPool::at(std::int32_t fortran_index) const
{
    const std::int64_t slot = std::int64_t{fortran_index} - kFirstIndex;
    // acquire: pairs with the release in make
    const std::size_t made = std::atomic_ref(const_cast<std::size_t&>(made_)).load(std::memory_order_acquire);
    if (slot < 0 || static_cast<std::size_t>(slot) >= made)
        return nullptr;
    return reinterpret_cast<Request*>(base_ + static_cast<std::size_t>(slot) * kSlot);
}

} // namespace storm
