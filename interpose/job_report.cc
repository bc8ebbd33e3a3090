// SPDX-License-Identifier: MIT
#include "job_report.hh"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace storm::interpose {
namespace {

constinit std::atomic<bool> asked_by_signal{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler stores it");

// More than this in all is not gathered: the pairs are left out.
constexpr std::int64_t kGatheredMax = 1 << 30;

// relaxed: nothing else is handed over; Rank::answer looks at it in its turns
void on_signal(int)
{
    asked_by_signal.store(true, std::memory_order_relaxed);
}

int number_of(const std::string& name)
{
    static constexpr std::pair<const char*, int> kSignals[] = {
        {"HUP", SIGHUP}, {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
        {"USR2", SIGUSR2}, {"URG", SIGURG}, {"WINCH", SIGWINCH},
    };
    for (const auto& [known, number] : kSignals)
        if (name == known)
            return number;
    return 0;
}

const char* origin_of(const Settings& settings, const char* name)
{
    if (secure_getenv(name) != nullptr)
        return "environment";
    return settings.value_text(name) == Settings().value_text(name) ? "default" : "MPI_T";
}

std::vector<JobReport::Setting> list_of(const Settings& settings)
{
    std::vector<JobReport::Setting> out;
    for (const SettingInfo& info : Settings::table())
        out.push_back({info.name, settings.value_text(info.name), origin_of(settings, info.name)});
    return out;
}

// A job may have run for days: what cannot go to its file is at least told in short.
void write(const ReportTarget& target, const std::string& file, const JobReport& job)
{
    if (write_text(file, report_text(job, target.form))) {
        if (!file.empty() && !target.named)
            write_text("", "storm: the report is in " + file + "\n");
        return;
    }
    process.log.error("the report cannot be written (%s: %s): choose another file in STORM_REPORT%s",
                      file.empty() ? "standard error" : file.c_str(), std::strerror(errno),
                      file.empty() ? "" : "; in short it is");
    if (!file.empty())
        write_text("", summary(job));
}

} // namespace

void Reporter::begin(const Settings& settings, const std::string& backend, const std::string& backend_why)
{
    settings_ = &settings;
    backend_ = backend;
    backend_why_ = backend_why;
    process.real.Comm_size(process.real.comm_world, &ranks_);
    const int number = number_of(settings.report_signal);
    if (number == 0)
        return;
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    // what ends or stops a process by default, or is ignored, is nobody's yet
    if ((now.sa_flags & SA_SIGINFO) != 0 || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN)) {
        process.log.warn("no report at signal %s (the program handles it itself): choose another in "
                         "STORM_REPORT_SIGNAL", settings.report_signal.c_str());
        return;
    }
    struct sigaction ours {};
    ours.sa_handler = on_signal;
    ours.sa_flags = SA_RESTART;
    sigemptyset(&ours.sa_mask);
    ::sigaction(number, &ours, nullptr);
}

std::atomic<bool>& Reporter::asked() const
{
    return asked_by_signal;
}

JobReport Reporter::head(int ranks) const
{
    JobReport job;
    job.ranks = ranks;
    job.backend = backend_;
    job.backend_why = backend_why_;
    job.facts = facts_;
    for (const std::string& fact : backend_facts_) {
        const std::size_t colon = fact.find(": ");
        if (colon == std::string::npos)
            job.facts.emplace_back("fabric", fact);
        else
            job.facts.emplace_back(fact.substr(0, colon), fact.substr(colon + 2));
    }
    job.settings = list_of(*settings_);
    return job;
}

// It may run inside the real MPI, which no exception may cross.
void Reporter::alone(const RankReport& rank, const std::string& when) const
try {
    JobReport job = head(ranks_);
    job.when = when;
    merge(job, rank);
    ReportTarget target = report_target(settings_->report);
    if (target.form == ReportTarget::Form::off)
        target.form = ReportTarget::Form::summary;
    const std::string file = target.file.empty() ? "" : file_of_rank(target.file, rank.rank);
    write(target, file, job);
} catch (const std::exception& e) {
    process.log.error("no report of this rank (%s)", e.what());
}

void Reporter::not_routed(const Settings& settings, int ranks, const std::string& why)
{
    const ReportTarget target = report_target(settings.report);
    if (target.form == ReportTarget::Form::off || target.file.empty())
        return; // the one line on standard error says it
    JobReport job;
    job.ranks = ranks;
    job.routed = false;
    job.why = why;
    job.settings = list_of(settings);
    write(target, target.file, job);
}

void Reporter::at_finalize(Rank& rank, MPI_Comm everybody) const
{
    const RealMpi& real = process.real;
    const ReportTarget target = report_target(settings_->report);
    std::int64_t form = static_cast<std::int64_t>(target.form);
    real.Bcast(&form, 1, real.int64, 0, everybody); // the setting is each rank's own
    if (form == static_cast<std::int64_t>(ReportTarget::Form::off))
        return;
    RankReport mine = rank.report(false);
    if (form == static_cast<std::int64_t>(ReportTarget::Form::summary))
        mine.pairs.clear();
    std::string bytes = packed(mine);
    std::int64_t size = static_cast<std::int64_t>(bytes.size()), all = 0;
    real.Allreduce(&size, &all, 1, real.int64, real.op_sum, everybody);
    const bool cut = all > kGatheredMax;
    if (cut) {
        mine.pairs.clear();
        bytes = packed(mine);
        size = static_cast<std::int64_t>(bytes.size());
    }
    const int me = rank.setup().world_rank;
    const auto n = static_cast<std::size_t>(me == 0 ? rank.setup().world_size : 0);
    std::vector<std::int64_t> sizes(n);
    real.Gather(&size, 1, real.int64, sizes.data(), 1, real.int64, 0, everybody);
    std::vector<int> counts(n), places(n);
    std::int64_t total = 0;
    for (std::size_t i = 0; i < n; ++i) {
        counts[i] = static_cast<int>(sizes[i]);
        places[i] = static_cast<int>(total);
        total += sizes[i];
    }
    std::string gathered(static_cast<std::size_t>(total), '\0');
    real.Gatherv(bytes.data(), static_cast<int>(bytes.size()), real.byte, gathered.data(), counts.data(),
                 places.data(), real.byte, 0, everybody);
    if (me != 0)
        return;
    JobReport job = head(rank.setup().world_size);
    if (cut)
        job.facts.emplace_back("pairs", "left out, they would take " + std::to_string(all) + " bytes");
    for (std::size_t i = 0; i < n; ++i) {
        RankReport part;
        const std::string_view from(gathered.data() + places[i], static_cast<std::size_t>(counts[i]));
        if (!unpack(from, part))
            job.facts.emplace_back("rank " + std::to_string(i), "its part of the report did not arrive whole");
        else
            merge(job, std::move(part));
    }
    write(target, target.file, job);
}

} // namespace storm::interpose
