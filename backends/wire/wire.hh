// SPDX-License-Identifier: MIT
// A Backend over any Transport: rings in the receiver's memory that the sender writes
// one-sidedly, their publication, granting, flow control, and what a failure leaves.
#pragma once

#include "transport.hh"

#include <memory>

namespace storm::wire {

// What tests may do besides.
struct Trial {
    bool trust = false; // take the mode though the fabric is too weak for it: to see it caught
};

// `name`: of the backend. Null, with the reason, when it cannot work under these settings.
std::unique_ptr<Backend> make(const char* name, std::unique_ptr<Transport> transport,
                              const BackendSettings& settings, std::string& why, const Trial& trial = {});

} // namespace storm::wire
