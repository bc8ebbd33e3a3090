// SPDX-License-Identifier: MIT
#include "windows.hh"

namespace storm::mpi {

using wire::Event;
using wire::Region;
using wire::Write;

namespace {

// Open MPI's components stop at 32 or 64, and one of them hangs afterwards.
constexpr std::size_t kAttachedMost = 30;
constexpr std::string_view kPrefix = "windows:";

} // namespace

Windows::Windows(const Log* log, int rank)
    : log_(log), promises_(wire::promises_of("mpi_rma", "")), address_(std::string(kPrefix) + std::to_string(rank)),
      messages_(log, rank)
{
}

std::string Windows::said(int error) const
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    job_.real->Error_string(error, text, &length);
    return text;
}

// ---- begin and end, collective

bool Windows::make_window(std::string& why)
{
    const RealMpi& real = *job_.real;
    int level = MPI_THREAD_SINGLE;
    real.Query_thread(&level);
    if (const int error = real.Win_create_dynamic(real.info_null, job_.comm, &window_); error != MPI_SUCCESS) {
        window_ = nullptr;
        why = "the real MPI has no window to give (" + said(error) + ")";
        if (level == MPI_THREAD_MULTIPLE)
            why += ", as Open MPI's osc pt2pt has none for programs with MPI_THREAD_MULTIPLE";
        return false;
    }
    real.Win_set_errhandler(window_, real.errors_return);
    int* model = nullptr;
    int known = 0;
    real.Win_get_attr(window_, MPI_WIN_MODEL, &model, &known);
    if (known == 0 || *model != MPI_WIN_UNIFIED) {
        why = "windows of the real MPI cannot be polled (their memory model is MPI_WIN_SEPARATE)";
        return false;
    }
    for (const auto& [base, bytes] : attached_)
        if (const int error = real.Win_attach(window_, base, static_cast<MPI_Aint>(bytes)); error != MPI_SUCCESS) {
            why = "memory does not become part of a window (" + said(error) + ")";
            return false;
        }
    if (const int error = real.Win_lock_all(MPI_MODE_NOCHECK, window_); error != MPI_SUCCESS) {
        why = "windows of the real MPI cannot be locked (" + said(error) + ")";
        return false;
    }
    return true;
}

void Windows::begin(const Begin& begin)
{
    job_ = begin;
    messages_.begin(begin);
    why_none_.clear();
    std::string why;
    if (!make_window(why))
        why_none_ = why;
}

void Windows::end()
{
    if (job_.real == nullptr)
        return;
    const RealMpi& real = *job_.real;
    messages_.end(); // after it nobody writes
    if (window_ != nullptr) {
        if (why_none_.empty())
            real.Win_unlock_all(window_);
        for (const auto& [base, bytes] : attached_)
            real.Win_detach(window_, base);
        real.Win_free(&window_);
    }
    window_ = nullptr;
    why_none_ = "MPI is not there yet, or no more";
    job_ = {};
}

// ---- memory and peers

Status Windows::expose(std::byte* base, std::uint64_t bytes, Region& region, std::string& why)
{
    if (attached_.size() >= kAttachedMost) {
        why = "windows take no more than " + std::to_string(kAttachedMost) + " pieces of memory";
        return Status::refused;
    }
    if (window_ != nullptr) {
        const int error = job_.real->Win_attach(window_, base, static_cast<MPI_Aint>(bytes));
        if (error != MPI_SUCCESS) {
            why = "memory does not become part of a window (" + said(error) + ")";
            return Status::refused;
        }
    }
    attached_.emplace_back(base, bytes);
    return messages_.expose(base, bytes, region, why);
}

void Windows::withdraw(Region& region)
{
    std::erase_if(attached_, [&](const auto& piece) { return piece.first == region.base; });
    if (window_ != nullptr && region.base != nullptr)
        job_.real->Win_detach(window_, region.base);
    messages_.withdraw(region);
}

Status Windows::connect(int peer, std::string_view address, std::string& why)
{
    const bool known = peer >= 0 && peer < job_.world_size && address.starts_with(kPrefix);
    Peer* p = known ? &peers_[peer] : nullptr;
    if (!why_none_.empty() || p == nullptr || p->failed) {
        why = !why_none_.empty() ? why_none_ : p == nullptr ? "the peer uses another fabric" : p->why;
        return Status::refused;
    }
    p->connected = true;
    return messages_.connect(peer, messages_.address(), why);
}

void Windows::disconnect(int peer)
{
    if (const auto found = peers_.find(peer); found != peers_.end())
        found->second.connected = false;
    messages_.disconnect(peer);
}

std::string Windows::why(int peer) const
{
    const auto found = peers_.find(peer);
    if (!why_none_.empty() || found == peers_.end())
        return why_none_;
    return found->second.why.empty() ? messages_.why(peer) : found->second.why;
}

void Windows::fail(int peer, const std::string& why)
{
    Peer& p = peers_[peer];
    if (p.failed)
        return;
    p.failed = true;
    p.why = why;
    if (log_ != nullptr)
        log_->debug("mpi_rma: rank %d cannot be reached (%s)", peer, why.c_str());
    if (p.connected)
        events_.push_back({Event::Kind::failed, peer, 0, 0});
}

// ---- writes

Status Windows::write(int peer, const Write& write)
{
    const auto found = peers_.find(peer);
    if (found == peers_.end() || !found->second.connected || found->second.failed || window_ == nullptr ||
        (write.flags & wire::kSignal) != 0 || write.bytes > write_max())
        return Status::refused;
    if (inside_)
        return messages_.write(peer, write);
    const RealMpi& real = *job_.real;
    const int bytes = static_cast<int>(write.bytes);
    int error = real.Put(write.from, bytes, real.byte, peer, static_cast<MPI_Aint>(write.address), bytes, real.byte,
                         window_);
    // At once: the next call may come from inside, where the real MPI may have us for long
    // and a flush is not allowed.
    if (error == MPI_SUCCESS)
        error = real.Win_flush(peer, window_);
    if (error != MPI_SUCCESS) {
        fail(peer, said(error));
        return Status::refused;
    }
    events_.push_back({Event::Kind::written, peer, 0, write.cookie});
    return Status::ok;
}

bool Windows::next(Event& event)
{
    if (told_ == events_.size()) {
        events_.clear();
        told_ = 0;
        if (messages_.next(event)) {
            if (event.kind == Event::Kind::failed)
                peers_[event.peer].failed = true;
            return true;
        }
        return false;
    }
    event = events_[told_++];
    return true;
}

std::unique_ptr<wire::Transport> open_windows(const BackendSettings& settings, std::string&)
{
    return std::make_unique<Windows>(settings.log, settings.world_rank_hint);
}

} // namespace storm::mpi
