// SPDX-License-Identifier: MIT
// A small explorer of what C++ allows two to four threads to see of each other. It runs
// shipped templates over `Checked` accesses, and tries every order in which their atomic
// accesses may happen and every message that each load may take.
//
// The model: each location keeps all that was ever stored there, in its modification
// order; each thread has a view, the oldest message that it may still read of each. A
// load takes any message not older than its view; acquire joins the view that a release
// put into the message; read-modify-writes take the last message and carry its view on
// (a release sequence). Payloads and other plain bytes must not race: two accesses, one of
// them a write and one of them plain, of which neither happens before the other, are a
// failure. What is left out of C++: loads that take values from a later store of a thread
// that has not done it yet (forbidden in every order used here but relaxed), fences, and
// seq_cst, none of which the checked code has; a store that is not behind all earlier ones
// of its location (said, not ignored, when it happens); a compare-exchange that fails takes
// the last message, no earlier one.
//
// The search is a depth-first one with sleep sets, repeated from the start for each
// execution. Threads are contexts of their own on this thread.
#pragma once

#include "base/access.hh"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <ucontext.h>
#include <unordered_map>
#include <vector>

namespace storm::explore {

constexpr int kThreads = 4;
constexpr int kLocations = 512;

// What is weakened in a run: one site, in one way.
enum class How : std::uint8_t {
    none,
    relaxed, // its order is relaxed
    late,    // it is done after the thread's next publication (commit, skip, claim) instead
    absent,  // it is not done
    split,   // a read-modify-write is a load and a store
};
struct Weakening {
    Site site = Site::last_site;
    How how = How::none;
};

struct Clock {
    std::array<std::uint32_t, kThreads> of{};
    void join(const Clock& other);
    bool covers(int thread, std::uint32_t time) const { return of[static_cast<std::size_t>(thread)] >= time; }
};
struct View {
    Clock clock;
    std::array<std::uint16_t, kLocations> oldest{}; // index into the location's messages
    void join(const View& other, int locations);
};

class Explorer {
public:
    struct Limits {
        std::uint64_t executions_max = 3000000;
        std::uint64_t accesses_max = 5000; // of one execution: more is a loop without end
    };
    struct Result {
        std::uint64_t executions = 0; // complete ones
        std::uint64_t pruned = 0;     // redundant ones, given up
        bool exhaustive = false;
        std::string failure; // the first one, with the accesses that led to it
        bool failed() const { return !failure.empty(); }
    };
    // What is run. `begin` makes the state anew and may use Checked accesses itself: all
    // of it happens before the threads. `end` runs after them and sees all they did.
    struct Program {
        std::function<void()> begin;
        std::vector<std::function<void()>> threads;
        std::function<void()> end;
    };

    static Result run(const Program& program, Weakening weakening, const Limits& limits);

    // ---- for programs, while they run
    static void fail(const std::string& why);
    static void expect(bool kept, const char* what)
    {
        if (!kept)
            fail(what);
    }
    // Looks until one is true. Between looks that find nothing the thread waits until a
    // word that it loaded in the last one has another value.
    template <class Look>
    static void await(Look look)
    {
        for (begin_look(); !look(); begin_look())
            wait_for_news();
    }
    // True when this run weakens the site in this way: for orders that a program itself has.
    static bool weakened(Site site, How how);

    // ---- for Checked
    static std::uint64_t load(const void* at, std::size_t bytes, std::memory_order order, Site site);
    static void store(void* at, std::size_t bytes, std::uint64_t value, std::memory_order order, Site site);
    // `to` gives no value: the word stays, and the access was a load.
    using Update = std::function<std::optional<std::uint64_t>(std::uint64_t)>;
    static std::uint64_t update(void* at, std::size_t bytes, const Update& to, std::memory_order order, Site site);
    static void write(std::byte* to, const void* from, std::size_t bytes, Site site);
    static void read(void* to, const std::byte* from, std::size_t bytes, Site site);

private:
    static void begin_look();
    static void wait_for_news();

    struct Message {
        std::uint64_t value = 0;
        bool carries = false; // a view: a release stored it, or an update behind one
        int view = -1;        // index into views_
    };
    struct Location {
        const void* at = nullptr;
        std::uint64_t generation = 0;
        std::vector<Message> messages;
        // time of each thread's last access of each kind, for races
        Clock plain_reads, plain_writes, atomic_reads, atomic_writes;
    };
    struct Op { // what a thread is about to do
        enum class What : std::uint8_t { load, store, news, begin } what = What::begin;
        int location = -1;
    };
    struct Deferred {
        bool set = false;
        bool atomic = false;
        std::byte* at = nullptr;
        std::array<std::byte, 256> bytes{};
        std::size_t count = 0;
        std::memory_order order = std::memory_order_relaxed;
        Site site = Site::last_site;
    };
    struct Thread {
        ucontext_t context{};
        std::unique_ptr<std::byte[]> stack;
        Op next;
        bool finished = false;
        View view;
        std::vector<std::pair<int, std::uint16_t>> looked; // locations and messages of this look
        Deferred deferred;
    };
    struct Choice {
        bool of_thread = false;
        std::uint32_t taken = 0, options = 0;             // of a message
        std::uint32_t available = 0, tried = 0, sleep = 0; // of a thread: sets
    };
    struct Event {
        int thread;
        const char* what;
        Site site;
        int location;
        std::uint64_t value;
        std::memory_order order;
    };
    enum class Ended : std::uint8_t { no, complete, pruned, failed };

    Explorer(const Program& program, Weakening weakening, const Limits& limits);
    Result search();
    void one_execution();
    bool next_execution();
    static void enter();
    void schedule();
    void switch_to(int thread);
    void leave(Ended how);
    bool enabled(const Thread& thread) const;
    bool dependent(const Op& a, const Op& b, const Thread& waiting_a, const Thread& waiting_b) const;
    void announce(Op::What what, int location);
    Location& location_of(const void* at, std::size_t bytes, int& index);
    void check_race(Location& location, bool write, bool atomic, Site site);
    Message& append(int index, std::uint64_t value);
    std::uint64_t load_now(int index, std::memory_order order, Site site);
    void store_now(int index, std::uint64_t value, std::memory_order order, Site site);
    void plain(std::byte* at, std::byte* bytes, std::size_t count, bool write, Site site);
    void do_deferred(Site after);
    int keep_view(const View& view);
    std::memory_order order_of(Site site, std::memory_order order) const;
    Thread& me() { return threads_[static_cast<std::size_t>(current_)]; }
    std::string trace() const;

    const Program& program_;
    const Weakening weakening_;
    const Limits limits_;
    std::vector<Thread> threads_;
    std::vector<Choice> choices_;
    std::size_t depth_ = 0;
    std::uint32_t sleep_ = 0;
    int current_ = 0;
    bool alone_ = true; // before the threads and after them
    ucontext_t main_{};
    std::unordered_map<const void*, int> indices_;
    std::vector<Location> locations_;
    std::vector<View> views_;
    std::size_t views_used_ = 0;
    std::uint64_t generation_ = 0;
    std::vector<Event> events_;
    Ended ended_ = Ended::no;
    std::string why_;
};

// The access that goes through the explorer.
struct Checked {
    template <class Word>
    static Word load(const std::atomic<Word>& word, std::memory_order order, Site site)
    {
        return static_cast<Word>(Explorer::load(&word, sizeof(Word), order, site));
    }
    template <class Word>
    static Word load(const Word& word, std::memory_order order, Site site)
    {
        return static_cast<Word>(Explorer::load(&word, sizeof(Word), order, site));
    }
    template <class Word>
    static void store(std::atomic<Word>& word, std::type_identity_t<Word> value, std::memory_order order, Site site)
    {
        Explorer::store(&word, sizeof(Word), static_cast<std::uint64_t>(value), order, site);
    }
    template <class Word>
    static void store(Word& word, std::type_identity_t<Word> value, std::memory_order order, Site site)
    {
        Explorer::store(&word, sizeof(Word), static_cast<std::uint64_t>(value), order, site);
    }
    template <class Word>
    static Word add(std::atomic<Word>& word, std::type_identity_t<Word> by, std::memory_order order, Site site)
    {
        return static_cast<Word>(Explorer::update(
            &word, sizeof(Word), [by](std::uint64_t old) { return static_cast<Word>(static_cast<Word>(old) + by); },
            order, site));
    }
    template <class Word>
    static Word keep_bits(Word& word, std::type_identity_t<Word> bits, std::memory_order order, Site site)
    {
        return static_cast<Word>(
            Explorer::update(&word, sizeof(Word), [bits](std::uint64_t old) { return old & bits; }, order, site));
    }
    template <class Word>
    static Word exchange(Word& word, std::type_identity_t<Word> value, std::memory_order order, Site site)
    {
        const auto to = static_cast<std::uint64_t>(value);
        return static_cast<Word>(
            Explorer::update(&word, sizeof(Word), [to](std::uint64_t) { return to; }, order, site));
    }
    template <class Word>
    static Word exchange_if(Word& word, std::type_identity_t<Word> expected, std::type_identity_t<Word> value,
                            std::memory_order order, Site site)
    {
        const auto from = static_cast<std::uint64_t>(expected), to = static_cast<std::uint64_t>(value);
        return static_cast<Word>(Explorer::update(
            &word, sizeof(Word),
            [from, to](std::uint64_t old) { return old == from ? std::optional(to) : std::nullopt; }, order, site));
    }
    static void write(std::byte* to, const void* from, std::size_t bytes, Site site)
    {
        Explorer::write(to, from, bytes, site);
    }
    static void read(void* to, const std::byte* from, std::size_t bytes, Site site)
    {
        Explorer::read(to, from, bytes, site);
    }
};

const char* name_of(Site site);
const char* name_of(How how);

} // namespace storm::explore
