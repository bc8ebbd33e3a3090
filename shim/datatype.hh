// SPDX-License-Identifier: MIT
// What the shim must know of a datatype, asked from the real MPI once a handle and
// kept until the program frees that handle. A type that is in use by a pending
// operation survives its handle.
#pragma once

#include "base/real_mpi.hh"
#include "base/status.hh"
#include "lock.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace storm {

struct TypeInfo {
    MPI_Datatype handle = nullptr;
    std::uint64_t size = 0;       // bytes of data in one element
    std::ptrdiff_t first = 0;     // where the data of a contiguous type begins
    std::ptrdiff_t extent = 0;    // from one element to the next
    std::ptrdiff_t width = 0;     // from the first byte of data of an element to its last
    bool contiguous = false;      // elements are plain bytes, one behind the other
    bool predefined = false;
    bool absolute = false;        // its displacements look like addresses (MPI_BOTTOM)
    bool own = false;             // `handle` is one of ours, made from the program's
    std::uint32_t users = 1;      // the program's handle, and pending operations
};

class TypeCache {
public:
    TypeCache(const RealMpi& real, bool threaded) : real_(real), threaded_(threaded) {}
    ~TypeCache();

    // A communicator on which errors are returned: a type is tried there once.
    void set_private(MPI_Comm comm) { private_ = comm; }

    // Null when the real MPI would refuse a message of this type (null, uncommitted).
    TypeInfo* find(MPI_Datatype handle)
    {
        if (threaded_) [[unlikely]]
            return find_shared(handle);
        Slot& slot = recent_[(reinterpret_cast<std::uintptr_t>(handle) >> 4) % recent_.size()];
        if (slot.handle == handle) [[likely]]
            return slot.type;
        return find_slow(handle, slot);
    }

    // The program is about to free `handle`: forget it, keep what is in use alive.
    void forget(MPI_Datatype handle);

    void hold(TypeInfo& type)
    {
        if (!type.predefined) // those cannot be freed
            adjust(type.users, 1, threaded_);
    }
    void release(TypeInfo& type);

    // Packs `count` elements into `size * count` bytes at `out`.
    void pack(const TypeInfo& type, const void* buffer, int count, std::byte* out) const;
    // Writes the first `bytes` of a packed stream into `count` elements; a last,
    // partly received element keeps the rest of its data.
    void unpack(const TypeInfo& type, void* buffer, int count, const std::byte* in,
                std::uint64_t bytes) const;

private:
    struct Slot {
        MPI_Datatype handle = nullptr;
        TypeInfo* type = nullptr;
    };
    TypeInfo* find_slow(MPI_Datatype handle, Slot& slot);
    TypeInfo* find_shared(MPI_Datatype handle);
    TypeInfo* ask(MPI_Datatype handle);
    void keep(TypeInfo& type);
    bool plain_bytes(const TypeInfo& type) const;

    const RealMpi& real_;
    const bool threaded_;
    std::shared_mutex lock_; // the map; a leaf
    MPI_Comm private_ = nullptr;
    std::array<Slot, 64> recent_{};
    std::unordered_map<MPI_Datatype, TypeInfo*> types_;
};

} // namespace storm
