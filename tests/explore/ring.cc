// SPDX-License-Identifier: MIT
// Programs over shim/ring.hh: a sender and a receiver of a few records in a tiny ring, as
// Rank uses them (Rank::push, Rank::poll and Rank::drain, Rank::make_room, Rank::on_grow).
#include "programs.hh"

#include "ring.hh"

#include <memory>

namespace storm::explore {
namespace {

using Writer = RingWriterOver<Checked>;
using Reader = RingReaderOver<Checked>;

struct Shape {
    std::uint64_t ring_bytes;
    std::vector<std::uint64_t> payloads; // of the records, again and again
    int before;  // records that have come and gone before the threads begin
    int records; // that are explored
    int growths = 0;
};

constexpr std::uint64_t kPayloadMax = 240;

class Rings {
public:
    explicit Rings(const Shape& shape) : shape_(shape)
    {
        std::uint64_t bytes = shape.ring_bytes;
        for (int i = 0; i <= shape.growths; ++i, bytes *= 2) {
            memory_.push_back(std::make_unique<std::vector<Line>>());
            heads_.push_back(std::make_unique<std::atomic<std::uint64_t>>(0));
            lanes_.push_back({zeroed(*memory_.back(), bytes), bytes, heads_.back().get(), lanes_.size()});
        }
    }

    void begin()
    {
        out_ = Writer(lanes_[0]);
        in_ = Reader(lanes_[0]);
        grown_ = 0;
        for (int i = 0; i < shape_.before; ++i) {
            put(i);
            get(i);
        }
    }
    void send()
    {
        for (int i = shape_.before; i < shape_.before + shape_.records; ++i)
            put(i);
    }
    void receive()
    {
        for (int i = shape_.before; i < shape_.before + shape_.records; ++i)
            get(i);
    }
    void end()
    {
        RecordHeader header;
        Explorer::expect(in_.peek(header) == nullptr, "a record that nobody sent");
        Explorer::expect(out_.used() <= shape_.ring_bytes << grown_, "a head beyond the tail");
    }

private:
    static std::uint64_t word_of(int record, std::uint64_t i)
    {
        return 0x1000u * (static_cast<unsigned>(record) + 1) + i;
    }
    std::uint64_t payload_of(int record) const
    {
        return shape_.payloads[static_cast<std::size_t>(record) % shape_.payloads.size()];
    }

    void put(int record)
    {
        const std::uint64_t payload = payload_of(record);
        std::byte* at = nullptr;
        Explorer::await([&] {
            at = out_.reserve(payload);
            if (at == nullptr && grown_ < shape_.growths) {
                grow();
                at = out_.reserve(payload);
            }
            return at != nullptr;
        });
        std::uint64_t words[kPayloadMax / 8];
        for (std::uint64_t i = 0; i < payload / 8; ++i)
            words[i] = word_of(record, i);
        Checked::write(at, words, payload, Site::payload);
        out_.commit(Kind::eager, 0, payload, record, 9);
    }

    // As Rank::make_room does.
    void grow()
    {
        const Lane& next = lanes_[static_cast<std::size_t>(++grown_)];
        const GrowPrefix prefix{next.ref, next.bytes};
        Checked::write(out_.reserve_control(sizeof prefix), &prefix, sizeof prefix, Site::payload);
        out_.commit(Kind::grow, 0, sizeof prefix, 0, 0);
        if (Explorer::weakened(Site::take_head, How::late))
            out_.used(); // a look at a ring that was given up
        out_ = Writer(next);
    }

    void get(int record)
    {
        const std::uint64_t payload = payload_of(record);
        RecordHeader header;
        const std::byte* at = nullptr;
        for (;;) {
            Explorer::await([&] {
                // relaxed: as in Rank::poll, which then drains
                if (Checked::load(*in_.word(), std::memory_order_relaxed, Site::hint) == 0)
                    return false;
                at = in_.peek(header);
                return at != nullptr;
            });
            Explorer::expect(in_.sound(header), "a header that the sender never wrote");
            if (header.kind != Kind::grow)
                break;
            take_successor(at, header);
        }
        Explorer::expect(header.kind == Kind::eager && header.tag == record && header.comm == 9 &&
                             header.bytes == payload,
                         "another record than the next one");
        std::uint64_t words[kPayloadMax / 8];
        if (Explorer::weakened(Site::copy, How::late)) {
            in_.pop(header);
            Checked::read(words, at, payload, Site::copy);
        } else {
            Checked::read(words, at, payload, Site::copy);
            in_.pop(header);
        }
        for (std::uint64_t i = 0; i < payload / 8; ++i)
            Explorer::expect(words[i] == word_of(record, i), "a payload that was not sent");
    }

    // As Rank::on_grow does; closing gives the memory back, which makes it zero.
    void take_successor(const std::byte* at, const RecordHeader& header)
    {
        GrowPrefix prefix{};
        Explorer::expect(header.bytes == sizeof prefix, "a successor of another size");
        if (!Explorer::weakened(Site::copy, How::late))
            Checked::read(&prefix, at, sizeof prefix, Site::copy);
        const Lane old = in_.lane();
        const std::vector<Line> zeros(old.bytes / sizeof(Line), Line{});
        Checked::write(old.base, zeros[0].bytes, old.bytes, Site::give_back);
        Checked::write(reinterpret_cast<std::byte*>(old.head), zeros[0].bytes, sizeof *old.head, Site::give_back);
        if (Explorer::weakened(Site::copy, How::late))
            Checked::read(&prefix, at, sizeof prefix, Site::copy);
        Explorer::expect(prefix.ref == old.ref + 1 && prefix.bytes == old.bytes * 2, "another successor");
        in_ = Reader(lanes_[prefix.ref]);
    }

    const Shape shape_;
    std::vector<std::unique_ptr<std::vector<Line>>> memory_;
    std::vector<std::unique_ptr<std::atomic<std::uint64_t>>> heads_;
    std::vector<Lane> lanes_;
    Writer out_;
    Reader in_;
    int grown_ = 0;
};

Named over(const std::string& name, const Shape& shape, const std::vector<Weakening>& finds)
{
    const auto rings = std::make_shared<Rings>(shape);
    return {name,
            {[rings] { rings->begin(); },
             {[rings] { rings->send(); }, [rings] { rings->receive(); }},
             [rings] { rings->end(); }},
            finds};
}

} // namespace

std::vector<Named> ring_programs()
{
    const std::vector<Weakening> always = {
        {Site::commit, How::relaxed}, {Site::peek, How::relaxed},   {Site::header, How::late},
        {Site::payload, How::late},   {Site::commit, How::absent},
    };
    // what needs a second lap: the receiver's consent to overwrite, and old bytes that look like records
    std::vector<Weakening> laps = always;
    for (const Weakening w : {Weakening{Site::free_head, How::relaxed}, {Site::take_head, How::relaxed},
                              {Site::clear, How::late}, {Site::clear, How::absent},
                              {Site::free_head, How::absent}})
        laps.push_back(w);
    std::vector<Weakening> skips = laps;
    for (const Weakening w : {Weakening{Site::skip, How::relaxed}, {Site::clear_first, How::late},
                              {Site::clear_first, How::absent}})
        skips.push_back(w);
    std::vector<Weakening> growth = always;
    for (const Weakening w : {Weakening{Site::copy, How::late}, {Site::take_head, How::late}})
        growth.push_back(w);
    return {
        over("two records in an empty ring", {512, {48}, 0, 2}, always),
        over("a lap of records of a quarter", {512, {112}, 0, 6}, laps),
        over("a lap and a skip at the end", {512, {80}, 2, 9}, skips),
        over("one record at a time", {256, {48}, 3, 7}, laps),
        // The room that is kept free hides a head before the copy from most records: here the
        // one that is written next reaches into the one that was read last.
        over("a record on the heels of the receiver", {1024, {160, 240, 240, 240, 64, 240}, 1, 5},
             {{Site::copy, How::late}, {Site::free_head, How::relaxed}, {Site::take_head, How::relaxed}}),
        over("growth, twice", {256, {48}, 0, 6, 2}, growth),
        over("growth behind a lap", {512, {112}, 3, 6, 1}, growth),
    };
}

} // namespace storm::explore
