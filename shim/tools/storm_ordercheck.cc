// SPDX-License-Identifier: MIT
// storm-ordercheck: does a record that can be seen stand there as a whole? Two processes,
// one writes checksummed records into the other's ring, which checks each as soon as its
// commit word is there. A plain verdict, counts, an exit status.
#include "order_rounds.hh"
#include "ordercheck_selftest.hh"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <poll.h>
#include <sched.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace storm::order {
namespace {

enum Exit : int { kOrdered = 0, kTorn = 1, kNotRun = 2, kUsage = 64 };

struct Options {
    std::string backend = "ofi", provider = "auto", mode = "auto", nic, lib;
    double seconds = 10;
    std::uint64_t rounds = 0; // 0: as many as there is time for
    std::uint64_t ring = 256 << 10;
    bool verify = false, selftest = false;
};

constexpr const char* kUsageText =
    "usage: storm-ordercheck [--backend shm|ofi|verbs] [--provider NAME] [--mode MODE] [--nic NAME]\n"
    "                        [--seconds N] [--rounds N] [--ring BYTES] [--verify] [--lib FOLDER]\n"
    "       storm-ordercheck --selftest | --matrix | --help | --version\n";

using Clock = std::chrono::steady_clock;

// ---- the plugin

std::string folder_of_this()
{
    char path[4096];
    const auto n = ::readlink("/proc/self/exe", path, sizeof path - 1);
    std::string folder(path, n > 0 ? static_cast<std::size_t>(n) : 0);
    return folder.substr(0, folder.rfind('/'));
}

const BackendPlugin* load(const Options& options, std::string& why)
{
    const std::string file = "/libstorm-" + options.backend + ".so", here = folder_of_this();
    std::vector<std::string> places = {here + "/" + STORM_LIBDIR_FROM_BINDIR + "/storm", here + "/../../backends"};
    if (!options.lib.empty())
        places = {options.lib, options.lib + "/storm"};
    why = "no libstorm-" + options.backend + ".so in " + places[0] + " or " + places[1];
    for (const std::string& place : places) {
        if (::access((place + file).c_str(), F_OK) != 0)
            continue;
        void* library = ::dlopen((place + file).c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            const char* said = ::dlerror();
            why = said != nullptr ? said : "it cannot be loaded";
            return nullptr;
        }
        const auto* plugin = static_cast<const BackendPlugin*>(::dlsym(library, "storm_backend"));
        if (plugin != nullptr && plugin->abi == kBackendAbi)
            return plugin;
        why = place + file + " belongs to another version";
    }
    return nullptr;
}

// ---- the two ends and what they tell each other, by a socket of messages

struct Tally { // the producer's, at the end
    std::uint64_t rounds = 0;
    char trouble[200] = "";
};

struct Message {
    enum class Kind : std::uint8_t { address, word, lane, stop, over, trouble } kind = Kind::word;
    char address[200] = "";
    Word word{};
    std::uint64_t ref = 0, bytes = 0;
    Tally tally{};
};

class End {
public:
    End(int rank, int socket, const Options& options) : rank_(rank), socket_(socket), options_(options) {}

    bool open(std::string& why)
    {
        const BackendPlugin* plugin = load(options_, why);
        if (plugin == nullptr)
            return false;
        BackendSettings settings;
        settings.world_rank_hint = rank_;
        settings.memory_max = std::uint64_t{256} << 20;
        settings.log = &log_;
        settings.nic = options_.nic;
        settings.ordering = options_.mode;
        settings.verify = options_.verify;
        settings.ofi_provider = options_.provider;
        backend_.reset(plugin->open(settings, why));
        if (backend_ == nullptr)
            return false;
        if (backend_->calls_mpi())
            why = "it moves bytes by the real MPI, which is not there";
        return !backend_->calls_mpi();
    }
    Backend& backend() { return *backend_; }

    bool send(const Message& message) const { return ::send(socket_, &message, sizeof message, MSG_NOSIGNAL) > 0; }
    // False when nothing is there, or, with `wait`, when the other end is gone.
    bool receive(Message& message, bool wait = false)
    {
        const auto n = ::recv(socket_, &message, sizeof message, wait ? 0 : MSG_DONTWAIT);
        gone_ = gone_ || n == 0;
        return n == sizeof message;
    }
    bool gone() const { return gone_; }

    // Words in both directions; other messages end in `other`.
    bool exchange(Message& other)
    {
        Message message;
        while (backend_->next_word(message.word)) {
            message.kind = Message::Kind::word;
            send(message);
        }
        while (receive(message)) {
            if (message.kind != Message::Kind::word) {
                other = message;
                return true;
            }
            message.word.peer = 1 - rank_;
            backend_->take_word(message.word);
        }
        return false;
    }
    // What the backend has to say against the run.
    bool trouble(std::string& why)
    {
        int peer;
        return backend_->torn(peer, why) || backend_->failed(peer, why);
    }

private:
    const int rank_, socket_;
    const Options& options_;
    Log log_;
    std::unique_ptr<Backend> backend_;
    bool gone_ = false;
};

void set(char (&to)[200], const std::string& text)
{
    std::snprintf(to, sizeof to, "%s", text.c_str());
}

// The producer's process: claims a ring and fills it until it is told to stop.
int produce(int socket, const Options& options)
{
    End end(0, socket, options);
    Message message, other;
    std::string why;
    bool ready = end.open(why) && end.receive(other, true);
    Lane lane;
    while (ready && !end.gone()) {
        const Status status = end.backend().claim(1, other.address, options.ring, lane, why);
        ready = status != Status::refused;
        if (status != Status::again)
            break;
        Message more;
        end.backend().progress();
        end.exchange(more);
    }
    message.kind = ready ? Message::Kind::lane : Message::Kind::trouble;
    message.ref = lane.ref;
    message.bytes = lane.bytes;
    set(message.tally.trouble, why);
    if (!end.send(message) || !ready)
        return 1;
    Producer producer(end.backend(), 1, lane, {.payload_max = options.ring / 8});
    bool stop = false;
    while (!stop && !end.gone()) {
        bool full = false;
        for (int i = 0; i < 256 && !full; ++i)
            full = (options.rounds != 0 && producer.rounds() == options.rounds) || !producer.step();
        end.backend().flush();
        end.backend().progress();
        if (full)
            ::sched_yield();
        stop = (end.exchange(other) && other.kind == Message::Kind::stop) || end.trouble(why);
    }
    message = {};
    message.kind = Message::Kind::over;
    message.tally.rounds = producer.rounds();
    set(message.tally.trouble, why);
    end.send(message);
    end.receive(message, true); // until the other one is over, too
    return 0;
}

struct Result {
    std::uint64_t rounds = 0, bytes = 0, torn = 0, sent = 0;
    double seconds = 0;
    std::string first, trouble;
    std::string facts;
    bool ran = false;
};

// The consumer's process: lets the other one begin, checks, and says when it is enough.
Result consume(int socket, const Options& options)
{
    Result result;
    End end(1, socket, options);
    Message message, other;
    if (!end.open(result.trouble))
        return result;
    message.kind = Message::Kind::address;
    set(message.address, end.backend().address());
    end.send(message);
    Lane lane;
    for (bool have = false; !have;) {
        end.backend().progress();
        Claim claim;
        if (end.exchange(other) && other.kind == Message::Kind::trouble) {
            result.trouble = other.tally.trouble;
            return result;
        }
        if (*end.backend().doorbell() != 0 && end.backend().accept(claim)) {
            lane = claim.lane;
            break;
        }
        have = other.kind == Message::Kind::lane && !end.backend().direct() &&
               end.backend().open(0, other.ref, other.bytes, lane) == Status::ok;
        if (end.gone()) {
            result.trouble = "the producer ended";
            return result;
        }
    }
    Consumer consumer(lane, {.payload_max = options.ring / 8});
    const auto begin = Clock::now();
    const std::chrono::duration<double> time(options.seconds);
    const auto until = begin + std::chrono::duration_cast<Clock::duration>(time);
    bool over = false;
    for (unsigned looks = 0; !over; ++looks) {
        if (!end.backend().direct())
            end.backend().progress();
        if (!consumer.step() && looks % 64 == 0)
            ::sched_yield();
        if (looks % 256 != 0)
            continue;
        over = consumer.lost() || end.trouble(result.trouble) || end.gone() ||
               (options.rounds != 0 ? consumer.rounds() >= options.rounds : Clock::now() >= until) ||
               (end.exchange(other) && other.kind == Message::Kind::over);
    }
    result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    message.kind = Message::Kind::stop;
    end.send(message);
    while (other.kind != Message::Kind::over && !end.gone()) {
        end.backend().progress();
        end.exchange(other);
    }
    if (result.trouble.empty())
        result.trouble = other.tally.trouble;
    result.rounds = consumer.rounds();
    result.bytes = consumer.bytes();
    result.torn = consumer.torn() + (result.trouble.starts_with("torn") ? 1 : 0);
    result.first = consumer.first();
    result.sent = other.tally.rounds;
    for (unsigned n = 0; n < 2; ++n)
        if (const std::string fact = end.backend().fact(n); !fact.empty())
            result.facts += (n != 0 ? ", " : "") + fact;
    result.ran = true;
    end.send(message);
    return result;
}

int verdict(const Options& options, const Result& r)
{
    if (!r.ran) {
        std::printf("not checked: the %s backend cannot be used (%s)\n", options.backend.c_str(), r.trouble.c_str());
        return kNotRun;
    }
    std::printf("backend %s%s%s\n", options.backend.c_str(), r.facts.empty() ? "" : ", ", r.facts.c_str());
    std::printf("rounds checked  %llu\nbytes checked   %llu\nrounds written  %llu\n"
                "seconds         %.1f (%.2f M rounds/s)\ntorn reads      %llu\n",
                static_cast<unsigned long long>(r.rounds), static_cast<unsigned long long>(r.bytes),
                static_cast<unsigned long long>(r.sent), r.seconds,
                r.seconds > 0 ? static_cast<double>(r.rounds) / r.seconds / 1e6 : 0,
                static_cast<unsigned long long>(r.torn));
    if (r.torn != 0) {
        std::printf("first           %s\nTORN: records were seen before all of them was there\n",
                    r.first.empty() ? r.trouble.c_str() : r.first.c_str());
        return kTorn;
    }
    if (!r.trouble.empty() || r.rounds == 0) {
        std::printf("NOT CHECKED: %s\n", r.trouble.empty() ? "nothing arrived" : r.trouble.c_str());
        return kNotRun;
    }
    std::printf("ORDERED: every record was whole when it could be seen\n");
    return kOrdered;
}

// What is known of each fabric, and the modes that follow; as text, or for the man page.
void print_matrix(bool roff)
{
    for (unsigned n = 0; const wire::Row* row = wire::row(n); ++n) {
        std::string modes, name(row->provider);
        for (unsigned mode = 0; mode < wire::kModes; ++mode)
            if (wire::allowed(static_cast<wire::Mode>(mode), row->promises))
                modes += (modes.empty() ? "" : ", ") + std::string(wire::mode_name(static_cast<wire::Mode>(mode)));
        if (name == "*")
            name = "any other";
        else if (!row->core.empty() && row->core != "*")
            name += ";" + std::string(row->core);
        const char* const usual = wire::mode_name(row->promises.usual);
        if (roff)
            std::printf(".TP\n.B %s\n%s by default, of %s.\n%c%s.\n", name.c_str(), usual, modes.c_str(),
                        static_cast<char>(std::toupper(row->promises.note[0])), row->promises.note + 1);
        else
            std::printf("%-14s %-10s of %s (%s)\n", name.c_str(), usual, modes.c_str(), row->promises.note);
    }
}

bool number(const char* text, double& value)
{
    char* end = nullptr;
    value = text != nullptr ? std::strtod(text, &end) : 0;
    return text != nullptr && end != text && *end == '\0' && value > 0;
}

// 0: go on; otherwise the exit status + 1.
int read(int argc, char** argv, Options& o)
{
    for (int i = 1; i < argc; ++i) {
        const std::string name = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
        double n = 0;
        bool takes = true;
        if (name == "--matrix" || name == "--matrix-roff") {
            print_matrix(name != "--matrix");
            return kOrdered + 1;
        }
        if (name == "--help" || name == "--version") {
            std::printf("%s", name == "--help" ? kUsageText : "storm-ordercheck " STORM_VERSION "\n");
            return kOrdered + 1;
        }
        std::string* const text = name == "--backend"    ? &o.backend
                                  : name == "--provider" ? &o.provider
                                  : name == "--mode"     ? &o.mode
                                  : name == "--nic"      ? &o.nic
                                  : name == "--lib"      ? &o.lib
                                                         : nullptr;
        bool known = true;
        if (text != nullptr && value != nullptr)
            *text = value;
        else if (name == "--seconds" && number(value, n))
            o.seconds = n;
        else if (name == "--rounds" && number(value, n))
            o.rounds = static_cast<std::uint64_t>(n);
        else if (name == "--ring" && number(value, n) && n >= 8192 && n <= 64e6)
            o.ring = std::bit_ceil(static_cast<std::uint64_t>(n));
        else if (name == "--verify" || name == "--selftest") {
            (name == "--verify" ? o.verify : o.selftest) = true;
            takes = false;
        } else
            known = false;
        if (!known) {
            std::fprintf(stderr, "storm-ordercheck: %s is not understood\n%s", name.c_str(), kUsageText);
            return kUsage + 1;
        }
        i += takes;
    }
    return 0;
}

int run(const Options& options)
{
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        std::fprintf(stderr, "storm-ordercheck: socketpair: %s\n", std::strerror(errno));
        return kNotRun;
    }
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(ends[1]);
        ::_exit(produce(ends[0], options));
    }
    ::close(ends[0]);
    const Result result = consume(ends[1], options);
    ::close(ends[1]);
    ::waitpid(child, nullptr, 0);
    return verdict(options, result);
}

} // namespace
} // namespace storm::order

int main(int argc, char** argv)
{
    storm::order::Options options;
    if (const int status = storm::order::read(argc, argv, options); status != 0)
        return status - 1;
    if (options.selftest)
        return storm::order::selftest() ? storm::order::kOrdered : storm::order::kTorn;
    return storm::order::run(options);
}
