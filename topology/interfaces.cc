#include "interfaces.hh"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ifaddrs.h>
#include <net/if.h>
#include <set>

namespace storm::topology {
namespace {

namespace fs = std::filesystem;

struct Interface {
    std::string name;
    std::vector<std::string> lower; // it is made of these
    std::string master;             // it is a part of this one
    bool bridge = false;
    bool up = true;
};

std::string word_in(const fs::path& path)
{
    std::ifstream file(path);
    std::string word;
    file >> word;
    return word;
}

std::vector<Interface> read_interfaces(const std::string& folder)
{
    std::vector<Interface> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
        if (!fs::is_directory(entry.path(), none))
            continue;
        Interface one;
        one.name = entry.path().filename();
        one.bridge = fs::exists(entry.path() / "bridge", none);
        if (fs::exists(entry.path() / "master", none))
            one.master = fs::read_symlink(entry.path() / "master", none).filename();
        const std::string state = word_in(entry.path() / "operstate");
        one.up = state != "down" && state != "lowerlayerdown" && state != "notpresent";
        for (const auto& inner : fs::directory_iterator(entry.path(), none))
            if (const std::string name = inner.path().filename(); name.rfind("lower_", 0) == 0)
                one.lower.push_back(name.substr(6));
        std::sort(one.lower.begin(), one.lower.end());
        found.push_back(one);
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return found;
}

// Interfaces with an address that other hosts could reach.
std::set<std::string> with_address()
{
    std::set<std::string> names;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0)
        return names;
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next)
        if (one->ifa_addr != nullptr &&
            (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6))
            names.insert(one->ifa_name);
    freeifaddrs(all);
    return names;
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

void add_live_facts(Machine& machine, const std::string& folder)
{
    const std::set<std::string> addressed = with_address();
    const std::vector<Interface> interfaces = read_interfaces(folder);
    for (const Interface& one : interfaces)
        if (entry_of(machine, one.name) == nullptr)
            add(machine, one);
    for (const Interface& one : interfaces) {
        Nic* nic = entry_of(machine, one.name);
        if (nic == nullptr)
            continue;
        const std::string fault = one.bridge                       ? "a bridge"
                                  : !one.master.empty()            ? "a part of " + one.master
                                  : !one.up                        ? "its link is down"
                                  : !addressed.contains(one.name) ? "it has no address"
                                                                   : "";
        // a port for RDMA has a state of its own, and works without an address
        (nic->device.empty() ? nic->fault : nic->no_sockets) = fault;
    }
}

} // namespace storm::topology
