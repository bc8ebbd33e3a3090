// SPDX-License-Identifier: MIT
// A machine as the choice of a network device needs it: plain facts, from hwloc or from
// a test. No type of hwloc appears here: libstorm.so and the tools hold such an object
// without that library.
#pragma once

#include "index_set.hh"

#include <string>
#include <vector>

namespace storm::topology {

struct Node { // a NUMA node
    int os_index = 0;
    int package = 0;
    IndexSet cpus; // the kernel's numbers; empty for a node of memory alone
};

// One port of a device that messages to other hosts may take. A device for RDMA and the
// network interface of the same port are one.
struct Nic {
    std::string device;      // for RDMA: mlx5_0; "" when it has none
    int port = 0;            // of a device with several; 0: it has one
    std::string interface;   // for sockets: ib0, eth0; "" when it has none
    std::string pci;         // address on the bus; "" when unknown
    double gbytes_per_s = 0; // of its PCI link; 0 when unknown
    IndexSet nodes;          // indexes in Machine::nodes of those beside it; empty: unknown
    bool attached = false;   // to hardware; false for an interface made of software
    std::string fault;       // why it cannot be used now: "its link is down"; "" when it can
    std::string no_sockets;  // why its interface carries none though RDMA works; "" when it may
    std::vector<std::string> gpus; // addresses of those behind the same PCI switch

    // The name that STORM_NIC takes: device, device:port or interface.
    std::string name() const
    {
        return device.empty() ? interface : device + (port > 0 ? ":" + std::to_string(port) : "");
    }
};

struct Machine {
    std::string origin;                // where the facts are from, in words
    int cores = 0;                     // physical ones
    IndexSet usable;                   // cpus that this container or job may use
    std::vector<int> cpu_order;        // the kernel's number of each cpu in hwloc's order
    std::vector<Node> nodes;
    std::vector<unsigned> distances;   // from node to node, row by row: 10 is the same node
    std::vector<Nic> nics;             // in the order of their PCI addresses and ports

    unsigned distance(std::size_t from, std::size_t to) const
    {
        return distances[from * nodes.size() + to];
    }
};

} // namespace storm::topology
