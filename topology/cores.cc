#include "cores.hh"

#include <algorithm>
#include <sched.h>
#include <unistd.h>

namespace storm::topology {

Cores look(int ranks_on_node)
{
    Cores cores;
    cores.ranks_on_node = std::max(ranks_on_node, 1);
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores.usable = std::max(CPU_COUNT(&set), 1);
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
