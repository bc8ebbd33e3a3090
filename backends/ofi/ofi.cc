// SPDX-License-Identifier: MIT
#include "ofi.hh"

#include <arpa/inet.h>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/fi_errno.h>
#include <vector>

namespace storm::ofi {
namespace {

// In this order, when nobody asks for one: by what they promise, then by measured half
// round trips. shm reaches no other host and is taken only when it is asked for.
constexpr const char* kProviders[] = {"cxi", "efa",         "psm3",    "opx",        "psm2", "verbs;ofi_rxm",
                                      "net", "tcp;ofi_rxm", "sockets", "udp;ofi_rxd"};

struct FreeInterfaces {
    void operator()(ifaddrs* all) const { ::freeifaddrs(all); }
};

// Of bridges that containers and virtual machines of this host are on.
bool inward(std::string_view name)
{
    return name.starts_with("docker") || name.starts_with("virbr") || name.starts_with("br-");
}

std::string host_of(const ifaddrs& entry)
{
    char text[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry.ifa_addr)->sin_addr, text, sizeof text);
    return text;
}

// A device without its port, "mlx5_0" of "mlx5_0:2".
std::string without_port(const std::string& nic)
{
    return nic.substr(0, nic.find(':'));
}

// The network interface of an RDMA device, for providers over IP; else the name as it is.
std::string interface_of(const std::string& nic)
{
    struct CloseFolder {
        void operator()(DIR* folder) const { ::closedir(folder); }
    };
    const std::string path = "/sys/class/infiniband/" + without_port(nic) + "/device/net";
    const std::unique_ptr<DIR, CloseFolder> folder(nic.empty() ? nullptr : ::opendir(path.c_str()));
    for (const dirent* entry = nullptr; folder != nullptr && (entry = ::readdir(folder.get())) != nullptr;)
        if (entry->d_name[0] != '.')
            return entry->d_name;
    return nic;
}

// The interface `wanted`, or the best for other hosts: loopback is the last choice.
Device device_for(const std::string& wanted)
{
    ifaddrs* found = nullptr;
    ::getifaddrs(&found);
    const std::unique_ptr<ifaddrs, FreeInterfaces> all(found);
    Device best;
    int best_rank = -1;
    for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET || (entry->ifa_flags & IFF_UP) == 0)
            continue;
        const bool loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
        const int rank = wanted == entry->ifa_name ? 4 : loopback ? 0 : inward(entry->ifa_name) ? 1 : 2;
        if (rank <= best_rank)
            continue;
        best_rank = rank;
        best = {entry->ifa_name, host_of(*entry)};
    }
    return best;
}

bool over_ip(const std::string& provider)
{
    return provider == "net" || provider == "sockets" || provider.starts_with("tcp") || provider.starts_with("udp");
}

Info hints_for(const std::string& provider, const std::string& device)
{
    Info hints(fi_allocinfo());
    if (hints == nullptr)
        return hints;
    hints->caps = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    if (!provider.empty())
        hints->fabric_attr->prov_name = ::strdup(provider.c_str());
    if (!device.empty())
        hints->domain_attr->name = ::strdup(device.c_str());
    return hints;
}

std::unique_ptr<wire::Transport> try_provider(const std::string& provider, const std::string& nic, std::string& why)
{
    Device device;
    const bool ip = over_ip(provider);
    if (ip) {
        const std::string wanted = interface_of(nic);
        device = device_for(wanted);
        if (!wanted.empty() && device.interface != wanted) {
            why = "the interface " + wanted + " has no IPv4 address";
            return nullptr;
        }
    }
    int rc = -FI_ENODATA;
    // FI_FENCE first: only where it is had can it be relied on
    for (const std::uint64_t more : {std::uint64_t{FI_FENCE}, std::uint64_t{0}}) {
        Info hints = hints_for(provider, ip || provider == "shm" ? "" : without_port(nic));
        if (hints == nullptr)
            break;
        hints->caps |= more;
        fi_info* found = nullptr;
        rc = fi_getinfo(FI_VERSION(1, 14), ip ? device.host.c_str() : nullptr, nullptr, ip ? FI_SOURCE : 0,
                        hints.get(), &found);
        if (rc == 0)
            return open_endpoint(Info(found), device, why);
    }
    why = fi_strerror(-rc);
    return nullptr;
}

} // namespace

std::unique_ptr<wire::Transport> open_transport(const BackendSettings& settings, std::string& why)
{
    std::vector<std::string> names;
    const char* users = ::secure_getenv("FI_PROVIDER");
    if (settings.ofi_provider != "auto")
        names.push_back(settings.ofi_provider);
    else if (users != nullptr && *users != '\0' && *users != '^' && std::strchr(users, ',') == nullptr)
        names.push_back(users);
    else // FI_PROVIDER's list, if there is one, is applied by libfabric itself
        names.assign(std::begin(kProviders), std::end(kProviders));
    why.clear();
    for (const std::string& name : names) {
        std::string reason;
        auto transport = try_provider(name, settings.nic, reason);
        if (transport != nullptr)
            return transport;
        why += (why.empty() ? "no libfabric provider works here: " : ", ") + name + " (" + reason + ")";
    }
    return nullptr;
}

} // namespace storm::ofi
