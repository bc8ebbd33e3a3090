// SPDX-License-Identifier: MIT
// A set of small numbers (cpus, NUMA nodes), as text in the kernel's manner: 0-3,8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

namespace storm::topology {

class IndexSet {
public:
    static constexpr int kMost = 1 << 16; // larger numbers are no index of anything

    void add(int index)
    {
        if (index < 0 || index >= kMost)
            return;
        if (static_cast<std::size_t>(index) >= has_.size())
            has_.resize(static_cast<std::size_t>(index) + 1);
        has_[static_cast<std::size_t>(index)] = true;
    }
    void add(const IndexSet& other)
    {
        for (int i = 0; i < other.end(); ++i)
            if (other.has(i))
                add(i);
    }
    bool has(int index) const
    {
        return index >= 0 && index < end() && has_[static_cast<std::size_t>(index)];
    }
    bool meets(const IndexSet& other) const
    {
        for (int i = 0; i < end(); ++i)
            if (has(i) && other.has(i))
                return true;
        return false;
    }
    int count() const
    {
        int n = 0;
        for (const bool b : has_)
            n += b ? 1 : 0;
        return n;
    }
    bool empty() const { return count() == 0; }
    int end() const { return static_cast<int>(has_.size()); } // above the largest
    bool operator==(const IndexSet& other) const
    {
        for (int i = 0; i < std::max(end(), other.end()); ++i)
            if (has(i) != other.has(i))
                return false;
        return true;
    }

    std::string text() const
    {
        std::string out;
        for (int i = 0; i < end(); ++i) {
            if (!has(i))
                continue;
            int last = i;
            while (has(last + 1))
                ++last;
            out += (out.empty() ? "" : ",") + std::to_string(i);
            if (last > i)
                out += "-" + std::to_string(last);
            i = last;
        }
        return out;
    }

    // False when the text is no such list.
    bool parse(const std::string& list)
    {
        has_.clear();
        const char* at = list.c_str();
        while (*at != '\0') {
            char* end = nullptr;
            const long first = std::strtol(at, &end, 10);
            if (end == at || first < 0 || first >= kMost)
                return false;
            long last = first;
            if (*end == '-') {
                at = end + 1;
                last = std::strtol(at, &end, 10);
                if (end == at || last < first || last >= kMost)
                    return false;
            }
            for (long i = first; i <= last; ++i)
                add(static_cast<int>(i));
            at = end;
            if (*at == ',')
                ++at;
            else if (*at != '\0')
                return false;
        }
        return true;
    }

private:
    std::vector<bool> has_;
};

} // namespace storm::topology
