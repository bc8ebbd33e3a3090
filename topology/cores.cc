// SPDX-License-Identifier: MIT
#include "cores.hh"

#include <algorithm>
#include <sched.h>
#include <unistd.h>

namespace storm::topology {

IndexSet own_cpus()
{
    IndexSet cpus;
    // The kernel refuses a mask that is smaller than its own.
    for (int most = CPU_SETSIZE; most <= IndexSet::kMost; most *= 4) {
        cpu_set_t* mask = CPU_ALLOC(most);
        const std::size_t bytes = CPU_ALLOC_SIZE(most);
        const bool told = mask != nullptr && sched_getaffinity(0, bytes, mask) == 0;
        for (int cpu = 0; told && cpu < most; ++cpu)
            if (CPU_ISSET_S(cpu, bytes, mask))
                cpus.add(cpu);
        CPU_FREE(mask);
        if (told)
            break;
    }
    return cpus;
}

Cores look(int ranks_on_node)
{
    Cores cores;
    cores.ranks_on_node = std::max(ranks_on_node, 1);
    cores.usable = std::max(own_cpus().count(), 1);
    cores.of_node = std::max(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), cores.usable);
    return cores;
}

int spin_limit(const Cores& cores)
{
    constexpr int kAlone = 2000, kShared = 16;
    // A bound rank sees fewer cores than the node has; the launcher bound its
    // neighbours elsewhere, unless there are more ranks than cores in all.
    return cores.ranks_on_node > cores.of_node ? kShared : kAlone;
}

} // namespace storm::topology
