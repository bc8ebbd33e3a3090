// SPDX-License-Identifier: MIT
// What the kernel says of the network interfaces of this very machine: hwloc tells
// neither whether a link is up nor which interfaces are made of others.
#pragma once

#include "machine.hh"

namespace storm::topology {

struct Link {
    std::string name;
    unsigned index = 0;
    bool up = false;
    bool addressed = false; // it has an address that other hosts could reach
};

// The interfaces of this network name space.
std::vector<Link> links_of_kernel();

// Adds faults to the entries of `machine`, and the interfaces that hwloc does not list.
// `folder` tells how they depend on each other; it may show another name space than ours,
// so only what has the same number there counts.
void add_live_facts(Machine& machine, const std::vector<Link>& links, const std::string& folder);

} // namespace storm::topology
