// SPDX-License-Identifier: MIT
// The loop backend: several ranks of one process, joined by a fabric in memory that
// delays. It is not direct, as a network is not: a sender writes a mirror of its ring,
// and what it publishes is moved into the receiver's ring by later calls of progress().
// The unit tests run the shim over it; its Fabric also watches that the callers keep
// the Backend contract (base/backend.hh) and says in words where they do not.
//
// How it moves, all from one seed:
//   a published range  whole, or a cache line after the other, its first commit word last;
//                      it is read from the mirror when it moves, not when it is published
//   a head             as the receiver's progress() finds it, back to the sender
//   a claim            seen by accept() some calls of the sender's progress() later; or,
//                      with `words`, asked for and granted by words, growth too
//   held back          with `holds`, a range waits for flush() or the next progress()
//   a failure          at the n-th event: writes of one rank to another, or of both, are
//                      lost from then on, a range in the middle of its way stays torn;
//                      one side or both are told later. Stranded memory is overwritten.
// The eight bytes behind a range are cleared in the receiver's ring with it: they are
// the commit word of a record that does not exist yet, and last lap's bytes stand there.
#pragma once

#include "base/backend.hh"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace storm::loop {

struct Options {
    std::uint64_t seed = 1;
    unsigned delay_max = 6;                          // calls of progress() before something moves
    bool pieces = true;                              // half of the ranges move in cache lines
    std::uint64_t memory_max = std::uint64_t{64} << 20; // of one rank's inbound rings
    bool words = false;
    bool holds = false;
};

enum class Fails : std::uint8_t { data, heads, both }; // of the lane that the event belongs to
enum class Told : std::uint8_t { sender, receiver, both };

class Wire;

class Fabric {
public:
    explicit Fabric(const Options& options);
    ~Fabric();
    Fabric(const Fabric&) = delete;

    // The backend of one rank; it must not outlive the fabric.
    std::unique_ptr<Backend> attach(int rank);

    // The n-th claim (growth) from now on, of any rank, is refused with these words.
    void refuse_claim(unsigned n, std::string why);
    void refuse_growth(unsigned n, std::string why);

    // The fabric of a pair fails with its n-th event from now on, of any pair: a range
    // published, a head on its way, a word. `events` counts them.
    void fail_at(std::uint64_t n, Fails what, Told told);
    std::uint64_t events() const;

    // Something has been published, consumed or claimed and is not yet seen on the other side.
    bool busy() const;
    // Where a caller broke the contract; empty when nobody did.
    const std::vector<std::string>& broken() const;

private:
    std::unique_ptr<Wire> wire_;
};

} // namespace storm::loop
