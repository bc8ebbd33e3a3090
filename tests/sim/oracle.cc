// SPDX-License-Identifier: MIT
#include "oracle.hh"

#include <algorithm>

namespace storm::sim {
namespace {

std::string name(const Sent& s)
{
    return "message of " + std::to_string(s.bytes) + " bytes, " + std::to_string(s.from) + " to " +
           std::to_string(s.to) + ", tag " + std::to_string(s.tag) + ", communicator " + std::to_string(s.comm);
}

std::string name(const Received& r)
{
    const auto word = [](int n, int any) { return n == any ? std::string("any") : std::to_string(n); };
    return "receive number " + std::to_string(r.number) + " at rank " + std::to_string(r.at) + " (source " +
           word(r.source, MPI_ANY_SOURCE) + ", tag " + word(r.tag, MPI_ANY_TAG) + ", communicator " +
           std::to_string(r.comm) + ")";
}

} // namespace

int Oracle::find(int from, int to, int comm, std::uint64_t bytes) const
{
    for (std::size_t i = 0; i < sent_.size(); ++i)
        if (sent_[i].from == from && sent_[i].to == to && sent_[i].comm == comm && sent_[i].bytes == bytes)
            return static_cast<int>(i);
    return -1;
}

std::uint64_t Oracle::free_length(int from, int to, int comm, std::uint64_t bytes) const
{
    while (find(from, to, comm, bytes) >= 0)
        ++bytes;
    return bytes;
}

int Oracle::sent(int from, int to, int comm, int tag, std::uint64_t bytes, bool synchronous)
{
    sent_.push_back({from, to, comm, tag, bytes, synchronous, ++calls_});
    return static_cast<int>(sent_.size()) - 1;
}

int Oracle::posted(int at, int comm, int source, int tag)
{
    received_.push_back({at, comm, source, tag, ++calls_});
    return static_cast<int>(received_.size()) - 1;
}

void Oracle::received(int receive, int source, int tag, std::uint64_t bytes, int error, const std::byte* buffer,
                      std::uint64_t room)
{
    Received& r = received_.at(static_cast<std::size_t>(receive));
    r.ended = ++calls_;
    const int m = find(source, r.at, r.comm, bytes);
    if (m < 0)
        return problem(name(r) + " got " + std::to_string(bytes) + " bytes from " + std::to_string(source) +
                       ": no such message was sent");
    Sent& s = sent_at(m);
    r.got = m;
    if (error != MPI_SUCCESS)
        problem(name(r) + ": error class " + std::to_string(error));
    if (tag != s.tag || !asks(r, s))
        problem(name(r) + " got the " + name(s));
    if (s.got >= 0)
        problem(name(s) + " was received twice");
    if (r.probed >= 0 && r.probed != m)
        problem(name(r) + " got another message than its matched probe");
    s.got = receive;
    for (std::uint64_t i = 0; i < room; ++i)
        if (buffer[i] != (i < bytes ? content(s, i) : std::byte{0xee}))
            return problem(name(s) + ": byte " + std::to_string(i) +
                           (i < bytes ? " is wrong" : " behind the message was written"));
}

void Oracle::cancelled(int receive)
{
    Received& r = received_.at(static_cast<std::size_t>(receive));
    r.ended = ++calls_;
    r.cancelled = true;
}

int Oracle::probed(int at, int comm, int source, int tag, int from, int its_tag, std::uint64_t bytes)
{
    const int m = find(from, at, comm, bytes);
    if (m < 0 || sent_at(m).tag != its_tag || !asks(source, tag, sent_at(m)))
        problem("a probe at rank " + std::to_string(at) + " told of a message that it did not ask for, or of none");
    else
        probed_.push_back({at, comm, source, tag, m, ++calls_});
    return m;
}

std::vector<int> Oracle::waiting_for(int at, int comm) const
{
    std::vector<int> waiting;
    for (std::size_t i = 0; i < sent_.size(); ++i) {
        const Sent& s = sent_[i];
        if (s.to != at || s.comm != comm || s.got >= 0)
            continue;
        const bool asked_for = std::any_of(received_.begin(), received_.end(), [&](const Received& r) {
            return r.ended == 0 && (r.probed == static_cast<int>(i) || (r.probed < 0 && asks(r, s)));
        });
        if (!asked_for)
            waiting.push_back(static_cast<int>(i));
    }
    return waiting;
}

bool Oracle::will_end(int receive) const
{
    const Received& r = received_.at(static_cast<std::size_t>(receive));
    return r.probed >= 0 || std::any_of(sent_.begin(), sent_.end(), [&](const Sent& s) {
               return s.got < 0 && asks(r, s);
           });
}

int Oracle::sent_to(int rank) const
{
    return static_cast<int>(
        std::count_if(sent_.begin(), sent_.end(), [rank](const Sent& s) { return s.to == rank; }));
}

int Oracle::arrived_at(int rank) const
{
    return static_cast<int>(std::count_if(sent_.begin(), sent_.end(),
                                          [rank](const Sent& s) { return s.to == rank && s.got >= 0; }));
}

// A message of the same pair that was sent earlier, and for which the receive asks too, was
// taken by a receive that was posted earlier.
void Oracle::judge_overtaking(const Received& r, bool whole)
{
    const Sent& second = sent_[static_cast<std::size_t>(r.got)];
    for (const Sent& first : sent_) {
        if (first.from != second.from || first.number >= second.number || !asks(r, first))
            continue;
        if (first.got < 0 ? whole : received_[static_cast<std::size_t>(first.got)].number > r.number)
            problem(name(second) + " overtook the " + name(first) + " into " + name(r));
    }
}

// A receive that was posted earlier, asks for the same message and was not taken by then.
void Oracle::judge_posting(const Received& r, bool whole)
{
    const Sent& s = sent_[static_cast<std::size_t>(r.got)];
    for (const Received& before : received_) {
        if (before.number >= r.number || before.probed >= 0 || r.probed >= 0 || !asks(before, s))
            continue;
        const bool left = before.got < 0 && (before.ended == 0 ? whole : before.ended > r.ended);
        const bool passed = before.got >= 0 && sent_[static_cast<std::size_t>(before.got)].from == s.from &&
                            sent_[static_cast<std::size_t>(before.got)].number > s.number;
        const bool later = before.got >= 0 &&
                           sent_[static_cast<std::size_t>(before.got)].number > r.ended;
        if (left || passed || later)
            problem(name(s) + " went to " + name(r) + " past " + name(before));
    }
}

void Oracle::judge_probes(bool whole)
{
    for (const Probed& p : probed_) {
        const Sent& told = sent_[static_cast<std::size_t>(p.message)];
        if (told.got >= 0 && received_[static_cast<std::size_t>(told.got)].number < p.number)
            problem("a probe told of the " + name(told) + ", which a posted receive had");
        for (const Sent& first : sent_)
            if (first.from == told.from && first.to == told.to && first.comm == told.comm &&
                first.number < told.number && asks(p.source, p.tag, first) &&
                (first.got < 0 ? whole : received_[static_cast<std::size_t>(first.got)].number > p.number))
                problem("a probe told of the " + name(told) + " before the " + name(first));
    }
}

void Oracle::judge(bool whole)
{
    for (const Received& r : received_) {
        if (r.got < 0)
            continue;
        judge_overtaking(r, whole);
        judge_posting(r, whole);
    }
    judge_probes(whole);
    for (const Sent& s : sent_) {
        if (whole && s.got < 0)
            problem(name(s) + " was lost");
        if (whole && s.ended == 0 && !s.unseen)
            problem(name(s) + ": its send does not end");
        if (s.synchronous && s.ended != 0 && s.got >= 0 &&
            received_[static_cast<std::size_t>(s.got)].number > s.ended)
            problem(name(s) + ": its synchronous send ended before a receive was posted");
    }
    for (const Received& r : received_)
        if (whole && r.ended == 0)
            problem(name(r) + " is neither complete nor cancelled");
}

} // namespace storm::sim
