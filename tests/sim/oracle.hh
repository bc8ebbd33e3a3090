// SPDX-License-Identifier: MIT
// MPI's rules of matching, checked in the plainest way: everything that a job did is
// written down, each thing as it happens, and judged against everything else.
//
//   a message is received once, whole, with the status that its sender makes
//   a receive gets a message that it asks for, and writes nothing else
//   messages of one pair do not overtake
//   of two receives that ask for a message the one posted first gets it
//   a probe tells of the next message, which no posted receive has
//   a receive is cancelled or gets a message, never both, never neither
//   a synchronous send ends after its receive was posted
//   what was sent before a collective is found by a probe behind it
//
// A message's length is its name: no two of one pair and communicator have the same.
#pragma once

#include "base/real_mpi.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace storm::sim {

struct Sent {
    int from, to, comm, tag; // world ranks
    std::uint64_t bytes;
    bool synchronous;
    std::uint64_t number;     // of the job's calls
    std::uint64_t ended = 0;  // the call that told so, 0: none yet
    int got = -1;             // its receive
    bool unseen = false;      // its request was given back
};

struct Received {
    int at, comm, source, tag; // as asked for
    std::uint64_t number;
    std::uint64_t ended = 0;
    bool cancelled = false;
    int got = -1;
    int probed = -1; // the message that a matched probe took for it
};

struct Probed {
    int at, comm, source, tag, message;
    std::uint64_t number;
};

class Oracle {
public:
    // Free lengths for a new message, from `bytes` on.
    std::uint64_t free_length(int from, int to, int comm, std::uint64_t bytes) const;
    static std::byte content(const Sent& sent, std::uint64_t i)
    {
        const auto x = (sent.bytes * 131 + static_cast<std::uint64_t>(sent.from) * 31 +
                        static_cast<std::uint64_t>(sent.comm) * 7 + 1) * (i + 1);
        return static_cast<std::byte>((x >> 3) ^ x);
    }

    int sent(int from, int to, int comm, int tag, std::uint64_t bytes, bool synchronous);
    void send_ended(int message) { sent_at(message).ended = ++calls_; }

    void send_ended_unseen(int message) { sent_at(message).unseen = true; }

    int posted(int at, int comm, int source, int tag);
    // `source` of the status as a world rank; `buffer` holds `room` bytes, 0xee before.
    void received(int receive, int source, int tag, std::uint64_t bytes, int error, const std::byte* buffer,
                  std::uint64_t room);
    void cancelled(int receive);
    // A probe that found something; the message, or -1.
    int probed(int at, int comm, int source, int tag, int from, int its_tag, std::uint64_t bytes);
    void taken(int receive, int message) { received_.at(static_cast<std::size_t>(receive)).probed = message; }

    // Messages to `at` on `comm` that nothing has received, and for which no receive may be under way.
    std::vector<int> waiting_for(int at, int comm) const;
    std::uint64_t calls() const { return calls_; }
    const Sent& message(int i) const { return sent_.at(static_cast<std::size_t>(i)); }
    bool will_end(int receive) const; // by a message that is sent already
    int sent_to(int rank) const;
    int arrived_at(int rank) const; // messages that it has received
    int comm_of(int receive) const { return received_.at(static_cast<std::size_t>(receive)).comm; }
    void problem(const std::string& what)
    {
        if (found_.empty())
            found_ = what;
    }
    const std::string& found() const { return found_; }

    // At the end. `whole`: nobody died, so all must have arrived.
    void judge(bool whole);

private:
    Sent& sent_at(int i) { return sent_.at(static_cast<std::size_t>(i)); }
    static bool asks(int source, int tag, const Sent& s)
    {
        return (source == MPI_ANY_SOURCE || source == s.from) && (tag == MPI_ANY_TAG || tag == s.tag);
    }
    static bool asks(const Received& r, const Sent& s)
    {
        return r.at == s.to && r.comm == s.comm && asks(r.source, r.tag, s);
    }
    int find(int from, int to, int comm, std::uint64_t bytes) const;
    void judge_overtaking(const Received& r, bool whole);
    void judge_posting(const Received& r, bool whole);
    void judge_probes(bool whole);

    std::vector<Sent> sent_;
    std::vector<Received> received_;
    std::vector<Probed> probed_;
    std::uint64_t calls_ = 0;
    std::string found_;
};

} // namespace storm::sim
