// SPDX-License-Identifier: MIT
// CRC-32C (Castagnoli), by the processor's instruction where it has one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace storm::wire {

// Continues `crc`, which is 0 at the beginning.
std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t bytes);
// The same by a table: what every machine can.
std::uint32_t crc32c_by_table(std::uint32_t crc, const void* data, std::size_t bytes);

// Three CRC-32C of the thirds of `data`, mixed into one word: as good against tearing, and
// not bound by the latency of one instruction after the other.
std::uint32_t checksum(std::uint32_t seed, const std::byte* data, std::size_t bytes);

} // namespace storm::wire
