// SPDX-License-Identifier: MIT
// Rings of the Backend contract over the simulated fabric, published in one of the five
// modes. A range that is published goes out as writes; how its first commit word comes to
// be seen last is the mode's affair:
//
//   ordered    payload, then the commit word as a write of its own
//   fence      the same, the second one fenced
//   complete   the commit word is written when all payload before it is delivered
//   remote-cq  one write with completion data; the target makes the range visible
//   stamped    cells of 64 bytes, each with its number and a checksum; the target makes
//              visible what has come without a gap
//
// Over a fabric that is direct the sender writes into the receiver's ring itself.
#pragma once

#include "fabric.hh"

#include "base/backend.hh"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace storm::sim {

class Rings;

// What a test may make fail.
struct Faults {
    // Called at each fallible call of a backend: true when it is to fail.
    std::function<bool(const char* call)> fails;
};

// The ends of all ranks, who find each other here.
class Net {
public:
    Net(Fabric& fabric, Mode mode, std::uint64_t memory_max)
        : fabric(fabric), mode(mode), memory_max(memory_max)
    {
    }
    std::unique_ptr<Backend> attach(int rank);

    Fabric& fabric;
    const Mode mode;
    const std::uint64_t memory_max; // of one rank's inbound rings
    Faults faults;
    std::map<int, Rings*> ends;
    std::vector<std::string> broken; // the contract of Backend, where a caller broke it
};

} // namespace storm::sim
