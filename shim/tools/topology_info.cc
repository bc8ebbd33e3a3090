// SPDX-License-Identifier: MIT
#include "topology_info.hh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "../../topology/cores.hh"
#include "../../topology/load.hh"
#include "words.hh"

namespace storm::tools {

namespace {

using topology::IndexSet;

int number_in(const char *variable, int fallback) {
    const auto text = environment(variable);
    const int value = text ? std::atoi(text->c_str()) : 0;
    return value > 0 ? value : fallback;
}

// The kernel's numbers of nodes that are indexes of the machine's list.
std::string node_numbers(const topology::Machine &machine, const IndexSet &nodes) {
    IndexSet numbers;
    for (int i = 0; i < nodes.end(); ++i) {
        if (nodes.has(i)) numbers.add(machine.nodes[static_cast<std::size_t>(i)].os_index);
    }
    return numbers.text();
}

std::string nic_line(const topology::Machine &machine, const topology::Nic &nic) {
    Words facts;
    if (!nic.device.empty() && !nic.interface.empty()) facts.push_back("interface " + nic.interface);
    const std::string nodes = node_numbers(machine, nic.nodes);
    if (!nodes.empty()) facts.push_back("NUMA node " + nodes);
    if (!nic.pci.empty()) facts.push_back("PCI " + nic.pci);
    if (nic.gbytes_per_s > 0) {
        char speed[32];
        std::snprintf(speed, sizeof speed, "%.1f GB/s", nic.gbytes_per_s);
        facts.emplace_back(speed);
    }
    if (!nic.gpus.empty()) facts.push_back("beside GPU " + joined(nic.gpus, ", "));
    if (!nic.no_sockets.empty()) facts.push_back("no sockets (" + nic.no_sockets + ")");
    if (const std::string why = topology::obstacle(nic); !why.empty())
        facts.push_back("not for other hosts (" + why + ")");
    return nic.name() + (facts.empty() ? "" : ": ") + joined(facts, "; ");
}

}  // namespace

TopologyFound find_topology(const std::string &folder, const std::string &source, const std::string &nic, int ranks) {
    TopologyFound found;
    constexpr const char *file = "/libstorm-topology.so";
    const Words places = {folder + "/storm" + file, folder + "/../topology" + file};
    if (folder.empty()) found.why = "its plugin stands beside libstorm.so, which was not found";
    if (folder.empty() || !topology::load(places, source, found.machine, found.why)) return found;
    found.why.clear();

    const auto shares = topology::equal_shares(found.machine, ranks);
    for (int rank = 0; rank < std::max(ranks, 1); ++rank) {
        topology::Place place;
        place.wanted = nic;
        if (ranks > 0) {
            place.binding = shares[static_cast<std::size_t>(rank)];
            place.bindings = shares;
            place.local_rank = rank;
            place.local_size = ranks;
        } else {
            if (source == "live" && !environment("HWLOC_XMLFILE")) place.binding = topology::own_cpus();
            place.local_rank = number_in("OMPI_COMM_WORLD_LOCAL_RANK", 0);
            place.local_size = number_in("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
        }
        found.places.push_back(place);
        found.choices.push_back(topology::choose(found.machine, place));
    }
    return found;
}

void print_topology(const TopologyFound &found) {
    if (!found.why.empty()) {
        std::printf("topology: unknown (%s): install hwloc, or name a file in STORM_TOPOLOGY\n", found.why.c_str());
        return;
    }
    const auto &machine = found.machine;
    std::printf("topology: %s, %d cores, cpus %s usable, %zu NUMA node%s\n", machine.origin.c_str(), machine.cores,
                machine.usable.text().c_str(), machine.nodes.size(), machine.nodes.size() == 1 ? "" : "s");
    for (const auto &nic : machine.nics) std::printf("  %s\n", nic_line(machine, nic).c_str());
    for (const auto &choice : found.choices) std::printf("  %s\n", choice.sentence.c_str());
    if (!found.choices.empty() && !found.choices.front().problem.empty())
        std::printf("  problem: %s\n", found.choices.front().problem.c_str());
}

namespace {

void write_nic(JsonWriter &out, const topology::Machine &machine, const topology::Nic &nic) {
    out.open('{');
    out.member("name", nic.name());
    out.member("device", nic.device);
    out.member("port", nic.port);
    out.member("interface", nic.interface);
    out.member("pci", nic.pci);
    out.member("gbytes_per_s", nic.gbytes_per_s);
    out.member("numa_nodes", node_numbers(machine, nic.nodes));
    out.key("gpus").open('[');
    for (const auto &gpu : nic.gpus) out.value(gpu);
    out.close(']');
    out.member("obstacle", topology::obstacle(nic));
    out.member("no_sockets", nic.no_sockets);
    out.close('}');
    out.line();
}

}  // namespace

void write_topology(JsonWriter &out, const TopologyFound &found) {
    const auto &machine = found.machine;
    out.open('{');
    out.member("reason", found.why);
    out.member("origin", machine.origin);
    out.member("cores", machine.cores);
    out.member("usable_cpus", machine.usable.text());
    out.key("numa_nodes").open('[');
    for (std::size_t from = 0; from < machine.nodes.size(); ++from) {
        const auto &node = machine.nodes[from];
        out.open('{');
        out.member("os_index", node.os_index);
        out.member("package", node.package);
        out.member("cpus", node.cpus.text());
        out.key("distances").open('[');
        for (std::size_t to = 0; to < machine.nodes.size(); ++to)
            out.value(std::uint64_t{machine.distance(from, to)});
        out.close(']');
        out.close('}');
    }
    out.close(']');
    out.line();
    out.key("nics").open('[');
    for (const auto &nic : machine.nics) write_nic(out, machine, nic);
    out.close(']');
    out.key("choices").open('[');
    for (std::size_t at = 0; at < found.choices.size(); ++at) {
        const auto &choice = found.choices[at];
        const auto &place = found.places[at];
        out.open('{');
        out.member("rank", place.local_rank);
        out.member("cpus", (place.binding.empty() ? machine.usable : place.binding).text());
        out.member("nic", choice.name);
        out.member("distance", std::uint64_t{choice.distance});
        out.member("sentence", choice.sentence);
        out.member("problem", choice.problem);
        out.close('}');
        out.line();
    }
    out.close(']');
    out.close('}');
}

}  // namespace storm::tools
