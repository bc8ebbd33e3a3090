// SPDX-License-Identifier: MIT
// Results of fallible calls below interpose/. Again is not an error: the caller
// retries after progress. A refusal carries its reason in words, because the first
// function that knows a cause is the one that can name it.
#pragma once

#include <cstdint>

namespace storm {

enum class Status : std::uint8_t {
    ok,
    again,   // no room or nothing there now; try again after progress
    refused, // cannot be had in this job; the reason says why
};

constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

} // namespace storm
