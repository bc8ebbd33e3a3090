// SPDX-License-Identifier: MIT
#include "watcher.hh"

#include "words.hh"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <csignal>
#include <string>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace storm::tools {
namespace {

constexpr const char *variable = "STORMRUN_WATCHER";  // as in interpose/links.hh
constexpr int after_term_s = 5;
constexpr std::size_t line_bytes_max = 1000;

// A datagram socket with an abstract name, which nothing is left of; "" when there is none.
std::string open_socket(int &fd) {
    unsigned long long number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number) return {};
    char name[40];
    std::snprintf(name, sizeof name, "stormrun-%016llx", number);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::strcpy(at.sun_path + 1, name);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(name));
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
        bind(fd, reinterpret_cast<const sockaddr *>(&at), bytes) != 0) {
        if (fd >= 0) close(fd);
        return {};
    }
    return name;
}

// A line of one of this user's processes; "" for any other.
std::string receive_line(int fd) {
    char line[line_bytes_max];
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    iovec into{line, sizeof line};
    msghdr message{};
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(fd, &message, 0);
    const cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (head == nullptr || head->cmsg_type != SCM_CREDENTIALS) return {};
    ucred who{};
    std::memcpy(&who, CMSG_DATA(head), sizeof who);
    return who.uid == getuid() ? std::string(line, static_cast<std::size_t>(n)) : std::string();
}

bool ended_within(int launcher, int seconds) {
    pollfd end{launcher, POLLIN, 0};
    int got;
    do got = poll(&end, 1, seconds * 1000);
    while (got < 0 && errno == EINTR);
    return got > 0;
}

void tell(int launcher, int signal) {
    syscall(SYS_pidfd_send_signal, launcher, signal, nullptr, 0);
}

void watch(int fd, int launcher, pid_t pid) {
    std::string line;
    while (line.empty()) {
        pollfd both[2] = {{launcher, POLLIN, 0}, {fd, POLLIN, 0}};
        if (poll(both, 2, -1) < 0 && errno != EINTR) return;
        if (both[0].revents != 0) return;
        if (both[1].revents != 0) line = receive_line(fd);
    }
    if (ended_within(launcher, grace_s)) return;
    std::fprintf(stderr, "stormrun: the launcher did not end in %d s after \"%s\": it is ended\n", grace_s,
                 line.c_str());
    const std::string own = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children";
    const Words children = split_words(read_text(own).value_or(""), " \n");
    tell(launcher, SIGTERM);
    if (ended_within(launcher, after_term_s)) return;
    tell(launcher, SIGKILL);
    for (const auto &child : children) kill(static_cast<pid_t>(std::atol(child.c_str())), SIGKILL);
}

}  // namespace

void start_watcher() {
    unsetenv(variable);
    const pid_t pid = getpid();
    const int launcher = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    int fd = -1;
    const std::string name = launcher < 0 ? std::string() : open_socket(fd);
    const pid_t between = name.empty() ? -1 : fork();
    if (between == 0) {
        // its parent ends at once: the launcher has no child that it does not know
        if (fork() == 0) {
            setsid();
            const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
            if (nowhere >= 0) {
                dup2(nowhere, STDIN_FILENO);
                dup2(nowhere, STDOUT_FILENO);
            }
            watch(fd, launcher, pid);
        }
        _exit(0);
    }
    if (between > 0) {
        waitpid(between, nullptr, 0);
        setenv(variable, name.c_str(), 1);
    }
    if (fd >= 0) close(fd);
    if (launcher >= 0) close(launcher);
}

}  // namespace storm::tools
