// SPDX-License-Identifier: MIT
// Looks at limits and mounts. Only what is there is asked; nothing is changed.
#include "first_aid.hh"

#include "words.hh"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace storm::tools {
namespace {

constexpr unsigned child_seconds_max = 20;
constexpr unsigned long long mib = 1ULL << 20;

// The largest whole unit, for people.
std::string about(unsigned long long bytes) {
    if (bytes >= 10 * 1024 * mib) return std::to_string(bytes / (1024 * mib)) + " GiB";
    if (bytes >= 10 * mib) return std::to_string(bytes / mib) + " MiB";
    return std::to_string(bytes / 1024) + " KiB";
}

Finding locked_memory() {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    Finding found{"locked memory (ulimit -l)", "unlimited"};
    if (limit.rlim_cur == RLIM_INFINITY) return found;
    found.value = about(limit.rlim_cur);
    if (limit.rlim_cur < 64 * mib)
        found.advice = "rings in shared memory lock none; if the real MPI uses a network card that needs "
                       "it, raise the limit (ulimit -l unlimited, or limits.conf and the batch system)";
    return found;
}

Finding open_files() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    Finding found{"open files (ulimit -n)", "unlimited"};
    if (limit.rlim_cur == RLIM_INFINITY) return found;
    found.value = std::to_string(limit.rlim_cur);
    found.enough = limit.rlim_cur >= 256;
    if (!found.enough)
        found.advice = "a rank keeps one descriptor for its rings and needs two more while it takes one, the "
                       "real MPI needs some tens: raise the limit (ulimit -n 1024)";
    return found;
}

Finding shared_memory() {
    Finding found{"/dev/shm", ""};
    struct statvfs about_shm {};
    if (statvfs("/dev/shm", &about_shm) != 0) {
        found.value = std::string("not there (") + std::strerror(errno) + ")";
        found.advice = "rings do not stand there; the real MPI puts its own segments elsewhere, more slowly: "
                       "mount a tmpfs on /dev/shm";
        found.enough = false;
        return found;
    }
    const unsigned long long size = 1ULL * about_shm.f_blocks * about_shm.f_frsize;
    const unsigned long long left = 1ULL * about_shm.f_bavail * about_shm.f_frsize;
    found.value = about(size) + ", " + about(left) + " free";
    found.enough = left >= 64 * mib;
    if (!found.enough)
        found.advice = "rings do not stand there, but the real MPI's segments take some MiB a rank: remove "
                       "what ended jobs left, or enlarge it (mount -o remount,size=1g /dev/shm; docker run "
                       "--shm-size=1g)";
    return found;
}

std::optional<unsigned long long> number_in(const std::string &path) {
    const auto text = read_text(path);
    if (!text || text->empty() || (*text)[0] < '0' || (*text)[0] > '9') return std::nullopt;
    return std::strtoull(text->c_str(), nullptr, 10);
}

struct MemoryGroup {
    std::string path;
    unsigned long long limit;
    unsigned long long used;
    [[nodiscard]] unsigned long long left() const { return limit > used ? limit - used : 0; }
};

// Our memory cgroup or the one of those above it that leaves the least.
std::optional<MemoryGroup> tightest_group() {
    constexpr unsigned long long no_limit = 1ULL << 60;  // what version 1 says without one
    std::optional<MemoryGroup> tightest;
    for (const auto &line : split_words(read_text("/proc/self/cgroup").value_or(""), "\n")) {
        std::string base = "/sys/fs/cgroup";
        const char *limit_name = "/memory.max";
        const char *used_name = "/memory.current";
        std::string group;
        if (line.starts_with("0::")) {
            group = line.substr(3);
        } else if (const std::size_t at = line.find(":memory:"); at != std::string::npos) {
            group = line.substr(at + 8);
            base += "/memory";
            limit_name = "/memory.limit_in_bytes";
            used_name = "/memory.usage_in_bytes";
        } else {
            continue;
        }
        while (true) {
            const std::string path = base + (group == "/" ? "" : group);
            const auto limit = number_in(path + limit_name);
            const auto used = number_in(path + used_name);
            if (limit && used && *limit < no_limit) {
                const MemoryGroup here{path, *limit, *used};
                if (!tightest || here.left() < tightest->left()) tightest = here;
            }
            if (group.empty() || group == "/") break;
            group = group.substr(0, group.rfind('/'));
        }
    }
    return tightest;
}

Finding memory_group() {
    Finding found{"memory cgroup", "no limit"};
    const auto group = tightest_group();
    if (!group) return found;
    found.value = about(group->limit) + ", " + about(group->left()) + " left (" + group->path + ")";
    found.enough = group->left() >= 256 * mib;
    if (!found.enough)
        found.advice = "a ring that would take an eighth of what is left is refused and its messages go by the "
                       "real MPI: ask for more memory (docker run -m, sbatch --mem) or lower STORM_RING_MAX and "
                       "STORM_MEMORY_MAX";
    return found;
}

// A child that holds a memfd as a rank holds its rings; we are the sender.
Finding memory_of_others() {
    Finding found{"memory of other processes", "can be opened"};
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) {
        found.value = std::string("not tried (") + std::strerror(errno) + ")";
        return found;
    }
    const pid_t child = fork();
    if (child == 0) {
        alarm(child_seconds_max);
        const int fd = memfd_create("storm-info", MFD_CLOEXEC);
        const int trouble = fd < 0 ? errno : 0;
        const int said[2] = {fd, trouble};
        [[maybe_unused]] const auto wrote = write(ready[1], said, sizeof said);
        pause();
        _exit(0);
    }
    close(ready[1]);
    int said[2] = {-1, 0};
    std::string trouble;
    if (child < 0 || read(ready[0], said, sizeof said) != static_cast<ssize_t>(sizeof said)) {
        trouble = "no child process could be asked";
    } else if (said[0] < 0) {
        trouble = std::string("memfd_create: ") + std::strerror(said[1]);
    } else {
        const std::string path = "/proc/" + std::to_string(child) + "/fd/" + std::to_string(said[0]);
        const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
        if (fd < 0) trouble = path + ": " + std::strerror(errno);
        else close(fd);
    }
    close(ready[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
    if (trouble.empty()) return found;
    found.enough = false;
    found.value = "cannot be opened (" + trouble + ")";
    found.advice = "messages go by the real MPI then: let all ranks of a node run as one user, in one pid "
                   "namespace (docker run --pid=host) and with /proc mounted as usual";
    return found;
}

}  // namespace

std::vector<Finding> first_aid() {
    return {locked_memory(), open_files(), shared_memory(), memory_group(), memory_of_others()};
}

std::optional<std::string> in_child(const std::function<std::string()> &work, std::string &why) {
    int answer[2];
    if (pipe2(answer, O_CLOEXEC) != 0) {
        why = std::string("pipe: ") + std::strerror(errno);
        return std::nullopt;
    }
    const pid_t child = fork();
    if (child == 0) {
        alarm(child_seconds_max);
        if (const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC); nowhere >= 0) {
            dup2(nowhere, STDOUT_FILENO);
            dup2(nowhere, STDERR_FILENO);
        }
        try {
            const std::string text = work();
            std::size_t at = 0;
            while (at < text.size()) {
                const ssize_t n = write(answer[1], text.data() + at, text.size() - at);
                if (n <= 0) _exit(1);
                at += static_cast<std::size_t>(n);
            }
        } catch (const std::exception &) {
            _exit(1);
        }
        _exit(0);
    }
    close(answer[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; child > 0 && (n = read(answer[0], buffer, sizeof buffer)) != 0;) {
        if (n < 0 && errno != EINTR) break;
        if (n > 0) text.append(buffer, static_cast<std::size_t>(n));
    }
    close(answer[0]);
    int status = 0;
    if (child < 0) {
        why = std::string("fork: ") + std::strerror(errno);
        return std::nullopt;
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
        why = WTERMSIG(status) == SIGALRM ? "it did not answer in time"
                                          : std::string("it crashed: ") + strsignal(WTERMSIG(status));
        return std::nullopt;
    }
    if (WEXITSTATUS(status) != 0) {
        why = "it gave up";
        return std::nullopt;
    }
    return text;
}

std::string size_text(unsigned long long bytes) {
    constexpr const char *units[] = {"", "K", "M", "G", "T"};
    std::size_t unit = 0;
    while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(units)) {
        bytes /= 1024;
        ++unit;
    }
    return std::to_string(bytes) + units[unit];
}

}  // namespace storm::tools
