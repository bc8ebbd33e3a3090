// SPDX-License-Identifier: MIT
#include "datatype.hh"

#include "copy.hh"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

namespace storm {

TypeCache::~TypeCache()
{
    for (auto& [handle, type] : types_)
        delete type; // the real MPI may have ended: types of our own go with it
}

TypeInfo* TypeCache::find_slow(MPI_Datatype handle, Slot& slot)
{
    const auto known = types_.find(handle);
    TypeInfo* type = known != types_.end() ? known->second : ask(handle);
    if (type != nullptr)
        slot = {handle, type};
    return type;
}

TypeInfo* TypeCache::find_shared(MPI_Datatype handle)
{
    {
        const std::shared_lock shared(lock_);
        if (const auto known = types_.find(handle); known != types_.end())
            return known->second;
    }
    const std::unique_lock alone(lock_);
    const auto known = types_.find(handle); // another thread may have asked meanwhile
    return known != types_.end() ? known->second : ask(handle);
}

// What the real MPI says of a type that is new here.
TypeInfo* TypeCache::ask(MPI_Datatype handle)
{
    if (handle == nullptr || handle == real_.datatype_null)
        return nullptr;
    // The real MPI checks the type before it sees that nobody is addressed.
    if (real_.Send(nullptr, 0, handle, MPI_PROC_NULL, 0, private_) != MPI_SUCCESS)
        return nullptr;
    auto type = std::make_unique<TypeInfo>();
    type->handle = handle;
    int ints = 0, addresses = 0, types = 0, combiner = 0;
    MPI_Count size = 0;
    MPI_Aint lb = 0, extent = 0, true_lb = 0, true_extent = 0;
    if (real_.Type_size_x(handle, &size) != MPI_SUCCESS || size < 0 ||
        real_.Type_get_envelope(handle, &ints, &addresses, &types, &combiner) != MPI_SUCCESS ||
        real_.Type_get_extent(handle, &lb, &extent) != MPI_SUCCESS ||
        real_.Type_get_true_extent(handle, &true_lb, &true_extent) != MPI_SUCCESS)
        return nullptr;
    type->size = static_cast<std::uint64_t>(size);
    type->predefined = combiner == MPI_COMBINER_NAMED;
    type->absolute = true_lb > static_cast<MPI_Aint>(kPage) || true_lb < -static_cast<MPI_Aint>(kPage);
    type->first = true_lb;
    type->extent = extent;
    type->width = true_extent;
    type->contiguous = size == 0 || (size == extent && size == true_extent && plain_bytes(*type));
    if (threaded_ && !type->predefined)
        keep(*type); // another thread may free the handle while we pack by it
    return types_.emplace(handle, type.release()).first->second;
}

// Same size and extent do not say that the bytes stay in order (a permuted indexed
// type): one element whose bytes are all told apart by two patterns is packed.
bool TypeCache::plain_bytes(const TypeInfo& type) const
{
    constexpr std::uint64_t kLargestTried = 65536; // two bytes tell 65,536 places apart
    if (type.predefined)
        return true;
    if (type.size > kLargestTried)
        return false;
    const std::size_t n = type.size;
    std::vector<std::byte> from(n), to(n);
    for (unsigned shift = 0; shift <= 8; shift += 8) {
        for (std::size_t i = 0; i < n; ++i)
            from[i] = static_cast<std::byte>(i >> shift);
        int position = 0;
        const int rc = real_.Pack(from.data() - type.first, 1, type.handle, to.data(),
                                  static_cast<int>(n), &position, private_);
        if (rc != MPI_SUCCESS || static_cast<std::size_t>(position) != n || from != to)
            return false;
    }
    return true;
}

void TypeCache::forget(MPI_Datatype handle)
{
    std::unique_lock alone(lock_, std::defer_lock);
    if (threaded_)
        alone.lock();
    const auto known = types_.find(handle);
    if (known == types_.end())
        return;
    TypeInfo* type = known->second;
    types_.erase(known);
    for (Slot& slot : recent_)
        if (slot.type == type)
            slot = {};
    if (type->users > 1 && !type->own)
        keep(*type);
    release(*type);
}

// A type made from it lives on when the handle is freed, and copies no attributes.
void TypeCache::keep(TypeInfo& type)
{
    real_.Type_contiguous(1, type.handle, &type.handle);
    real_.Type_commit(&type.handle);
    type.own = true;
}

void TypeCache::release(TypeInfo& type)
{
    if (type.predefined || adjust(type.users, ~std::uint32_t{0}, threaded_) != 0)
        return;
    if (type.own)
        real_.Type_free(&type.handle);
    delete &type;
}

void TypeCache::pack(const TypeInfo& type, const void* buffer, int count, std::byte* out) const
{
    if (type.contiguous) {
        copy_bytes(out, static_cast<const std::byte*>(buffer) + type.first,
                   type.size * static_cast<std::uint64_t>(count));
        return;
    }
    int position = 0;
    const std::uint64_t bytes = type.size * static_cast<std::uint64_t>(count);
    real_.Pack(buffer, count, type.handle, out, static_cast<int>(bytes), &position, private_);
}

void TypeCache::unpack(const TypeInfo& type, void* buffer, int count, const std::byte* in,
                       std::uint64_t bytes) const
{
    if (type.size == 0)
        return;
    const std::uint64_t room = type.size * static_cast<std::uint64_t>(count);
    if (bytes > room)
        bytes = room;
    if (type.contiguous) {
        copy_bytes(static_cast<std::byte*>(buffer) + type.first, in, bytes);
        return;
    }
    const std::uint64_t whole = bytes / type.size, rest = bytes % type.size;
    int position = 0;
    if (whole != 0)
        real_.Unpack(in, static_cast<int>(whole * type.size), &position, buffer,
                     static_cast<int>(whole), type.handle, private_);
    if (rest == 0)
        return;
    // The part of one more element: its present contents with the new bytes laid over.
    MPI_Aint lb = 0, extent = 0;
    real_.Type_get_extent(type.handle, &lb, &extent);
    std::byte* element = static_cast<std::byte*>(buffer) + extent * static_cast<MPI_Aint>(whole);
    std::vector<std::byte> packed(type.size);
    position = 0;
    real_.Pack(element, 1, type.handle, packed.data(), static_cast<int>(type.size), &position,
               private_);
    std::memcpy(packed.data(), in + whole * type.size, rest);
    position = 0;
    real_.Unpack(packed.data(), static_cast<int>(type.size), &position, element, 1, type.handle,
                 private_);
}

} // namespace storm
