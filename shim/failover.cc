// SPDX-License-Identifier: MIT
// The loss of a fabric. The real MPI carries what the fabric does not bring any more, and
// nothing is lost or comes twice:
//   the sender    writes no more, asks by the real MPI (`seal`), and keeps what is sent
//                 meanwhile;
//   the receiver  stops reading that ring for good, and tells the place that it has
//                 reached (`sealed`), unasked when it is the one who sees the failure;
//   the sender    sends all records from that place on, out of its mirror, by the real
//                 MPI, then what was kept, and stays with the real MPI.
// The two directions of a pair know nothing of each other. Letters are what is sent
// beside the messages: the fabric's words, and the above.
#include "rank.hh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace storm {
namespace {

constexpr std::size_t kReasonMax = 200; // bytes of what the fabric said, in a letter
constexpr std::uint64_t kLinksEvery_us = 250000;

} // namespace

// ---- letters

void Rank::post_letter(Channel& to, Kind kind, const void* bytes, std::size_t size)
{
    const Hold tables(tables_, threaded_);
    letters_.push_back({&to, kind, std::string(static_cast<const char*>(bytes), size)});
    adjust(letters_waiting_, 1, threaded_);
}

// In order for each peer: they are taken and sent under its out_lock.
void Rank::send_letters(bool may_wait)
{
    if (glance_at(letters_waiting_) == 0) [[likely]]
        return;
    std::vector<Channel*> peers;
    {
        const Hold tables(tables_, threaded_);
        for (const Letter& letter : letters_)
            if (std::find(peers.begin(), peers.end(), letter.to) == peers.end())
                peers.push_back(letter.to);
    }
    for (Channel* ch : peers) {
        std::unique_lock out(ch->out_lock, std::defer_lock);
        if (threaded_ && may_wait)
            out.lock();
        else if (threaded_ && !out.try_lock())
            continue;
        std::vector<Letter> theirs;
        {
            const Hold tables(tables_, threaded_);
            const auto others = std::stable_partition(letters_.begin(), letters_.end(),
                                                      [&](const Letter& letter) { return letter.to != ch; });
            theirs.assign(std::make_move_iterator(others), std::make_move_iterator(letters_.end()));
            letters_.erase(others, letters_.end());
            adjust(letters_waiting_, std::size_t{0} - theirs.size(), threaded_);
        }
        for (const Letter& letter : theirs)
            carry_record(*ch, {static_cast<std::uint32_t>(letter.bytes.size()), letter.kind, 0, 0, 0, 0},
                         letter.bytes.data(), letter.bytes.size());
    }
}

// What came by the real MPI: a message's record, or a letter. Under in_lock.
void Rank::handle_carried(Channel& ch, const RecordHeader& header, const std::byte* payload)
{
    const auto text_from = [&](std::size_t at) {
        const std::size_t end = std::max<std::size_t>(at, header.bytes);
        return std::string(reinterpret_cast<const char*>(payload) + at, end - at);
    };
    switch (header.kind) {
    case Kind::grow: {
        GrowPrefix prefix;
        std::memcpy(&prefix, payload, sizeof prefix);
        return on_grow(ch, prefix, true);
    }
    case Kind::word: {
        Word word;
        word.peer = ch.peer;
        word.bytes = std::min(header.bytes, static_cast<std::uint32_t>(word.data.size()));
        std::memcpy(word.data.data(), payload, word.bytes);
        return take_word(word);
    }
    case Kind::seal: return stop_reading(ch, 0, text_from(0));
    case Kind::sealed: {
        SealedPrefix place;
        std::memcpy(&place, payload, sizeof place);
        return note_loss({&ch, Kind::sealed, place, text_from(sizeof place)});
    }
    case Kind::moved: return note_loss({&ch, Kind::moved, {}, ""});
    default: break;
    }
    if ((header.flags & kReplayed) == 0)
        return handle(ch, header, payload);
    // what comes twice is behind the number that is due
    if (static_cast<std::int16_t>(header.turn - ch.replayed) < 0)
        return;
    if (header.turn != ch.replayed)
        corrupt(ch, "a record that was skipped");
    ++ch.replayed;
    RecordHeader plain = header;
    plain.flags &= static_cast<std::uint8_t>(~kReplayed);
    handle(ch, plain, payload);
}

// ---- the receiver's part

// No ring of this peer is read from now on. `ref` names the ring that could not even be
// opened, 0 the one that is read. Under in_lock.
void Rank::stop_reading(Channel& ch, std::uint64_t ref, const std::string& why)
{
    if (std::exchange(ch.stopped, true))
        return; // the peer has our word
    SealedPrefix place{ref, 0, 0, {}};
    if (ch.has_in && ch.in_fabric) {
        if (ref == 0)
            place = {ch.in.lane().ref, ch.in.position(), ch.in.turn(), {}};
        // acquire: pairs with the release in read_from
        const std::size_t rings = std::atomic_ref(inbound_count_).load(std::memory_order_acquire);
        for (std::size_t i = 0; i < rings; ++i)
            if (inbound_.data()[i].channel == &ch)
                inbound_.data()[i].word = &no_ring;
        const Hold backend(backend_lock_, threaded_);
        const AtFabric at(*this);
        fabric_->strand(ch.peer, ch.in.lane());
        collect_words();
        Channel::count(ch.arrived_elsewhere, ch.in.position());
        ch.in = RingReader();
    }
    std::string letter(reinterpret_cast<const char*>(&place), sizeof place);
    letter += why.substr(0, kReasonMax);
    post_letter(ch, Kind::sealed, letter.data(), letter.size());
    tell_loss(ch, why);
}

// ---- the sender's part

void Rank::note_loss(Loss&& loss)
{
    const Hold tables(tables_, threaded_);
    losses_.push_back(std::move(loss));
    adjust(losses_waiting_, 1, threaded_);
}

// What has happened to channels since the last look.
void Rank::mend(bool may_wait)
{
    if (glance_at(losses_waiting_) == 0) [[likely]]
        return;
    std::deque<Loss> losses;
    {
        const Hold tables(tables_, threaded_);
        losses.swap(losses_);
    }
    std::size_t left = 0;
    for (Loss& loss : losses) {
        if (mend(loss, may_wait)) {
            adjust(losses_waiting_, ~std::size_t{0}, threaded_);
            continue;
        }
        const Hold tables(tables_, threaded_);
        losses_.insert(losses_.begin() + static_cast<std::ptrdiff_t>(left++), std::move(loss));
    }
}

// False when another thread has the channel: it is done with the next look.
bool Rank::mend(const Loss& loss, bool may_wait)
{
    Channel& ch = *loss.channel;
    const auto hold = [&](Lock& which) {
        std::unique_lock<Lock> held(which, std::defer_lock);
        if (threaded_ && may_wait)
            held.lock();
        else if (threaded_)
            static_cast<void>(held.try_lock());
        return held;
    };
    if (loss.what == Kind::seal) {
        const auto in = hold(ch.in_lock);
        if (threaded_ && !in.owns_lock())
            return false;
        stop_reading(ch, 0, loss.why);
    }
    const auto out = hold(ch.out_lock);
    if (threaded_ && !out.owns_lock())
        return false;
    if (loss.what == Kind::moved) {
        drop_former(ch);
        return true;
    }
    give_up(ch, loss.why);
    if (loss.what == Kind::sealed && ch.path == Channel::Path::sealing)
        replay(ch, loss.place);
    return true;
}

// The fabric brings nothing to this peer any more. Under out_lock.
void Rank::give_up(Channel& ch, const std::string& why)
{
    if (std::exchange(ch.given_up, true))
        return;
    {
        const Hold tables(tables_, threaded_);
        carried_why_[ch.peer] = "the fabric failed: " + why;
    }
    tell_loss(ch, why);
    if (ch.path != Channel::Path::ring || !ch.over_fabric)
        return;
    set_word(ch.path, Channel::Path::sealing);
    adjust(sealing_, 1, threaded_);
    const std::string said = why.substr(0, kReasonMax);
    carry_record(ch, {static_cast<std::uint32_t>(said.size()), Kind::seal, 0, 0, 0, 0}, said.data(), said.size());
    tally(counters_.failovers);
}

// One line a rank, on the side with the lower number.
void Rank::tell_loss(const Channel& ch, const std::string& why)
{
    {
        const Hold tables(tables_, threaded_);
        if (ch.peer < setup_.world_rank || std::exchange(loss_told_, true))
            return;
    }
    setup_.log->warn("the fabric to rank %d has failed (%s): messages go on by the real MPI, none is lost",
                     ch.peer, why.c_str());
}

// The peer has read everything before this place, and nothing behind it. Under out_lock.
void Rank::replay(Channel& ch, const SealedPrefix& from)
{
    std::vector<RingWriter*> rings;
    for (RingWriter& ring : ch.former)
        rings.push_back(&ring);
    rings.push_back(&ch.out);
    const auto at = from.ref == 0 ? rings.begin()
                                  : std::find_if(rings.begin(), rings.end(), [&](const RingWriter* ring) {
                                        return ring->lane().ref == from.ref;
                                    });
    if (at == rings.end() || from.position > (*at)->tail())
        corrupt(ch, "a ring sealed at a place where nothing was written");
    // of these rings the peer has counted what it read, and the replay counts for itself
    Channel::count(ch.sent_elsewhere, from.position);
    for (auto ring = at; ring != rings.end(); ++ring)
        if (*ring != &ch.out)
            Channel::count(ch.sent_elsewhere, std::uint64_t{0} - (*ring)->tail());
    bool checked = from.ref == 0;
    std::uint16_t number = 0;
    for (auto ring = at; ring != rings.end(); ++ring)
        (*ring)->each_from(ring == at ? from.position : 0, [&](const RecordHeader& header, const std::byte* payload) {
            // a skip may stand before it
            if (!std::exchange(checked, true) && static_cast<std::uint16_t>(header.turn - from.turn) > 1)
                corrupt(ch, "a ring sealed inside a record");
            if (header.kind == Kind::grow)
                return;
            RecordHeader again = header;
            again.flags |= kReplayed;
            again.turn = number++;
            carry_record(ch, again, payload, header.bytes);
        });
    {
        const Hold backend(backend_lock_, threaded_);
        const AtFabric fabric(*this);
        fabric_->abandon(ch.peer);
        collect_words();
    }
    ch.former.clear();
    set_word(ch.high_water, std::max(ch.high_water, ch.out.high_water()));
    ch.out = RingWriter();
    ch.over_fabric = false;
    set_word(ch.path, Channel::Path::carried);
    adjust(sealing_, ~std::size_t{0}, threaded_);
    push_pending(ch);
}

void Rank::take_word(const Word& word)
{
    if (fabric_ == nullptr)
        return;
    const Hold backend(backend_lock_, threaded_);
    const AtFabric at(*this);
    fabric_->take_word(word);
    collect_words();
    set_word(fabric_due_, 0); // what it brings is seen by the next look
}

// The peer has read the oldest of the former rings to its end.
void Rank::drop_former(Channel& ch)
{
    if (ch.former.empty())
        return;
    const Hold backend(backend_lock_, threaded_);
    const AtFabric at(*this);
    fabric_->drop(ch.peer, ch.former.front().lane());
    collect_words();
    ch.former.erase(ch.former.begin());
}

// ---- when the real MPI fails too

// A peer that computes does not answer, and that is no failure. A host whose links are
// all down is one.
void Rank::watch_links()
{
    const std::uint64_t now = setup_.clock->ticks();
    if (setup_.cut_off == nullptr || now < glance_at(links_due_))
        return;
    set_word(links_due_, now + kLinksEvery_us * setup_.clock->ticks_per_us());
    std::string why;
    if (!setup_.cut_off(why))
        return;
    int peer = -1;
    for (Channel* ch : channels_now())
        if (glance_at(ch->path) == Channel::Path::sealing)
            peer = ch->peer;
    const std::string what = "nothing goes between ranks " + std::to_string(setup_.world_rank) + " and " +
                             std::to_string(peer) + " any more (" + why_carried(peer) + "; " + why + ")";
    end_job(what);
}

// The real MPI does not carry a record, and there is no other way left.
void Rank::cut_off(int peer, int error)
{
    std::string fabric = why_carried(peer);
    if (!fabric.empty())
        fabric = "; " + fabric;
    end_job("the real MPI carries nothing between ranks " + std::to_string(setup_.world_rank) + " and " +
            std::to_string(peer) + " (error class " + std::to_string(error) + fabric + ")");
}

std::string Rank::why_carried(int peer) const
{
    const Hold tables(tables_, threaded_);
    const auto at = carried_why_.find(peer);
    return at == carried_why_.end() ? "" : at->second;
}

void Rank::end_job(const std::string& what)
{
    const std::string line = what + ": the job ends rather than lose messages";
    setup_.log->error("%s", line.c_str());
    if (setup_.last_words)
        setup_.last_words(line.c_str());
    real_.Abort(real_.comm_world, 1);
}

} // namespace storm
