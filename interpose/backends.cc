// SPDX-License-Identifier: MIT
#include "backends.hh"

#include "base/begin.hh"
#include "fabric_settings.hh"
#include "libmpi.hh"
#include "nic.hh"
#include "plugin.hh"
#include "process.hh"

namespace storm::interpose {
namespace {

// What is tried for other hosts, best first.
constexpr const char* kFabrics[] = {"verbs", "ofi"};
constexpr const char* kNone = "-";

// The device that a backend should use for other hosts; "" leaves it the choice.
std::string nic_for(const Settings& settings, const Pmix& board, Reporter& reporter)
{
    if (!has_remote_peers()) {
        reporter.fact("nic", "none (all ranks are on this host)");
        return settings.nic != "auto" ? settings.nic : ""; // as it was wanted, unchecked
    }
    static std::string chosen; // by the first fabric that is tried; an empty choice says so too
    static bool known = false;
    if (std::exchange(known, true))
        return chosen;
    const topology::Choice choice = choose_nic(settings, board, topology::Need::any);
    if (!choice.problem.empty() && number_from(open_mpi::kLocalRank, 0) == 0) // once a node
        process.log.error("%s", choice.problem.c_str());
    process.log.info("%s", choice.sentence.c_str());
    reporter.fact("nic", choice.sentence);
    return chosen = choice.name;
}

std::string address_of(const Backend* backend)
{
    return backend != nullptr ? std::string(backend->name()) + ":" + backend->address() : kNone;
}

// The n-th word of what a peer posted, if it is an address of this backend.
std::string word_of(const std::string& words, int n, const Backend& backend, std::string& why)
{
    const std::size_t blank = words.find(' ');
    const std::string second = blank == std::string::npos ? "" : words.substr(blank + 1);
    const std::string word = n == 0 ? words.substr(0, blank) : second;
    const std::string name = std::string(backend.name()) + ":";
    if (word.starts_with(name))
        return word.substr(name.size());
    why = std::string("it has no ") + backend.name();
    return "";
}

} // namespace

std::unique_ptr<Backend> Backends::open_one(const std::string& name, const Settings& settings, const Pmix& board,
                                            Reporter& reporter, std::string& why) const
{
    const BackendPlugin* plugin = load_plugin(name, why);
    if (plugin == nullptr)
        return nullptr;
    BackendSettings wanted{board.rank(), settings.memory_max, &process.log};
    if (name != "shm") {
        wanted.nic = nic_for(settings, board, reporter);
        for_fabrics(settings, wanted);
    }
    return std::unique_ptr<Backend>(plugin->open(wanted, why));
}

bool Backends::open(const Settings& settings, const Pmix& board, Reporter& reporter, std::string& why)
{
    const std::string& wanted = settings.backend;
    if (wanted == "none")
        return true;
    const bool automatic = wanted == "auto";
    const std::string first = automatic ? "shm" : wanted;
    std::string said;
    std::unique_ptr<Backend> opened = open_one(first, settings, board, reporter, said);
    if (opened == nullptr) {
        why = "the " + first + " backend cannot be opened (" + said + ")";
        return false;
    }
    (opened->direct() ? near_ : fabric_) = std::move(opened);
    if (automatic && !has_remote_peers())
        reporter.fact("nic", "none (all ranks are on this host)");
    else if (near_ != nullptr && !automatic)
        reporter.fact("nic", "none (the " + first + " backend reaches this host alone)");
    if (!automatic || !has_remote_peers())
        return true;
    for (const char* name : kFabrics) {
        fabric_ = open_one(name, settings, board, reporter, said);
        if (fabric_ != nullptr) {
            fabric_reason_.clear();
            return true;
        }
        fabric_reason_ += (fabric_reason_.empty() ? "" : "; ") + std::string(name) + ": " + said;
    }
    return true;
}

std::string Backends::addresses() const
{
    return address_of(near_.get()) + " " + address_of(fabric_.get());
}

std::string Backends::near_address(const std::string& theirs, std::string& why) const
{
    return word_of(theirs, 0, *near_, why);
}

std::string Backends::fabric_address(const std::string& theirs, std::string& why) const
{
    return word_of(theirs, 1, *fabric_, why);
}

void Backends::close_fabric(const std::string& why)
{
    fabric_.reset();
    fabric_reason_ = why;
}

void Backends::close()
{
    fabric_.reset();
    near_.reset();
}

void Backends::begin(const RealMpi& real, int rank, int size)
{
    if (fabric_ == nullptr)
        return;
    real.Comm_dup(real.comm_world, &comm_);
    real.Comm_set_errhandler(comm_, real.errors_return);
    fabric_->begin({&real, comm_, rank, size});
}

std::vector<std::string> Backends::facts() const
{
    std::vector<std::string> all;
    const auto add = [&all](const Backend* backend, const std::string& before) {
        for (unsigned n = 0; backend != nullptr && !backend->fact(n).empty(); ++n)
            all.push_back(before + backend->fact(n));
    };
    add(near_.get(), fabric_ != nullptr ? "on_a_node_" : "");
    add(fabric_.get(), "");
    return all;
}

void Backends::end(const RealMpi& real)
{
    if (fabric_ != nullptr)
        fabric_->end();
    close();
    if (comm_ != nullptr)
        real.Comm_free(&comm_);
}

std::string Backends::names() const
{
    if (near_ != nullptr && fabric_ != nullptr)
        return std::string(near_->name()) + " on a node, " + fabric_->name() + " between hosts";
    const Backend* one = near_ != nullptr ? near_.get() : fabric_.get();
    return one != nullptr ? one->name() : "none";
}

} // namespace storm::interpose
