// Rank: set-up, communicators, channels, types. The message path is in send.cc,
// receive.cc, progress.cc and complete.cc.
#include "rank.hh"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace storm {

Rank::Rank(const RankSetup& setup)
    : threaded_(setup.threaded), direct_(setup.backend == nullptr || setup.backend->direct()),
      indirect_(direct_ ? 0 : 1), setup_(setup), real_(*setup.real), settings_(*setup.settings),
      backend_(setup.backend), types_(*setup.real),
      small_(std::max(kSmall, setup.native_eager))
{
    static constexpr std::uint64_t kNobodyRings = 0;
    doorbell_ = backend_ != nullptr ? backend_->doorbell() : &kNobodyRings;
    std::string why;
    tags_.parse(settings_.tags, why); // was checked when it was read
    types_.set_private(setup.private_comm);
    real_.Comm_group(real_.comm_world, &world_group_);
    void* value = nullptr;
    int found = 0;
    real_.Comm_get_attr(real_.comm_world, MPI_TAG_UB, &value, &found);
    if (found != 0)
        tag_max_ = *static_cast<int*>(value);
    if (!pool_.reserve())
        throw std::runtime_error("no range of addresses for requests");
    requests_at_ = pool_.address();
    requests_bytes_ = pool_.bytes();
    for (auto [handle, identity] : {std::pair{real_.comm_world, std::uint64_t{0}},
                                    std::pair{real_.comm_self, std::uint64_t(setup.world_rank) << 32 | 1}})
        adopt(handle, identity);
    if (setup.world_size > 1)
        post_carry_receive();
    turn_ticks_ = setup_.clock->ticks();
}

Rank::~Rank()
{
    // what nobody received; copies that the real MPI may still read or write stay
    for (const auto& [identity, comm] : comms_)
        while (Message* m = comm->arrivals.front()) {
            comm->remove(*m);
            if (!m->filling)
                std::free(m);
        }
    for (const Message* m : exposed_)
        if (!m->filling)
            std::free(const_cast<Message*>(m));
}

// ---- communicators

Comm* Rank::find_slow(MPI_Comm handle)
{
    const Guard guard(*this);
    const auto at = by_handle_.find(handle);
    if (at == by_handle_.end())
        return nullptr;
    if (!threaded_) {
        last_handle_ = handle;
        last_comm_ = at->second;
    }
    return at->second;
}

Comm* Rank::by_id(std::uint64_t identity)
{
    auto& slot = comms_[identity];
    if (slot == nullptr) {
        std::uint32_t number = next_number_;
        if (free_numbers_.empty()) {
            ++next_number_;
        } else {
            number = free_numbers_.back();
            free_numbers_.pop_back();
        }
        slot = std::make_unique<Comm>(identity, number);
    }
    return slot.get();
}

std::uint64_t Rank::next_identity()
{
    const Guard guard(*this);
    return std::uint64_t(static_cast<std::uint32_t>(setup_.world_rank)) << 32 | identities_++;
}

bool Rank::all_in_world(MPI_Comm handle)
{
    return all_in(handle, world_group_);
}

bool Rank::all_in(MPI_Comm handle, MPI_Group whole)
{
    MPI_Group group;
    int inter = 0, size = 0;
    if (real_.Comm_test_inter(handle, &inter) != MPI_SUCCESS || inter != 0 ||
        real_.Comm_group(handle, &group) != MPI_SUCCESS)
        return false;
    real_.Group_size(group, &size);
    std::vector<int> ranks(static_cast<std::size_t>(size)), there(ranks.size());
    for (int i = 0; i < size; ++i)
        ranks[static_cast<std::size_t>(i)] = i;
    real_.Group_translate_ranks(group, size, ranks.data(), whole, there.data());
    real_.Group_free(&group);
    return std::find(there.begin(), there.end(), MPI_UNDEFINED) == there.end();
}

Comm* Rank::adopt(MPI_Comm handle, std::uint64_t identity)
{
    const Guard guard(*this);
    return adopt_locked(handle, identity);
}

Comm* Rank::adopt_locked(MPI_Comm handle, std::uint64_t identity)
{
    // Messages may have come for it before the real MPI's constructor returned here.
    Comm* comm = by_id(identity);
    comm->handle = handle;
    comm->adopted = true;
    comm->world = handle == real_.comm_world;
    real_.Comm_rank(handle, &comm->rank);
    real_.Comm_size(handle, &comm->size);
    real_.Comm_group(handle, &comm->group);
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    real_.Comm_get_name(handle, name, &length);
    select(*comm, name);
    by_handle_[handle] = comm;
    return comm;
}

void Rank::rename(Comm& comm, const char* name)
{
    const Guard guard(*this);
    select(comm, name);
}

void Rank::select(Comm& comm, const char* name)
{
    comm.name = name;
    const RouteRule* rule = setup_.rules != nullptr ? setup_.rules->find(comm.name) : nullptr;
    comm.selected = rule != nullptr ? rule->ride : name_selected(settings_.comms, comm.name);
    comm.tags = rule != nullptr && rule->tags ? &*rule->tags : &tags_;
    comm.eager_max = rule != nullptr && rule->eager_max ? *rule->eager_max : settings_.eager_max;
}

// The program frees its handle: receives that are posted and messages under way keep
// the object; our number of it is given back in every channel that knows it.
void Rank::free_comm(Comm& comm, MPI_Comm handle)
{
    const Guard guard(*this);
    // another thread may have made a communicator at the same address since
    if (const auto at = by_handle_.find(handle); at != by_handle_.end() && at->second == &comm)
        by_handle_.erase(at);
    if (last_comm_ == &comm) {
        last_handle_ = nullptr;
        last_comm_ = nullptr;
    }
    comm.handle = nullptr;
    comm.freed = true;
    discard(comm);
    comm.each([&](Source& s) {
        if (s.channel != nullptr && s.defined) {
            control(*s.channel, Kind::retire, 0, comm.index, nullptr, 0);
            s.defined = false;
        }
    });
    maybe_destroy(comm);
}

// Messages on a communicator whose handle is gone, as far as nobody can receive them:
// a persistent request could still be started.
void Rank::discard(Comm& comm)
{
    if (!comm.out_of_reach())
        return;
    ++comm.users; // while its messages go
    for (Message* m = comm.arrivals.front(); m != nullptr;) {
        Message* next = List<Message, &Message::of_comm>::next(m);
        if (!m->native && m->arrived == m->total) {
            comm.remove(*m);
            free_message(m);
        }
        m = next;
    }
    --comm.users;
}

void Rank::maybe_destroy(Comm& comm)
{
    if (!comm.freed || comm.users != 0)
        return;
    while (Message* message = comm.arrivals.front()) {
        comm.remove(*message);
        std::free(message);
    }
    if (comm.group != nullptr)
        real_.Group_free(&comm.group);
    free_numbers_.push_back(comm.index);
    comms_.erase(comm.id);
}

Source& Rank::source(Comm& comm, int member)
{
    if (Source* known = comm.known(member)) [[likely]]
        return *known;
    int world = member;
    if (!comm.world)
        real_.Group_translate_ranks(comm.group, 1, &member, world_group_, &world);
    Source& added = comm.add(member, world);
    if (world != setup_.world_rank)
        added.channel = &channel(world);
    return added;
}

Channel& Rank::channel(int world_rank)
{
    auto& slot = channels_[world_rank];
    if (slot == nullptr)
        slot = std::make_unique<Channel>(world_rank);
    return *slot;
}

// ---- datatypes

TypeInfo* Rank::type_of(MPI_Datatype handle)
{
    const Guard guard(*this);
    return types_.find(handle);
}

void Rank::forget_type(MPI_Datatype handle)
{
    const Guard guard(*this);
    types_.forget(handle);
}

} // namespace storm
