// SPDX-License-Identifier: MIT
// The ofi backend: rings of wire/ over libfabric.
#include "ofi.hh"

#include "../wire/wire.hh"

namespace storm::ofi {
namespace {

Backend* open_ofi(const BackendSettings& settings, std::string& why)
{
    auto transport = open_transport(settings, why);
    return transport == nullptr ? nullptr : wire::make("ofi", std::move(transport), settings, why).release();
}

} // namespace
} // namespace storm::ofi

extern "C" {
[[gnu::visibility("default")]] extern const storm::BackendPlugin storm_backend;
const storm::BackendPlugin storm_backend = {storm::kBackendAbi, "ofi", storm::ofi::open_ofi};
}
