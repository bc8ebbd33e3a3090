// SPDX-License-Identifier: MIT
// bare_ring: the floor that pingpong is measured against; not an MPI program. Two
// processes on cores 0 and 1 talk over one ring in shared memory each way, with
// nothing above it: no matching, no requests, no progress.
//
// A record is a header of 16 bytes and the payload, padded to 16 bytes. The first
// word of the header commits the record: the writer clears the word that follows the
// record, then stores length + 1 into its own word with release; the reader loads it
// with acquire. So a small message moves in one cache line, and no index is shared
// on its way. The reader returns space through an index of its own, told only each
// quarter of the ring. A payload larger than a piece goes as several records, so that
// the reader copies one piece while the writer copies the next.
//
// Prints the lines of pingpong:  latency|rate bytes median unit "best" best
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kRingBytes = 256 * 1024;
constexpr std::size_t kHeaderBytes = 16;
constexpr std::size_t kLine = 64;
constexpr int kWindow = 64;
constexpr int kRepetitions = 11;

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

constexpr std::uint64_t kWrap = ~std::uint64_t{0}; // the next record is at the start

void relax()
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

struct Ring {
    alignas(kLine) Word head; // bytes read so far; the reader stores, the writer loads
    alignas(kLine) unsigned char bytes[kRingBytes];
};

Word& word_at(Ring& ring, std::uint64_t position)
{
    return *std::launder(reinterpret_cast<Word*>(ring.bytes + position % kRingBytes));
}

constexpr std::size_t record_bytes(std::size_t payload)
{
    return (kHeaderBytes + payload + 15) / 16 * 16;
}

class Writer {
public:
    explicit Writer(Ring& ring) : ring_(ring) {}

    void write(const unsigned char* from, std::size_t bytes)
    {
        const std::size_t record = record_bytes(bytes);
        const std::size_t to_end = kRingBytes - tail_ % kRingBytes;
        if (to_end < record + kHeaderBytes) {
            // Room for the record behind the wrap, and the word after it.
            wait_for(to_end + record + kHeaderBytes);
            word_at(ring_, 0).store(0, std::memory_order_relaxed);
            // Release, read by the acquire in Reader::read: the start is clear first.
            word_at(ring_, tail_).store(kWrap, std::memory_order_release);
            tail_ += to_end;
        } else {
            wait_for(record + kHeaderBytes);
        }
        std::memcpy(ring_.bytes + tail_ % kRingBytes + kHeaderBytes, from, bytes);
        word_at(ring_, tail_ + record).store(0, std::memory_order_relaxed);
        // Release, read by the acquire in Reader::read: payload and cleared word first.
        word_at(ring_, tail_).store(bytes + 1, std::memory_order_release);
        tail_ += record;
    }

private:
    void wait_for(std::size_t bytes)
    {
        while (tail_ + bytes > head_ + kRingBytes) {
            // Acquire, pairs with the release in Reader::give_back: the reader has
            // copied what we are about to overwrite.
            head_ = ring_.head.load(std::memory_order_acquire);
            relax();
        }
    }

    Ring& ring_;
    std::uint64_t tail_ = 0, head_ = 0;
};

class Reader {
public:
    explicit Reader(Ring& ring) : ring_(ring) {}

    std::size_t read(unsigned char* to)
    {
        std::uint64_t committed = 0;
        for (;;) {
            // Acquire, pairs with the releases in Writer::write.
            committed = word_at(ring_, head_).load(std::memory_order_acquire);
            if (committed == kWrap) {
                head_ += kRingBytes - head_ % kRingBytes;
            } else if (committed != 0) {
                break;
            } else {
                relax();
            }
        }
        const std::size_t bytes = committed - 1;
        std::memcpy(to, ring_.bytes + head_ % kRingBytes + kHeaderBytes, bytes);
        head_ += record_bytes(bytes);
        give_back();
        return bytes;
    }

private:
    void give_back()
    {
        if (head_ - told_ >= kRingBytes / 4) {
            // Release, read by the acquire in Writer::wait_for.
            ring_.head.store(head_, std::memory_order_release);
            told_ = head_;
        }
    }

    Ring& ring_;
    std::uint64_t head_ = 0, told_ = 0;
};

struct Options {
    std::vector<std::string> modes = {"latency", "rate"};
    std::vector<std::size_t> sizes = {8, 64, 256, 1024, 4096, 16384, 65536};
    double seconds_a_size = 0.1;
    std::size_t piece = 2048;
};

[[noreturn]] void stop(const std::string& why)
{
    std::fprintf(stderr,
                 "bare_ring: %s\noptions: --mode latency|rate --sizes a,b,c "
                 "--seconds-per-size S --piece BYTES\n",
                 why.c_str());
    std::exit(2);
}

Options parse(int argc, char** argv)
{
    Options o;
    for (int i = 1; i < argc; ++i) {
        const std::string_view name = argv[i];
        if (i + 1 == argc) {
            stop("no value for " + std::string(name));
        }
        const char* value = argv[++i];
        if (name == "--mode") {
            o.modes = {value};
        } else if (name == "--sizes") {
            o.sizes.clear();
            for (const char* at = value; *at != '\0';) {
                char* end = nullptr;
                o.sizes.push_back(std::strtoul(at, &end, 10));
                if (end == at || (*end != ',' && *end != '\0')) {
                    stop("--sizes wants numbers with commas between");
                }
                at = *end == ',' ? end + 1 : end;
            }
        } else if (name == "--seconds-per-size") {
            o.seconds_a_size = std::atof(value);
        } else if (name == "--piece") {
            o.piece = std::strtoul(value, nullptr, 10);
        } else {
            stop("unknown option " + std::string(name));
        }
    }
    if (o.modes[0] != "latency" && o.modes[0] != "rate") {
        stop("unknown mode " + o.modes[0]);
    }
    if (o.piece < 64 || o.piece > kRingBytes / 4) {
        stop("--piece: 64 bytes to a quarter of the ring");
    }
    return o;
}

// What the two sides share: a ring each way.
struct Shared {
    Ring ring[2];
};

class Side {
public:
    Side(Shared& shared, int me, std::size_t piece)
        : me_(me), piece_(piece), writer_(shared.ring[me]), reader_(shared.ring[1 - me])
    {
    }

    void send(const unsigned char* from, std::size_t bytes)
    {
        std::size_t done = 0;
        do {
            const std::size_t part = std::min(piece_, bytes - done);
            writer_.write(from + done, part);
            done += part;
        } while (done < bytes);
    }

    void receive(unsigned char* to, std::size_t bytes)
    {
        std::size_t done = 0;
        do {
            done += reader_.read(to + done);
        } while (done < bytes);
    }

    void round_trip(std::size_t bytes)
    {
        if (me_ == 0) {
            send(out_.data(), bytes);
            receive(in_.data(), bytes);
        } else {
            receive(in_.data(), bytes);
            send(out_.data(), bytes);
        }
    }

    void window(std::size_t bytes)
    {
        const std::size_t stride = (bytes + kLine - 1) / kLine * kLine + kLine;
        std::uint64_t answer = 0;
        for (std::size_t i = 0; i < kWindow; ++i) {
            if (me_ == 0) {
                send(out_.data() + i * stride, bytes);
            } else {
                receive(in_.data() + i * stride, bytes);
            }
        }
        if (me_ == 0) {
            receive(reinterpret_cast<unsigned char*>(&answer), sizeof(answer));
        } else {
            send(reinterpret_cast<const unsigned char*>(&answer), sizeof(answer));
        }
    }

    void resize(std::size_t bytes, std::size_t places)
    {
        const std::size_t stride = (bytes + kLine - 1) / kLine * kLine + kLine;
        out_.assign(stride * places, static_cast<unsigned char>(0x5a + me_));
        in_.assign(stride * places, 0);
    }

    void check(std::size_t bytes) const
    {
        const int expected = 0x5a + 1 - me_;
        if (bytes > 0 && (in_[0] != expected || in_[bytes - 1] != expected)) {
            stop("a message with the wrong bytes");
        }
    }

    template <class T>
    void tell(T& value) // side 0's value to side 1
    {
        if (me_ == 0) {
            send(reinterpret_cast<const unsigned char*>(&value), sizeof(value));
        } else {
            receive(reinterpret_cast<unsigned char*>(&value), sizeof(value));
        }
    }

    int me() const { return me_; }

private:
    int me_;
    std::size_t piece_;
    Writer writer_;
    Reader reader_;
    std::vector<unsigned char> out_, in_;
};

// As in pingpong: rounds are doubled until a repetition fills its part of the time.
template <class Round>
std::vector<double> measure(Side& side, double seconds, Round round)
{
    using Clock = std::chrono::steady_clock;
    const double part = seconds / (kRepetitions + 2);
    std::vector<double> found;
    std::int64_t rounds = 1;
    while (found.size() < kRepetitions) {
        side.tell(rounds);
        const auto begin = Clock::now();
        for (std::int64_t i = 0; i < rounds; ++i) {
            round();
        }
        double took = std::chrono::duration<double>(Clock::now() - begin).count();
        side.tell(took);
        if (!found.empty() || took > part / 2) {
            found.push_back(took / static_cast<double>(rounds));
        } else if (side.me() == 0) {
            rounds *= 2;
        }
    }
    return found;
}

void run_size(Side& side, const std::string& mode, std::size_t bytes, double allowed)
{
    const bool latency = mode == "latency";
    side.resize(bytes, latency ? 1 : kWindow);
    std::vector<double> seconds =
        latency ? measure(side, allowed, [&] { side.round_trip(bytes); })
                : measure(side, allowed, [&] { side.window(bytes); });
    if (latency || side.me() == 1) {
        side.check(bytes);
    }
    if (side.me() != 0) {
        return;
    }
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    const double best = seconds.front();
    if (latency) {
        std::printf("latency %zu %.1f ns best %.1f\n", bytes, median * 0.5e9, best * 0.5e9);
    } else {
        std::printf("rate %zu %.6f M/s best %.6f\n", bytes, kWindow * 1e-6 / median,
                    kWindow * 1e-6 / best);
    }
    std::fflush(stdout);
}

void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(core), &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        std::fprintf(stderr, "bare_ring: not pinned to core %d (%s) the figures may be off\n",
                     core, std::strerror(errno));
    }
}

void run_side(Shared& shared, int me, const Options& options)
{
    pin(me);
    Side side(shared, me, options.piece);
    for (const std::string& mode : options.modes) {
        for (const std::size_t bytes : options.sizes) {
            run_size(side, mode, bytes, options.seconds_a_size);
        }
    }
}

} // namespace

int main(int argc, char** argv)
{
    const Options options = parse(argc, argv);
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        stop(std::string("no shared memory: ") + std::strerror(errno));
    }
    // The pages come zeroed, which is two empty rings.
    auto& shared = *new (memory) Shared;

    const pid_t child = fork();
    if (child < 0) {
        stop(std::string("no second process: ") + std::strerror(errno));
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_side(shared, 1, options);
        return 0;
    }
    run_side(shared, 0, options);
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
}
