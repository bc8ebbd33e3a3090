// SPDX-License-Identifier: MIT
// The machine as hwloc knows it. hwloc is no part of libstorm.so: libstorm-topology.so,
// beside the backends, reads the machine and is loaded only when somebody asks.
#pragma once

#include "machine.hh"

namespace storm::topology {

// What libstorm-topology.so exports under the name `storm_topology`.
constexpr unsigned kTopologyAbi = 1;
struct TopologyPlugin {
    unsigned abi;
    // From this machine (`file` empty, though HWLOC_XMLFILE counts), or from an XML file.
    // False with the reason in words.
    bool (*read)(const std::string& file, Machine& machine, std::string& why);
};

// Reads the machine through the first plugin found in `places`; STORM_TOPOLOGY says from
// where ("live" or a file).
bool load(const std::vector<std::string>& places, const std::string& source, Machine& machine,
          std::string& why);

} // namespace storm::topology
