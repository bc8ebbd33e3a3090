// SPDX-License-Identifier: MIT
#include "links.hh"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace storm::interpose {

bool no_link_is_up(std::string& why)
{
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0)
        return false;
    bool up = false;
    std::string down;
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
        if ((one->ifa_flags & IFF_LOOPBACK) != 0 || one->ifa_addr == nullptr)
            continue;
        up = up || (one->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
        if (one->ifa_addr->sa_family == AF_PACKET) // each device once
            down += (down.empty() ? "" : ", ") + std::string(one->ifa_name);
    }
    ::freeifaddrs(all);
    why = "all network devices of this host are down: " + down;
    return !up && !down.empty();
}

void tell_watcher(const char* line)
{
    const char* name = secure_getenv(kWatcherVariable);
    sockaddr_un to{};
    to.sun_family = AF_UNIX; // an abstract name: a zero byte stands before it
    if (name == nullptr || std::strlen(name) + 2 > sizeof to.sun_path)
        return;
    std::strcpy(to.sun_path + 1, name);
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    [[maybe_unused]] const auto sent =
        ::sendto(fd, line, std::strlen(line), MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(name)));
    ::close(fd);
}

} // namespace storm::interpose
