// SPDX-License-Identifier: MIT
// Rules of STORM_ROUTE_FILE: which messages of which communicators ride in rings. They
// are the sender's choice, as STORM_TAGS and STORM_COMMS are, and take their place for
// the communicators that a rule names.
//
//   # a comment
//   comm PATTERN [ride=yes|no] [tags=LIST] [eager=BYTES]
//
// PATTERN is a communicator's name with * and ?, in quotes if it has blanks. The first
// rule that fits a name holds; what a rule does not say is as the settings say.
#pragma once

#include "settings.hh"

#include <deque>
#include <optional>
#include <string>

namespace storm {

struct RouteRule {
    std::string pattern;
    bool ride = true;
    std::optional<TagSet> tags;
    std::optional<std::uint64_t> eager_max;
};

class RouteRules {
public:
    // Reads the file. False with `why` as "FILE:LINE: problem", or "FILE: problem"; no
    // rule holds then.
    bool read(const std::string& file, std::string& why);
    // The same from its text; `name` stands in messages.
    bool parse(const std::string& text, const std::string& name, std::string& why);

    const RouteRule* find(const std::string& communicator) const; // null: no rule
    std::size_t size() const { return rules_.size(); }

private:
    std::deque<RouteRule> rules_; // rules are pointed to
};

} // namespace storm
