// SPDX-License-Identifier: MIT
// Rings over InfiniBand verbs.
#include "verbs.hh"

#include "../wire/wire.hh"

namespace storm::verbs {
namespace {

Backend* open(const BackendSettings& settings, std::string& why)
{
    auto transport = open_transport(settings, why);
    return transport != nullptr ? wire::make("verbs", std::move(transport), settings, why).release() : nullptr;
}

} // namespace
} // namespace storm::verbs

extern "C" {
[[gnu::visibility("default")]] extern const storm::BackendPlugin storm_backend;
const storm::BackendPlugin storm_backend = {storm::kBackendAbi, "verbs", storm::verbs::open};
}
