// SPDX-License-Identifier: MIT
// MPI_Init to MPI_Finalize: settings, backend, the job's verdict, the Rank object, and
// the end of all that.
#include "backends.hh"
#include "job_report.hh"
#include "libmpi.hh"
#include "life.hh"
#include "links.hh"
#include "pmix.hh"
#include "process.hh"
#include "profiling.hh"
#include "real_clock.hh"
#include "runtimes.hh"
#include "verdict.hh"

#include "../topology/cores.hh"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <sys/auxv.h>
#include <unistd.h>

extern char** environ;

namespace storm::interpose {
namespace {

// What lives from MPI_Init to MPI_Finalize.
struct Life {
    Settings settings;
    RealClock clock;
    Pmix board;
    Backends backends;
    std::string trouble; // why this rank cannot take part
    std::string own_presence;
    bool strict_failure = false;
    MPI_Comm private_comm = nullptr;
    int keyval = MPI_KEYVAL_INVALID;
    RouteRules rules;
    Reporter reporter;
    std::unique_ptr<Runtimes> runtimes;
    std::unique_ptr<Rank> rank;
    bool profiling = false;
    Counters last; // after routing has ended
    std::uint64_t last_high_water = 0;
    pid_t pid = 0;
};
constinit Life* life = nullptr;

// NAME=value that MPI_T wrote before MPI_Init; they stand above the environment.
constinit std::vector<std::string>* written = nullptr;

constexpr const char* kControlled = "MPI_Pcontrol"; // the region of level 1

bool first_rank()
{
    const char* rank = secure_getenv("PMIX_RANK");
    return rank == nullptr || std::strcmp(rank, "0") == 0;
}

void read_all(Settings& settings, std::vector<std::string>& problems)
{
    std::vector<const char*> entries;
    for (char** entry = environ; getauxval(AT_SECURE) == 0 && *entry != nullptr; ++entry)
        entries.push_back(*entry);
    if (written != nullptr)
        for (const std::string& entry : *written)
            entries.push_back(entry.c_str());
    entries.push_back(nullptr);
    settings.read(entries.data(), problems);
}

void read_settings()
{
    std::vector<std::string> problems;
    read_all(life->settings, problems);
    process.log.set_level(life->settings.log_level());
    std::string why;
    if (life->settings.route_file != "none" && !life->rules.read(life->settings.route_file, why))
        problems.push_back("STORM_ROUTE_FILE is not used (" + why + "): correct the file, see storm-settings(7)");
    for (const std::string& problem : problems) {
        if (first_rank())
            process.log.error("%s", problem.c_str());
        life->strict_failure = life->settings.strict;
    }
}

// Before the real MPI_Init, whose own exchange carries what is put on the board.
void before_init()
{
    if (life != nullptr)
        return;
    life = new Life;
    life->pid = ::getpid();
    life->clock.begin();
    read_settings();
    if (life->settings.disable)
        return;
    std::string why;
    if (!life->board.open(why))
        return; // a singleton, or no PMIx: see after_init
    if (life->settings.profile == "off")
        life->backends.open(life->settings, life->board, life->reporter, life->trouble);
    life->own_presence = presence(life->settings.agreement(), life->backends.addresses());
    if (!life->board.put(kPresenceKey, life->own_presence))
        life->trouble = "PMIx does not take our word";
}

std::string peer_addresses(int peer, std::string& why)
{
    std::string theirs;
    if (life->board.get(peer, kPresenceKey, static_cast<int>(life->settings.verdict_timeout), theirs))
        return address_in(theirs);
    why = "PMIx does not know its address";
    return "";
}

int progress_callback()
{
    Rank* rank = process.rank;
    return rank != nullptr ? rank->progress_inside() : 0;
}

// The last attribute of MPI_COMM_SELF to be deleted in the real MPI_Finalize: ours was
// the first to be set. MPI still works here, and the program's callbacks have run.
int at_end(MPI_Comm, int, void*, void*)
{
    if (life->profiling && ::getpid() == life->pid) {
        profiling::end(life->private_comm);
        process.real.Comm_free(&life->private_comm);
        life->board.close();
        return MPI_SUCCESS;
    }
    if (process.rank == nullptr || ::getpid() != life->pid)
        return MPI_SUCCESS;
    process.rank->quiesce();
    life->reporter.backend_facts(life->backends.facts());
    life->reporter.at_finalize(*process.rank, life->private_comm);
    open_mpi::unregister_progress(progress_callback);
    life->last = process.rank->counters();
    life->last_high_water = process.rank->report(false).high_water;
    process.rank = nullptr;
    life->rank.reset();
    life->runtimes.reset();
    life->backends.end(process.real);
    process.real.Comm_free(&life->private_comm);
    life->board.close();
    return MPI_SUCCESS;
}

int not_copied(MPI_Comm, int, void*, void*, void*, int* flag)
{
    *flag = 0;
    return MPI_SUCCESS;
}

// What routing and profiling need: a communicator of our own, the clock, and the end.
void begin()
{
    const RealMpi& real = process.real;
    real.Comm_dup(real.comm_world, &life->private_comm);
    real.Comm_set_errhandler(life->private_comm, real.errors_return);
    life->clock.finish();
    real.Comm_create_keyval(not_copied, at_end, &life->keyval, nullptr);
    real.Comm_set_attr(real.comm_self, life->keyval, life);
}

std::string library_version()
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    process.real.Get_library_version(text, &length);
    text[std::strcspn(text, ",\n")] = '\0';
    return text;
}

void begin_routing(int rank, int size)
{
    const RealMpi& real = process.real;
    int level = MPI_THREAD_SINGLE;
    real.Query_thread(&level);

    RankSetup setup;
    setup.real = &real;
    setup.clock = &life->clock;
    setup.log = &process.log;
    setup.settings = &life->settings;
    life->backends.begin(real, rank, size);
    life->reporter.backend_facts(life->backends.facts());
    setup.backend = life->backends.near();
    setup.fabric = life->backends.fabric();
    setup.fabric_reason = life->backends.fabric_reason();
    if (setup.backend == nullptr && setup.fabric == nullptr && setup.fabric_reason.empty() && size > 1)
        setup.backend_reason = "STORM_BACKEND=none";
    setup.world_rank = rank;
    setup.world_size = size;
    setup.spin_limit = topology::spin_limit(topology::look(number_from(open_mpi::kLocalSize, 1)));
    std::string from;
    const bool one_node = number_from(open_mpi::kLocalSize, 1) == size;
    setup.native_eager = open_mpi::eager_limit(one_node, from);
    if (setup.native_eager != 0)
        life->reporter.fact("real_mpi_eager_limit", std::to_string(setup.native_eager) + " (" + from + ")");
    life->reporter.fact("real_mpi", library_version());
    setup.threaded = level == MPI_THREAD_MULTIPLE;
    setup.private_comm = life->private_comm;
    life->runtimes = std::make_unique<Runtimes>(process.log, life->clock.ticks_per_us());
    setup.devices = life->runtimes.get();
    setup.address_of = [](int peer, std::string& why) {
        const std::string theirs = peer_addresses(peer, why);
        return theirs.empty() ? theirs : life->backends.near_address(theirs, why);
    };
    setup.fabric_address_of = [](int peer, std::string& why) {
        const std::string theirs = peer_addresses(peer, why);
        return theirs.empty() ? theirs : life->backends.fabric_address(theirs, why);
    };
    setup.cut_off = no_link_is_up;
    setup.last_words = tell_watcher;
    setup.rules = life->rules.size() > 0 ? &life->rules : nullptr;
    life->reporter.begin(life->settings, life->backends.names(),
                         secure_getenv("STORM_BACKEND") != nullptr ? "chosen by STORM_BACKEND" : "the default");
    setup.asked = &life->reporter.asked();
    setup.answer = [](const RankReport& mine) { life->reporter.alone(mine, life->reporter.signal_name()); };
    life->rank = std::make_unique<Rank>(setup);
    process.rank = life->rank.get();
    if (!open_mpi::register_progress(progress_callback))
        process.log.warn("Open MPI takes no progress callback: messages move only in calls of ours");
}

void after_init()
{
    const RealMpi& real = process.real;
    int rank = 0, size = 1;
    real.Comm_rank(real.comm_world, &rank);
    real.Comm_size(real.comm_world, &size);
    process.log.set_rank(rank);
    if (life->strict_failure) {
        process.log.error("STORM_STRICT=1 ends the job for the setting named above");
        real.Abort(real.comm_world, 2);
    }
    if (life->settings.disable || process.rank != nullptr || life->profiling)
        return;
    if (size > 1 && life->board.rank() < 0) {
        if (rank == 0)
            process.log.warn("not routed, all traffic goes by the real MPI (no PMIx launcher): "
                             "start the job with stormrun or mpirun");
        return;
    }
    std::string why;
    if (life->trouble.empty() && !open_mpi::known_build(why))
        life->trouble = why;
    if (RequestPool range; life->trouble.empty() && !range.reserve())
        life->trouble = "no range of addresses for requests (ulimit -v)";
    Verdict verdict{true, "", false, ""};
    if (size > 1)
        verdict = agree(real, life->board, rank, size, life->own_presence, life->trouble,
                        life->backends.fabric_name(), static_cast<int>(life->settings.verdict_timeout));
    else if (!life->trouble.empty())
        verdict = {false, life->trouble, true, ""};
    if (!verdict.routed) {
        if (verdict.speaks) {
            process.log.warn("not routed, all traffic goes by the real MPI (%s): see storm-info, or start it by "
                             "stormrun", verdict.reason.c_str());
            Reporter::not_routed(life->settings, size, verdict.reason);
        }
        life->backends.close();
        life->board.close(); // each opening counts: mpirun looks for the last closing
        return;
    }
    if (life->backends.fabric() != nullptr && !verdict.no_fabric.empty())
        life->backends.close_fabric(verdict.no_fabric);
    begin();
    if (life->settings.profile == "off")
        return begin_routing(rank, size);
    life->profiling = true;
    profiling::begin(life->settings, life->clock);
}

// A failure of ours before routing began must not reach the program.
template <class Work>
void guarded(Work work)
{
    try {
        work();
    } catch (const std::exception& e) {
        process.log.error("not routed (%s)", e.what());
    } catch (...) {
        process.log.error("not routed (set-up failed)");
    }
}

} // namespace

Settings settings_now()
{
    if (life != nullptr)
        return life->settings;
    Settings settings;
    std::vector<std::string> ignored;
    read_all(settings, ignored);
    return settings;
}

bool settings_open()
{
    int begun = 0;
    process.real.Initialized(&begun);
    return life == nullptr && begun == 0;
}

bool set_before_init(const std::string& name, const std::string& value)
{
    const std::string entry = name + "=" + value;
    std::vector<std::string> problems;
    const char* entries[] = {entry.c_str(), nullptr};
    Settings().read(entries, problems);
    if (!problems.empty())
        return false;
    if (written == nullptr)
        written = new std::vector<std::string>;
    written->push_back(entry);
    return true;
}

Counters counters_now()
{
    const Rank* rank = routed();
    return rank != nullptr ? rank->counters() : life != nullptr ? life->last : Counters{};
}

std::uint64_t ring_high_water_now()
{
    Rank* rank = routed();
    return rank != nullptr ? rank->report(false).high_water : life != nullptr ? life->last_high_water : 0;
}

int number_from(const char* variable, int fallback)
{
    const char* text = secure_getenv(variable);
    const int value = text == nullptr ? 0 : std::atoi(text);
    return value > 0 ? value : fallback;
}

int Init(int* argc, char*** argv)
{
    guarded(before_init);
    const int rc = process.real.Init(argc, argv);
    if (rc == MPI_SUCCESS)
        guarded(after_init);
    return rc;
}

int Init_thread(int* argc, char*** argv, int required, int* provided)
{
    guarded(before_init);
    const int rc = process.real.Init_thread(argc, argv, required, provided);
    if (rc == MPI_SUCCESS)
        guarded(after_init);
    return rc;
}

int Abort(MPI_Comm comm, int errorcode)
{
    Rank* rank = routed();
    if (rank != nullptr && life->reporter.wanted() && ::getpid() == life->pid)
        life->reporter.alone(rank->report(true), "MPI_Abort with code " + std::to_string(errorcode));
    return process.real.Abort(comm, errorcode);
}

int Pcontrol(const int level, ...)
{
    Rank* rank = routed();
    if (rank != nullptr && level == 0)
        rank->end_region(kControlled);
    else if (rank != nullptr && level == 1 && !rank->in_region(kControlled))
        rank->begin_region(kControlled);
    else if (rank != nullptr && level == 2 && life->reporter.wanted())
        life->reporter.alone(rank->report(true), "MPI_Pcontrol");
    return process.real.Pcontrol(level);
}

int Finalize()
{
    if (!routed())
        return process.real.Finalize();
    const Entered entered;
    return process.real.Finalize();
}

} // namespace storm::interpose

extern "C" {
STORM_EXPORT const char* storm_version()
{
    return STORM_VERSION;
}
STORM_EXPORT int storm_routed()
{
    return storm::interpose::routed() != nullptr ? 1 : 0;
}
STORM_EXPORT int storm_region_begin(const char* name)
{
    storm::Rank* rank = storm::interpose::routed();
    return rank != nullptr && name != nullptr && rank->begin_region(name) ? 1 : 0;
}
STORM_EXPORT int storm_region_end(const char* name)
{
    storm::Rank* rank = storm::interpose::routed();
    return rank != nullptr && name != nullptr && rank->end_region(name) ? 1 : 0;
}
}
