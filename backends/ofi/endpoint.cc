// SPDX-License-Identifier: MIT
#include "ofi.hh"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace storm::ofi {
namespace {

using wire::Event;
using wire::Promises;
using wire::Region;
using wire::Write;

constexpr std::size_t kQueue = 4096;   // entries of the completion queue
constexpr unsigned kWritesMax = 1024;  // under way: far from overrunning it
constexpr std::uint64_t kWriteMax = 1 << 20;

struct Close {
    template <class T>
    void operator()(T* opened) const
    {
        fi_close(&opened->fid);
    }
};
template <class T>
using Opened = std::unique_ptr<T, Close>;

// A write that is under way; the provider may keep its own things in `room`.
struct Context {
    fi_context2 room;
    std::uint64_t cookie = 0;
    int peer = -1;
};

struct Remote {
    fi_addr_t address = FI_ADDR_UNSPEC;
    bool failed = false;
    std::string why;
};

std::string hex(const void* bytes, std::size_t n)
{
    std::string text;
    char two[3];
    for (std::size_t i = 0; i < n; ++i) {
        std::snprintf(two, sizeof two, "%02x", static_cast<const unsigned char*>(bytes)[i]);
        text += two;
    }
    return text;
}

bool from_hex(std::string_view text, std::vector<unsigned char>& bytes)
{
    if (text.empty() || text.size() % 2 != 0)
        return false;
    for (std::size_t i = 0; i < text.size(); i += 2) {
        unsigned byte;
        if (std::sscanf(std::string(text.substr(i, 2)).c_str(), "%02x", &byte) != 1)
            return false;
        bytes.push_back(static_cast<unsigned char>(byte));
    }
    return true;
}

std::string said(const char* call, int error)
{
    return std::string(call) + ": " + fi_strerror(error < 0 ? -error : error);
}

class Endpoint final : public wire::Transport {
public:
    Endpoint(Info info, const Device& device) : info_(std::move(info)), device_(device)
    {
        provider_ = info_->fabric_attr->prov_name;
        const auto semicolon = provider_.find(';');
        promises_ = wire::promises_of(provider_.substr(0, semicolon),
                                      semicolon == std::string::npos ? "" : provider_.substr(semicolon + 1));
        promises_.provider = provider_.c_str();
        // what this version and device cannot do at all
        promises_.remote_cq = promises_.remote_cq && info_->domain_attr->cq_data_size >= sizeof(std::uint32_t);
        promises_.fenced = promises_.fenced && (info_->caps & FI_FENCE) != 0;
        promises_.auto_progress = info_->domain_attr->data_progress == FI_PROGRESS_AUTO;
        // ofi_rxm ends the process (seen in 1.17) when the connection of an injected write
        // breaks: the write has no context of its own, and it looks for one
        inject_max_ = provider_.ends_with("ofi_rxm") ? 0 : info_->tx_attr->inject_size;
        name_ = provider_ + (device_.interface.empty() ? "" : " on " + device_.interface);
    }

    bool open(std::string& why);

    const char* name() const override { return name_.c_str(); }
    const Promises& promises() const override { return promises_; }
    std::string address() const override { return address_; }

    Status expose(std::byte* base, std::uint64_t bytes, Region& region, std::string& why) override;
    void withdraw(Region& region) override;
    Status connect(int peer, std::string_view address, std::string& why) override;
    void disconnect(int peer) override;

    Status write(int peer, const Write& write) override;
    std::uint64_t write_max() const override
    {
        return std::min<std::uint64_t>(info_->ep_attr->max_msg_size, kWriteMax);
    }
    std::uint64_t inline_max() const override { return inject_max_; }

    bool next(Event& event) override;
    bool passive_target() const override { return info_->domain_attr->data_progress != FI_PROGRESS_AUTO; }
    std::string why(int peer) const override;

    std::string pulse_host() const override { return device_.host; }
    std::string link_trouble() const override;

private:
    bool set_address(std::string& why);
    ssize_t post(const Remote& to, const Write& w, Context* context);
    void read_error();
    void fail(int peer, const std::string& what);
    Context* take_context(int peer, std::uint64_t cookie);
    void give(Context* context);

    Info info_;
    const Device device_;
    std::string provider_, name_, address_;
    Promises promises_;
    std::uint64_t inject_max_ = 0;

    // closed in the reverse order
    Opened<fid_fabric> fabric_;
    Opened<fid_domain> domain_;
    Opened<fid_cq> queue_;
    Opened<fid_av> addresses_;
    Opened<fid_ep> endpoint_;

    std::uint64_t next_key_ = 1;
    std::unordered_map<int, Remote> remotes_;
    std::deque<Context> contexts_;
    std::vector<Context*> free_;
    unsigned under_way_ = 0;
    std::array<fi_cq_data_entry, 32> entries_;
    std::size_t entry_ = 0, entries_there_ = 0;
    std::deque<Event> events_;
    bool broken_ = false; // the queue itself
};

bool Endpoint::open(std::string& why)
{
    fid_fabric* fabric = nullptr;
    fid_domain* domain = nullptr;
    fid_cq* queue = nullptr;
    fid_av* addresses = nullptr;
    fid_ep* endpoint = nullptr;
    fi_cq_attr queue_attr{};
    queue_attr.size = kQueue;
    queue_attr.format = FI_CQ_FORMAT_DATA;
    queue_attr.wait_obj = FI_WAIT_NONE;
    fi_av_attr av_attr{};
    av_attr.type = info_->domain_attr->av_type == FI_AV_UNSPEC ? FI_AV_TABLE : info_->domain_attr->av_type;

    int rc = fi_fabric(info_->fabric_attr, &fabric, nullptr);
    const char* step = "fi_fabric";
    auto then = [&](const char* call, auto&& next) {
        if (rc == 0) {
            step = call;
            rc = next();
        }
    };
    fabric_.reset(fabric);
    then("fi_domain", [&] { return fi_domain(fabric_.get(), info_.get(), &domain, nullptr); });
    domain_.reset(domain);
    then("fi_cq_open", [&] { return fi_cq_open(domain_.get(), &queue_attr, &queue, nullptr); });
    queue_.reset(queue);
    then("fi_av_open", [&] { return fi_av_open(domain_.get(), &av_attr, &addresses, nullptr); });
    addresses_.reset(addresses);
    then("fi_endpoint", [&] { return fi_endpoint(domain_.get(), info_.get(), &endpoint, nullptr); });
    endpoint_.reset(endpoint);
    then("fi_ep_bind", [&] { return fi_ep_bind(endpoint, &addresses->fid, 0); });
    then("fi_ep_bind", [&] { return fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV); });
    then("fi_enable", [&] { return fi_enable(endpoint); });
    if (rc != 0) {
        why = said(step, rc);
        return false;
    }
    return set_address(why);
}

// The provider, and its own address as it stands when it is a word, else in hexadecimal.
bool Endpoint::set_address(std::string& why)
{
    char bytes[128];
    std::size_t length = sizeof bytes;
    if (const int rc = fi_getname(&endpoint_->fid, bytes, &length); rc != 0) {
        why = said("fi_getname", rc);
        return false;
    }
    length = std::min(length, sizeof bytes);
    const std::size_t text = strnlen(bytes, length);
    const bool word = info_->addr_format == FI_ADDR_STR && text != 0 &&
                      std::all_of(bytes, bytes + text, [](char c) { return c > ' ' && c < 127 && c != '^'; });
    address_ = provider_ + (word ? "=" + std::string(bytes, text) : "~" + hex(bytes, length));
    if (address_.size() <= 140)
        return true;
    why = "its addresses are too long";
    return false;
}

Status Endpoint::expose(std::byte* base, std::uint64_t bytes, Region& region, std::string& why)
{
    const int mode = info_->domain_attr->mr_mode;
    fid_mr* memory = nullptr;
    constexpr std::uint64_t kAccess = FI_WRITE | FI_REMOTE_WRITE;
    int rc = fi_mr_reg(domain_.get(), base, bytes, kAccess, 0, next_key_++, 0, &memory, nullptr);
    if (rc == 0 && (mode & FI_MR_ENDPOINT) != 0) {
        rc = fi_mr_bind(memory, &endpoint_->fid, 0);
        rc = rc == 0 ? fi_mr_enable(memory) : rc;
        if (rc != 0)
            fi_close(&memory->fid);
    }
    if (rc != 0) {
        why = "memory cannot be registered (" + said("fi_mr_reg", rc) + "); `ulimit -l` may be too low";
        return Status::refused;
    }
    region = {base, bytes, (mode & FI_MR_VIRT_ADDR) != 0 ? reinterpret_cast<std::uintptr_t>(base) : 0,
              fi_mr_key(memory), memory};
    return Status::ok;
}

void Endpoint::withdraw(Region& region)
{
    if (region.handle != nullptr)
        fi_close(&static_cast<fid_mr*>(region.handle)->fid);
    region = {};
}

Status Endpoint::connect(int peer, std::string_view address, std::string& why)
{
    Remote& remote = remotes_[peer];
    if (remote.address != FI_ADDR_UNSPEC)
        return Status::ok;
    const bool ours = address.starts_with(provider_) && address.size() > provider_.size();
    const char form = ours ? address[provider_.size()] : '\0';
    std::vector<unsigned char> bytes;
    if (form == '=') {
        address.remove_prefix(provider_.size() + 1);
        bytes.assign(address.begin(), address.end());
        bytes.push_back('\0');
    } else if (form != '~' || !from_hex(address.substr(provider_.size() + 1), bytes)) {
        why = "its address is not one of the provider " + provider_;
        return Status::refused;
    }
    const int n = fi_av_insert(addresses_.get(), bytes.data(), 1, &remote.address, 0, nullptr);
    if (n == 1)
        return Status::ok;
    remote.address = FI_ADDR_UNSPEC;
    why = n < 0 ? said("fi_av_insert", n) : "its address is not taken by the provider " + provider_;
    return Status::refused;
}

void Endpoint::disconnect(int peer)
{
    const auto at = remotes_.find(peer);
    if (at != remotes_.end() && at->second.address != FI_ADDR_UNSPEC)
        fi_av_remove(addresses_.get(), &at->second.address, 1, 0);
    remotes_.erase(peer);
}

Context* Endpoint::take_context(int peer, std::uint64_t cookie)
{
    if (free_.empty())
        free_.push_back(&contexts_.emplace_back());
    Context* context = free_.back();
    free_.pop_back();
    context->cookie = cookie;
    context->peer = peer;
    ++under_way_;
    return context;
}

void Endpoint::give(Context* context)
{
    --under_way_;
    free_.push_back(context);
}

Status Endpoint::write(int peer, const Write& w)
{
    Remote& remote = remotes_[peer];
    if (remote.failed || broken_ || remote.address == FI_ADDR_UNSPEC)
        return Status::refused;
    constexpr unsigned kSpecial = wire::kDeliveryComplete | wire::kFenced;
    ssize_t rc;
    if (inject_max_ != 0 && w.bytes <= inject_max_ && (w.flags & kSpecial) == 0) {
        rc = (w.flags & wire::kSignal) != 0
                 ? fi_inject_writedata(endpoint_.get(), w.from, w.bytes, w.signal, remote.address, w.address, w.key)
                 : fi_inject_write(endpoint_.get(), w.from, w.bytes, remote.address, w.address, w.key);
    } else {
        if (under_way_ >= kWritesMax)
            return Status::again;
        Context* context = take_context(peer, w.cookie);
        rc = post(remote, w, context);
        if (rc != 0)
            give(context);
    }
    if (rc == -FI_EAGAIN)
        return Status::again;
    if (rc != 0) {
        fail(peer, said("fi_write", static_cast<int>(rc)));
        return Status::refused;
    }
    return Status::ok;
}

ssize_t Endpoint::post(const Remote& to, const Write& w, Context* context)
{
    const bool local = (info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
    void* description = local && w.source != nullptr ? fi_mr_desc(static_cast<fid_mr*>(w.source->handle)) : nullptr;
    iovec from{const_cast<std::byte*>(w.from), w.bytes};
    fi_rma_iov target{w.address, w.bytes, w.key};
    fi_msg_rma message{};
    message.msg_iov = &from;
    message.desc = &description;
    message.iov_count = 1;
    message.addr = to.address;
    message.rma_iov = &target;
    message.rma_iov_count = 1;
    message.context = &context->room;
    message.data = w.signal;
    return fi_writemsg(endpoint_.get(), &message,
                       FI_COMPLETION | ((w.flags & wire::kSignal) != 0 ? FI_REMOTE_CQ_DATA : 0) |
                           ((w.flags & wire::kDeliveryComplete) != 0 ? FI_DELIVERY_COMPLETE : 0) |
                           ((w.flags & wire::kFenced) != 0 ? FI_FENCE : 0));
}

bool Endpoint::next(Event& event)
{
    for (;;) {
        if (!events_.empty()) {
            event = events_.front();
            events_.pop_front();
            return true;
        }
        if (entry_ == entries_there_) {
            entry_ = entries_there_ = 0;
            const ssize_t n = broken_ ? -FI_EAGAIN : fi_cq_read(queue_.get(), entries_.data(), entries_.size());
            if (n > 0)
                entries_there_ = static_cast<std::size_t>(n);
            else if (n == -FI_EAVAIL)
                read_error();
            else if (n != -FI_EAGAIN && n != -FI_EINTR)
                fail(-1, said("fi_cq_read", static_cast<int>(n)));
            if (n <= 0 && events_.empty())
                return false;
            continue;
        }
        const fi_cq_data_entry& entry = entries_[entry_++];
        // some providers set this flag on the writer's side too
        const bool ours = entry.op_context != nullptr && (entry.flags & FI_REMOTE_WRITE) == 0;
        if ((entry.flags & FI_REMOTE_CQ_DATA) != 0 && !ours) {
            event = {Event::Kind::arrived, -1, static_cast<std::uint32_t>(entry.data), 0};
            return true;
        }
        if (!ours)
            continue;
        auto* context = reinterpret_cast<Context*>(entry.op_context);
        event = {Event::Kind::written, context->peer, 0, context->cookie};
        give(context);
        return true;
    }
}

void Endpoint::read_error()
{
    fi_cq_err_entry error{};
    if (fi_cq_readerr(queue_.get(), &error, 0) != 1)
        return;
    std::string what = fi_strerror(error.err);
    char room[200] = "";
    const char* more = fi_cq_strerror(queue_.get(), error.prov_errno, error.err_data, room, sizeof room);
    if (more != nullptr && *more != '\0' && what != more)
        what += std::string(" (") + more + ")";
    auto* context = reinterpret_cast<Context*>(error.op_context);
    if (context != nullptr) {
        const int peer = context->peer;
        give(context);
        return fail(peer, what);
    }
    if (error.err == FI_EOVERRUN)
        return fail(-1, what);
    // of a write without a context: whose it was is known when there is one peer only
    if (remotes_.size() == 1)
        fail(remotes_.begin()->first, what);
}

// `peer` -1: all of them.
void Endpoint::fail(int peer, const std::string& what)
{
    broken_ = broken_ || peer < 0;
    for (auto& [number, remote] : remotes_) {
        if ((peer >= 0 && number != peer) || remote.failed)
            continue;
        remote.failed = true;
        remote.why = what;
        events_.push_back({Event::Kind::failed, number, 0, 0});
    }
}

std::string Endpoint::why(int peer) const
{
    const auto at = remotes_.find(peer);
    return at == remotes_.end() ? "" : at->second.why;
}

std::string Endpoint::link_trouble() const
{
    if (device_.interface.empty())
        return {};
    char state[32] = "";
    const std::string path = "/sys/class/net/" + device_.interface + "/operstate";
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return "the interface " + device_.interface + " is gone";
    const auto n = ::read(fd, state, sizeof state - 1);
    ::close(fd);
    state[n > 0 ? n : 0] = '\0';
    const bool down = std::strncmp(state, "down", 4) == 0 || std::strncmp(state, "lowerlayerdown", 14) == 0;
    return down ? "the link of " + device_.interface + " is down" : "";
}

} // namespace

std::unique_ptr<wire::Transport> open_endpoint(Info info, const Device& device, std::string& why)
{
    auto endpoint = std::make_unique<Endpoint>(std::move(info), device);
    if (!endpoint->open(why))
        return nullptr;
    return endpoint;
}

} // namespace storm::ofi
