// SPDX-License-Identifier: MIT
#include "device.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <unistd.h>

namespace storm::verbs {
namespace {

// Which of a port's addresses is taken: the routable kind of RoCE before the old one, an
// address that somebody gave before one made of the hardware's number.
int worth(const ibv_gid_entry& entry)
{
    static constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const bool mapped = std::memcmp(entry.gid.raw, kMapped.data(), kMapped.size()) == 0;
    const bool local = entry.gid.raw[0] == 0xfe && (entry.gid.raw[1] & 0xc0) == 0x80;
    const int kind = mapped ? 2 : local ? 0 : 1;
    return entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 3 + kind : kind;
}

std::string ip_of(const std::string& interface)
{
    std::string found;
    ifaddrs* all = nullptr;
    if (interface.empty() || ::getifaddrs(&all) != 0)
        return found;
    for (const ifaddrs* a = all; a != nullptr; a = a->ifa_next) {
        if (a->ifa_addr == nullptr || interface != a->ifa_name || a->ifa_addr->sa_family != AF_INET)
            continue;
        char text[INET_ADDRSTRLEN] = "";
        sockaddr_in ip;
        std::memcpy(&ip, a->ifa_addr, sizeof ip);
        if (::inet_ntop(AF_INET, &ip.sin_addr, text, sizeof text) != nullptr)
            found = text;
        break;
    }
    ::freeifaddrs(all);
    return found;
}

// An iWARP port's address begins with that of its interface's hardware.
std::string interface_of(const ibv_gid& gid)
{
    std::string found;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0)
        return found;
    for (const ifaddrs* a = all; a != nullptr && found.empty(); a = a->ifa_next) {
        if (a->ifa_addr == nullptr || a->ifa_addr->sa_family != AF_PACKET)
            continue;
        sockaddr_ll hardware;
        std::memcpy(&hardware, a->ifa_addr, sizeof hardware);
        if (hardware.sll_halen == 6 && std::memcmp(hardware.sll_addr, gid.raw, 6) == 0)
            found = a->ifa_name;
    }
    ::freeifaddrs(all);
    return found;
}

std::string driver_of(ibv_context* context)
{
    constexpr std::uint32_t kSoftRoce = 0xffffff, kSoftIwarp = 0x626d74;
    ibv_device_attr attributes;
    if (ibv_query_device(context, &attributes) == 0) {
        if (attributes.vendor_id == kSoftRoce)
            return "rxe";
        if (attributes.vendor_id == kSoftIwarp)
            return "siw";
    }
    const std::string link = std::string(context->device->ibdev_path) + "/device/driver";
    char target[256] = "";
    const auto n = ::readlink(link.c_str(), target, sizeof target - 1);
    target[std::max<ssize_t>(n, 0)] = '\0';
    const char* slash = std::strrchr(target, '/');
    return slash != nullptr ? slash + 1 : "";
}

struct Wanted {
    std::string device;
    int port = 0; // 0: any
};

Wanted parse(const std::string& text)
{
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon + 1 == text.size() ||
        text.find_first_not_of("0123456789", colon + 1) != std::string::npos)
        return {text, 0};
    return {text.substr(0, colon), std::atoi(text.c_str() + colon + 1)};
}

// Fills in what this port is; false when it is down, or another one than is wanted.
bool take_port(ibv_context* context, std::uint8_t port, const Wanted& wanted, Device& device, std::string& why)
{
    const std::string name = std::string(ibv_get_device_name(context->device)) + ":" + std::to_string(port);
    ibv_port_attr attributes;
    if (ibv_query_port(context, port, &attributes) != 0) {
        why = name + " does not tell what it is";
        return false;
    }
    std::array<ibv_gid_entry, 64> entries;
    const auto count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
    const ibv_gid_entry* best = nullptr;
    for (auto entry = entries.begin(); entry != entries.begin() + std::max<ssize_t>(count, 0); ++entry)
        if (entry->port_num == port && (best == nullptr || worth(*entry) > worth(*best)))
            best = &*entry;
    const bool iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
    char interface[IF_NAMESIZE] = "";
    if (best != nullptr && best->ndev_ifindex != 0)
        ::if_indextoname(best->ndev_ifindex, interface);
    else if (best != nullptr && iwarp)
        std::snprintf(interface, sizeof interface, "%s", interface_of(best->gid).c_str());
    if (!wanted.device.empty() && wanted.device != ibv_get_device_name(context->device) && wanted.device != interface)
        return false;
    if (attributes.state != IBV_PORT_ACTIVE) {
        why = name + " is " + ibv_port_state_str(attributes.state);
        return false;
    }
    device.fabric = iwarp                                              ? Device::Fabric::iwarp
                    : attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? Device::Fabric::roce
                                                                       : Device::Fabric::infiniband;
    if (best == nullptr && device.fabric != Device::Fabric::infiniband) {
        why = name + " has no address (give its network interface one)";
        return false;
    }
    if (best != nullptr) {
        device.gid = best->gid;
        device.gid_index = static_cast<int>(best->gid_index);
    }
    device.name = name;
    device.driver = driver_of(context);
    device.ip = ip_of(interface);
    device.port = port;
    device.lid = attributes.lid;
    device.mtu = attributes.active_mtu;
    return true;
}

} // namespace

bool open_device(const std::string& wanted_text, Device& device, std::string& why)
{
    int count = 0;
    ibv_device** all = ibv_get_device_list(&count);
    if (all == nullptr || count == 0) {
        if (all != nullptr)
            ibv_free_device_list(all);
        why = "this machine has no RDMA device";
        return false;
    }
    const Wanted wanted = parse(wanted_text);
    why.clear();
    bool found = false;
    for (int i = 0; i < count && !found; ++i) {
        ibv_context* context = ibv_open_device(all[i]);
        if (context == nullptr) {
            if (wanted.device.empty() || wanted.device == ibv_get_device_name(all[i]))
                why = std::string(ibv_get_device_name(all[i])) + " cannot be opened (" + std::strerror(errno) + ")";
            continue;
        }
        ibv_device_attr attributes{};
        ibv_query_device(context, &attributes);
        for (std::uint8_t port = 1; port <= attributes.phys_port_cnt && !found; ++port)
            if (wanted.port == 0 || wanted.port == port)
                found = take_port(context, port, wanted, device, why);
        if (found && device.fabric != Device::Fabric::iwarp)
            device.context = context;
        else
            ibv_close_device(context);
    }
    ibv_free_device_list(all);
    if (!found && why.empty())
        why = wanted_text.empty() ? "no RDMA device has a port" : wanted_text + " is no RDMA device or port here";
    return found;
}

} // namespace storm::verbs
