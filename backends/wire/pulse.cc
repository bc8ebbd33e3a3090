// SPDX-License-Identifier: MIT
#include "pulse.hh"

#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

namespace storm::wire {
namespace {

// A datagram: a question goes to the nonce of who shall answer, the answer brings the
// asker's back with the number of the peer as the asker counts.
struct Datagram {
    std::uint64_t to = 0, from = 0;
    std::int32_t peer = 0;
    std::uint32_t answer = 0;
};

bool parse(std::string_view text, sockaddr_in& to, std::uint64_t& nonce)
{
    const auto port_at = text.find(':'), nonce_at = text.find(':', port_at + 1);
    if (port_at == text.npos || nonce_at == text.npos)
        return false;
    const std::string host(text.substr(0, port_at));
    unsigned port = 0;
    const char* const end = text.data() + text.size();
    std::from_chars(text.data() + port_at + 1, text.data() + nonce_at, port);
    std::from_chars(text.data() + nonce_at + 1, end, nonce, 16);
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    return ::inet_pton(AF_INET, host.c_str(), &to.sin_addr) == 1;
}

} // namespace

std::unique_ptr<Pulse> Pulse::open(const std::string& host, std::string& why)
{
    sockaddr_in at{};
    at.sin_family = AF_INET;
    socklen_t length = sizeof at;
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ::inet_pton(AF_INET, host.c_str(), &at.sin_addr) != 1 ||
        ::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length) != 0) {
        why = std::string("no datagram socket on ") + host + ": " + std::strerror(errno);
        if (fd >= 0)
            ::close(fd);
        return nullptr;
    }
    std::uint64_t nonce = 0;
    [[maybe_unused]] const auto got = ::getrandom(&nonce, sizeof nonce, 0);
    char text[17];
    const auto end = std::to_chars(text, text + sizeof text, nonce, 16).ptr;
    return std::unique_ptr<Pulse>(new Pulse(
        fd, host + ":" + std::to_string(ntohs(at.sin_port)) + ":" + std::string(text, end), nonce));
}

Pulse::Pulse(int socket, std::string address, std::uint64_t nonce)
    : socket_(socket), address_(std::move(address)), nonce_(nonce)
{
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before); // the program's signals are not for this thread
    thread_ = std::thread([this] { serve(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Pulse::~Pulse()
{
    // relaxed: the datagram below wakes the thread, the join orders all else
    over_.store(true, std::memory_order_relaxed);
    ask(-1, address_);
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
}

void Pulse::ask(int peer, std::string_view address)
{
    sockaddr_in to{};
    Datagram d{.from = nonce_, .peer = peer};
    if (parse(address, to, d.to))
        ::sendto(socket_, &d, sizeof d, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&to), sizeof to);
}

std::uint64_t Pulse::answers(int peer)
{
    const std::lock_guard lock(mutex_);
    return answers_[peer];
}

void Pulse::serve()
{
    for (;;) {
        Datagram d;
        sockaddr_in from{};
        socklen_t length = sizeof from;
        const auto got = ::recvfrom(socket_, &d, sizeof d, 0, reinterpret_cast<sockaddr*>(&from), &length);
        if (over_.load(std::memory_order_relaxed)) // relaxed: see the destructor
            return;
        if (got != sizeof d || d.to != nonce_)
            continue; // an error of an earlier datagram, or not one of ours
        if (d.answer == 0) {
            const Datagram answer{d.from, nonce_, d.peer, 1};
            ::sendto(socket_, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL,
                     reinterpret_cast<sockaddr*>(&from), length);
            continue;
        }
        const std::lock_guard lock(mutex_);
        ++answers_[d.peer];
    }
}

} // namespace storm::wire
