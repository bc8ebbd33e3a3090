// What the kernel says of the network interfaces of this very machine: hwloc tells
// neither whether a link is up nor which interfaces are made of others.
#pragma once

#include "machine.hh"

namespace storm::topology {

// Adds faults to the entries of `machine`, and the interfaces that hwloc does not list.
void add_live_facts(Machine& machine, const std::string& folder = "/sys/class/net");

} // namespace storm::topology
