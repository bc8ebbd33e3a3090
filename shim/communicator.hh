// SPDX-License-Identifier: MIT
// A routed communicator: who its members are, and the two queues of matching.
//
// Matching is MPI's: a message takes the earliest posted receive that fits, a receive
// the earliest arrived message. Posted receives stand in the queue of their source or
// in the wildcard queue; their order of posting decides between the two. Arrived
// messages stand in the queue of their source and in the order of arrival.
#pragma once

#include "base/real_mpi.hh"
#include "base/defects.hh"
#include "list.hh"
#include "lock.hh"
#include "request.hh"

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace storm {

class Channel;
class TagSet;

// One member of one communicator, as far as this rank has to do with it.
struct Source {
    Comm* comm = nullptr;
    int rank = 0;  // in the communicator
    int world = 0; // in MPI_COMM_WORLD
    Channel* channel = nullptr; // null for ourselves
    bool defined = false;       // our number of the communicator was announced there
    List<Request, &Request::posted> posted;
    List<Message, &Message::of_source> unexpected;
};

class Comm {
public:
    Comm(std::uint64_t identity, std::uint32_t number) : id(identity), index(number) {}

    const std::uint64_t id;    // the same on all members
    const std::uint32_t index; // ours, announced to each channel once
    MPI_Comm handle = nullptr; // null before the program made it here, and after it freed it
    MPI_Group group = nullptr;
    int rank = -1;
    int size = 0;
    bool world = false;    // ranks are world ranks
    std::string name;      // under lock
    bool selected = true;  // STORM_COMMS, or its rule
    std::uint64_t eager_max = 0;   // STORM_EAGER_MAX, or its rule's
    const TagSet* tags = nullptr;  // STORM_TAGS, or its rule's
    bool freed = false;
    std::uint32_t users = 0;    // the handle, requests, messages and channels that refer to it
    std::uint32_t requests = 0; // those of the program among them

    // Guards the queues of matching and the table of members.
    mutable Lock lock;
    std::uint64_t order = 0; // of posting

    // No receive can be posted any more.
    bool out_of_reach() const { return glance_at(freed) && glance_at(requests) == 0; }

    List<Request, &Request::posted> posted_any;
    List<Message, &Message::of_comm> arrivals;

    // The member's record, or null when it is not yet known.
    Source* known(int member) const
    {
        if (static_cast<std::size_t>(member) < near_.size())
            return near_[static_cast<std::size_t>(member)];
        const auto at = far_.find(member);
        return at == far_.end() ? nullptr : at->second.get();
    }
    Source& add(int member, int world_rank);

    // All members that this rank has to do with.
    template <class Visit>
    void each(Visit visit)
    {
        for (auto& [member, source] : far_)
            visit(*source);
    }

    // The earliest posted receive for this envelope, taken out of its queue; or null.
    Request* take_posted(Source& source, int tag);
    // The earliest arrived message for this envelope, left in its queue; or null.
    Message* find_arrived(int member, int tag) const;

    void post(Request& request);
    void withdraw(Request& request);
    void arrive(Message& message);
    void remove(Message& message);

private:
    // Direct table of the low ranks that were used: 8 bytes a rank up to the highest
    // used one, at most 8 KiB; beyond it a hash.
    static constexpr int kNear = 1024;
    std::vector<Source*> near_;
    std::unordered_map<int, std::unique_ptr<Source>> far_;
};

inline Request* Comm::take_posted(Source& source, int tag)
{
    Request* specific = source.posted.front();
    while (specific != nullptr && specific->tag != tag && specific->tag != MPI_ANY_TAG)
        specific = List<Request, &Request::posted>::next(specific);
    Request* any = posted_any.front();
    while (any != nullptr && any->tag != tag && any->tag != MPI_ANY_TAG)
        any = List<Request, &Request::posted>::next(any);
    bool before_any = specific != nullptr && (any == nullptr || specific->order < any->order);
    if (STORM_PLANTED(wildcard_waits))
        before_any = specific != nullptr;
    if (STORM_PLANTED(wildcard_first))
        before_any = specific != nullptr && any == nullptr;
    if (before_any) {
        source.posted.remove(specific);
        specific->queued = false;
        return specific;
    }
    if (any != nullptr) {
        if (!STORM_PLANTED(wildcard_taken_twice))
            posted_any.remove(any);
        any->queued = false;
    }
    return any;
}

} // namespace storm
