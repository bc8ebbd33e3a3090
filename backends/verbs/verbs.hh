// SPDX-License-Identifier: MIT
// One-sided writes by InfiniBand verbs: a reliable connected queue pair for each peer that
// is written to, made on first use. The target's CPU has no part in a write.
#pragma once

#include "../wire/transport.hh"

#include <memory>
#include <string>

namespace storm::verbs {

// Null with the reason when this machine has no device that can be used.
std::unique_ptr<wire::Transport> open_transport(const BackendSettings& settings, std::string& why);

} // namespace storm::verbs
