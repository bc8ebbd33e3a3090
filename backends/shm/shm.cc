// SPDX-License-Identifier: MIT
// The shared-memory backend: rings in the receiver's memfd, opened by senders through
// /proc. Nothing has a name in a file system, so nothing is left when a process ends,
// in whatever way.
#include "near.hh"
#include "slab.hh"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unordered_map>

namespace storm::shm {

Mapping map(int fd, std::uint64_t offset, std::uint64_t bytes)
{
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                      static_cast<off_t>(offset));
    if (at == MAP_FAILED)
        return {};
    ::madvise(at, bytes, MADV_DONTDUMP);
    return {static_cast<std::byte*>(at), bytes};
}

void unmap(Mapping& mapping)
{
    if (mapping.at != nullptr)
        ::munmap(mapping.at, mapping.bytes);
    mapping = {};
}

namespace {

// Two processes share memory by this backend when kernel and pid namespace agree.
std::string host_identity()
{
    char boot[64] = "", ns[64] = "";
    if (const int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC); fd >= 0) {
        const auto n = ::read(fd, boot, sizeof boot - 1);
        boot[n > 0 ? n : 0] = '\0';
        boot[std::strcspn(boot, "\n")] = '\0';
        ::close(fd);
    }
    const auto n = ::readlink("/proc/self/ns/pid", ns, sizeof ns - 1);
    ns[n > 0 ? n : 0] = '\0';
    return std::string(boot) + "/" + ns;
}

std::uint64_t number_in(const char* path)
{
    char text[64] = "";
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return UINT64_MAX;
    const auto n = ::read(fd, text, sizeof text - 1);
    ::close(fd);
    char* end = nullptr;
    const unsigned long long value = n > 0 ? std::strtoull(text, &end, 10) : 0;
    return n > 0 && end != text ? value : UINT64_MAX; // "max", or no such file: unlimited
}

// What the memory cgroup still gives. Allocating past it would not be refused but
// would have a process killed, so it is asked beforehand.
std::uint64_t cgroup_headroom()
{
    char line[512] = "";
    std::uint64_t room = UINT64_MAX;
    if (std::FILE* f = std::fopen("/proc/self/cgroup", "re")) {
        while (std::fgets(line, sizeof line, f) != nullptr) {
            line[std::strcspn(line, "\n")] = '\0';
            const char* limit = nullptr;
            const char* usage = nullptr;
            std::string base;
            if (std::strncmp(line, "0::", 3) == 0) {
                base = std::string("/sys/fs/cgroup") + (line + 3);
                limit = "/memory.max";
                usage = "/memory.current";
            } else if (const char* at = std::strstr(line, ":memory:")) {
                base = std::string("/sys/fs/cgroup/memory") + (at + 8);
                limit = "/memory.limit_in_bytes";
                usage = "/memory.usage_in_bytes";
            } else {
                continue;
            }
            // a group above may have the tighter limit
            for (; base.size() > sizeof "/sys/fs/cgroup" - 1; base.resize(base.rfind('/'))) {
                const std::uint64_t most = number_in((base + limit).c_str());
                const std::uint64_t now = number_in((base + usage).c_str());
                if (most != UINT64_MAX && now != UINT64_MAX)
                    room = std::min(room, most > now ? most - now : 0);
            }
        }
        std::fclose(f);
    }
    return room;
}

struct PeerAddress {
    long pid = 0;
    int fd = -1;
    std::uint64_t nonce[2] = {};
    char host[120] = "";
    bool parse(std::string_view text)
    {
        return std::sscanf(std::string(text).c_str(), "%ld:%d:%" SCNx64 ":%" SCNx64 ":%119s", &pid,
                           &fd, &nonce[0], &nonce[1], host) == 5;
    }
};

unsigned log2_of(std::uint64_t power)
{
    return static_cast<unsigned>(__builtin_ctzll(power));
}

using Shared = Claims<Hardware>;

class Shm final : public Backend {
public:
    Shm(const BackendSettings& settings, int fd, Mapping own)
        : log_(*settings.log), fd_(fd), own_(own), host_(host_identity())
    {
        auto* header = new (own_.at) Header{};
        header->magic = kMagic;
        header->layout = kLayout;
        header->owner = settings.world_rank_hint;
        header->limit = settings.memory_max;
        header->next_offset = kFirstRing;
        [[maybe_unused]] const auto got = ::getrandom(header->nonce, sizeof header->nonce, 0);
        rank_ = settings.world_rank_hint;
    }

    ~Shm() override
    {
        for (auto& [at, mapping] : rings_)
            unmap(mapping);
        unmap(own_);
        ::close(fd_);
    }

    const char* name() const override { return "shm"; }

    std::string address() const override
    {
        const auto* header = reinterpret_cast<const Header*>(own_.at);
        char text[200];
        std::snprintf(text, sizeof text, "%ld:%d:%" PRIx64 ":%" PRIx64 ":%s",
                      static_cast<long>(::getpid()), fd_, header->nonce[0], header->nonce[1],
                      host_.c_str());
        return text;
    }

    Status claim(int peer, std::string_view address, std::uint64_t bytes, Lane& lane,
                 std::string& why) override
    {
        PeerAddress to;
        if (!to.parse(address)) {
            why = "its address is not one of shared memory";
            return Status::refused;
        }
        if (host_ != to.host) {
            why = "it runs on another host or in another pid namespace";
            return Status::refused;
        }
        addresses_[peer] = to;
        Open open(*this, to, peer, why);
        if (open.header == nullptr)
            return Status::refused;
        if (Shared::full(*open.header)) {
            why = "its directory of rings is full";
            return Status::refused;
        }
        std::uint64_t offset = 0;
        if (take(open, bytes, offset, lane, why) != Status::ok)
            return Status::refused;
        auto* directory = reinterpret_cast<Entry*>(open.mapping.at + kDirectory);
        if (!Shared::announce(*open.header, directory, offset, rank_, log2_of(lane.bytes))) {
            why = "its directory of rings is full";
            Shared::give_back(*open.header, bytes + kPage);
            forget(lane);
            return Status::refused;
        }
        return Status::ok;
    }

    Status grow(int peer, std::uint64_t bytes, Lane& lane, std::string& why) override
    {
        Open open(*this, addresses_[peer], peer, why);
        std::uint64_t offset = 0;
        return open.header == nullptr ? Status::refused : take(open, bytes, offset, lane, why);
    }

    void drop(int, Lane& lane) override { forget(lane); }

    bool accept(Claim& claim) override
    {
        auto* entry = reinterpret_cast<Entry*>(own_.at + kDirectory) + accepted_;
        if (accepted_ == kEntries)
            return false;
        std::uint64_t offset = 0, bytes = 0;
        if (!Shared::find(*entry, offset, claim.peer, bytes))
            return false;
        ++accepted_;
        if (open(claim.peer, offset, bytes, claim.lane) != Status::ok) {
            log_.error("the ring that rank %d took here cannot be mapped (%s): the job cannot go on",
                       claim.peer, std::strerror(errno));
            std::abort();
        }
        return true;
    }

    const std::uint64_t* doorbell() const override
    {
        // the next entry of the directory; the page after the last one is a ring's
        // control page or absent, so the doorbell stays on the last entry then
        static constexpr std::uint64_t kSilent = 0;
        return accepted_ == kEntries
                   ? &kSilent
                   : &(reinterpret_cast<const Entry*>(own_.at + kDirectory) + accepted_)->claim;
    }

    Status open(int, std::uint64_t ref, std::uint64_t bytes, Lane& lane) override
    {
        struct stat st;
        if (ref < kFirstRing || ref % kPage != 0 || ::fstat(fd_, &st) != 0 ||
            ref + kPage + bytes > static_cast<std::uint64_t>(st.st_size))
            return Status::refused;
        return enter(fd_, ref, bytes, lane) ? Status::ok : Status::refused;
    }

    void close(int, Lane& lane) override
    {
        const std::uint64_t offset = lane.ref, bytes = lane.bytes + kPage;
        forget(lane);
        // the old ring's memory goes back to the system at once, and to the budget
        Shared::give_back(*reinterpret_cast<Header*>(own_.at), bytes);
        ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(bytes));
    }

    bool direct() const override { return true; }
    void publish(int, Lane&, std::uint64_t, std::uint64_t) override {}
    void progress() override {}

    std::string fact(unsigned n) const override
    {
        return n == 0 ? "ordering: in memory (the commit word is stored last, with release)" : "";
    }

private:
    // A peer's memfd while something is taken from it; no descriptor stays open.
    struct Open {
        Open(const Shm&, const PeerAddress& to, int peer, std::string& why)
        {
            char path[64];
            std::snprintf(path, sizeof path, "/proc/%ld/fd/%d", to.pid, to.fd);
            fd = ::open(path, O_RDWR | O_CLOEXEC);
            if (fd < 0) {
                why = std::string("its memory cannot be opened through ") + path + ": " +
                      std::strerror(errno);
                return;
            }
            struct stat st;
            if (::fstat(fd, &st) != 0 || static_cast<std::uint64_t>(st.st_size) < kFirstRing) {
                why = "its memory is not a slab of rings";
                return;
            }
            mapping = map(fd, 0, kFirstRing);
            if (mapping.at == nullptr) {
                why = std::string("its memory cannot be mapped: ") + std::strerror(errno);
                return;
            }
            auto* found = reinterpret_cast<Header*>(mapping.at);
            if (found->magic != kMagic || found->layout != kLayout || found->owner != peer ||
                std::memcmp(found->nonce, to.nonce, sizeof to.nonce) != 0) {
                why = "the process at its address is another one";
                return;
            }
            header = found;
        }
        ~Open()
        {
            unmap(mapping);
            if (fd >= 0)
                ::close(fd);
        }
        int fd = -1;
        Mapping mapping;
        Header* header = nullptr;
    };

    // Room, memory and a mapping for a ring in a peer's slab.
    Status take(Open& open, std::uint64_t bytes, std::uint64_t& offset, Lane& lane, std::string& why)
    {
        const std::uint64_t whole = bytes + kPage;
        if (!Shared::take_room(*open.header, whole, offset)) {
            why = "its budget of " + std::to_string(open.header->limit) +
                  " bytes for rings (STORM_MEMORY_MAX) is used up";
            return Status::refused;
        }
        const Status status = fill(open, offset, bytes, lane, why);
        if (status != Status::ok)
            Shared::give_back(*open.header, whole);
        return status;
    }

    // Memory and a mapping for a range that is ours.
    Status fill(Open& open, std::uint64_t offset, std::uint64_t bytes, Lane& lane, std::string& why)
    {
        const std::uint64_t whole = bytes + kPage;
        const std::uint64_t room = cgroup_headroom();
        int rc = ENOMEM;
        struct rlimit files;
        if (::getrlimit(RLIMIT_FSIZE, &files) == 0 && offset + whole > files.rlim_cur)
            rc = EFBIG; // growing past it would not fail but kill (SIGXFSZ)
        else if (room == UINT64_MAX || whole < room / 8) {
            do
                rc = ::fallocate(open.fd, 0, static_cast<off_t>(offset), static_cast<off_t>(whole)) == 0
                         ? 0
                         : errno;
            while (rc == EINTR);
        }
        if (rc != 0) {
            why = std::string("no memory for a ring: ") + std::strerror(rc);
            return Status::refused;
        }
        if (!enter(open.fd, offset, bytes, lane)) {
            why = std::string("no address space for a ring: ") + std::strerror(errno);
            return Status::refused;
        }
        return Status::ok;
    }

    bool enter(int fd, std::uint64_t offset, std::uint64_t bytes, Lane& lane)
    {
        Mapping mapping = map(fd, offset, bytes + kPage);
        if (mapping.at == nullptr)
            return false;
        lane.base = mapping.at + kPage;
        lane.bytes = bytes;
        lane.head = reinterpret_cast<std::atomic<std::uint64_t>*>(mapping.at);
        lane.ref = offset;
        rings_[lane.base] = mapping;
        return true;
    }

    void forget(Lane& lane)
    {
        const auto at = rings_.find(lane.base);
        if (at != rings_.end()) {
            unmap(at->second);
            rings_.erase(at);
        }
        lane = {};
    }

    const Log& log_;
    const int fd_;
    Mapping own_;
    const std::string host_;
    int rank_ = -1;
    std::uint32_t accepted_ = 0;
    std::unordered_map<int, PeerAddress> addresses_;
    std::unordered_map<std::byte*, Mapping> rings_;
};

Backend* open_shm(const BackendSettings& settings, std::string& why)
{
    int fd = ::memfd_create("storm", MFD_CLOEXEC);
    if (fd < 0) {
        why = std::string("memfd_create: ") + std::strerror(errno);
        return nullptr;
    }
    // out of the way of programs that count on low descriptors
    if (const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, 200); high >= 0) {
        ::close(fd);
        fd = high;
    }
    keep_near(fd); // before the first page
    Mapping own;
    if (::fchmod(fd, 0600) != 0 || settings.memory_max < 2 * kPage ||
        ::fallocate(fd, 0, 0, static_cast<off_t>(kFirstRing)) != 0 ||
        (own = map(fd, 0, kFirstRing)).at == nullptr) {
        why = settings.memory_max < 2 * kPage
                  ? std::string("STORM_MEMORY_MAX leaves no room for a ring")
                  : std::string("no memory for rings: ") + std::strerror(errno);
        ::close(fd);
        return nullptr;
    }
    return new Shm(settings, fd, own);
}

} // namespace
} // namespace storm::shm

extern "C" {
[[gnu::visibility("default")]] extern const storm::BackendPlugin storm_backend;
const storm::BackendPlugin storm_backend = {storm::kBackendAbi, "shm", storm::shm::open_shm};
}
