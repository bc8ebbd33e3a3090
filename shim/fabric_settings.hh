// SPDX-License-Identifier: MIT
// What backends over fabrics are told of the settings: by a rank, and by storm-info.
#pragma once

#include "base/backend.hh"
#include "settings.hh"

namespace storm {

inline void for_fabrics(const Settings& settings, BackendSettings& wanted)
{
    wanted.ordering = settings.ordering;
    wanted.verify = settings.verify;
    wanted.batch = static_cast<unsigned>(settings.batch);
    wanted.progress_thread = settings.progress == "thread";
    wanted.flush_us = static_cast<unsigned>(settings.flush_us);
    wanted.ofi_provider = settings.ofi_provider;
}

} // namespace storm
