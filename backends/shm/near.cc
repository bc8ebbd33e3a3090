// SPDX-License-Identifier: MIT
#include "near.hh"

#include <cstdint>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace storm::shm {
namespace {

constexpr unsigned kNodes = 1024; // the most that Linux can be built for
constexpr unsigned kWordBits = 8 * sizeof(unsigned long);

struct Policy {
    int mode = MPOL_DEFAULT;
    unsigned long nodes[kNodes / kWordBits] = {};
};

// What numactl set for this process, else the node it runs on.
bool wanted(Policy& policy)
{
    if (::syscall(SYS_get_mempolicy, &policy.mode, policy.nodes, kNodes, nullptr, 0) != 0)
        return false;
    if (policy.mode != MPOL_DEFAULT && policy.mode != MPOL_LOCAL)
        return true;
    unsigned cpu = 0, node = 0;
    if (::syscall(SYS_getcpu, &cpu, &node, nullptr) != 0 || node >= kNodes)
        return false;
    policy = {};
    policy.mode = MPOL_PREFERRED;
    policy.nodes[node / kWordBits] = 1UL << node % kWordBits;
    return true;
}

} // namespace

void keep_near(int fd)
{
    Policy policy;
    if (!wanted(policy))
        return;
    // The policy is the file's, not the mapping's: it lasts when this one is gone. Rings
    // are taken at ever higher places, so the range reaches far; it costs no memory. A
    // limit of address space (ulimit -v) makes it shorter.
    constexpr std::uint64_t kFar = std::uint64_t{1} << 40, kLeast = std::uint64_t{1} << 24;
    for (std::uint64_t bytes = kFar; bytes >= kLeast; bytes /= 16) {
        void* at = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (at == MAP_FAILED)
            continue;
        // kNodes + 1: the kernel takes the number for one more than the last bit
        ::syscall(SYS_mbind, at, bytes, policy.mode, policy.nodes, kNodes + 1, 0);
        ::munmap(at, bytes);
        return;
    }
}

} // namespace storm::shm
