// SPDX-License-Identifier: MIT
// Which network device a rank uses for its peers on other hosts, and why.
#pragma once

#include "machine.hh"

namespace storm::topology {

enum class Need {
    any,       // RDMA where there is some, else sockets
    device,    // RDMA: the verbs backend and its like
    interface, // an address of the network: providers on sockets
};

// What decides for one rank.
struct Place {
    IndexSet binding;               // cpus it may run on; empty: all usable ones
    int local_rank = 0;             // among the ranks of this job on this node
    int local_size = 1;
    std::vector<IndexSet> bindings; // of all those ranks, in their order; empty: unknown
    std::string wanted = "auto";    // STORM_NIC
    Need need = Need::any;
};

struct Choice {
    int nic = -1;         // index in Machine::nics; -1: none reaches other hosts
    std::string name;     // as Nic::name, or the interface where that is needed; "" for none
    unsigned distance = 0;
    std::string sentence; // what was chosen and why
    std::string problem;  // what is wrong with STORM_NIC; mostly ""
};

Choice choose(const Machine& machine, const Place& place);

// Why this one is never chosen for peers on other hosts; "" when it may be.
std::string obstacle(const Nic& nic);

// From the nearest node that `binding` touches to the nearest one beside the device;
// the farthest of all when its place is unknown.
unsigned distance(const Machine& machine, const IndexSet& binding, const Nic& nic);

// The nodes, as indexes in Machine::nodes, that these cpus are of.
IndexSet nodes_of(const Machine& machine, const IndexSet& cpus);

// Bindings of `ranks` ranks that share the usable cpus equally, one block each.
std::vector<IndexSet> equal_shares(const Machine& machine, int ranks);

} // namespace storm::topology
