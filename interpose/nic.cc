// SPDX-License-Identifier: MIT
#include "nic.hh"

#include "libmpi.hh"
#include "plugin.hh"

#include "../topology/cores.hh"
#include "../topology/load.hh"

#include <cstdlib>

namespace storm::interpose {
namespace {

// Bindings of all ranks on this node, as the launcher made them; empty when it made none
// or does not tell.
std::vector<topology::IndexSet> bindings_of_node(const Pmix& board)
{
    constexpr int kWholeJob = -2; // PMIX_RANK_WILDCARD
    constexpr const char *kLocalPeers = "pmix.lpeers", *kCpus = "pmix.cpuset";
    constexpr int kSeconds = 1;
    std::vector<topology::IndexSet> bindings;
    topology::IndexSet peers;
    std::string text;
    if (!board.get(kWholeJob, kLocalPeers, kSeconds, text) || !peers.parse(text))
        return {};
    for (int peer = 0; peer < peers.end(); ++peer) {
        if (!peers.has(peer))
            continue;
        topology::IndexSet binding;
        if (!board.get(peer, kCpus, kSeconds, text) || !binding.parse(text))
            return {};
        bindings.push_back(binding);
    }
    return bindings;
}

} // namespace

bool has_remote_peers()
{
    return number_from(open_mpi::kWorldSize, 1) > number_from(open_mpi::kLocalSize, 1);
}

topology::Choice choose_nic(const Settings& settings, const Pmix& board, topology::Need need)
{
    topology::Choice none;
    topology::Machine machine;
    std::string why;
    if (!topology::load(plugin_places("topology"), settings.topology, machine, why)) {
        none.sentence = "no network device is chosen (" + why + "): the provider takes its own";
        if (settings.topology != "live")
            none.problem = "STORM_TOPOLOGY=" + settings.topology + " is not used (" + why + ")";
        if (settings.nic != "auto")
            none.name = settings.nic; // unchecked, but what the user wants
        return none;
    }
    topology::Place place;
    place.binding = topology::own_cpus();
    place.local_rank = number_from(open_mpi::kLocalRank, 0);
    place.local_size = number_from(open_mpi::kLocalSize, 1);
    place.bindings = bindings_of_node(board);
    place.wanted = settings.nic;
    place.need = need;
    return topology::choose(machine, place);
}

} // namespace storm::interpose
