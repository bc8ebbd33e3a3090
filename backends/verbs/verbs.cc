// SPDX-License-Identifier: MIT
#include "verbs.hh"

#include "manager.hh"
#include "queue.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unordered_map>
#include <vector>

namespace storm::verbs {
namespace {

using wire::Event;
using wire::Region;
using wire::Write;

constexpr int kCompletionsMost = 8192; // operations of all queue pairs at once
constexpr std::uint32_t kReceives = 512;
constexpr unsigned kLookAtDeviceEvery = 4096;
constexpr std::uint64_t kWriteMax = std::uint64_t{1} << 30;

// What two ends say to get their queue pair connected. Each says `ready` once, when it
// takes what comes: nobody sends to an end that would not answer.
struct Hello {
    enum class Kind : std::uint8_t { ask, ready, refuse };
    Kind kind = Kind::ask;
    End end;
    char text[120] = "";
};
static_assert(sizeof(Hello) <= wire::Transport::kWordMax);

const char* kind_of(Device::Fabric fabric)
{
    return fabric == Device::Fabric::roce ? "roce" : fabric == Device::Fabric::iwarp ? "iwarp" : "ib";
}

// The row of matrix.def. This code asks for no relaxed ordering.
const char* row_of(const Device& device)
{
    return device.fabric == Device::Fabric::iwarp                             ? "verbs-iwarp"
           : device.driver == "rxe"                                           ? "verbs-rxe"
           : device.driver == "mlx5_core" || device.driver == "mlx4_core" ? "verbs-ib"
                                                                              : "verbs-other";
}

class Verbs final : public wire::Transport {
public:
    Verbs(const BackendSettings& settings, Resources&& resources, std::unique_ptr<Manager> manager)
        : log_(settings.log), r_(std::move(resources)), manager_(std::move(manager)),
          promises_(wire::promises_of(row_of(r_.device), "")), name_("verbs " + r_.device.name),
          rank_(settings.world_rank_hint)
    {
    }
    ~Verbs() override;

    bool prepare(std::string& why);

    const char* name() const override { return name_.c_str(); }
    const wire::Promises& promises() const override { return promises_; }
    std::string address() const override;

    Status expose(std::byte* base, std::uint64_t bytes, Region& region, std::string& why) override;
    void withdraw(Region& region) override;
    Status connect(int peer, std::string_view address, std::string& why) override;
    void disconnect(int peer) override;
    bool next_word(Word& word) override;
    void take_word(const Word& word) override;
    Status write(int peer, const Write& write) override;
    std::uint64_t write_max() const override { return kWriteMax; }
    std::uint64_t inline_max() const override { return inline_max_; }
    bool next(Event& event) override;
    bool passive_target() const override { return true; }
    std::string why(int peer) const override;

private:
    Queue& queue_to(int peer);
    Queue* find(int peer) const;
    bool connectable(std::string_view address, std::string& why) const;
    bool make(Queue& queue);
    void release(Queue& queue);
    void say(int peer, Hello::Kind kind, const Queue& queue);
    void answer(Queue& queue, const End& there);
    void fail(Queue& queue, const std::string& why);
    void look_at_sent();
    void look_at_came();
    void look_at_device();
    void complete(Queue& queue, std::uint64_t number);
    void post_receives();

    const Log* log_;
    Resources r_;
    std::unique_ptr<Manager> manager_; // iWARP's connections
    wire::Promises promises_;
    std::string name_;
    const int rank_; // one of a device's several users
    std::uint32_t inline_max_ = 0;
    std::unordered_map<int, std::unique_ptr<Queue>> queues_;
    std::unordered_map<std::uint32_t, int> peers_; // by the number of our queue pair
    std::deque<Word> words_;
    std::vector<Event> events_;
    std::size_t told_ = 0;
    std::uint64_t under_way_ = 0;       // operations of all queue pairs
    std::uint32_t receives_posted_ = 0;
    unsigned looks_ = 0;
    alignas(64) std::array<std::byte, 64> landing_{}; // of reads whose bytes nobody wants
    ibv_mr* landing_region_ = nullptr;
};

Verbs::~Verbs()
{
    for (auto& [peer, queue] : queues_)
        release(*queue);
    manager_.reset();
    if (landing_region_ != nullptr)
        ibv_dereg_mr(landing_region_);
    if (r_.receives != nullptr)
        ibv_destroy_srq(r_.receives);
    if (r_.sent != nullptr)
        ibv_destroy_cq(r_.sent);
    if (r_.came != nullptr)
        ibv_destroy_cq(r_.came);
    if (r_.domain != nullptr)
        ibv_dealloc_pd(r_.domain);
    if (r_.device.context != nullptr && r_.device.fabric != Device::Fabric::iwarp)
        ibv_close_device(r_.device.context);
}

// All that does not depend on peers.
bool Verbs::prepare(std::string& why)
{
    ibv_context* context = r_.device.context;
    ibv_device_attr limits{};
    const auto lacks = [&](const char* what) {
        why = r_.device.name + " gives no " + what + " (" + std::strerror(errno) + ")";
        return false;
    };
    if (ibv_query_device(context, &limits) != 0)
        return lacks("list of its limits");
    r_.domain = ibv_alloc_pd(context);
    if (r_.domain == nullptr)
        return lacks("protection domain");
    const int completions = std::min(limits.max_cqe, 2 * kCompletionsMost);
    r_.sent = ibv_create_cq(context, completions, nullptr, nullptr, 0);
    r_.came = ibv_create_cq(context, std::min(limits.max_cqe, static_cast<int>(2 * kReceives)), nullptr, nullptr, 0);
    if (r_.sent == nullptr || r_.came == nullptr)
        return lacks("completion queue");
    if (r_.device.fabric != Device::Fabric::iwarp && limits.max_srq > 0) { // iWARP writes carry no such data
        ibv_srq_init_attr wanted{};
        wanted.attr.max_wr = std::min(static_cast<std::uint32_t>(limits.max_srq_wr), kReceives);
        wanted.attr.max_sge = 1;
        r_.receives = ibv_create_srq(r_.domain, &wanted);
        post_receives();
    }
    if (r_.receives == nullptr) {
        promises_.remote_cq = false;
        promises_.usual = promises_.usual == wire::Mode::remote_cq ? wire::Mode::stamped : promises_.usual;
    }
    landing_region_ = ibv_reg_mr(r_.domain, landing_.data(), landing_.size(),
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (landing_region_ == nullptr)
        return lacks("registered memory");
    // a queue pair that is thrown away tells how much goes inline
    ibv_qp* pair = create_pair(r_, inline_max_);
    if (pair == nullptr)
        return lacks("queue pair");
    ibv_destroy_qp(pair);
    if (manager_ != nullptr)
        manager_->attach(r_, inline_max_);
    const int flags = ::fcntl(context->async_fd, F_GETFL);
    ::fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK);
    return true;
}

std::string Verbs::address() const
{
    if (manager_ != nullptr)
        return std::string(kind_of(r_.device.fabric)) + "/" + manager_->address();
    char text[80];
    const auto* gid = r_.device.gid.raw;
    int n = std::snprintf(text, sizeof text, "%s/", kind_of(r_.device.fabric));
    for (int i = 0; i < 16; ++i)
        n += std::snprintf(text + n, sizeof text - static_cast<std::size_t>(n), "%02x", gid[i]);
    std::snprintf(text + n, sizeof text - static_cast<std::size_t>(n), "/%x/%d", r_.device.lid, rank_);
    return text;
}

// ---- memory

Status Verbs::expose(std::byte* base, std::uint64_t bytes, Region& region, std::string& why)
{
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    ibv_mr* memory = ibv_reg_mr(r_.domain, base, bytes, kAccess);
    if (memory == nullptr) {
        const int error = errno;
        char text[240];
        rlimit limit{};
        ::getrlimit(RLIMIT_MEMLOCK, &limit);
        if ((error == ENOMEM || error == EPERM) && limit.rlim_cur != RLIM_INFINITY)
            std::snprintf(text, sizeof text,
                          "%" PRIu64 " KiB cannot be registered with %s as no more than %" PRIu64
                          " KiB may be locked: raise the limit (ulimit -l, or memlock in limits.conf)",
                          bytes / 1024, r_.device.name.c_str(), static_cast<std::uint64_t>(limit.rlim_cur) / 1024);
        else
            std::snprintf(text, sizeof text, "%" PRIu64 " KiB cannot be registered with %s (%s)", bytes / 1024,
                          r_.device.name.c_str(), std::strerror(error));
        why = text;
        return Status::refused;
    }
    region.base = base;
    region.bytes = bytes;
    region.address = reinterpret_cast<std::uintptr_t>(base);
    region.key = memory->rkey;
    region.handle = memory;
    return Status::ok;
}

void Verbs::withdraw(Region& region)
{
    if (region.handle != nullptr)
        ibv_dereg_mr(static_cast<ibv_mr*>(region.handle));
    region = {};
}

// ---- connecting

Queue* Verbs::find(int peer) const
{
    const auto at = queues_.find(peer);
    return at != queues_.end() ? at->second.get() : nullptr;
}

Queue& Verbs::queue_to(int peer)
{
    auto& queue = queues_[peer];
    if (queue == nullptr) {
        queue = std::make_unique<Queue>();
        queue->peer = peer;
    }
    return *queue;
}

bool Verbs::connectable(std::string_view address, std::string& why) const
{
    const std::string_view kind = address.substr(0, address.find('/'));
    if (kind == kind_of(r_.device.fabric))
        return true;
    why = "the peer's device is of another kind: " + std::string(kind) + ", ours is " + kind_of(r_.device.fabric);
    return false;
}

bool Verbs::make(Queue& queue)
{
    queue.pair = make_pair(r_, inline_max_, queue.why);
    if (queue.pair == nullptr) {
        queue.state = Queue::State::failed;
        return false;
    }
    peers_[queue.pair->qp_num] = queue.peer;
    return true;
}

void Verbs::release(Queue& queue)
{
    if (manager_ != nullptr)
        manager_->release(queue);
    else if (queue.pair != nullptr) {
        peers_.erase(queue.pair->qp_num);
        ibv_destroy_qp(queue.pair);
    }
    queue.pair = nullptr;
    under_way_ -= queue.taken - queue.freed;
    queue.freed = queue.taken;
    queue.first = queue.end;
    queue.receives = false;
}

void Verbs::say(int peer, Hello::Kind kind, const Queue& queue)
{
    Hello hello;
    hello.kind = kind;
    if (queue.pair != nullptr)
        hello.end = {queue.pair->qp_num, kFirstPacket, r_.device.gid, r_.device.lid,
                     static_cast<std::uint8_t>(r_.device.mtu)};
    std::snprintf(hello.text, sizeof hello.text, "%s", queue.why.c_str());
    Word& word = words_.emplace_back();
    word.peer = peer;
    word.bytes = sizeof hello;
    std::memcpy(word.data.data(), &hello, sizeof hello);
}

Status Verbs::connect(int peer, std::string_view address, std::string& why)
{
    Queue& queue = queue_to(peer);
    if (queue.state == Queue::State::fresh) {
        const bool begun = connectable(address, queue.why) &&
                           (manager_ != nullptr ? manager_->connect(queue, address.substr(address.find('/') + 1))
                                                : queue.pair != nullptr || make(queue));
        queue.state = begun ? Queue::State::asked : Queue::State::failed;
        if (begun && manager_ == nullptr)
            say(peer, Hello::Kind::ask, queue);
    }
    if (queue.state == Queue::State::failed)
        why = queue.why;
    return queue.state == Queue::State::ready    ? Status::ok
           : queue.state == Queue::State::failed ? Status::refused
                                                 : Status::again;
}

void Verbs::disconnect(int peer)
{
    if (const auto at = queues_.find(peer); at != queues_.end()) {
        release(*at->second);
        queues_.erase(at);
    }
}

bool Verbs::next_word(Word& word)
{
    if (words_.empty())
        return false;
    word = words_.front();
    words_.pop_front();
    return true;
}

void Verbs::take_word(const Word& word)
{
    Hello hello;
    if (manager_ != nullptr || word.bytes != sizeof hello)
        return;
    std::memcpy(&hello, word.data.data(), sizeof hello);
    Queue& queue = queue_to(word.peer);
    switch (hello.kind) {
    case Hello::Kind::ask:
        if (queue.receives && queue.number_there != hello.end.number) { // it has begun anew
            if (queue.first != queue.end)
                fail(queue, "the peer has connected anew");
            release(queue);
            queue.state = Queue::State::fresh;
        }
        answer(queue, hello.end);
        break;
    case Hello::Kind::ready:
        if (queue.pair == nullptr || queue.state == Queue::State::failed)
            break;
        answer(queue, hello.end);
        if (queue.receives)
            queue.state = Queue::State::ready;
        break;
    case Hello::Kind::refuse:
        hello.text[sizeof hello.text - 1] = '\0';
        if (queue.state != Queue::State::failed)
            fail(queue, std::string("the peer refuses: ") + hello.text);
        break;
    }
}

// The peer has told its end: ours takes what comes from there, and that is said.
void Verbs::answer(Queue& queue, const End& there)
{
    if (queue.receives)
        return;
    std::string why;
    if (queue.pair == nullptr && !make(queue))
        why = queue.why;
    else if (connect_pair(r_, queue.pair, there, why)) {
        queue.receives = true;
        queue.number_there = there.number;
        return say(queue.peer, Hello::Kind::ready, queue);
    }
    fail(queue, why);
    say(queue.peer, Hello::Kind::refuse, queue);
}

std::string Verbs::why(int peer) const
{
    const Queue* queue = find(peer);
    return queue != nullptr ? queue->why : "";
}

// Writes that were taken end here; the event is told once.
void Verbs::fail(Queue& queue, const std::string& why)
{
    if (queue.state == Queue::State::failed)
        return;
    const bool asked = queue.state != Queue::State::fresh;
    queue.state = Queue::State::failed;
    queue.why = why;
    queue.first = queue.end;
    if (log_ != nullptr)
        log_->debug("verbs: rank %d cannot be reached by %s (%s)", queue.peer, r_.device.name.c_str(), why.c_str());
    if (asked)
        events_.push_back({Event::Kind::failed, queue.peer, 0, 0});
}

// ---- writes

Status Verbs::write(int peer, const Write& write)
{
    Queue* queue = find(peer);
    if (queue == nullptr || queue->state == Queue::State::failed)
        return Status::refused;
    const bool signals = (write.flags & wire::kSignal) != 0;
    const bool delivered = (write.flags & wire::kDeliveryComplete) != 0 && write.bytes != 0;
    if (write.bytes > kWriteMax || (signals && !promises_.remote_cq))
        return Status::refused;
    const std::uint32_t operations = delivered ? 2 : 1;
    if (queue->state != Queue::State::ready || queue->taken - queue->freed + operations > kQueueDepth ||
        under_way_ + operations > kCompletionsMost)
        return Status::again;

    const bool goes_inline = write.bytes <= inline_max_;
    // A completion costs: small writes behind one that will tell need none of their own.
    const bool signalled =
        !goes_inline || delivered || queue->signalled == 0 || queue->unsignalled_run >= kUnsignalledMax;
    const std::uint64_t id = static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer)) << 32 |
                             static_cast<std::uint32_t>(queue->end);
    ibv_sge from{};
    from.addr = reinterpret_cast<std::uintptr_t>(write.from);
    from.length = static_cast<std::uint32_t>(write.bytes);
    from.lkey = write.bytes != 0 && write.source != nullptr ? static_cast<ibv_mr*>(write.source->handle)->lkey : 0;
    ibv_send_wr operation{};
    operation.wr_id = id;
    operation.sg_list = &from;
    operation.num_sge = write.bytes != 0 ? 1 : 0;
    operation.opcode = signals ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    operation.imm_data = htonl(write.signal);
    unsigned flags = 0;
    flags |= (write.flags & wire::kFenced) != 0 ? +IBV_SEND_FENCE : 0;
    flags |= goes_inline && write.bytes != 0 ? +IBV_SEND_INLINE : 0;
    flags |= signalled && !delivered ? +IBV_SEND_SIGNALED : 0;
    operation.send_flags = flags;
    operation.wr.rdma.remote_addr = write.address;
    operation.wr.rdma.rkey = static_cast<std::uint32_t>(write.key);

    // The bytes that the read asks for are there when it is answered, so all of the write is.
    ibv_sge into{};
    ibv_send_wr reading{};
    if (delivered) {
        const std::uint64_t bytes = std::min<std::uint64_t>(write.bytes, 8);
        into.addr = reinterpret_cast<std::uintptr_t>(landing_.data());
        into.length = static_cast<std::uint32_t>(bytes);
        into.lkey = landing_region_->lkey;
        reading.wr_id = id;
        reading.sg_list = &into;
        reading.num_sge = 1;
        reading.opcode = IBV_WR_RDMA_READ;
        reading.send_flags = IBV_SEND_SIGNALED;
        reading.wr.rdma.remote_addr = write.address + write.bytes - bytes;
        reading.wr.rdma.rkey = static_cast<std::uint32_t>(write.key);
        operation.next = &reading;
    }
    ibv_send_wr* refused = nullptr;
    if (const int error = ibv_post_send(queue->pair, &operation, &refused); error != 0) {
        if (error == ENOMEM && refused == &operation)
            return Status::again;
        fail(*queue, r_.device.name + " refuses a write (" + std::strerror(error) + ")");
        return Status::refused;
    }
    queue->taken += operations;
    under_way_ += operations;
    queue->posted[queue->end++ % kQueueDepth] = {write.cookie, queue->taken, signalled};
    queue->signalled += signalled ? 1 : 0;
    queue->unsignalled_run = signalled ? 0 : queue->unsignalled_run + 1;
    return Status::ok;
}

// Writes of a queue pair are complete in their order: with one, all before it. Those
// behind the last that asks for a completion went inline, so their sources are free.
void Verbs::complete(Queue& queue, std::uint64_t number)
{
    const std::uint64_t freed = queue.posted[number % kQueueDepth].taken;
    under_way_ -= freed - queue.freed;
    queue.freed = freed;
    while (queue.first != queue.end && (queue.first <= number || queue.signalled == 0)) {
        const Posted& write = queue.posted[queue.first++ % kQueueDepth];
        queue.signalled -= write.signalled ? 1 : 0;
        events_.push_back({Event::Kind::written, queue.peer, 0, write.cookie});
    }
}

void Verbs::look_at_sent()
{
    std::array<ibv_wc, 16> done;
    const int count = ibv_poll_cq(r_.sent, static_cast<int>(done.size()), done.data());
    for (int i = 0; i < count; ++i) {
        const ibv_wc& wc = done[static_cast<std::size_t>(i)];
        Queue* queue = find(static_cast<int>(wc.wr_id >> 32));
        if (queue == nullptr || queue->pair == nullptr || queue->pair->qp_num != wc.qp_num ||
            queue->state == Queue::State::failed)
            continue; // of a queue pair that is no more
        if (wc.status != IBV_WC_SUCCESS) {
            fail(*queue, r_.device.name + ": " + ibv_wc_status_str(wc.status));
            continue;
        }
        const std::uint32_t behind = static_cast<std::uint32_t>(wc.wr_id) - static_cast<std::uint32_t>(queue->first);
        if (behind < queue->end - queue->first)
            complete(*queue, queue->first + behind);
    }
}

void Verbs::post_receives()
{
    ibv_recv_wr receive{};
    ibv_recv_wr* refused = nullptr;
    while (r_.receives != nullptr && receives_posted_ < kReceives &&
           ibv_post_srq_recv(r_.receives, &receive, &refused) == 0)
        ++receives_posted_;
}

void Verbs::look_at_came()
{
    std::array<ibv_wc, 16> done;
    const int count = ibv_poll_cq(r_.came, static_cast<int>(done.size()), done.data());
    for (int i = 0; i < count; ++i) {
        const ibv_wc& wc = done[static_cast<std::size_t>(i)];
        --receives_posted_;
        if (wc.status != IBV_WC_SUCCESS || (wc.wc_flags & IBV_WC_WITH_IMM) == 0)
            continue; // the sender learns of it
        const auto at = peers_.find(wc.qp_num);
        events_.push_back({Event::Kind::arrived, at != peers_.end() ? at->second : -1, ntohl(wc.imm_data), 0});
    }
    if (count > 0 && receives_posted_ < kReceives * 3 / 4)
        post_receives();
}

// A device may be taken out, and a queue pair may fail at its passive end.
void Verbs::look_at_device()
{
    ibv_async_event event;
    while (ibv_get_async_event(r_.device.context, &event) == 0) {
        const std::string said = r_.device.name + ": " + ibv_event_type_str(event.event_type);
        switch (event.event_type) {
        case IBV_EVENT_DEVICE_FATAL:
        case IBV_EVENT_CQ_ERR:
            for (auto& [peer, queue] : queues_)
                fail(*queue, said);
            break;
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
            if (const auto at = peers_.find(event.element.qp->qp_num); at != peers_.end())
                fail(queue_to(at->second), said);
            break;
        default:
            break;
        }
        ibv_ack_async_event(&event);
    }
}

bool Verbs::next(Event& event)
{
    if (told_ == events_.size()) {
        events_.clear();
        told_ = 0;
        if (under_way_ != 0)
            look_at_sent();
        if (receives_posted_ != 0)
            look_at_came();
        if (manager_ != nullptr)
            manager_->look([&](Queue& queue, const std::string& why) { fail(queue, why); });
        if (++looks_ % kLookAtDeviceEvery == 0)
            look_at_device();
        if (events_.empty())
            return false;
    }
    event = events_[told_++];
    return true;
}

} // namespace

std::unique_ptr<wire::Transport> open_transport(const BackendSettings& settings, std::string& why)
{
    // before anything of the library: a forked child must not take pages from the adapter
    if (const int error = ibv_fork_init(); error != 0 && settings.log != nullptr)
        settings.log->info("a program that forks may lose messages over verbs (%s)", std::strerror(error));
    Resources resources;
    if (!open_device(settings.nic == "auto" ? "" : settings.nic, resources.device, why))
        return nullptr;
    std::unique_ptr<Manager> manager;
    if (resources.device.fabric == Device::Fabric::iwarp) {
        manager = Manager::open(resources.device, why);
        if (manager == nullptr)
            return nullptr;
    }
    auto made = std::make_unique<Verbs>(settings, std::move(resources), std::move(manager));
    if (!made->prepare(why))
        return nullptr;
    return made;
}

} // namespace storm::verbs
