// SPDX-License-Identifier: MIT
// Progress, ours and the real MPI's, so that neither starves the other.
#include "copy.hh"
#include "rank.hh"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace storm {
namespace {

constexpr int kCarryTag = 1;
constexpr std::size_t kCarryBytes = 4096 + 512; // the largest record of a ring that is replayed
// A turn of the real MPI's engine comes at least this often in time, unless it costs
// so much that it would take more than one part in kTurnShare of it.
constexpr std::uint64_t kTurnEvery_us = 5;
constexpr std::uint64_t kTurnShare = 16;
constexpr int kInsideEvery = 32;

} // namespace

// ---- waiting

void Rank::Idle::step()
{
    Clock& clock = *rank_.setup_.clock;
    relax();
    if (++polls_ <= rank_.setup_.spin_limit)
        return;
    constexpr std::uint64_t kYieldFor_us = 20000;
    const std::uint64_t now = clock.ticks();
    if (yielding_since_ == 0)
        yielding_since_ = now;
    set_word(rank_.until_turn_, 1); // looks are far apart now: the real MPI has its turn at each
    set_word(rank_.turn_due_, 0);
    if (now - yielding_since_ < kYieldFor_us * clock.ticks_per_us())
        clock.yield();
    else
        clock.sleep_us(20);
}

// ---- one look

bool Rank::poll(Look look)
{
    bool moved = look_for_lanes(); // first: this look sees the first record of a new ring
    if (fabric_ != nullptr) [[unlikely]]
        moved = look_at_fabric(look) || moved;
    // acquire: pairs with the release in accept_lanes
    const std::size_t rings = std::atomic_ref(inbound_count_).load(std::memory_order_acquire);
    for (std::size_t i = 0; i + (STORM_PLANTED(last_ring_not_looked_at) ? 1 : 0) < rings; ++i) {
        Inbound& in = inbound_.data()[i];
        const TryHold lock(in.channel->in_lock, threaded_);
        // relaxed: only a hint; RingReader::peek loads it again with acquire
        if (lock && glance_at(*in.word) != 0) {
            moved = drain(*in.channel) || moved;
            in.word = in.channel->in.word();
        }
    }
    if (threaded_ ? any_waiting() : !waiting_.empty()) [[unlikely]]
        moved = push_all_pending(false) || moved;
    const bool may_turn = look != Look::inside;
    if (may_turn && (adjust(until_turn_, -1, threaded_) <= 0 || glance_at(transfers_) != 0)) [[unlikely]]
        moved = turn() || moved;
    if (fabric_ != nullptr) [[unlikely]] {
        // A ring that was named in the carried stream: what stands in it came before this look.
        // acquire: pairs with the release in read_from
        for (std::size_t i = rings; i < std::atomic_ref(inbound_count_).load(std::memory_order_acquire); ++i)
            read_new(inbound_.data()[i]);
        if (moved)
            set_word(fabric_every_, 0);
        ask_again(may_turn);
        mend(may_turn);
        send_letters(may_turn);
    }
    send_acks(may_turn); // last: a receive that ends in this look has told its sender
    return moved;
}

void Rank::read_new(Inbound& in)
{
    set_word(fabric_due_, 0);
    look_at_fabric(Look::test);
    const TryHold lock(in.channel->in_lock, threaded_);
    if (!lock)
        return;
    drain(*in.channel);
    in.word = in.channel->in.word();
}

// New rings that lie here already.
bool Rank::look_for_lanes()
{
    bool ring_bell;
    {
        const TryHold backend(backend_lock_, threaded_);
        if (!backend)
            return false;
        // relaxed: a hint; the backend's accept loads with acquire
        ring_bell = glance_at(*doorbell_) != 0;
    }
    if (ring_bell && !STORM_PLANTED(doorbell_not_heard)) [[unlikely]]
        accept_lanes(*near_);
    return ring_bell;
}

// Called by the real MPI from within its own calls. It must not block, must not run
// user callbacks, and may be entered while this thread is in a real call of ours.
int Rank::progress_inside()
{
    if (in_real() != 0)
        return 0;
    inside_here = true;
    const bool now = adjust(inside_calls_, 1, threaded_) % kInsideEvery == 0;
    answer();
    bool moved = poll(Look::inside);
    if (now || glance_at(transfers_) != 0) {
        const TryHold native(native_lock_, threaded_);
        if (native) {
            const InReal in(*this);
            moved = test_native() || moved;
            moved = advance_duplicates() || moved;
            if (now)
                moved = test_carry() || moved;
        }
    }
    send_acks(false);
    inside_here = false;
    return moved ? 1 : 0;
}

// ---- the real MPI's turn

bool Rank::turn()
{
    if (STORM_PLANTED(real_mpi_starved))
        return false;
    const TryHold native(native_lock_, threaded_);
    if (!native)
        return false; // another thread is at it
    Clock& clock = *setup_.clock;
    devices_.look();
    answer();
    const std::uint64_t before = clock.ticks();
    bool moved = false;
    const bool had_turn = fabric_ == nullptr || before >= glance_at(turn_due_) || glance_at(transfers_) != 0;
    if (had_turn) {
        tally(counters_.native_turns);
        const InReal in(*this);
        if (glance_at(transfers_) != 0) {
            moved = test_native();
            moved = advance_duplicates() || moved;
            if (adjust(until_carry_, -1, threaded_) <= 0) {
                set_word(until_carry_, 8);
                moved = test_carry() || moved;
            }
        } else if (carry_request_ != nullptr) {
            moved = test_carry(); // a test that finds nothing turns the engine once
        } else {
            real_.progress();
        }
    }
    std::uint64_t after = before;
    std::uint64_t every = glance_at(turn_due_) - before;
    const std::uint64_t spacing =
        (before - turn_ticks_) / static_cast<std::uint64_t>(std::max<std::int64_t>(turn_budget_, 1));
    if (had_turn) {
        after = clock.ticks();
        set_word(turns_ticks_, turns_ticks_ + (after - before));
        turn_cost_ = (turn_cost_ * 7 + (after - before)) / 8;
        every = std::max(kTurnEvery_us * clock.ticks_per_us(), kTurnShare * turn_cost_);
        set_word(turn_due_, after + every);
    }
    if (fabric_ != nullptr)
        every = std::min(every, glance_at(fabric_every_));
    const std::uint64_t most = settings_.poll_native;
    turn_budget_ = static_cast<std::int64_t>(
        std::clamp<std::uint64_t>(every / std::max<std::uint64_t>(spacing, 1), 1, most));
    set_word(until_turn_, turn_budget_);
    turn_ticks_ = after;
    return moved;
}

void Rank::track(MPI_Request native, NativeOp op)
{
    if (native == real_.request_done) { // a small message that the real MPI took at once
        op.owned_bytes = 0;
        return native_done(op, MPI_SUCCESS);
    }
    adjust(op.buffered ? buffered_native_ : carried_bytes_, op.owned_bytes, threaded_);
    {
        const Hold tables(tables_, threaded_);
        native_inbox_.emplace_back(native, op);
    }
    adjust(transfers_, 1, threaded_);
}

// What was begun since the last test.
void Rank::take_tracked()
{
    const Hold tables(tables_, threaded_);
    for (const auto& [native, op] : native_inbox_) {
        native_requests_.push_back(native);
        native_ops_.push_back(op);
    }
    native_inbox_.clear();
    duplicates_.insert(duplicates_.end(), duplicates_inbox_.begin(), duplicates_inbox_.end());
    duplicates_inbox_.clear();
}

bool Rank::test_native()
{
    take_tracked();
    const int n = static_cast<int>(native_requests_.size());
    if (n == 0)
        return false;
    done_indices_.resize(native_requests_.size());
    done_statuses_.resize(native_requests_.size());
    int done = 0;
    const int rc = real_.Testsome(n, native_requests_.data(), &done, done_indices_.data(),
                                  done_statuses_.data());
    if (done == MPI_UNDEFINED || done <= 0)
        return false;
    std::vector<std::pair<NativeOp, int>> ended;
    ended.reserve(static_cast<std::size_t>(done));
    for (int i = 0; i < done; ++i) {
        const auto at = static_cast<std::size_t>(done_indices_[static_cast<std::size_t>(i)]);
        ended.emplace_back(native_ops_[at], rc == MPI_ERR_IN_STATUS
                                                ? done_statuses_[static_cast<std::size_t>(i)].MPI_ERROR
                                                : MPI_SUCCESS);
        native_ops_[at].owned_bytes = ~std::uint64_t{0}; // ended: squeezed out below
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < native_ops_.size(); ++i)
        if (native_ops_[i].owned_bytes != ~std::uint64_t{0}) {
            native_ops_[kept] = native_ops_[i];
            native_requests_[kept++] = native_requests_[i];
        }
    native_ops_.resize(kept);
    native_requests_.resize(kept);
    adjust(transfers_, std::size_t{0} - ended.size(), threaded_);
    for (auto& [op, error] : ended)
        native_done(op, error);
    return true;
}

void Rank::native_done(NativeOp& op, int error)
{
    if (op.message != nullptr)
        return pulled(*op.message, error);
    if (op.to >= 0 && error != MPI_SUCCESS)
        cut_off(op.to, error);
    if (op.request == nullptr) {
        adjust(op.buffered ? buffered_native_ : carried_bytes_, std::uint64_t{0} - op.owned_bytes, threaded_);
        std::free(op.owned);
        return;
    }
    Request& r = *op.request;
    if (op.owned != nullptr) { // a truncated receive
        deliver_bytes(r, r.from, r.from_tag, op.owned, r.received, error);
        return std::free(op.owned);
    }
    if (r.what == Request::What::receive)
        return finish_receive(r, r.from, r.from_tag, r.received, error);
    r.error = error;
    finish_part(r, Request::kCopy);
}

// ---- records that the real MPI carries

void Rank::post_carry_receive()
{
    carry_buffer_.resize(kCarryBytes);
    const int rc = real_.Irecv(carry_buffer_.data(), static_cast<int>(kCarryBytes), real_.byte,
                               MPI_ANY_SOURCE, kCarryTag, setup_.private_comm, &carry_request_);
    if (rc != MPI_SUCCESS)
        cut_off(setup_.world_rank, rc);
}

bool Rank::test_carry()
{
    if (carry_request_ == nullptr)
        return false;
    bool moved = false;
    for (;;) {
        if (carried_from_ < 0) {
            int flag = 0;
            MPI_Status status;
            real_.Test(&carry_request_, &flag, &status);
            if (flag == 0)
                return moved;
            carried_from_ = status.MPI_SOURCE;
        }
        Channel& ch = channel(carried_from_);
        {
            const TryHold records(ch.in_lock, threaded_);
            if (!records)
                return moved; // another thread reads that peer's ring: at the next test
            RecordHeader header;
            std::memcpy(&header, carry_buffer_.data(), sizeof header);
            handle_carried(ch, header, carry_buffer_.data() + sizeof header);
            Channel::count(ch.arrived_elsewhere);
        }
        moved = true;
        carried_from_ = -1;
        post_carry_receive();
    }
}

// ---- the end

bool Rank::at_rest()
{
    return !any_waiting() && glance_at(acks_waiting_) == 0 && glance_at(sealing_) == 0 &&
           glance_at(letters_waiting_) == 0 && all_placed();
}

// What has left this rank and what has arrived here, by whatever path.
storm_sums Rank::moved_so_far() const
{
    storm_sums sums{};
    for (const Channel* ch : channels_now()) {
        sums.sent += static_cast<std::int64_t>(ch->sent_so_far());
        sums.arrived += static_cast<std::int64_t>(ch->arrived_so_far());
    }
    return sums;
}

// Everybody's records are with their receivers before anybody leaves. No match is waited
// for: what nobody received ends here, as it does natively.
bool Rank::quiesced()
{
    if (carry_request_ == nullptr)
        return true;
    if (ending_ == nullptr)
        ending_ = std::make_unique<Termination>(real_, setup_.private_comm, setup_.world_rank, setup_.world_size);
    const bool idle = at_rest();
    const InReal in(*this);
    if (!ending_->step(idle, idle ? moved_so_far() : storm_sums{}))
        return false;
    if (ending_->error() != MPI_SUCCESS)
        setup_.log->error("the real MPI does not tell when all ranks have come to their end (error class %d): "
                          "this one goes on", ending_->error());
    real_.Cancel(&carry_request_);
    real_.Wait(&carry_request_, MPI_STATUS_IGNORE);
    carry_request_ = nullptr;
    return true;
}

void Rank::quiesce()
{
    wait_until([&] { return quiesced(); });
}

} // namespace storm
