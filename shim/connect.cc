// SPDX-License-Identifier: MIT
// The rings that this rank writes: had at once, or asked for while the real MPI carries
// the pair; replaced by larger ones; published where they are mirrors.
#include "rank.hh"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace storm {
namespace {

// A look at a fabric where nothing moves comes at least this often in time, unless it
// costs so much that it would take more than one part in kLookShare of it.
constexpr std::uint64_t kLookEvery_us = 5;
constexpr std::uint64_t kLookShare = 16;

} // namespace

// ---- the first ring

// The pair is on its way, with a ring or without. Under out_lock.
void Rank::connect(Channel& ch)
{
    std::string why = setup_.backend_reason;
    Lane lane;
    if (near_ != nullptr) {
        const std::string address = setup_.address_of(ch.peer, why);
        const Hold backend(backend_lock_, threaded_);
        if (!address.empty() && near_->claim(ch.peer, address, settings_.ring_min, lane, why) == Status::ok)
            return begin_ring(ch, lane, false);
    }
    if (!setup_.fabric_reason.empty())
        why += (why.empty() ? "" : "; ") + setup_.fabric_reason;
    if (fabric_ != nullptr && !ch.given_up) {
        const Status status = claim(ch, lane, why);
        if (status == Status::ok)
            return begin_ring(ch, lane, true);
        if (status == Status::again)
            ask(ch, settings_.ring_min);
    }
    set_word(ch.path, Channel::Path::carried);
    if (ch.asking)
        return;
    setup_.log->info("messages to rank %d are carried by the real MPI (%s)", ch.peer, why.c_str());
    const Hold tables(tables_, threaded_);
    carried_why_.try_emplace(ch.peer, why);
}

Status Rank::claim(Channel& ch, Lane& lane, std::string& why)
{
    const auto& address_of = setup_.fabric != nullptr ? setup_.fabric_address_of : setup_.address_of;
    const std::string address = address_of(ch.peer, why);
    if (address.empty())
        return Status::refused;
    const Hold backend(backend_lock_, threaded_);
    const AtFabric at(*this);
    const Status status = fabric_->claim(ch.peer, address, settings_.ring_min, lane, why);
    collect_words();
    return status;
}

void Rank::begin_ring(Channel& ch, const Lane& lane, bool over_fabric)
{
    ch.out = RingWriter(lane);
    if (!STORM_PLANTED(growth_range_kept))
        ch.announced = 0;
    ch.over_fabric = over_fabric;
    set_word(ch.path, Channel::Path::ring);
}

// ---- what is granted later

void Rank::ask(Channel& ch, std::uint64_t bytes)
{
    ch.wanted = bytes;
    if (std::exchange(ch.asking, true))
        return;
    const Hold tables(tables_, threaded_);
    askers_.push_back(&ch);
    adjust(asking_, 1, threaded_);
}

void Rank::ask_again(bool may_wait)
{
    if (glance_at(asking_) == 0) [[likely]]
        return;
    std::vector<Channel*> askers;
    {
        const Hold tables(tables_, threaded_);
        askers = askers_;
    }
    for (Channel* ch : askers) {
        std::unique_lock out(ch->out_lock, std::defer_lock);
        if (threaded_ && may_wait)
            out.lock();
        else if (threaded_ && !out.try_lock())
            continue;
        if (ch->asking)
            get_granted(*ch);
        if (ch->asking)
            continue;
        const Hold tables(tables_, threaded_);
        if (std::erase(askers_, ch) != 0)
            adjust(asking_, ~std::size_t{0}, threaded_);
    }
}

// A carried pair goes on in its first ring behind a record that names it: the order of
// the carried stream is that of all messages. A ring goes on in a larger one likewise.
void Rank::get_granted(Channel& ch)
{
    Lane lane;
    std::string why = "the fabric has failed";
    Status status = Status::refused;
    const bool first = ch.path == Channel::Path::carried;
    if (!ch.given_up && first) {
        status = claim(ch, lane, why);
    } else if (!ch.given_up) {
        const Hold backend(backend_lock_, threaded_);
        const AtFabric at(*this);
        status = fabric_->grow(ch.peer, ch.wanted, lane, why);
        collect_words();
    }
    if (status == Status::again)
        return;
    ch.asking = false;
    if (status == Status::ok && first) {
        const GrowPrefix prefix{lane.ref, lane.bytes};
        control(ch, Kind::grow, 0, 0, &prefix, sizeof prefix);
        return begin_ring(ch, lane, true);
    }
    if (status == Status::ok)
        return succeed(ch, lane);
    ch.grow_refused = true;
    if (first) {
        setup_.log->info("messages to rank %d are carried by the real MPI (%s)", ch.peer, why.c_str());
        const Hold tables(tables_, threaded_);
        carried_why_.try_emplace(ch.peer, why);
    }
}

// ---- larger rings

// The ring is full: a larger one, if it may still grow.
bool Rank::make_room(Channel& ch)
{
    tally(counters_.full_rings);
    const std::uint64_t now = ch.out.lane().bytes, next = now * 2;
    if (ch.grow_refused || ch.asking || next > (ch.placing ? settings_.memory_max : settings_.ring_max))
        return false;
    Lane lane;
    std::string why;
    Status status;
    {
        const Hold backend(backend_lock_, threaded_);
        if (ch.over_fabric) {
            const AtFabric at(*this);
            status = fabric_->grow(ch.peer, next, lane, why);
            collect_words();
        } else {
            status = near_->grow(ch.peer, next, lane, why);
        }
    }
    if (status == Status::again) {
        ask(ch, next);
        return false;
    }
    if (status != Status::ok) {
        ch.grow_refused = true;
        setup_.log->info("the ring to rank %d stays at %llu bytes (%s)", ch.peer,
                         static_cast<unsigned long long>(now), why.c_str());
        return false;
    }
    succeed(ch, lane);
    return true;
}

// The record that names the successor has its room kept free, and stands behind all that
// was sent before. A mirror is kept until the peer has read it: the fabric may fail.
void Rank::succeed(Channel& ch, const Lane& next)
{
    const GrowPrefix prefix{next.ref, next.bytes};
    std::memcpy(ch.out.reserve_control(sizeof prefix), &prefix, sizeof prefix);
    if (!STORM_PLANTED(growth_not_announced))
        ch.out.commit(Kind::grow, 0, sizeof prefix, 0, 0);
    set_word(ch.high_water, std::max(ch.high_water, ch.out.high_water()));
    if (ch.over_fabric) {
        publish(ch);
        ch.former.push_back(ch.out);
    } else {
        const Hold backend(backend_lock_, threaded_);
        near_->drop(ch.peer, ch.out.lane());
    }
    Channel::count(ch.sent_elsewhere, ch.out.tail());
    begin_ring(ch, next, ch.over_fabric);
    Channel::count(ch.growths);
    tally(counters_.growths);
}

// ---- the fabric

void Rank::publish(Channel& ch)
{
    const Hold backend(backend_lock_, threaded_);
    const AtFabric at(*this);
    fabric_->publish(ch.peer, ch.out.lane(), ch.announced, ch.out.tail());
    ch.announced = ch.out.tail();
    collect_words();
    set_word(held_, 1);
    set_word(unplaced_, true);
}

// What was published and held back leaves. True when nothing is left of it.
bool Rank::flush()
{
    const Hold backend(backend_lock_, threaded_);
    const AtFabric at(*this);
    const bool all = fabric_->flush();
    collect_words();
    set_word(held_, 0); // without room it leaves with the next looks
    if (!all)
        set_word(fabric_every_, 0);
    return all;
}

bool Rank::all_placed()
{
    if (fabric_ == nullptr || !glance_at(unplaced_))
        return true;
    const Hold backend(backend_lock_, threaded_);
    const AtFabric at(*this);
    if (!fabric_->placed())
        return false;
    set_word(unplaced_, false);
    return true;
}

// Before the program goes on without us: what it sent is with the fabric.
void Rank::leave()
{
    if (!flush())
        wait_until([&] { return flush(); });
}

// Words for other ranks; under the backend's lock.
void Rank::collect_words()
{
    Word word;
    while (fabric_->next_word(word))
        post_letter(channel(word.peer), Kind::word, word.data.data(), word.bytes);
}

// At once for a caller that waits; else in time, and more rarely the longer nothing moves.
bool Rank::look_at_fabric(Look look)
{
    if (glance_at(held_) != 0)
        flush();
    Clock& clock = *setup_.clock;
    const std::uint64_t before = clock.ticks();
    if (look != Look::wait && before < glance_at(fabric_due_))
        return false;
    bool bell;
    {
        const TryHold backend(backend_lock_, threaded_);
        if (!backend)
            return false;
        const AtFabric at(*this);
        fabric_->progress();
        bell = glance_at(*fabric_->doorbell()) != 0;
        collect_words();
        collect_losses();
    }
    if (bell)
        accept_lanes(*fabric_);
    const std::uint64_t after = clock.ticks();
    const std::uint64_t most_in_time = kLookEvery_us * clock.ticks_per_us();
    set_word(fabric_cost_, (glance_at(fabric_cost_) * 7 + (after - before)) / 8);
    const std::uint64_t most =
        look == Look::inside ? most_in_time : std::max(most_in_time, kLookShare * glance_at(fabric_cost_));
    const std::uint64_t every = glance_at(fabric_every_);
    set_word(fabric_due_, after + every);
    set_word(fabric_every_, std::min(std::max(2 * every, glance_at(fabric_cost_) + 1), most));
    if (glance_at(sealing_) != 0)
        watch_links();
    return bell;
}

// What the fabric tells of its end, and of bytes that are not what was sent.
void Rank::collect_losses()
{
    int peer = -1;
    std::string why;
    if (fabric_->torn(peer, why))
        end_job("what rank " + std::to_string(peer) + " sent to rank " + std::to_string(setup_.world_rank) +
                " arrived damaged (" + fabric_->name() + ": " + why + ")");
    while (fabric_->failed(peer, why))
        note_loss({&channel(peer), Kind::seal, {}, std::string(fabric_->name()) + ": " + why});
}

} // namespace storm
