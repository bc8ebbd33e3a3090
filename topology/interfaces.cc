// SPDX-License-Identifier: MIT
#include "interfaces.hh"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ifaddrs.h>
#include <net/if.h>

namespace storm::topology {
namespace {

namespace fs = std::filesystem;

struct Interface : Link {
    std::vector<std::string> lower; // it is made of these
    std::string master;             // it is a part of this one
    bool bridge = false;
};

std::string word_in(const fs::path& path)
{
    std::ifstream file(path);
    std::string word;
    file >> word;
    return word;
}

Interface described(const Link& link, const fs::path& folder)
{
    Interface one{link, {}, "", false};
    std::error_code none;
    if (word_in(folder / "ifindex") != std::to_string(link.index))
        return one;
    one.bridge = fs::exists(folder / "bridge", none);
    if (fs::is_symlink(folder / "master", none))
        one.master = fs::read_symlink(folder / "master", none).filename();
    for (const auto& inner : fs::directory_iterator(folder, none))
        if (const std::string name = inner.path().filename(); name.rfind("lower_", 0) == 0)
            one.lower.push_back(name.substr(6));
    std::sort(one.lower.begin(), one.lower.end());
    return one;
}

Nic* entry_of(Machine& machine, const std::string& interface)
{
    const auto at = std::find_if(machine.nics.begin(), machine.nics.end(),
                                 [&](const Nic& nic) { return nic.interface == interface; });
    return at == machine.nics.end() ? nullptr : &*at;
}

// One that hwloc does not list: made of software, though maybe on top of hardware.
void add(Machine& machine, const Interface& one)
{
    Nic nic;
    nic.interface = one.name;
    for (const std::string& below : one.lower)
        if (const Nic* lower = entry_of(machine, below); lower != nullptr && !one.bridge) {
            nic.attached = nic.attached || lower->attached;
            nic.nodes.add(lower->nodes);
            nic.gbytes_per_s += lower->gbytes_per_s;
            if (nic.pci.empty())
                nic.pci = lower->pci;
        }
    machine.nics.push_back(nic);
}

} // namespace

std::vector<Link> links_of_kernel()
{
    std::vector<Link> links;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0)
        return links;
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
        auto at = std::find_if(links.begin(), links.end(), [&](const Link& l) { return l.name == one->ifa_name; });
        if (at == links.end())
            at = links.insert(at, {one->ifa_name, if_nametoindex(one->ifa_name), false, false});
        at->up = at->up || ((one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_RUNNING) != 0);
        at->addressed = at->addressed ||
                        (one->ifa_addr != nullptr && (one->ifa_addr->sa_family == AF_INET ||
                                                      one->ifa_addr->sa_family == AF_INET6));
    }
    freeifaddrs(all);
    return links;
}

void add_live_facts(Machine& machine, const std::vector<Link>& links, const std::string& folder)
{
    std::vector<Interface> interfaces;
    for (const Link& link : links)
        interfaces.push_back(described(link, fs::path(folder) / link.name));
    for (Nic& nic : machine.nics)
        if (!nic.interface.empty() && std::none_of(links.begin(), links.end(), [&](const Link& link) {
                return link.name == nic.interface;
            }))
            (nic.device.empty() ? nic.fault : nic.no_sockets) = "not of this network name space";
    for (const Interface& one : interfaces)
        if (entry_of(machine, one.name) == nullptr)
            add(machine, one);
    for (const Interface& one : interfaces) {
        Nic* nic = entry_of(machine, one.name);
        const std::string fault = one.bridge             ? "a bridge"
                                  : !one.master.empty()  ? "a part of " + one.master
                                  : !one.up              ? "its link is down"
                                  : !one.addressed       ? "it has no address"
                                                         : "";
        // a port for RDMA has a state of its own, and works without an address
        (nic->device.empty() ? nic->fault : nic->no_sockets) = fault;
    }
}

} // namespace storm::topology
