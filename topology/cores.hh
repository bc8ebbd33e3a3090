// SPDX-License-Identifier: MIT
// How this rank should wait: whether the cores it may use are enough for the ranks
// that share them.
#pragma once

#include "index_set.hh"

namespace storm::topology {

struct Cores {
    int usable = 1;       // of this process (its affinity)
    int of_node = 1;      // that any process of this container may use
    int ranks_on_node = 1;
};

Cores look(int ranks_on_node);

// The cpus in this process's affinity.
IndexSet own_cpus();

// Polls that find nothing before the core is offered to others: many when every rank
// can have a core of its own, few when ranks share cores.
int spin_limit(const Cores& cores);

} // namespace storm::topology
