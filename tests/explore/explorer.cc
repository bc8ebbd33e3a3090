// SPDX-License-Identifier: MIT
// The search and the model that explorer.hh describes.
#include "explorer.hh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace storm::explore {
namespace {

constexpr std::size_t kStack = 256 * 1024;
Explorer* running = nullptr;

struct Failed {}; // thrown where no thread runs

constexpr std::uint32_t bit(int thread)
{
    return 1u << thread;
}

bool is_release(std::memory_order order)
{
    return order == std::memory_order_release || order == std::memory_order_acq_rel;
}
bool is_acquire(std::memory_order order)
{
    return order == std::memory_order_acquire || order == std::memory_order_acq_rel;
}

std::uint64_t bytes_at(const void* at, std::size_t bytes)
{
    std::uint64_t value = 0;
    std::memcpy(&value, at, bytes);
    return value;
}

} // namespace

const char* name_of(Site site)
{
    static constexpr const char* kNames[] = {
        "clear", "header", "commit", "clear_first", "skip", "take_head", "peek", "peek_rest", "free_head",
        "budget", "range", "directory_hint", "slot", "entry", "claim", "accept", "accept_entry", "give_back",
        "awaits", "complete", "look", "abandon",
        "payload", "copy", "hint"};
    static_assert(std::size(kNames) == static_cast<std::size_t>(Site::last_site) + 1);
    return kNames[static_cast<std::size_t>(site)];
}

const char* name_of(How how)
{
    static constexpr const char* kNames[] = {"as it is", "relaxed", "late", "absent", "split"};
    return kNames[static_cast<std::size_t>(how)];
}

void Clock::join(const Clock& other)
{
    for (std::size_t i = 0; i < of.size(); ++i)
        of[i] = std::max(of[i], other.of[i]);
}

void View::join(const View& other, int locations)
{
    clock.join(other.clock);
    for (std::size_t i = 0; i < static_cast<std::size_t>(locations); ++i)
        oldest[i] = std::max(oldest[i], other.oldest[i]);
}

// ---- the search

Explorer::Result Explorer::run(const Program& program, Weakening weakening, const Limits& limits)
{
    Explorer explorer(program, weakening, limits);
    running = &explorer;
    const Result result = explorer.search();
    running = nullptr;
    return result;
}

Explorer::Explorer(const Program& program, Weakening weakening, const Limits& limits)
    : program_(program), weakening_(weakening), limits_(limits), threads_(program.threads.size())
{
    if (threads_.empty() || threads_.size() > kThreads)
        throw std::invalid_argument("a program of one to four threads");
    for (Thread& thread : threads_)
        thread.stack = std::make_unique<std::byte[]>(kStack);
    locations_.reserve(kLocations);
}

Explorer::Result Explorer::search()
{
    Result result;
    while (result.executions + result.pruned < limits_.executions_max) {
        one_execution();
        if (ended_ == Ended::failed) {
            result.failure = why_ + trace();
            return result;
        }
        ++(ended_ == Ended::complete ? result.executions : result.pruned);
        if (!next_execution()) {
            result.exhaustive = true;
            return result;
        }
    }
    return result;
}

void Explorer::one_execution()
{
    ++generation_;
    depth_ = 0;
    sleep_ = 0;
    views_used_ = 0;
    events_.clear();
    ended_ = Ended::no;
    alone_ = true;
    current_ = 0;
    for (Thread& thread : threads_) {
        thread.next = {};
        thread.finished = false;
        thread.view = {};
        thread.looked.clear();
        thread.deferred.set = false;
        ::getcontext(&thread.context);
        thread.context.uc_stack = {thread.stack.get(), 0, kStack};
        thread.context.uc_link = nullptr;
        ::makecontext(&thread.context, enter, 0);
    }
    try {
        program_.begin();
        for (Thread& thread : threads_)
            thread.view = threads_[0].view;
        alone_ = false;
        current_ = -1;
        schedule(); // returns when the execution has ended
        if (ended_ != Ended::complete)
            return;
        alone_ = true;
        current_ = 0;
        for (Thread& thread : threads_)
            me().view.join(thread.view, static_cast<int>(locations_.size()));
        program_.end();
    } catch (const Failed&) {
        ended_ = Ended::failed;
    }
}

// The last choice that has something left is taken anew; those behind it are forgotten.
bool Explorer::next_execution()
{
    choices_.resize(std::min(choices_.size(), depth_));
    while (!choices_.empty()) {
        Choice& last = choices_.back();
        if (!last.of_thread) {
            if (++last.taken < last.options)
                return true;
        } else {
            last.tried |= bit(static_cast<int>(last.taken));
            const std::uint32_t left = last.available & ~last.tried;
            if (left != 0) {
                last.taken = static_cast<std::uint32_t>(__builtin_ctz(left));
                return true;
            }
        }
        choices_.pop_back();
    }
    return false;
}

void Explorer::enter()
{
    Explorer& e = *running;
    e.program_.threads[static_cast<std::size_t>(e.current_)]();
    e.do_deferred(Site::last_site);
    e.me().finished = true;
    e.schedule();
}

void Explorer::leave(Ended how)
{
    ended_ = how;
    if (alone_)
        throw Failed{};
    ::swapcontext(&me().context, &main_); // for good
}

bool Explorer::enabled(const Thread& thread) const
{
    if (thread.finished)
        return false;
    return thread.next.what != Op::What::news ||
           std::any_of(thread.looked.begin(), thread.looked.end(), [&](const auto& look) {
               return locations_[static_cast<std::size_t>(look.first)].messages.size() > look.second + 1u;
           });
}

bool Explorer::dependent(const Op& a, const Op& b, const Thread& of_a, const Thread& of_b) const
{
    const auto waits = [](const Thread& thread, int location) {
        return std::any_of(thread.looked.begin(), thread.looked.end(),
                           [&](const auto& look) { return look.first == location; });
    };
    if (a.what == Op::What::store && b.what == Op::What::news)
        return waits(of_b, a.location);
    if (b.what == Op::What::store && a.what == Op::What::news)
        return waits(of_a, b.location);
    return a.location >= 0 && a.location == b.location &&
           (a.what == Op::What::store || b.what == Op::What::store);
}

// Chooses whose access is next, and lets it run. Called by threads before each atomic
// access, when they wait and when they end.
void Explorer::schedule()
{
    std::uint32_t can = 0, unfinished = 0;
    for (int t = 0; t < static_cast<int>(threads_.size()); ++t) {
        const Thread& thread = threads_[static_cast<std::size_t>(t)];
        can |= enabled(thread) ? bit(t) : 0;
        unfinished |= thread.finished ? 0 : bit(t);
    }
    if (can == 0) {
        if (unfinished != 0)
            fail("the threads wait for each other for ever");
        return leave(Ended::complete);
    }
    const std::uint32_t available = can & ~sleep_;
    if (available == 0)
        return leave(Ended::pruned);
    int chosen = current_ >= 0 && (available & bit(current_)) != 0 ? current_ : __builtin_ctz(available);
    std::uint32_t behind = sleep_; // explored before the chosen one, at this place
    if ((available & (available - 1)) != 0) {
        if (depth_ == choices_.size())
            choices_.push_back({true, static_cast<std::uint32_t>(chosen), 0, available, 0, sleep_});
        const Choice& choice = choices_[depth_++];
        chosen = static_cast<int>(choice.taken);
        behind |= choice.tried;
    }
    sleep_ = 0;
    const Thread& runs = threads_[static_cast<std::size_t>(chosen)];
    for (int t = 0; t < static_cast<int>(threads_.size()); ++t) {
        const Thread& sleeper = threads_[static_cast<std::size_t>(t)];
        if ((behind & bit(t)) != 0 && !dependent(sleeper.next, runs.next, sleeper, runs))
            sleep_ |= bit(t);
    }
    switch_to(chosen);
}

void Explorer::switch_to(int thread)
{
    const int before = current_;
    if (thread == before)
        return;
    current_ = thread;
    ::swapcontext(before < 0 ? &main_ : &threads_[static_cast<std::size_t>(before)].context, &me().context);
}

void Explorer::announce(Op::What what, int location)
{
    if (alone_)
        return;
    me().next = {what, location};
    schedule();
    if (events_.size() > limits_.accesses_max)
        fail("a loop that does not end");
}

// ---- for programs

void Explorer::fail(const std::string& why)
{
    running->why_ = why;
    running->leave(Ended::failed);
}

void Explorer::begin_look()
{
    running->me().looked.clear();
}

// A look that found nothing has changed nothing. Had it loaded a message that is not the
// last one, the same look before that store is another execution: this one is given up.
void Explorer::wait_for_news()
{
    Explorer& e = *running;
    if (e.alone_)
        fail("nobody else runs: what is waited for never comes");
    for (const auto& [location, message] : e.me().looked)
        if (e.locations_[static_cast<std::size_t>(location)].messages.size() > message + 1u)
            return e.leave(Ended::pruned);
    e.announce(Op::What::news, -1);
}

bool Explorer::weakened(Site site, How how)
{
    return running->weakening_.site == site && running->weakening_.how == how;
}

// ---- the model

Explorer::Location& Explorer::location_of(const void* at, std::size_t bytes, int& index)
{
    const auto [found, made] = indices_.try_emplace(at, static_cast<int>(locations_.size()));
    index = found->second;
    if (made) {
        if (index == kLocations) {
            std::fprintf(stderr, "explore: a program with more than %d locations\n", kLocations);
            std::abort();
        }
        locations_.emplace_back();
        locations_.back().at = at;
    }
    Location& location = locations_[static_cast<std::size_t>(index)];
    if (location.generation != generation_) {
        location.generation = generation_;
        location.messages.clear();
        location.messages.push_back({bytes_at(at, bytes)});
        location.plain_reads = location.plain_writes = location.atomic_reads = location.atomic_writes = {};
    }
    return location;
}

void Explorer::check_race(Location& location, bool write, bool atomic, Site site)
{
    Thread& thread = me();
    const auto self = static_cast<std::size_t>(current_);
    const std::uint32_t now = ++thread.view.clock.of[self];
    for (std::size_t t = 0; t < kThreads; ++t) {
        if (t == self)
            continue;
        std::uint32_t before = location.plain_writes.of[t];
        if (!atomic)
            before = std::max(before, location.atomic_writes.of[t]);
        if (write)
            before = std::max(before, location.plain_reads.of[t]);
        if (write && !atomic)
            before = std::max(before, location.atomic_reads.of[t]);
        if (!thread.view.clock.covers(static_cast<int>(t), before))
            fail(std::string("a data race: ") + (write ? "a write" : "a read") + " at " + name_of(site) +
                 " beside an access of thread " + std::to_string(t));
    }
    Clock& kind = atomic ? write ? location.atomic_writes : location.atomic_reads
                         : write ? location.plain_writes : location.plain_reads;
    kind.of[self] = now;
}

int Explorer::keep_view(const View& view)
{
    if (views_used_ == views_.size())
        views_.emplace_back();
    views_[views_used_] = view;
    return static_cast<int>(views_used_++);
}

std::memory_order Explorer::order_of(Site site, std::memory_order order) const
{
    return weakening_.site == site && weakening_.how == How::relaxed ? std::memory_order_relaxed : order;
}

Explorer::Message& Explorer::append(int index, std::uint64_t value)
{
    Location& location = locations_[static_cast<std::size_t>(index)];
    location.messages.push_back({value});
    me().view.oldest[static_cast<std::size_t>(index)] = static_cast<std::uint16_t>(location.messages.size() - 1);
    return location.messages.back();
}

std::uint64_t Explorer::load_now(int index, std::memory_order order, Site site)
{
    Location& location = locations_[static_cast<std::size_t>(index)];
    check_race(location, false, true, site);
    Thread& thread = me();
    const std::uint16_t oldest = thread.view.oldest[static_cast<std::size_t>(index)];
    const auto last = static_cast<std::uint16_t>(location.messages.size() - 1);
    std::uint16_t taken = last;
    if (oldest != last && !alone_) {
        if (depth_ == choices_.size())
            choices_.push_back({false, 0, static_cast<std::uint32_t>(last - oldest + 1)});
        taken = static_cast<std::uint16_t>(last - choices_[depth_++].taken); // the newest first
    }
    thread.view.oldest[static_cast<std::size_t>(index)] = taken;
    thread.looked.emplace_back(index, taken);
    const Message& message = location.messages[taken];
    if (message.carries && is_acquire(order))
        thread.view.join(views_[static_cast<std::size_t>(message.view)], static_cast<int>(locations_.size()));
    events_.push_back({current_, "loads", site, index, message.value, order});
    return message.value;
}

void Explorer::store_now(int index, std::uint64_t value, std::memory_order order, Site site)
{
    Location& location = locations_[static_cast<std::size_t>(index)];
    check_race(location, true, true, site);
    if (me().view.oldest[static_cast<std::size_t>(index)] + 1u != location.messages.size())
        fail(std::string("two threads store at ") + name_of(site) + " and neither store is behind the other");
    Message& message = append(index, value);
    if (is_release(order)) {
        message.carries = true;
        message.view = keep_view(me().view);
    }
    events_.push_back({current_, "stores", site, index, value, order});
}

std::uint64_t Explorer::load(const void* at, std::size_t bytes, std::memory_order order, Site site)
{
    Explorer& e = *running;
    int index;
    e.location_of(at, bytes, index);
    e.announce(Op::What::load, index);
    return e.load_now(index, e.order_of(site, order), site);
}

void Explorer::store(void* at, std::size_t bytes, std::uint64_t value, std::memory_order order, Site site)
{
    Explorer& e = *running;
    if (weakened(site, How::absent))
        return;
    if (weakened(site, How::late) && !e.me().deferred.set) {
        Deferred& later = e.me().deferred;
        later = {true, true, static_cast<std::byte*>(at), {}, bytes, order, site};
        std::memcpy(later.bytes.data(), &value, sizeof value);
        return;
    }
    int index;
    e.location_of(at, bytes, index);
    e.announce(Op::What::store, index);
    e.store_now(index, value, e.order_of(site, order), site);
    e.do_deferred(site);
}

std::uint64_t Explorer::update(void* at, std::size_t bytes, const Update& to, std::memory_order order, Site site)
{
    Explorer& e = *running;
    if (weakened(site, How::split)) {
        const std::uint64_t old = load(at, bytes, order, site);
        if (const auto value = to(old))
            store(at, bytes, *value, order, site);
        return old;
    }
    int index;
    e.location_of(at, bytes, index);
    e.announce(Op::What::store, index);
    order = e.order_of(site, order);
    Location& location = e.locations_[static_cast<std::size_t>(index)];
    const Message before = location.messages.back();
    const std::optional<std::uint64_t> value = weakened(site, How::absent) ? std::nullopt : to(before.value);
    e.check_race(location, value.has_value(), true, site);
    Thread& thread = e.me();
    if (before.carries && is_acquire(order))
        thread.view.join(e.views_[static_cast<std::size_t>(before.view)], static_cast<int>(e.locations_.size()));
    if (value) {
        Message& message = e.append(index, *value);
        View view = is_release(order) ? thread.view : View{};
        if (before.carries)
            view.join(e.views_[static_cast<std::size_t>(before.view)], static_cast<int>(e.locations_.size()));
        message.carries = is_release(order) || before.carries;
        message.view = message.carries ? e.keep_view(view) : -1;
    }
    const auto seen = static_cast<std::uint16_t>(location.messages.size() - 1);
    thread.view.oldest[static_cast<std::size_t>(index)] = seen;
    thread.looked.emplace_back(index, seen);
    const char* what = value ? "updates to" : "finds";
    e.events_.push_back({e.current_, what, site, index, location.messages.back().value, order});
    return before.value;
}

// The words that the bytes lie in, one by one.
void Explorer::plain(std::byte* at, std::byte* bytes, std::size_t count, bool write, Site site)
{
    constexpr std::uintptr_t kWord = 8;
    while (count != 0) {
        const auto address = reinterpret_cast<std::uintptr_t>(at);
        auto* word = reinterpret_cast<std::byte*>(address & ~(kWord - 1));
        const std::size_t from = address & (kWord - 1), now = std::min<std::size_t>(count, kWord - from);
        int index;
        location_of(word, kWord, index);
        Location& location = locations_[static_cast<std::size_t>(index)];
        check_race(location, write, false, site);
        std::uint64_t value = location.messages.back().value;
        if (write) {
            std::memcpy(reinterpret_cast<std::byte*>(&value) + from, bytes, now);
            append(index, value);
        } else {
            std::memcpy(bytes, reinterpret_cast<const std::byte*>(&value) + from, now);
            me().view.oldest[static_cast<std::size_t>(index)] =
                static_cast<std::uint16_t>(location.messages.size() - 1);
        }
        events_.push_back({current_, write ? "writes" : "reads", site, index, value, std::memory_order_relaxed});
        at += now;
        bytes += now;
        count -= now;
    }
}

void Explorer::write(std::byte* to, const void* from, std::size_t bytes, Site site)
{
    Explorer& e = *running;
    if (weakened(site, How::absent))
        return;
    Deferred& later = e.me().deferred;
    if (weakened(site, How::late) && !later.set) {
        later = {true, false, to, {}, bytes, std::memory_order_relaxed, site};
        std::memcpy(later.bytes.data(), from, std::min(bytes, later.bytes.size()));
        return;
    }
    e.plain(to, static_cast<std::byte*>(const_cast<void*>(from)), bytes, true, site);
}

void Explorer::read(void* to, const std::byte* from, std::size_t bytes, Site site)
{
    running->plain(const_cast<std::byte*>(from), static_cast<std::byte*>(to), bytes, false, site);
}

// What was put off is done once the thread has published something, or ends.
void Explorer::do_deferred(Site after)
{
    Deferred& later = me().deferred;
    const bool published = after == Site::commit || after == Site::skip || after == Site::claim;
    if (!later.set || !(published || after == Site::last_site))
        return;
    const Deferred now = later;
    if (now.atomic) {
        int index;
        location_of(now.at, now.count, index);
        announce(Op::What::store, index);
        store_now(index, bytes_at(now.bytes.data(), sizeof(std::uint64_t)), now.order, now.site);
    } else {
        plain(now.at, const_cast<std::byte*>(now.bytes.data()), now.count, true, now.site);
    }
    me().deferred.set = false;
}

// ---- what is said

std::string Explorer::trace() const
{
    constexpr std::size_t kShown = 60;
    std::string text;
    for (std::size_t i = events_.size() > kShown ? events_.size() - kShown : 0; i < events_.size(); ++i) {
        const Event& event = events_[i];
        char line[160];
        std::snprintf(line, sizeof line, "\n    thread %d %s %llx at %s, location %d%s", event.thread, event.what,
                      static_cast<unsigned long long>(event.value), name_of(event.site), event.location,
                      is_release(event.order) && is_acquire(event.order) ? " (acq_rel)"
                      : is_release(event.order)                          ? " (release)"
                      : is_acquire(event.order)                          ? " (acquire)"
                                                                         : "");
        text += line;
    }
    return text;
}

} // namespace storm::explore
