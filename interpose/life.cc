// MPI_Init to MPI_Finalize: settings, backend, the job's verdict, the Rank object, and
// the end of all that.
#include "libmpi.hh"
#include "nic.hh"
#include "plugin.hh"
#include "pmix.hh"
#include "process.hh"
#include "real_clock.hh"
#include "report.hh"
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
    std::unique_ptr<Backend> backend;
    std::string trouble; // why this rank cannot take part
    std::string backend_reason;
    std::string nic; // the sentence of topology/choice.hh, where a device was sought
    std::string own_presence;
    bool strict_failure = false;
    MPI_Comm private_comm = nullptr;
    int keyval = MPI_KEYVAL_INVALID;
    std::unique_ptr<Rank> rank;
    pid_t pid = 0;
};
constinit Life* life = nullptr;

bool first_rank()
{
    const char* rank = secure_getenv("PMIX_RANK");
    return rank == nullptr || std::strcmp(rank, "0") == 0;
}

void read_settings()
{
    std::vector<std::string> problems;
    if (getauxval(AT_SECURE) == 0)
        life->settings.read(environ, problems);
    process.log.set_level(life->settings.log_level());
    for (const std::string& problem : problems) {
        if (first_rank())
            process.log.error("%s", problem.c_str());
        life->strict_failure = life->settings.strict;
    }
}

// The device that a backend should use for other hosts; "" leaves it the choice.
std::string nic_for(const std::string& backend)
{
    if (backend == "shm" || !has_remote_peers())
        return "";
    const topology::Choice choice = choose_nic(life->settings, life->board, topology::Need::any);
    if (!choice.problem.empty() && number_from(open_mpi::kLocalRank, 0) == 0) // once a node
        process.log.error("%s", choice.problem.c_str());
    process.log.info("%s", choice.sentence.c_str());
    life->nic = choice.sentence;
    return choice.name;
}

void open_backend()
{
    const std::string& name = life->settings.backend;
    if (name == "none")
        return;
    std::string why;
    const BackendPlugin* plugin = load_plugin(name, why);
    if (plugin != nullptr) {
        BackendSettings wanted{life->board.rank(), life->settings.memory_max, &process.log};
        wanted.nic = nic_for(name);
        life->backend.reset(plugin->open(wanted, why));
    }
    if (life->backend == nullptr)
        life->trouble = "the " + name + " backend cannot be opened (" + why + ")";
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
    open_backend();
    life->own_presence = presence(life->settings.agreement(),
                                  life->backend != nullptr ? life->backend->address() : "");
    if (!life->board.put(kPresenceKey, life->own_presence))
        life->trouble = "PMIx does not take our word";
}

std::string peer_address(int peer, std::string& why)
{
    std::string theirs;
    if (!life->board.get(peer, kPresenceKey, static_cast<int>(life->settings.verdict_timeout), theirs)) {
        why = "PMIx does not know its address";
        return "";
    }
    return address_in(theirs);
}

int progress_callback()
{
    Rank* rank = process.rank;
    return rank != nullptr ? rank->progress_inside() : 0;
}

void report()
{
    Rank& rank = *process.rank;
    const RealMpi& real = process.real;
    JobReport job;
    job.ranks = rank.setup().world_size;
    job.backend = life->backend != nullptr ? life->backend->name() : "none";
    job.nic = life->nic;
    constexpr int kCounters = sizeof(Counters) / sizeof(std::uint64_t);
    const Counters mine = rank.counters();
    real.Reduce(&mine, &job.sum, kCounters, real.int64, real.op_sum, 0, life->private_comm);
    const std::vector<std::string> reasons = rank.reasons();
    // the largest of: high water, and the lowest rank with a reason (as its negative)
    std::int64_t mine_max[2] = {static_cast<std::int64_t>(rank.ring_high_water()),
                                reasons.empty() ? INT64_MIN : -rank.setup().world_rank};
    std::int64_t all_max[2] = {};
    real.Allreduce(mine_max, all_max, 2, real.int64, real.op_max, life->private_comm);
    const std::int64_t with_reason = reasons.empty() ? 0 : 1;
    real.Reduce(&with_reason, &job.ranks_with_reasons, 1, real.int64, real.op_sum, 0, life->private_comm);
    job.ring_high_water = static_cast<std::uint64_t>(all_max[0]);
    if (all_max[1] != INT64_MIN) {
        char text[256] = "";
        const int teller = static_cast<int>(-all_max[1]);
        if (teller == rank.setup().world_rank)
            std::snprintf(text, sizeof text, "rank %d, %s", teller, reasons.front().c_str());
        real.Bcast(text, sizeof text, real.byte, teller, life->private_comm);
        job.first_reason = text;
    }
    if (rank.setup().world_rank != 0 || life->settings.report == "off")
        return;
    if (!write_report(life->settings.report, summary(job)))
        process.log.error("the report cannot be written (%s: %s): choose another file in STORM_REPORT",
                          life->settings.report.c_str(), std::strerror(errno));
}

// The last attribute of MPI_COMM_SELF to be deleted in the real MPI_Finalize: ours was
// the first to be set. MPI still works here, and the program's callbacks have run.
int at_end(MPI_Comm, int, void*, void*)
{
    if (process.rank == nullptr || ::getpid() != life->pid)
        return MPI_SUCCESS;
    process.rank->quiesce();
    report();
    open_mpi::unregister_progress(progress_callback);
    process.rank = nullptr;
    life->rank.reset();
    life->backend.reset();
    process.real.Comm_free(&life->private_comm);
    life->board.close();
    return MPI_SUCCESS;
}

int not_copied(MPI_Comm, int, void*, void*, void*, int* flag)
{
    *flag = 0;
    return MPI_SUCCESS;
}

void begin_routing(int rank, int size)
{
    const RealMpi& real = process.real;
    real.Comm_dup(real.comm_world, &life->private_comm);
    real.Comm_set_errhandler(life->private_comm, real.errors_return);
    int level = MPI_THREAD_SINGLE;
    real.Query_thread(&level);
    life->clock.finish();

    RankSetup setup;
    setup.real = &real;
    setup.clock = &life->clock;
    setup.log = &process.log;
    setup.settings = &life->settings;
    setup.backend = life->backend.get();
    setup.backend_reason = life->backend == nullptr && size > 1 ? "STORM_BACKEND=none" : "";
    setup.world_rank = rank;
    setup.world_size = size;
    setup.spin_limit = topology::spin_limit(topology::look(number_from(open_mpi::kLocalSize, 1)));
    setup.threaded = level == MPI_THREAD_MULTIPLE;
    setup.private_comm = life->private_comm;
    setup.address_of = peer_address;
    life->rank = std::make_unique<Rank>(setup);
    real.Comm_create_keyval(not_copied, at_end, &life->keyval, nullptr);
    real.Comm_set_attr(real.comm_self, life->keyval, life);
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
    if (life->settings.disable || process.rank != nullptr)
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
    Verdict verdict{true, "", false};
    if (size > 1)
        verdict = agree(real, life->board, rank, size, life->own_presence, life->trouble,
                        static_cast<int>(life->settings.verdict_timeout));
    else if (!life->trouble.empty())
        verdict = {false, life->trouble, true};
    if (!verdict.routed) {
        if (verdict.speaks)
            process.log.warn("not routed, all traffic goes by the real MPI (%s)", verdict.reason.c_str());
        life->backend.reset();
        life->board.close(); // each opening counts: mpirun looks for the last closing
        return;
    }
    begin_routing(rank, size);
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
}
