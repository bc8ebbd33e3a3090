// SPDX-License-Identifier: MIT
// Rings over messages of the real MPI.
#include "messages.hh"

#include "../wire/wire.hh"

namespace storm::mpi {
namespace {

Backend* open(const BackendSettings& settings, std::string& why)
{
    auto transport = open_messages(settings, why);
    return transport != nullptr ? wire::make("mpi_p2p", std::move(transport), settings, why).release() : nullptr;
}

} // namespace
} // namespace storm::mpi

extern "C" {
[[gnu::visibility("default")]] extern const storm::BackendPlugin storm_backend;
const storm::BackendPlugin storm_backend = {storm::kBackendAbi, "mpi_p2p", storm::mpi::open};
}
