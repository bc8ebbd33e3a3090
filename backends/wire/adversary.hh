// SPDX-License-Identifier: MIT
// A fabric in memory that breaks all that it has not promised: writes pass each other, their
// bytes are placed in pieces of any size and order, completions come early, sources are read
// late, signals run ahead. Ranks of one process are joined by it; one seed repeats all.
// No plugin: tests and the check of storm-ordercheck compile it in.
#pragma once

#include "transport.hh"

#include <memory>
#include <string>
#include <vector>

namespace storm::wire {

struct AdversaryOptions {
    std::uint64_t seed = 1;
    Promises declared{}; // what it says
    Promises kept{};     // what it does
    unsigned delay_max = 6;          // looks before a piece is placed
    std::uint64_t inline_max = 64;
    std::uint64_t write_max = 1 << 20;
    std::uint64_t memory_max = UINT64_MAX; // of one rank
    unsigned room = 48;              // writes under way of one rank
};

class Adversary {
public:
    explicit Adversary(const AdversaryOptions& options);
    ~Adversary();
    Adversary(const Adversary&) = delete;

    // The end of one rank; it must not outlive the fabric.
    std::unique_ptr<Transport> attach(int rank);
    // From now on nothing of `from` reaches `to`, and `from` is told so or not.
    void cut(int from, int to, bool told);
    // Where a caller broke the contract.
    const std::vector<std::string>& broken() const;
    bool busy() const;

private:
    friend class AdversaryEnd;
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace storm::wire
