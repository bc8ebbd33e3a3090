// SPDX-License-Identifier: MIT
// Rings over windows of the real MPI.
#include "windows.hh"

#include "../wire/wire.hh"

namespace storm::mpi {
namespace {

Backend* open(const BackendSettings& settings, std::string& why)
{
    auto transport = open_windows(settings, why);
    return transport != nullptr ? wire::make("mpi_rma", std::move(transport), settings, why).release() : nullptr;
}

} // namespace
} // namespace storm::mpi

extern "C" {
[[gnu::visibility("default")]] extern const storm::BackendPlugin storm_backend;
const storm::BackendPlugin storm_backend = {storm::kBackendAbi, "mpi_rma", storm::mpi::open};
}
