#include "topology_info.hh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "../../topology/cores.hh"
#include "../../topology/load.hh"
#include "json.hh"
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

std::string topology_json(const TopologyFound &found) {
    const auto &machine = found.machine;
    const std::string nodes = array(machine.nodes, [&](const topology::Node &node) {
        const auto from = static_cast<std::size_t>(&node - machine.nodes.data());
        Words row;
        for (std::size_t to = 0; to < machine.nodes.size(); ++to)
            row.push_back(std::to_string(machine.distance(from, to)));
        return object({{"os_index", std::to_string(node.os_index)},
                       {"package", std::to_string(node.package)},
                       {"cpus", quoted(node.cpus.text())},
                       {"distances", "[" + joined(row, ", ") + "]"}});
    });
    const std::string nics = array(machine.nics, [&](const topology::Nic &nic) {
        Words gpus;
        for (const auto &gpu : nic.gpus) gpus.push_back(quoted(gpu));
        return object({{"name", quoted(nic.name())},
                       {"device", quoted(nic.device)},
                       {"port", std::to_string(nic.port)},
                       {"interface", quoted(nic.interface)},
                       {"pci", quoted(nic.pci)},
                       {"gbytes_per_s", std::to_string(nic.gbytes_per_s)},
                       {"numa_nodes", quoted(node_numbers(machine, nic.nodes))},
                       {"gpus", "[" + joined(gpus, ", ") + "]"},
                       {"obstacle", quoted(topology::obstacle(nic))},
                       {"no_sockets", quoted(nic.no_sockets)}});
    });
    const std::string choices = array(found.choices, [&](const topology::Choice &choice) {
        const auto &place = found.places[static_cast<std::size_t>(&choice - found.choices.data())];
        return object({{"rank", std::to_string(place.local_rank)},
                       {"cpus", quoted((place.binding.empty() ? machine.usable : place.binding).text())},
                       {"nic", quoted(choice.name)},
                       {"distance", std::to_string(choice.distance)},
                       {"sentence", quoted(choice.sentence)},
                       {"problem", quoted(choice.problem)}});
    });
    return object({{"reason", quoted(found.why)},
                   {"origin", quoted(machine.origin)},
                   {"cores", std::to_string(machine.cores)},
                   {"usable_cpus", quoted(machine.usable.text())},
                   {"numa_nodes", nodes},
                   {"nics", nics},
                   {"choices", choices}});
}

}  // namespace storm::tools
