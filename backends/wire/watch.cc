// SPDX-License-Identifier: MIT
// Peers that say nothing for long while something is outstanding: do they live? And what
// the report tells of all this.
#include "body.hh"

namespace storm::wire {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 1s;            // without a sign while something is outstanding
constexpr auto kBetween = 500ms;      // questions
constexpr auto kBetweenWatches = 100ms;
constexpr unsigned kQuestionsMax = 6; // without an answer

} // namespace

void Wire::watch()
{
    const auto now = looked_;
    if (pulse_ == nullptr || sending_.empty() || now - watched_ < kBetweenWatches)
        return;
    watched_ = now;
    for (auto& [number, p] : peers_) {
        if (p.failed || p.pulse.empty())
            continue;
        std::uint64_t mark = pulse_->answers(number);
        bool outstanding = false;
        for (Outbound* o : sending_) {
            if (o->peer != number || o->dropped)
                continue;
            outstanding = outstanding || !o->placed();
            mark += o->seen + o->head.load(std::memory_order_relaxed); // relaxed: a sum to compare
        }
        Quiet& q = p.quiet;
        if (!outstanding || mark != q.mark || q.since == Quiet::Time{}) {
            q = {mark, now, now, 0};
            continue;
        }
        if (now - q.since < kLong || now - q.asked < kBetween)
            continue;
        const std::string trouble = transport_->link_trouble();
        if (q.questions == kQuestionsMax || (q.questions != 0 && !trouble.empty())) {
            fail(number, "rank " + std::to_string(number) + " did not answer " + std::to_string(q.questions) +
                             " questions whether it lives" + (trouble.empty() ? "" : "; " + trouble));
            continue;
        }
        for (Outbound* o : sending_) // a peer that looks tells by its head
            o->ask = o->ask || o->peer == number;
        pulse_->ask(number, p.pulse);
        q.asked = now;
        ++q.questions;
    }
}

std::string Wire::fact(unsigned n) const
{
    const Guard lock = guard();
    const Promises& p = transport_->promises();
    switch (n) {
    case 0:
        return std::string("fabric: ") + transport_->name();
    case 1:
        return std::string("ordering: ") + mode_name(mode_) + (verify_ ? " with a CRC for each batch" : "") + " (" +
               p.provider + ": " + p.note + ")";
    case 2:
        return "fabric writes: " + std::to_string(batches_) + " batches in " + std::to_string(writes_) +
               " writes, " + std::to_string(heads_) + " heads returned";
    case 3:
        return "fabric memory: " + std::to_string(inbound_memory_->in_use() >> 10) + " KiB for inbound rings, " +
               std::to_string((mirrors_ + outbound_memory_->in_use()) >> 10) + " KiB for mirrors and stages";
    default:
        return {};
    }
}

} // namespace storm::wire
