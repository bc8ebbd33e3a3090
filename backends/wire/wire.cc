// SPDX-License-Identifier: MIT
#include "body.hh"

#include <csignal>
#include <pthread.h>

namespace storm::wire {
namespace {

constexpr std::chrono::microseconds kLookAnew{5}; // in flush
constexpr char kPulseMark = '^';                  // between the transport's address and the pulse's

bool power_of_two(std::uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

} // namespace

std::unique_ptr<Backend> make(const char* name, std::unique_ptr<Transport> transport, const BackendSettings& settings,
                              std::string& why, const Trial& trial)
{
    Mode mode;
    const Promises& promises = transport->promises();
    if (choose_mode(settings.ordering, promises, mode, why) != Status::ok && !trial.trust)
        return nullptr;
    return std::make_unique<Wire>(name, std::move(transport), settings, mode);
}

Wire::Wire(const char* name, std::unique_ptr<Transport> transport, const BackendSettings& settings, Mode mode)
    : name_(name), transport_(std::move(transport)), log_(*settings.log), mode_(mode), verify_(settings.verify),
      threaded_(settings.progress_thread && !transport_->calls_mpi()), batch_(settings.batch),
      flush_us_(settings.flush_us), memory_max_(settings.memory_max), rank_(settings.world_rank_hint),
      inline_max_(transport_->inline_max()),
      inbound_memory_(std::make_unique<Slab>(*transport_, memory_max_, "STORM_MEMORY_MAX")),
      outbound_memory_(std::make_unique<Slab>(*transport_, memory_max_, "STORM_MEMORY_MAX"))
{
    slots_.resize(1); // none has number 0
    if (const std::string host = transport_->pulse_host(); !host.empty()) {
        std::string why;
        pulse_ = Pulse::open(host, why);
        if (pulse_ == nullptr)
            log_.info("silent peers are not asked whether they live (%s)", why.c_str());
    }
    if (threaded_) {
        sigset_t all, before;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before); // the program's signals are not for this thread
        thread_ = std::thread([this] { run_thread(); });
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
}

Wire::~Wire()
{
    // relaxed: only to be seen at some time; the join orders all else
    over_.store(true, std::memory_order_relaxed);
    if (thread_.joinable())
        thread_.join();
}

void Wire::run_thread()
{
    // relaxed: see the destructor
    while (!over_.load(std::memory_order_relaxed)) {
        {
            const Guard lock = guard();
            look_for_events();
            move();
            watch();
        }
        std::this_thread::sleep_for(std::chrono::microseconds(flush_us_));
    }
}

std::string Wire::address() const
{
    return transport_->address() + (pulse_ != nullptr ? kPulseMark + pulse_->address() : "");
}

void Wire::begin(const Begin& begin)
{
    const Guard lock = guard();
    transport_->begin(begin);
}

void Wire::end()
{
    const Guard lock = guard();
    transport_->end();
}

const std::uint64_t* Wire::doorbell() const
{
    static constexpr std::uint64_t kSilent = 0;
    return &kSilent;
}

// ---- asking for a lane

Status Wire::claim(int peer, std::string_view address, std::uint64_t bytes, Lane& lane, std::string& why)
{
    const Guard lock = guard();
    Peer& p = peers_[peer];
    if (p.asked == nullptr && !p.failed) {
        const auto mark = address.rfind(kPulseMark);
        p.address = address.substr(0, mark);
        p.pulse = mark == address.npos ? "" : address.substr(mark + 1);
        if (transport_->connect(peer, p.address, why) == Status::refused)
            return Status::refused;
        if (ask_for(peer, bytes, why) != Status::ok)
            return Status::refused;
    }
    return settle(peer, lane, why);
}

Status Wire::grow(int peer, std::uint64_t bytes, Lane& lane, std::string& why)
{
    const Guard lock = guard();
    Peer& p = peers_[peer];
    if (p.asked == nullptr && !p.failed && ask_for(peer, bytes, why) != Status::ok)
        return Status::refused;
    return settle(peer, lane, why);
}

Status Wire::ask_for(int peer, std::uint64_t bytes, std::string& why)
{
    Outbound* o = nullptr;
    if (!power_of_two(bytes) || bytes < kPage) {
        why = "a ring's size is a power of two";
        return Status::refused;
    }
    if (make_outbound(peer, bytes, o, why) != Status::ok)
        return Status::refused;
    Ask ask{.mode = mode_, .verify = verify_, .lines = transport_->promises().whole_lines, .lane = o->id,
            .bytes = bytes, .block_address = o->block.region->address +
                                             static_cast<std::uint64_t>(o->block.at - o->block.region->base),
            .block_key = o->block.region->key};
    set_text(ask.address, transport_->address());
    words_.push_back(word_of(peer, ask));
    peers_[peer].asked = o;
    return Status::ok;
}

// What has become of what was asked for.
Status Wire::settle(int peer, Lane& lane, std::string& why)
{
    Peer& p = peers_[peer];
    Outbound* o = p.asked;
    if (p.failed) {
        why = p.why;
        return Status::refused;
    }
    if (o->state == Outbound::State::asked)
        return Status::again;
    const bool granted = o->state == Outbound::State::granted;
    const Status connected = granted ? transport_->connect(peer, p.address, why) : Status::refused;
    if (connected == Status::again)
        return connected;
    p.asked = nullptr;
    if (connected == Status::ok) {
        p.current = o;
        sending_.push_back(o);
        lane = {o->mirror.get(), o->shape.bytes, &o->head, o->ref};
        return Status::ok;
    }
    if (!granted)
        why = o->why;
    o->dropped = true;
    sending_.push_back(o);
    end_if_done(*o);
    return Status::refused;
}

Status Wire::take_block(Block& block, std::string& why)
{
    if (blocks_.at == nullptr || blocks_used_ == kPage) {
        if (outbound_memory_->take(kPage, blocks_, why) != Status::ok)
            return Status::refused;
        blocks_used_ = 0;
    }
    block = {blocks_.at + blocks_used_, blocks_.region};
    blocks_used_ += kBlockRoom;
    return Status::ok;
}

Status Wire::make_outbound(int peer, std::uint64_t bytes, Outbound*& made, std::string& why)
{
    constexpr std::uint64_t kStageMax = 128 << 10;
    if (mirrors_ + bytes > memory_max_) {
        why = "our budget of " + std::to_string(memory_max_) + " bytes for mirrors (STORM_MEMORY_MAX) is used up";
        return Status::refused;
    }
    auto o = std::make_unique<Outbound>();
    o->peer = peer;
    o->shape = shape_of(mode_, verify_, transport_->promises().whole_lines, bytes);
    o->stage_room = mode_ == Mode::stamped ? 0 : std::min(bytes, kStageMax);
    o->mirror.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
    if (o->mirror == nullptr) {
        why = "no memory for a mirror";
        return Status::refused;
    }
    if (take_block(o->block, why) != Status::ok ||
        outbound_memory_->take(o->stage_room + o->shape.landing_bytes(), o->stage, why) != Status::ok)
        return Status::refused;
    std::memset(o->mirror.get(), 0, bytes);
    mirrors_ += bytes;
    o->id = outs_.size() + 1;
    made = o.get();
    outs_.push_back(std::move(o));
    return Status::ok;
}

// ---- granting one

// False when it must be looked at again.
bool Wire::answer(int peer, const Ask& ask)
{
    std::string why;
    Inbound* in = nullptr;
    Status status = peers_[peer].failed ? Status::refused : transport_->connect(peer, ask.address, why);
    if (status == Status::again)
        return false;
    if (peers_[peer].failed)
        why = peers_[peer].why;
    if (status == Status::ok)
        status = make_inbound(peer, ask, in, why);
    if (status != Status::ok) {
        Refuse refuse{.lane = ask.lane};
        set_text(refuse.why, why);
        words_.push_back(word_of(peer, refuse));
        return true;
    }
    const Region& region = *in->memory.region;
    const std::uint64_t ring = in->memory.address(in->memory.at);
    words_.push_back(word_of(peer, Grant{.slot = in->slot, .lane = ask.lane, .ref = in->id, .ring_address = ring,
                                         .key = region.key, .landing_address = ring + in->shape.landing_offset(),
                                         .cells = in->shape.cells, .cell_bytes = in->shape.cell_bytes}));
    return true;
}

Status Wire::make_inbound(int peer, const Ask& ask, Inbound*& made, std::string& why)
{
    if (!power_of_two(ask.bytes) || ask.bytes < kPage || static_cast<unsigned>(ask.mode) >= kModes) {
        why = "the ring that was asked for has no sound size or mode";
        return Status::refused;
    }
    auto slot = std::find(slots_.begin() + 1, slots_.end(), nullptr);
    if (slots_.size() == Signal::kSlots && slot == slots_.end()) {
        why = "all numbers of inbound rings are taken";
        return Status::refused;
    }
    auto in = std::make_unique<Inbound>();
    in->peer = peer;
    in->theirs = ask.lane;
    in->shape = shape_of(ask.mode, ask.verify, ask.lines, ask.bytes);
    in->block_address = ask.block_address;
    in->block_key = ask.block_key;
    if (take_block(in->block, why) != Status::ok ||
        inbound_memory_->take(in->shape.landing_offset() + in->shape.landing_bytes(), in->memory, why) != Status::ok)
        return Status::refused;
    if (slot == slots_.end())
        slot = slots_.insert(slots_.end(), nullptr);
    *slot = in.get();
    in->slot = static_cast<std::uint32_t>(slot - slots_.begin());
    in->id = ins_.size() + 1;
    receiving_.push_back(in.get());
    made = in.get();
    ins_.push_back(std::move(in));
    return Status::ok;
}

void Wire::on_grant(int peer, const Grant& grant)
{
    Outbound* o = grant.lane != 0 && grant.lane <= outs_.size() ? outs_[grant.lane - 1].get() : nullptr;
    if (o == nullptr || o->peer != peer || o->state != Outbound::State::asked)
        return;
    o->ref = grant.ref;
    o->slot = grant.slot;
    o->ring = grant.ring_address;
    o->landing = grant.landing_address;
    o->key = grant.key;
    const bool same = grant.cells == o->shape.cells && grant.cell_bytes == o->shape.cell_bytes;
    o->state = same ? Outbound::State::granted : Outbound::State::refused;
    o->why = "the two ends make different rings";
}

void Wire::on_refuse(int peer, const Refuse& refuse)
{
    Outbound* o = refuse.lane != 0 && refuse.lane <= outs_.size() ? outs_[refuse.lane - 1].get() : nullptr;
    if (o == nullptr || o->peer != peer || o->state != Outbound::State::asked)
        return;
    o->state = Outbound::State::refused;
    o->why.assign(refuse.why, strnlen(refuse.why, sizeof refuse.why));
}

void Wire::on_done(int peer, const Done& done)
{
    Inbound* in = in_of(done.ref);
    if (in == nullptr || in->peer != peer)
        return;
    in->done = true;
    in->units_in_all = done.units;
    end_if_done(*in);
}

bool Wire::next_word(Word& word)
{
    const Guard lock = guard();
    if (!words_.empty()) {
        word = words_.front();
        words_.pop_front();
        return true;
    }
    Word inner;
    if (!transport_->next_word(inner))
        return false;
    word.peer = inner.peer;
    word.bytes = inner.bytes + 1;
    word.data[0] = static_cast<std::byte>(Topic::transport);
    std::memcpy(word.data.data() + 1, inner.data.data(), inner.bytes);
    return true;
}

void Wire::take_word(const Word& word)
{
    const Guard lock = guard();
    Ask ask;
    Grant grant;
    Refuse refuse;
    Done done;
    Word inner;
    switch (word.bytes == 0 ? Topic{} : static_cast<Topic>(word.data[0])) {
    case Topic::transport:
        inner.peer = word.peer;
        inner.bytes = word.bytes - 1;
        std::memcpy(inner.data.data(), word.data.data() + 1, inner.bytes);
        return transport_->take_word(inner);
    case Topic::ask:
        ask.address[sizeof ask.address - 1] = '\0';
        if (read_word(word, ask) && !answer(word.peer, ask))
            waiting_.push_back({word.peer, ask});
        return;
    case Topic::grant:
        return read_word(word, grant) ? on_grant(word.peer, grant) : void();
    case Topic::refuse:
        return read_word(word, refuse) ? on_refuse(word.peer, refuse) : void();
    case Topic::done:
        return read_word(word, done) ? on_done(word.peer, done) : void();
    }
}

// ---- the life of a lane

Outbound* Wire::out_of(const Lane& lane) const
{
    const auto at = std::find_if(sending_.begin(), sending_.end(),
                                 [&](const Outbound* o) { return o->mirror.get() == lane.base; });
    return lane.base == nullptr || at == sending_.end() ? nullptr : *at;
}

Inbound* Wire::in_of(std::uint64_t ref) const
{
    return ref != 0 && ref <= ins_.size() ? ins_[ref - 1].get() : nullptr;
}

void Wire::drop(int, Lane& lane)
{
    const Guard lock = guard();
    if (Outbound* o = out_of(lane); o != nullptr) {
        o->dropped = true;
        end_if_done(*o);
    }
    lane = {};
}

// A dropped lane ends when all of it has left.
void Wire::end_if_done(Outbound& o)
{
    if (!o.dropped || (o.state == Outbound::State::granted && (!o.idle() || o.under_way() != 0)))
        return;
    if (o.state == Outbound::State::dead)
        return; // late reads of its memory may come: abandon or the end of all
    if (o.ref != 0)
        words_.push_back(word_of(o.peer, Done{.ref = o.ref, .units = o.unit}));
    mirrors_ -= o.shape.bytes;
    outbound_memory_->give(o.stage);
    std::erase(sending_, &o);
    if (Peer& p = peers_[o.peer]; p.current == &o)
        p.current = nullptr;
    outs_[o.id - 1].reset();
}

Status Wire::open(int peer, std::uint64_t ref, std::uint64_t bytes, Lane& lane)
{
    const Guard lock = guard();
    Inbound* in = in_of(ref);
    if (in == nullptr || in->peer != peer || in->shape.bytes != bytes || in->opened)
        return Status::refused;
    in->opened = true;
    lane = {in->memory.at, in->shape.bytes, &in->head, in->id};
    return Status::ok;
}

void Wire::close(int, Lane& lane)
{
    const Guard lock = guard();
    if (Inbound* in = in_of(lane.ref); in != nullptr) {
        in->closed = true;
        end_if_done(*in);
    }
    lane = {};
}

// Its memory goes when the reader has left it and nothing more can come.
void Wire::end_if_done(Inbound& in)
{
    if (!(in.closed || !in.opened) || !in.done || in.unit != in.units_in_all || in.telling || in.stranded)
        return;
    inbound_memory_->give(in.memory);
    slots_[in.slot] = nullptr;
    std::erase(receiving_, &in);
    ins_[in.id - 1].reset();
}

void Wire::strand(int, Lane& lane)
{
    const Guard lock = guard();
    if (Inbound* in = in_of(lane.ref); in != nullptr)
        in->stranded = true;
    lane = {};
}

void Wire::abandon(int peer)
{
    const Guard lock = guard();
    for (auto& o : outs_) {
        if (o == nullptr || o->peer != peer)
            continue;
        o->state = Outbound::State::dead; // its stage stays: the fabric may still read it
        if (o->mirror != nullptr)
            mirrors_ -= o->shape.bytes;
        o->mirror.reset();
        std::erase(sending_, o.get());
    }
    peers_[peer].current = peers_[peer].asked = nullptr;
}

void Wire::fail(int peer, const std::string& why)
{
    Peer& p = peers_[peer];
    if (p.failed)
        return;
    p.failed = true;
    p.why = why.empty() ? "the fabric gave the peer up" : why;
    for (auto& o : outs_)
        if (o != nullptr && o->peer == peer)
            o->state = Outbound::State::dead;
    for (auto& in : ins_)
        if (in != nullptr && in->peer == peer)
            in->lost = true;
    failures_.push_back({peer, std::string(transport_->name()) + ": " + p.why});
}

bool Wire::failed(int& peer, std::string& why)
{
    const Guard lock = guard();
    if (failures_.empty())
        return false;
    peer = failures_.front().peer;
    why = failures_.front().why;
    failures_.pop_front();
    return true;
}

bool Wire::torn(int& peer, std::string& why)
{
    const Guard lock = guard();
    if (tears_.empty())
        return false;
    peer = tears_.front().peer;
    why = tears_.front().why;
    tears_.pop_front();
    return true;
}

// ---- moving

void Wire::publish(int peer, Lane& lane, std::uint64_t, std::uint64_t to)
{
    const Guard lock = guard();
    Peer& p = peers_[peer];
    Outbound* o = p.current != nullptr && p.current->mirror.get() == lane.base ? p.current : out_of(lane);
    if (o == nullptr || o->state == Outbound::State::dead)
        return;
    o->ready = to;
    if (++o->records >= batch_) {
        o->limits.push_back(to);
        o->records = 0;
    }
    if (waits(*o)) // relaxed: a hint for flush
        held_.store(true, std::memory_order_relaxed);
    else
        advance(*o);
}

bool Wire::flush()
{
    // relaxed: the caller's own publish is seen; a thread of ours clears it at most
    if (!held_.load(std::memory_order_relaxed)) [[likely]]
        return true;
    const Guard lock = guard();
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ >= kLookAnew)
        look_for_events();
    return send_all();
}

// True when nothing is held back.
bool Wire::send_all()
{
    bool held = false;
    for (std::size_t i = 0; i < sending_.size(); ++i) {
        Outbound& o = *sending_[i];
        if (o.in_batch || !waits(o))
            advance(o);
        held = held || (!o.idle() && o.state == Outbound::State::granted);
        if (o.dropped)
            end_if_done(o);
    }
    held_.store(held, std::memory_order_relaxed); // relaxed: a hint for flush
    return !held;
}

void Wire::look_for_events()
{
    constexpr unsigned kMost = 256;
    Event event;
    for (unsigned n = 0; n < kMost && transport_->next(event); ++n) {
        switch (event.kind) {
        case Event::Kind::written:
            on_written(event.cookie);
            break;
        case Event::Kind::arrived:
            on_arrived(event.signal);
            break;
        case Event::Kind::failed:
            fail(event.peer, transport_->why(event.peer));
            break;
        }
    }
    for (Outbound* o : sending_)
        o->hot = false;
    looked_ = std::chrono::steady_clock::now();
}

void Wire::progress()
{
    const Guard lock = guard();
    look_for_events();
    move();
    watch();
}

void Wire::move()
{
    if (!waiting_.empty())
        std::erase_if(waiting_, [&](const Waiting& w) { return answer(w.peer, w.ask); });
    for (Outbound* o : sending_) {
        read_block(*o);
        o->ask = o->ask || (ask_ && o->seen != o->unit);
    }
    ask_ = false;
    send_all();
    for (std::size_t i = 0; i < receiving_.size(); ++i) {
        Inbound& in = *receiving_[i];
        if (!in.stranded)
            take(in);
        if (!in.lost)
            tell(in);
        if (in.done)
            end_if_done(in);
    }
}

bool Wire::placed() const
{
    const Guard lock = guard();
    const bool all = std::all_of(sending_.begin(), sending_.end(), [](const Outbound* o) {
        return o->dropped || o->state == Outbound::State::dead || o->placed();
    });
    ask_ = ask_ || !all;
    return all;
}

} // namespace storm::wire
