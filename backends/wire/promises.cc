// SPDX-License-Identifier: MIT
#include "promises.hh"

#include <iterator>

namespace storm::wire {
namespace {

constexpr Row kMatrix[] = {
#define WIRE_FABRIC(provider, core, delivery, remote, order, fences, lines, automatic, mode, note)         \
    {provider, core, {provider, delivery, remote, order, fences, lines, automatic, Mode::mode, note}},
#include "matrix.def"
#undef WIRE_FABRIC
};

bool fits(std::string_view pattern, std::string_view name)
{
    return pattern == "*" || pattern == name;
}

} // namespace

const Row* row(unsigned n)
{
    return n < std::size(kMatrix) ? &kMatrix[n] : nullptr;
}

const Promises& promises_of(std::string_view provider, std::string_view core)
{
    const Row* row = kMatrix;
    while (!fits(row->provider, provider) || !fits(row->core, core))
        ++row; // the last one fits all
    return row->promises;
}

const char* mode_name(Mode mode)
{
    constexpr const char* kNames[kModes] = {"stamped", "complete", "remote-cq", "ordered", "fence"};
    return kNames[static_cast<unsigned>(mode)];
}

const char* needed_by(Mode mode)
{
    constexpr const char* kNeeds[kModes] = {
        "", "a delivery-complete that waits for the target's memory",
        "completion data at the target after the bytes are placed",
        "placement of writes in their order, as seen by a CPU that polls",
        "fences that order placement, as seen by a CPU that polls"};
    return kNeeds[static_cast<unsigned>(mode)];
}

bool allowed(Mode mode, const Promises& p)
{
    const bool kept[kModes] = {true, p.delivery_complete, p.remote_cq, p.placement_order, p.fenced};
    return kept[static_cast<unsigned>(mode)];
}

Status choose_mode(std::string_view ordering, const Promises& promises, Mode& mode, std::string& why)
{
    mode = allowed(promises.usual, promises) ? promises.usual : Mode::stamped;
    if (ordering == "auto")
        return Status::ok;
    for (unsigned i = 0; i < kModes; ++i) {
        if (ordering != mode_name(static_cast<Mode>(i)))
            continue;
        mode = static_cast<Mode>(i);
        if (allowed(mode, promises))
            return Status::ok;
        why = "STORM_ORDERING=" + std::string(ordering) + " is too weak for the provider " +
              promises.provider + ", which does not promise " + needed_by(mode);
        return Status::refused;
    }
    why = "STORM_ORDERING=" + std::string(ordering) + " is no publication mode";
    return Status::refused;
}

} // namespace storm::wire
