// SPDX-License-Identifier: MIT
// One rank's part of a report as bytes, for its way to rank 0 of the same job.
#pragma once

#include "counters.hh"

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace storm {

// Bytes of integers and of strings with their length before them.
class Packer {
public:
    void put(std::uint64_t value)
    {
        char bytes[sizeof value];
        std::memcpy(bytes, &value, sizeof value);
        text.append(bytes, sizeof bytes);
    }
    void put(const std::string& value)
    {
        put(value.size());
        text += value;
    }
    void put(const Counters& counters)
    {
#define STORM_COUNTER(field, name, help) put(counters.field);
#include "counters.def"
#undef STORM_COUNTER
    }

    std::string text;
};

class Unpacker {
public:
    explicit Unpacker(std::string_view bytes) : left_(bytes) {}

    std::uint64_t number()
    {
        std::uint64_t value = 0;
        if (left_.size() < sizeof value) {
            good_ = false;
            return 0;
        }
        std::memcpy(&value, left_.data(), sizeof value);
        left_.remove_prefix(sizeof value);
        return value;
    }
    std::string string()
    {
        const std::uint64_t size = number();
        if (size > left_.size()) {
            good_ = false;
            return "";
        }
        std::string value(left_.substr(0, size));
        left_.remove_prefix(size);
        return value;
    }
    void counters(Counters& counters)
    {
#define STORM_COUNTER(field, name, help) counters.field = number();
#include "counters.def"
#undef STORM_COUNTER
    }
    // How many elements follow; each takes at least eight bytes.
    std::uint64_t count()
    {
        const std::uint64_t n = number();
        good_ = good_ && n <= left_.size() / sizeof n;
        return good_ ? n : 0;
    }
    bool ended_well() const { return good_ && left_.empty(); }

private:
    std::string_view left_;
    bool good_ = true;
};

} // namespace storm
