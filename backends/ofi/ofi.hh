// SPDX-License-Identifier: MIT
// The fabric of libfabric as a Transport: reliable datagram endpoints and RMA writes, over
// any provider that has them. endpoint.cc owns what is opened; ofi.cc chooses it.
#pragma once

#include "../wire/transport.hh"

#include <rdma/fabric.h>

#include <memory>
#include <string>

namespace storm::ofi {

struct FreeInfo {
    void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// Where other hosts find us, for providers over IP.
struct Device {
    std::string interface; // "" when the provider chooses
    std::string host;      // its IPv4 address, "" for none
};

// Null, with the reason in one clause.
std::unique_ptr<wire::Transport> open_endpoint(Info info, const Device& device, std::string& why);

// The endpoint that the settings and FI_PROVIDER ask for, or the best there is.
std::unique_ptr<wire::Transport> open_transport(const BackendSettings& settings, std::string& why);

} // namespace storm::ofi
