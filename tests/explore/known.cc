// SPDX-License-Identifier: MIT
// The explorer's own tests: small programs whose outcomes under C++'s rules are known. All
// of them must be seen, and no other.
#include "programs.hh"

#include <algorithm>
#include <memory>
#include <set>

namespace storm::explore {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

struct State {
    alignas(8) std::atomic<std::uint64_t> x{0};
    alignas(8) std::atomic<std::uint64_t> y{0};
    std::uint64_t plain = 0;
    std::array<std::uint64_t, 4> seen{};
    std::set<std::array<std::uint64_t, 4>> outcomes;
};
using Body = void (*)(State&);
using Outcomes = std::set<std::array<std::uint64_t, 4>>;

std::uint64_t get(const std::atomic<std::uint64_t>& word, std::memory_order order)
{
    return Checked::load(word, order, Site::peek);
}
void set(std::atomic<std::uint64_t>& word, std::uint64_t value, std::memory_order order)
{
    Checked::store(word, value, order, Site::commit);
}
std::uint64_t add(std::atomic<std::uint64_t>& word, std::uint64_t by, std::memory_order order)
{
    return Checked::add(word, by, order, Site::slot);
}
void write(std::uint64_t& at, std::uint64_t value)
{
    Checked::write(reinterpret_cast<std::byte*>(&at), &value, sizeof value, Site::payload);
}
std::uint64_t read(const std::uint64_t& at)
{
    std::uint64_t value = 0;
    Checked::read(&value, reinterpret_cast<const std::byte*>(&at), sizeof value, Site::copy);
    return value;
}

Named known(const std::string& name, const std::vector<Body>& bodies, const Outcomes& expected,
            const std::vector<Weakening>& finds = {})
{
    const auto state = std::make_shared<State>();
    Named made{name,
               {[state] { state->seen = {}; }, {}, [state] { state->outcomes.insert(state->seen); }},
               finds,
               [state, expected] {
                   std::string wrong;
                   const auto tell = [&](const char* what, const Outcomes& of, const Outcomes& among) {
                       for (const auto& one : of)
                           if (!among.contains(one))
                               wrong += std::string(what) + std::to_string(one[0]) + " " + std::to_string(one[1]) +
                                        " " + std::to_string(one[2]) + " " + std::to_string(one[3]);
                   };
                   tell(" forbidden but seen: ", state->outcomes, expected);
                   tell(" allowed but not seen: ", expected, state->outcomes);
                   return wrong;
               }};
    for (const Body body : bodies)
        made.program.threads.emplace_back([state, body] { body(*state); });
    return made;
}

Outcomes all_of_two(std::uint64_t most)
{
    Outcomes all;
    for (std::uint64_t a = 0; a <= most; ++a)
        for (std::uint64_t b = 0; b <= most; ++b)
            all.insert({a, b, 0, 0});
    return all;
}

} // namespace

std::vector<Named> known_programs()
{
    const Body store_both = [](State& s) {
        set(s.x, 1, kRelaxed);
        set(s.y, 1, kRelease);
    };
    const Body store_both_relaxed = [](State& s) {
        set(s.x, 1, kRelaxed);
        set(s.y, 1, kRelaxed);
    };
    const Body load_both = [](State& s) {
        s.seen[0] = get(s.y, kAcquire);
        s.seen[1] = get(s.x, kRelaxed);
    };
    Outcomes all = all_of_two(1), passed = all;
    passed.erase({1, 0, 0, 0});
    Outcomes coherent = all_of_two(2);
    for (const auto& back : {std::array<std::uint64_t, 4>{1, 0}, {2, 0}, {2, 1}})
        coherent.erase(back);
    // the two readers may disagree about the order of two writers
    Outcomes all_of_four;
    for (unsigned i = 0; i < 16; ++i)
        all_of_four.insert({i & 1, i >> 1 & 1, i >> 2 & 1, i >> 3 & 1});
    return {
        known("a message is passed by release and acquire", {store_both, load_both}, passed),
        known("relaxed stores are seen in any order", {store_both_relaxed, load_both}, all),
        known("two stores before two loads are both missed",
              {[](State& s) {
                   set(s.x, 1, kRelease);
                   s.seen[0] = get(s.y, kAcquire);
               },
               [](State& s) {
                   set(s.y, 1, kRelease);
                   s.seen[1] = get(s.x, kAcquire);
               }},
              all),
        known("one word never goes back",
              {[](State& s) {
                   set(s.x, 1, kRelaxed);
                   set(s.x, 2, kRelaxed);
               },
               [](State& s) {
                   s.seen[0] = get(s.x, kRelaxed);
                   s.seen[1] = get(s.x, kRelaxed);
               }},
              coherent),
        known("an update carries the view of what it updates",
              {store_both,
               [](State& s) {
                   Explorer::await([&] { return get(s.y, kRelaxed) != 0; });
                   add(s.y, 1, kRelaxed);
               },
               [](State& s) {
                   s.seen[0] = get(s.y, kAcquire);
                   s.seen[1] = s.seen[0] == 2 ? get(s.x, kRelaxed) : 1;
               }},
              {{0, 1}, {1, 1}, {2, 1}}),
        known("two writers are seen in different orders",
              {[](State& s) { set(s.x, 1, kRelease); }, [](State& s) { set(s.y, 1, kRelease); },
               [](State& s) {
                   s.seen[0] = get(s.x, kAcquire);
                   s.seen[1] = get(s.y, kAcquire);
               },
               [](State& s) {
                   s.seen[2] = get(s.y, kAcquire);
                   s.seen[3] = get(s.x, kAcquire);
               }},
              all_of_four),
        known("updates lose nothing",
              {[](State& s) { s.seen[0] = add(s.x, 1, kRelaxed); },
               [](State& s) { s.seen[1] = add(s.x, 1, kRelaxed); }},
              {{0, 1}, {1, 0}}),
        known("plain bytes behind a publication do not race",
              {[](State& s) {
                   write(s.plain, 7);
                   set(s.x, 1, kRelease);
               },
               [](State& s) {
                   Explorer::await([&] { return get(s.x, kAcquire) != 0; });
                   s.seen[0] = read(s.plain);
               }},
              {{7}}, {{Site::commit, How::relaxed}, {Site::peek, How::relaxed}, {Site::payload, How::late},
                      {Site::commit, How::absent}}),
    };
}

} // namespace storm::explore
