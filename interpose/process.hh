// SPDX-License-Identifier: MIT
// The one process that interposes: the real MPI, and the Rank object once the job is
// routed. Nothing here is touched before the first MPI call.
#pragma once

#include "base/log.hh"
#include "base/real_mpi.hh"
#include "rank.hh"

#include <cstring>

#define STORM_EXPORT [[gnu::visibility("default")]]

namespace storm::interpose {

struct Process {
    RealMpi real;
    Rank* rank = nullptr; // null: every call goes to the real MPI unchanged
    Log log;
};

extern constinit Process process;

inline Rank* routed()
{
    return process.rank;
}

// Marks this thread as inside the real MPI. Calls that arrive here meanwhile come from
// the real MPI's own components or from user callbacks: a communicator made there is
// not one of the program's. What was sent before is placed first.
class Entered {
public:
    explicit Entered(bool may_wait = true)
    {
        if (depth_++ == 0)
            process.rank->place_sends(may_wait);
    }
    ~Entered()
    {
        if (--depth_ == 0 && process.rank != nullptr) // MPI_Finalize ends it
            process.rank->look_soon();
    }
    Entered(const Entered&) = delete;
    static bool inside() { return depth_ != 0; }

private:
    static thread_local constinit int depth_;
};

// All members of a new communicator agree on its identity; see comms.cc.
void adopt(MPI_Comm parent, MPI_Comm made, bool nested);

// ---- where a call goes (libmpi.cc)

// The real MPI was found, it is one we serve, and `process.real` is filled.
bool serving();
void* own_symbol(const char* name); // libmpi's own, or null

// The definitions that a caller would find but for us: those after us in the global
// scope. If that holds no MPI, the caller's library was loaded RTLD_LOCAL, with its MPI
// and perhaps a tool: then what that library finds.
class NextScope {
public:
    explicit NextScope(const void* caller);
    ~NextScope();
    NextScope(const NextScope&) = delete;
    void* find(const char* name) const; // or null

private:
    void* local_ = nullptr;
};

// The function that PMPI_X means: ours, or that of an MPI we do not serve.
template <class Function>
Function served(const NextScope& next, const char* name, Function ours)
{
    if (serving())
        return ours;
    auto* other = reinterpret_cast<Function>(next.find(name));
    return other != nullptr ? other : ours;
}

// MPI_X belongs to a tool that is linked to the program or preloaded behind us, if the
// next definition is not the real MPI's; else straight to PMPI_X.
template <class Function>
Function next_tool(const NextScope& next, const char* name, Function ours)
{
    void* found = next.find(name);
    const bool tool = found != nullptr && (!serving() || found != own_symbol(name));
    return tool ? reinterpret_cast<Function>(found) : ours;
}

template <class Function>
class Slot {
public:
    constexpr explicit Slot(Function first) : function_(first) {}
    // relaxed: every value ever stored is a valid function with the same effect
    Function get() const { return __atomic_load_n(&function_, __ATOMIC_RELAXED); }
    void set(Function function) { __atomic_store_n(&function_, function, __ATOMIC_RELAXED); }

private:
    Function function_;
};

#include "ours.inc"

} // namespace storm::interpose
