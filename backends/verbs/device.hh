// SPDX-License-Identifier: MIT
// The RDMA device, port and address that a rank uses, and what is known of the device.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

namespace storm::verbs {

struct Device {
    enum class Fabric : std::uint8_t { infiniband, roce, iwarp };

    ibv_context* context = nullptr; // null for iWARP: the connection manager opens the device
    std::string name;               // "mlx5_0:1"
    std::string driver;             // "mlx5_core", "rxe", "siw"; "" when it is not known
    std::string ip;                 // of the port's interface, "" where it has none
    Fabric fabric = Fabric::infiniband;
    ibv_gid gid{};
    int gid_index = 0;
    std::uint16_t lid = 0;
    std::uint8_t port = 1;
    ibv_mtu mtu = IBV_MTU_1024;
};

// Opens what `wanted` names ("mlx5_0", "mlx5_0:2", the interface "ib0", or "" for the
// first port that is up). False with one clause in `why`.
bool open_device(const std::string& wanted, Device& device, std::string& why);

} // namespace storm::verbs
