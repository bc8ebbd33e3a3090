// SPDX-License-Identifier: MIT
#include "communicator.hh"

namespace storm {

Source& Comm::add(int member, int world_rank)
{
    auto& slot = far_[member];
    slot = std::make_unique<Source>();
    slot->comm = this;
    slot->rank = member;
    slot->world = world_rank;
    if (member < kNear) {
        if (near_.size() <= static_cast<std::size_t>(member))
            near_.resize(static_cast<std::size_t>(member) + 1, nullptr);
        near_[static_cast<std::size_t>(member)] = slot.get();
    }
    return *slot;
}

Message* Comm::find_arrived(int member, int tag) const
{
    const auto fits = [tag](const Message* m) {
        return tag == MPI_ANY_TAG || m->tag == tag || STORM_PLANTED(probe_by_source_alone);
    };
    if (member == MPI_ANY_SOURCE) {
        Message* m = arrivals.front();
        while (m != nullptr && !fits(m))
            m = List<Message, &Message::of_comm>::next(m);
        return m;
    }
    const Source* source = known(member);
    Message* m = source == nullptr ? nullptr : source->unexpected.front();
    while (m != nullptr && !fits(m))
        m = List<Message, &Message::of_source>::next(m);
    return m;
}

void Comm::post(Request& request)
{
    request.queued = true;
    request.order = ++order;
    if (request.source == nullptr)
        posted_any.push_back(&request);
    else
        request.source->posted.push_back(&request);
}

void Comm::withdraw(Request& request)
{
    request.queued = false;
    if (request.source == nullptr)
        posted_any.remove(&request);
    else
        request.source->posted.remove(&request);
}

void Comm::arrive(Message& message)
{
    message.source->unexpected.push_back(&message);
    arrivals.push_back(&message);
}

void Comm::remove(Message& message)
{
    message.source->unexpected.remove(&message);
    arrivals.remove(&message);
}

} // namespace storm
