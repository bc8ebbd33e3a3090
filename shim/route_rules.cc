// SPDX-License-Identifier: MIT
#include "route_rules.hh"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace storm {
namespace {

constexpr std::uint64_t kFileBytesMax = 1 << 20;

// The words of a line; blanks within "..." belong to a word. False: a quote is open.
bool split(const std::string& line, std::vector<std::string>& words)
{
    bool quoted = false, begun = false;
    std::string word;
    for (const char c : line) {
        if (c == '"') {
            quoted = !quoted;
            begun = true;
        } else if (c == '#' && !quoted) {
            break;
        } else if ((c == ' ' || c == '\t' || c == '\r') && !quoted) {
            if (begun)
                words.push_back(word);
            word.clear();
            begun = false;
        } else {
            word += c;
            begun = true;
        }
    }
    if (begun)
        words.push_back(word);
    return !quoted;
}

// One key=value of a rule; false with `why`.
bool take(RouteRule& rule, const std::string& word, std::string& why)
{
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (equals == std::string::npos || (key != "ride" && key != "tags" && key != "eager")) {
        why = "\"" + word + "\" is not known (known: ride=yes|no, tags=LIST, eager=BYTES)";
        return false;
    }
    if (key == "ride") {
        rule.ride = value == "yes";
        if (value == "yes" || value == "no")
            return true;
        why = "ride=" + value + " is neither yes nor no";
        return false;
    }
    if (key == "tags") {
        std::string reason;
        if (rule.tags.emplace().parse(value, reason))
            return true;
        why = "tags=" + value + ": " + reason;
        return false;
    }
    std::uint64_t bytes = 0;
    if (!parse_bytes(value, bytes) || bytes > kEagerMaxLimit) {
        why = "eager=" + value + " is not a number of bytes up to 64M (K and M are allowed)";
        return false;
    }
    rule.eager_max = bytes;
    return true;
}

} // namespace

bool RouteRules::parse(const std::string& text, const std::string& name, std::string& why)
{
    rules_.clear();
    std::size_t at = 0;
    for (int number = 1; at < text.size(); ++number) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        std::vector<std::string> words;
        bool good = split(line, words);
        if (!good)
            why = "a \" has no end";
        if (good && words.empty())
            continue;
        RouteRule rule;
        if (good && (words[0] != "comm" || words.size() < 2)) {
            why = "a rule begins with: comm PATTERN";
            good = false;
        }
        for (std::size_t i = 2; good && i < words.size(); ++i)
            good = take(rule, words[i], why);
        if (!good) {
            why = name + ":" + std::to_string(number) + ": " + why;
            rules_.clear();
            return false;
        }
        rule.pattern = words[1];
        rules_.push_back(std::move(rule));
    }
    return true;
}

bool RouteRules::read(const std::string& file, std::string& why)
{
    rules_.clear();
    const auto failed = [&](const char* what) {
        why = file + ": " + what;
        return false;
    };
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return failed(std::strerror(errno));
    struct stat info {};
    std::string text;
    int error = ::fstat(fd, &info) != 0 ? errno : 0;
    if (error == 0 && !S_ISREG(info.st_mode)) {
        ::close(fd);
        return failed("it is not a file");
    }
    char part[4096];
    while (error == 0) {
        const auto n = ::read(fd, part, sizeof part);
        if (n == 0)
            break;
        if (n < 0)
            error = errno == EINTR ? 0 : errno;
        else
            text.append(part, static_cast<std::size_t>(n));
        if (text.size() > kFileBytesMax)
            error = EFBIG;
    }
    ::close(fd);
    return error != 0 ? failed(std::strerror(error)) : parse(text, file, why);
}

const RouteRule* RouteRules::find(const std::string& communicator) const
{
    for (const RouteRule& rule : rules_)
        if (name_selected(rule.pattern, communicator))
            return &rule;
    return nullptr;
}

} // namespace storm
