// SPDX-License-Identifier: MIT
// What a program does with MPI, counted while everything goes by the real MPI: the
// table of one rank, the table of a job, and what can be read from that. interpose/
// counts at the entry points; nothing here calls MPI.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace storm {

constexpr int kSizeBins = 34; // 0 bytes, 1, 2-3, 4-7, ... 4 GiB and more

int size_bin(std::uint64_t bytes);
std::uint64_t bin_begin(int bin); // least size of a bin

// One exchange: a communicator, a tag and a datatype. Receives and probes of any tag
// stand under the tag -1, probes under no datatype.
struct ProfileKey {
    std::string comm, type;
    int tag = 0;
    auto operator<=>(const ProfileKey&) const = default;
};

struct ProfileRow {
    std::uint64_t sent = 0, sent_bytes = 0, sent_largest = 0, synchronous = 0;
    std::array<std::uint64_t, kSizeBins> sizes{};
    std::uint64_t receives = 0, posted_bytes = 0, any_source = 0, any_tag = 0;
    std::uint64_t tests = 0, empty_tests = 0, probes = 0, empty_probes = 0;
    std::uint64_t partners = 0;      // pairs of sender and receiver
    std::uint64_t partners_most = 0; // of one rank
    std::uint64_t ranks = 0;         // that have to do with it

    std::unordered_set<int> to;      // of one rank: whom it sends to
};

// Calls of one kind.
struct ProfileCalls {
    std::uint64_t calls = 0, empty = 0;
    std::uint64_t timed = 0; // of the empty ones, or of all where none can be empty
    std::uint64_t ns = 0;    // that these took
    std::uint64_t empty_ns() const { return timed == 0 ? 0 : ns / timed * empty; }
};
enum class ProfileKind { test, testany, probe, wait, send, receive, collective, count };
constexpr const char* kProfileKinds[] = {"MPI_Test", "MPI_Testany, Testall, Testsome", "MPI_Iprobe, Improbe",
                                         "MPI_Wait and its family", "blocking sends", "blocking receives and probes",
                                         "collective calls"};
constexpr int kKinds = static_cast<int>(ProfileKind::count);

struct RankProfile {
    std::map<ProfileKey, ProfileRow> rows;
    std::array<ProfileCalls, kKinds> calls{};
    std::uint64_t null_tests = 0; // tests of a request that has ended
    std::uint64_t elapsed_us = 0;
};

std::string packed(const RankProfile& rank);
[[nodiscard]] bool unpack(std::string_view bytes, RankProfile& rank);

struct JobProfile {
    int ranks = 0;
    std::string command;  // of rank 0
    std::string measured; // costs per call, of stormrun --advise; see advice()
    RankProfile sum;      // elapsed_us: of the longest
};
void merge(JobProfile& job, const RankProfile& rank);

// An exchange over all datatypes, and what it looks like.
struct Judgement {
    std::string comm;
    int tag = 0;
    bool particles = false;
    std::string why;
    ProfileRow row;
};
std::vector<Judgement> judged(const JobProfile& job);

// The settings for this program, as STORM_X=Y words; "" when there is nothing to route.
std::string settings_for(const JobProfile& job, const std::vector<Judgement>& judgements);

// Costs in ns, native and under the shim: test=N:S,probe=N:S,BYTES=N:S,...
struct MeasuredCosts {
    struct Cost {
        double native = 0, shim = 0;
        double gain() const { return native - shim; }
    };
    Cost test, probe;
    std::map<std::uint64_t, Cost> half_round_trip; // by bytes

    [[nodiscard]] bool parse(const std::string& text);
    double message_gain(std::uint64_t bytes) const; // between the measured sizes: linear
};
struct Advice {
    double polls_s = 0, messages_s = 0, total_s = 0; // gained, of all ranks; their time in all
};
Advice advice(const JobProfile& job, const std::vector<Judgement>& judgements, const MeasuredCosts& costs);

std::string profile_text(const JobProfile& job);
std::string profile_json(const JobProfile& job);

} // namespace storm
