// SPDX-License-Identifier: MIT
// Programs over the claim protocol of backends/shm/slab.hh: senders that take rings from
// one receiver at the same time, and their first records.
#include "programs.hh"

#include "ring.hh"

#include "backends/shm/slab.hh"

#include <memory>

namespace storm::explore {
namespace {

using Protocol = shm::Claims<Checked>;

constexpr std::uint64_t kRing = 256;
constexpr std::uint64_t kWhole = kRing + kPage;
constexpr std::uint64_t kPayload = 16;

class Slab {
public:
    Slab(int senders, std::uint32_t entries_taken, std::uint64_t limit, std::uint32_t rings)
        : senders_(senders), entries_taken_(entries_taken), rings_(rings)
    {
        directory_ = reinterpret_cast<shm::Entry*>(zeroed(entries_, shm::kEntries * sizeof(shm::Entry)));
        at_ = zeroed(memory_, static_cast<std::size_t>(senders) * kWhole);
        header_.limit = limit;
        header_.next_offset = shm::kFirstRing;
        header_.in_use = 0;
        header_.next_entry = entries_taken;
    }

    void begin()
    {
        granted_ = {};
        in_ = {};
        found_ = 0;
        accepted_ = entries_taken_;
    }

    // As Shm::claim does, and then the first record.
    void send(int rank)
    {
        std::uint64_t offset = 0;
        if (Protocol::full(header_) || !Protocol::take_room(header_, kWhole, offset))
            return;
        if (!Protocol::announce(header_, directory_, offset, rank, 8)) {
            Protocol::give_back(header_, kWhole);
            return;
        }
        granted_[static_cast<std::size_t>(rank)] = true;
        RingWriterOver<Checked> out(lane(offset));
        std::byte* at = out.reserve(kPayload);
        const std::uint64_t words[2] = {offset, static_cast<std::uint64_t>(rank)};
        Checked::write(at, words, sizeof words, Site::payload);
        out.commit(Kind::eager, 0, kPayload, rank, 9);
    }

    // As Rank::poll does, until the first record of each ring has come.
    void receive()
    {
        for (std::uint32_t records = 0; records < rings_; ++records)
            Explorer::await([&] {
                // relaxed: the doorbell is a hint; find() loads with acquire
                while (accepted_ < shm::kEntries &&
                       Checked::load(directory_[accepted_].claim, std::memory_order_relaxed, Site::hint) != 0)
                    accept();
                for (std::size_t i = 0; i < found_; ++i)
                    if (!in_[i].done && take(in_[i]))
                        return true;
                return false;
            });
    }

    void end()
    {
        std::uint64_t granted = 0;
        for (const bool one : granted_)
            granted += one ? 1 : 0;
        // relaxed: nobody else runs
        Explorer::expect(header_.limit >= granted * kWhole, "more rings than the budget allows");
        Explorer::expect(Checked::load(header_.in_use, std::memory_order_relaxed, Site::hint) == granted * kWhole,
                         "a budget that does not count the rings there are");
        Explorer::expect(granted >= rings_, "a sender was refused a ring that was there");
    }

private:
    struct In {
        int rank = -1;
        bool done = false;
        RingReaderOver<Checked> ring;
    };

    Lane lane(std::uint64_t offset)
    {
        Explorer::expect(offset >= shm::kFirstRing &&
                             offset + kWhole <= shm::kFirstRing + static_cast<std::uint64_t>(senders_) * kWhole,
                         "a ring beyond the slab");
        std::byte* control = at_ + (offset - shm::kFirstRing);
        return {control + kPage, kRing, reinterpret_cast<std::atomic<std::uint64_t>*>(control), offset};
    }

    void accept()
    {
        std::uint64_t offset = 0, bytes = 0;
        In& in = in_[found_];
        if (!Protocol::find(directory_[accepted_], offset, in.rank, bytes))
            return;
        ++accepted_;
        Explorer::expect(bytes == kRing && in.rank >= 0 && in.rank < senders_, "a claim that nobody made");
        in.ring = RingReaderOver<Checked>(lane(offset));
        ++found_;
    }

    static bool take(In& in)
    {
        RecordHeader header;
        const std::byte* at = in.ring.peek(header);
        if (at == nullptr)
            return false;
        Explorer::expect(in.ring.sound(header) && header.tag == in.rank, "a record of another sender");
        std::uint64_t words[2];
        Checked::read(words, at, sizeof words, Site::copy);
        Explorer::expect(words[0] == in.ring.lane().ref && words[1] == static_cast<std::uint64_t>(in.rank),
                         "a payload that was not sent");
        in.ring.pop(header);
        in.done = true;
        return true;
    }

    const int senders_;
    const std::uint32_t entries_taken_, rings_;
    std::vector<Line> entries_, memory_;
    shm::Entry* directory_ = nullptr;
    std::byte* at_ = nullptr;
    shm::Header header_{};
    std::array<bool, kThreads> granted_{};
    std::array<In, kThreads> in_;
    std::size_t found_ = 0;
    std::uint32_t accepted_ = 0;
};

Named over(const std::string& name, const std::shared_ptr<Slab>& slab, int senders, bool receiver,
           const std::vector<Weakening>& finds)
{
    Named made{name, {[slab] { slab->begin(); }, {}, [slab] { slab->end(); }}, finds};
    for (int i = 0; i < senders; ++i)
        made.program.threads.emplace_back([slab, i] { slab->send(i); });
    if (receiver)
        made.program.threads.emplace_back([slab] { slab->receive(); });
    return made;
}

} // namespace

std::vector<Named> claim_programs()
{
    const std::vector<Weakening> always = {
        {Site::claim, How::relaxed}, {Site::accept, How::relaxed}, {Site::entry, How::late}};
    std::vector<Weakening> two = always;
    for (const Weakening w : {Weakening{Site::range, How::split}, {Site::slot, How::split}, {Site::budget, How::split}})
        two.push_back(w);
    const std::uint64_t plenty = 100 * kWhole;
    return {
        over("one claim", std::make_shared<Slab>(1, 0, plenty, 1), 1, true, always),
        over("two claims at once", std::make_shared<Slab>(2, 0, plenty, 2), 2, true, two),
        over("two claims of the last entry", std::make_shared<Slab>(2, shm::kEntries - 1, plenty, 1), 2, true,
             {{Site::slot, How::split}, {Site::give_back, How::split}, {Site::give_back, How::absent}}),
        over("two claims of the last room", std::make_shared<Slab>(2, 0, kWhole, 1), 2, false,
             {{Site::budget, How::split}, {Site::give_back, How::absent}}),
    };
}

} // namespace storm::explore
