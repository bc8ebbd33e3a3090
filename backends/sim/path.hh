// SPDX-License-Identifier: MIT
// One ring over the simulated fabric, as both of its sides have it: the mirror that the
// sender writes, the landing zone that the fabric writes, and the ring that the receiver
// reads (the landing zone itself, where the mode writes records in place).
#pragma once

#include "fabric.hh"

#include "base/backend.hh"

#include <atomic>
#include <list>
#include <map>
#include <memory>

namespace storm::sim {

struct Free {
    void operator()(std::byte* at) const;
};
using Memory = std::unique_ptr<std::byte, Free>;

class Path {
public:
    static constexpr unsigned kSignalBits = 48;         // of a signal, below the number of the ring
    static constexpr std::uint64_t kOfHead = 1u << 31;  // in a cookie: the write of a head

    Path(Fabric& fabric, Mode mode, int from, int to, std::uint64_t bytes);
    ~Path();
    Path(const Path&) = delete;

    Lane sending() { return {fabric_.attributes().direct ? ring_.get() : mirror_.get(), bytes, &head_here, ref()}; }
    Lane receiving()
    {
        return {in_place() ? ring_.get() : seen_.get(), bytes, fabric_.attributes().direct ? &head_here : &head_there,
                ref()};
    }

    // ---- the sender's
    void publish(std::uint64_t from, std::uint64_t to);
    void push(); // what waits for room, or for earlier completions
    void payload_written(std::uint64_t cookie);
    bool nothing_waits() const { return waiting_.empty() && (mode_ != Mode::complete || uncommitted_.empty()); }
    bool nothing_under_way() const { return under_way_ == 0; }

    // ---- the receiver's
    void signalled(std::uint64_t signal);
    void collect(); // makes visible what has come whole and in order
    void return_head();
    void head_written() { head_under_way_ = false; }
    void close();

    const int from, to;
    const std::uint64_t bytes;
    std::uint32_t out_number = 0, in_number = 0;
    std::atomic<std::uint64_t> head_here{0};  // as the sender knows it
    std::atomic<std::uint64_t> head_there{0}; // as the receiver stored it
    std::uint64_t published = 0;
    bool dropped = false, opened = false, closed = false;

private:
    struct Segment { // a write that is still to be taken by the fabric
        const std::byte* from;
        std::uint64_t bytes, offset;
        unsigned flags;
        std::uint64_t signal;
        std::uint64_t cookie;
    };
    struct Range {
        std::uint64_t from, to;
        unsigned unwritten; // writes of its payload that are not complete
    };
    struct Cell;

    std::uint64_t ref() const { return std::uint64_t(in_number + 1) << 32 | (out_number + 1); }
    bool in_place() const { return mode_ != Mode::stamped && mode_ != Mode::remote_cq; }
    std::uint64_t cells() const { return bytes / 16; }
    std::uint64_t cookie(std::uint64_t number) const
    {
        return std::uint64_t(out_number) << 32 | (number & (kOfHead - 1));
    }
    void post(const std::byte* from, std::uint64_t offset, std::uint64_t n, unsigned flags, std::uint64_t signal,
              std::uint64_t number);
    unsigned post_ring(std::uint64_t from, std::uint64_t to, unsigned flags, std::uint64_t number);
    unsigned post_payload(std::uint64_t from, std::uint64_t to, unsigned flags, std::uint64_t number);
    void post_commit(std::uint64_t at, unsigned flags);
    void publish_stamped(std::uint64_t from, std::uint64_t to);
    void publish_signalled(std::uint64_t from, std::uint64_t to);
    void show(std::uint64_t end);
    void collect_cells();
    void collect_signalled();

    Fabric& fabric_;
    const Mode mode_;
    Memory mirror_, ring_, seen_, stamps_; // seen_: what the receiver reads, if that is not ring_
    std::uint64_t ring_key_ = 0, head_key_ = 0;

    std::list<Segment> waiting_;
    unsigned under_way_ = 0;
    std::map<std::uint64_t, Range> uncommitted_; // mode complete, by number
    std::uint64_t ranges_ = 0;

    // A published byte that is not freed keeps its cell: there are enough for any ranges.
    std::uint64_t cells_sent_ = 0, cells_seen_ = 0;
    std::map<std::uint64_t, std::uint64_t> arrived_; // mode remote-cq: where in the ring -> bytes
    std::uint64_t visible_ = 0;                      // all before it is shown to the receiver

    std::uint64_t head_sent_ = 0, head_source_ = 0;
    bool head_under_way_ = false;
};

} // namespace storm::sim
