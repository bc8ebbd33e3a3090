#include "report.hh"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace storm {
namespace {

double percent(std::uint64_t part, std::uint64_t whole)
{
    return whole == 0 ? 100.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

} // namespace

std::string summary(const JobReport& report)
{
    std::string text;
    char line[400];
    const auto add = [&](const char* key, const std::string& value) {
        std::snprintf(line, sizeof line, "storm: %s %s\n", key, value.c_str());
        text += line;
    };
    const auto add_percent = [&](const char* key, double value) {
        std::snprintf(line, sizeof line, "storm: %s %.2f\n", key, value);
        text += line;
    };
    add("version", STORM_VERSION);
    add("ranks", std::to_string(report.ranks));
    add("backend", report.backend);
    if (!report.nic.empty())
        add("nic", report.nic);
#define STORM_COUNTER(field, name, help) add(name, std::to_string(report.sum.field));
#include "counters.def"
#undef STORM_COUNTER
    const Counters& c = report.sum;
    add_percent("in_rings_percent", percent(c.ring_messages, c.ring_messages + c.native_messages));
    add_percent("eligible_in_ring_percent", percent(c.eligible_in_ring, c.eligible));
    add("ring_high_water_bytes", std::to_string(report.ring_high_water));
    if (report.ranks_with_reasons == 0)
        add("fallbacks", "none");
    else
        add("fallbacks", "on " + std::to_string(report.ranks_with_reasons) +
                             " ranks, the first: " + report.first_reason);
    return text;
}

bool write_report(const std::string& setting, const std::string& text)
{
    int fd = STDERR_FILENO;
    const std::size_t colon = setting.find(':');
    const bool file = colon != std::string::npos;
    if (file)
        fd = ::open(setting.c_str() + colon + 1, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    std::size_t at = 0;
    while (at < text.size()) {
        const auto n = ::write(fd, text.data() + at, text.size() - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += static_cast<std::size_t>(n);
    }
    const int saved = errno;
    const bool closed = !file || ::close(fd) == 0;
    errno = at < text.size() ? saved : errno;
    return at == text.size() && closed;
}

} // namespace storm
