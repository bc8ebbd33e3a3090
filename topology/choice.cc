// SPDX-License-Identifier: MIT
#include "choice.hh"

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstring>

namespace storm::topology {
namespace {

using Indexes = std::vector<std::size_t>; // in Machine::nics

// Names that the makers of such interfaces give them; a number or a random word follows.
struct SoftwareKind {
    const char* prefix;
    bool number_follows;
    const char* what;
};
constexpr SoftwareKind kSoftware[] = {
    {"docker", true, "a bridge of containers"},
    {"br-", false, "a bridge of containers"},
    {"podman", true, "a bridge of containers"},
    {"cni", true, "a bridge of containers"},
    {"cni-", false, "a bridge of containers"},
    {"lxcbr", true, "a bridge of containers"},
    {"lxdbr", true, "a bridge of containers"},
    {"nerdctl", true, "a bridge of containers"},
    {"cali", false, "a link to a container"},
    {"veth", false, "a link to a container"},
    {"lxc", false, "a link to a container"},
    {"flannel", false, "an overlay of containers"},
    {"cilium", false, "an overlay of containers"},
    {"kube-", false, "an overlay of containers"},
    {"vxlan", false, "an overlay"},
    {"virbr", true, "a bridge of virtual machines"},
    {"vmnet", true, "a bridge of virtual machines"},
    {"vboxnet", true, "a bridge of virtual machines"},
    {"xenbr", true, "a bridge of virtual machines"},
    {"vnet", true, "a link to a virtual machine"},
    {"vif", true, "a link to a virtual machine"},
    {"br", true, "a bridge"},
    {"tap", true, "a tunnel"},
    {"tun", true, "a tunnel"},
    {"wg", true, "a tunnel"},
    {"tailscale", true, "a tunnel"},
    {"ppp", true, "a tunnel"},
    {"sit", true, "a tunnel"},
    {"gre", true, "a tunnel"},
    {"ip6tnl", true, "a tunnel"},
    {"tunl", true, "a tunnel"},
    {"dummy", true, "a dummy"},
    {"ifb", true, "a queue of the kernel"},
};

bool digits(const char* text)
{
    while (std::isdigit(static_cast<unsigned char>(*text)))
        ++text;
    return *text == '\0';
}

std::string software_kind(const std::string& name)
{
    for (const SoftwareKind& kind : kSoftware)
        if (name.compare(0, std::strlen(kind.prefix), kind.prefix) == 0 &&
            (!kind.number_follows || digits(name.c_str() + std::strlen(kind.prefix))))
            return kind.what;
    return "";
}

// Why it does not do what is needed; "" when it does.
std::string shortcoming(const Nic& nic, Need need)
{
    if (need == Need::device)
        return nic.device.empty() ? "no RDMA" : "";
    if (need == Need::interface)
        return nic.interface.empty() ? "no network interface" : nic.no_sockets;
    return "";
}

// RDMA before sockets, hardware before software.
int rank_of_kind(const Nic& nic, Need need)
{
    if (!nic.attached)
        return 0;
    return need == Need::any && !nic.device.empty() ? 2 : 1;
}

// A rank on sockets hears of interfaces, not of the devices behind them.
std::string label(const Nic& nic, Need need)
{
    return need == Need::interface && !nic.interface.empty() ? nic.interface : nic.name();
}

struct LeftOut {
    std::string name, why;
};

std::string joined(const std::vector<std::string>& words)
{
    constexpr std::size_t kShown = 8;
    std::string out;
    for (std::size_t i = 0; i < words.size() && i < kShown; ++i)
        out += (out.empty() ? "" : ", ") + words[i];
    return words.size() <= kShown ? out : out + " and " + std::to_string(words.size() - kShown) + " more";
}

std::string joined(const std::vector<LeftOut>& those)
{
    std::vector<std::string> words;
    for (const LeftOut& one : those)
        words.push_back(one.name + " (" + one.why + ")");
    return joined(words);
}

std::vector<std::string> labels(const Machine& machine, const Indexes& those, Need need)
{
    std::vector<std::string> out;
    for (const std::size_t i : those)
        out.push_back(label(machine.nics[i], need));
    return out;
}

// Those that may be chosen at all: able, of the best kind, not slow beside the others.
Indexes candidates(const Machine& machine, Need need, std::vector<LeftOut>& left_out)
{
    const auto drop = [&](Indexes& from, auto unfit, const char* why) {
        std::erase_if(from, [&](std::size_t i) {
            const bool gone = unfit(machine.nics[i]);
            if (gone)
                left_out.push_back({label(machine.nics[i], need), why});
            return gone;
        });
    };
    Indexes able;
    int best = 0;
    for (std::size_t i = 0; i < machine.nics.size(); ++i) {
        const Nic& nic = machine.nics[i];
        if (const std::string why = obstacle(nic); !why.empty()) {
            left_out.push_back({label(nic, need), why});
        } else if (const std::string lacks = shortcoming(nic, need); !lacks.empty()) {
            left_out.push_back({label(nic, need), lacks});
        } else {
            able.push_back(i);
            best = std::max(best, rank_of_kind(nic, need));
        }
    }
    drop(able, [&](const Nic& nic) { return rank_of_kind(nic, need) < best; },
         best == 2 ? "no RDMA" : "made of software");
    double fastest = 0;
    for (const std::size_t i : able)
        fastest = std::max(fastest, machine.nics[i].gbytes_per_s);
    drop(able, [&](const Nic& nic) { return nic.gbytes_per_s > 0 && nic.gbytes_per_s < fastest / 2; },
         "slower");
    return able;
}

// Of the candidates those at the least distance.
Indexes nearest(const Machine& machine, const Indexes& able, const IndexSet& binding, unsigned& least)
{
    Indexes near;
    least = UINT_MAX;
    for (const std::size_t i : able) {
        const unsigned d = distance(machine, binding, machine.nics[i]);
        if (d < least)
            near.clear();
        least = std::min(least, d);
        if (d == least)
            near.push_back(i);
    }
    return near;
}

// How many ranks before this one share its devices. Where their bindings are unknown,
// ranks stand in blocks or in turn, as launchers place them.
int turn_of(const Machine& machine, const Indexes& able, const Indexes& near, const Place& place)
{
    unsigned ignored = 0;
    if (place.bindings.size() > static_cast<std::size_t>(place.local_rank)) {
        int before = 0;
        for (int other = 0; other < place.local_rank; ++other)
            before += nearest(machine, able, place.bindings[static_cast<std::size_t>(other)], ignored) == near;
        return before;
    }
    std::vector<Indexes> groups; // the sets of devices that ranks of this machine share
    for (const Node& node : machine.nodes) {
        if (!node.cpus.meets(machine.usable))
            continue;
        Indexes set = nearest(machine, able, node.cpus, ignored);
        if (std::find(groups.begin(), groups.end(), set) == groups.end())
            groups.push_back(std::move(set));
    }
    const int count = static_cast<int>(groups.size());
    const int mine = static_cast<int>(std::find(groups.begin(), groups.end(), near) - groups.begin());
    if (mine == count || count < 2) // unbound, or one set for all
        return place.local_rank;
    if (place.local_rank % count == mine)
        return place.local_rank / count;
    const int block = (place.local_size + count - 1) / count;
    return place.local_rank % std::max(block, 1);
}

std::string who(const Machine& machine, const Place& place, const IndexSet& binding)
{
    std::string text = "rank " + std::to_string(place.local_rank) + " of " +
                       std::to_string(place.local_size) + " on this node (cpus " + binding.text();
    const IndexSet nodes = nodes_of(machine, binding);
    IndexSet numbers;
    for (int i = 0; i < nodes.end(); ++i)
        if (nodes.has(i))
            numbers.add(machine.nodes[static_cast<std::size_t>(i)].os_index);
    if (!numbers.empty() && machine.nodes.size() > 1)
        text += std::string(numbers.count() > 1 ? ", NUMA nodes " : ", NUMA node ") + numbers.text();
    return text + ")";
}

// The clause that tells why the chosen one was chosen.
std::string because(const Machine& machine, const Indexes& able, const Indexes& near, const IndexSet& binding,
                    Need need)
{
    if (able.size() == 1)
        return "the only one that reaches other hosts";
    if (near.size() > 1)
        return "ranks are spread over " + joined(labels(machine, near, need)) + ", which are equally near";
    unsigned next = UINT_MAX;
    std::size_t second = 0;
    for (const std::size_t i : able) {
        const unsigned d = distance(machine, binding, machine.nics[i]);
        if (i != near.front() && d < next) {
            next = d;
            second = i;
        }
    }
    return "the nearest of " + std::to_string(able.size()) + ", the next is " +
           label(machine.nics[second], need) + " at " + std::to_string(next);
}

bool named(const Nic& nic, const std::string& wanted)
{
    return wanted == nic.name() || wanted == nic.interface || wanted == nic.device;
}

// STORM_NIC names one: taken, whatever we think of it. False when there is no such one.
bool obey(const Machine& machine, const Place& place, const IndexSet& binding, const std::string& rank,
          Choice& choice)
{
    for (std::size_t i = 0; i < machine.nics.size(); ++i) {
        const Nic& nic = machine.nics[i];
        if (!named(nic, place.wanted))
            continue;
        choice.nic = static_cast<int>(i);
        choice.name = label(nic, place.need);
        choice.distance = distance(machine, binding, nic);
        choice.sentence = rank + " uses " + choice.name + " at distance " + std::to_string(choice.distance) +
                          ": STORM_NIC=" + place.wanted + " says so";
        const std::string why = obstacle(nic).empty() ? shortcoming(nic, place.need) : obstacle(nic);
        if (!why.empty())
            choice.problem = "STORM_NIC=" + place.wanted + " may not reach other hosts (" + why +
                             "): unset it to have the nearest that does";
        return true;
    }
    std::vector<std::string> all;
    for (const Nic& nic : machine.nics)
        all.push_back(nic.name() +
                      (nic.device.empty() || nic.interface.empty() ? "" : " or " + nic.interface));
    choice.problem = "STORM_NIC=" + place.wanted + " names no network device of this machine (" +
                     (all.empty() ? "it has none" : "it has " + joined(all)) + "): using auto";
    return false;
}

} // namespace

std::string obstacle(const Nic& nic)
{
    if (nic.interface == "lo" && nic.device.empty())
        return "loopback";
    if (!nic.attached)
        if (std::string kind = software_kind(nic.interface); !kind.empty())
            return kind;
    return nic.fault;
}

IndexSet nodes_of(const Machine& machine, const IndexSet& cpus)
{
    IndexSet found;
    for (std::size_t i = 0; i < machine.nodes.size(); ++i)
        if (machine.nodes[i].cpus.meets(cpus))
            found.add(static_cast<int>(i));
    return found;
}

unsigned distance(const Machine& machine, const IndexSet& binding, const Nic& nic)
{
    const IndexSet here = nodes_of(machine, binding);
    unsigned least = UINT_MAX, most = 0;
    for (std::size_t from = 0; from < machine.nodes.size(); ++from) {
        if (!here.has(static_cast<int>(from)))
            continue;
        for (std::size_t to = 0; to < machine.nodes.size(); ++to) {
            most = std::max(most, machine.distance(from, to));
            if (nic.nodes.has(static_cast<int>(to)))
                least = std::min(least, machine.distance(from, to));
        }
    }
    return least != UINT_MAX ? least : most;
}

std::vector<IndexSet> equal_shares(const Machine& machine, int ranks)
{
    std::vector<int> cpus;
    for (const int cpu : machine.cpu_order)
        if (machine.usable.has(cpu))
            cpus.push_back(cpu);
    std::vector<IndexSet> shares(static_cast<std::size_t>(std::max(ranks, 1)));
    if (cpus.empty())
        return shares;
    const std::size_t each = std::max<std::size_t>(cpus.size() / shares.size(), 1);
    for (std::size_t r = 0; r < shares.size(); ++r)
        for (std::size_t i = 0; i < each; ++i)
            shares[r].add(cpus[(r * cpus.size() / shares.size() + i) % cpus.size()]);
    return shares;
}

Choice choose(const Machine& machine, const Place& place)
{
    Choice choice;
    const IndexSet& binding = place.binding.empty() ? machine.usable : place.binding;
    const std::string rank = who(machine, place, binding);
    if (place.wanted != "auto" && obey(machine, place, binding, rank, choice))
        return choice;
    std::vector<LeftOut> left_out;
    const Indexes able = candidates(machine, place.need, left_out);
    if (able.empty()) {
        choice.sentence = rank + " has no network device for other hosts: " +
                          (left_out.empty() ? "none was found" : "not fit are " + joined(left_out));
        return choice;
    }
    const Indexes near = nearest(machine, able, binding, choice.distance);
    const auto turn = static_cast<std::size_t>(turn_of(machine, able, near, place));
    choice.nic = static_cast<int>(near[turn % near.size()]);
    choice.name = label(machine.nics[static_cast<std::size_t>(choice.nic)], place.need);
    choice.sentence = rank + " uses " + choice.name + " at distance " + std::to_string(choice.distance) + ": " +
                      because(machine, able, near, binding, place.need);
    if (!left_out.empty())
        choice.sentence += "; left out are " + joined(left_out);
    return choice;
}

} // namespace storm::topology
