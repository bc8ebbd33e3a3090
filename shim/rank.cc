// SPDX-License-Identifier: MIT
// Rank: set-up, communicators, channels, types. The message path is in send.cc,
// receive.cc, progress.cc and complete.cc.
#include "rank.hh"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace storm {
namespace {

struct NoDevices final : DeviceMemory {};
constinit NoDevices no_devices;

} // namespace

thread_local constinit int Rank::in_real_here = 0;
thread_local constinit bool Rank::inside_here = false;

Rank::Rank(const RankSetup& setup)
    : threaded_(setup.threaded), setup_(setup), real_(*setup.real), settings_(*setup.settings),
      near_(setup.backend != nullptr && setup.backend->direct() ? setup.backend : nullptr),
      fabric_(setup.fabric != nullptr || near_ != nullptr ? setup.fabric : setup.backend),
      fabric_calls_mpi_(fabric_ != nullptr && fabric_->calls_mpi()),
      devices_(setup.devices != nullptr ? *setup.devices : static_cast<DeviceMemory&>(no_devices)),
      types_(*setup.real, setup.threaded),
      small_(std::max(kSmall, setup.native_eager))
{
    static constexpr std::uint64_t kNobodyRings = 0;
    doorbell_ = near_ != nullptr ? near_->doorbell() : &kNobodyRings;
    std::string why;
    tags_.parse(settings_.tags, why); // was checked when it was read
    types_.set_private(setup.private_comm);
    real_.Comm_group(real_.comm_world, &world_group_);
    void* value = nullptr;
    int found = 0;
    real_.Comm_get_attr(real_.comm_world, MPI_TAG_UB, &value, &found);
    if (found != 0)
        tag_max_ = *static_cast<int*>(value);
    if (!(setup.requests_bytes != 0 ? pool_.reserve(setup.requests_bytes) : pool_.reserve()))
        throw std::runtime_error("no range of addresses for requests");
    requests_at_ = pool_.address();
    requests_bytes_ = pool_.bytes();
    for (auto [handle, identity] : {std::pair{real_.comm_world, std::uint64_t{0}},
                                    std::pair{real_.comm_self, std::uint64_t(setup.world_rank) << 32 | 1}})
        adopt(handle, identity);
    if (threaded_)
        inbound_.reserve(static_cast<std::size_t>(setup.world_size));
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

// What a table's lock is when the program has no threads: nothing.
std::unique_lock<std::shared_mutex> Rank::registry()
{
    return threaded_ ? std::unique_lock(registry_) : std::unique_lock<std::shared_mutex>();
}

Comm* Rank::find_slow(MPI_Comm handle)
{
    std::shared_lock shared(registry_, std::defer_lock);
    if (threaded_)
        shared.lock();
    const auto at = by_handle_.find(handle);
    if (at == by_handle_.end())
        return nullptr;
    if (!threaded_) {
        last_handle_ = handle;
        last_comm_ = at->second;
    }
    return at->second;
}

// The communicator of this identity, made when it is new; the caller is one user more.
Comm* Rank::hold_by_id(std::uint64_t identity)
{
    const auto lock = registry();
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
    adjust(slot->users, 1, threaded_);
    return slot.get();
}

// One user less; the last one ends it.
void Rank::drop(Comm& comm)
{
    const std::uint64_t identity = comm.id; // it may be gone after the next line
    if (adjust(comm.users, ~std::uint32_t{0}, threaded_) != 0)
        return;
    const auto lock = registry();
    const auto at = comms_.find(identity);
    if (at == comms_.end() || glance_at(at->second->users) != 0)
        return; // another thread has it again, or ended it
    if (at->second->group != nullptr)
        real_.Group_free(&at->second->group);
    free_numbers_.push_back(at->second->index);
    comms_.erase(at);
}

std::uint64_t Rank::next_identity()
{
    return std::uint64_t(static_cast<std::uint32_t>(setup_.world_rank)) << 32 |
           (adjust(identities_, 1, threaded_) - 1);
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
    // Messages may have come for it before the real MPI's constructor returned here.
    Comm* comm = hold_by_id(identity); // the handle's hold
    comm->handle = handle;
    comm->world = handle == real_.comm_world;
    real_.Comm_rank(handle, &comm->rank);
    real_.Comm_size(handle, &comm->size);
    real_.Comm_group(handle, &comm->group);
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length = 0;
    real_.Comm_get_name(handle, name, &length);
    select(*comm, name);
    const auto lock = registry();
    by_handle_[handle] = comm;
    return comm;
}

void Rank::rename(Comm& comm, const char* name)
{
    select(comm, name);
}

void Rank::select(Comm& comm, const char* name)
{
    const RouteRule* rule = setup_.rules != nullptr ? setup_.rules->find(name) : nullptr;
    set_word(comm.selected, rule != nullptr ? rule->ride : name_selected(settings_.comms, name));
    set_word(comm.tags, rule != nullptr && rule->tags ? &*rule->tags : &tags_);
    set_word(comm.eager_max, rule != nullptr && rule->eager_max ? *rule->eager_max : settings_.eager_max);
    const Hold queues(comm.lock, threaded_);
    comm.name = name;
}

// The program frees its handle: receives that are posted and messages under way keep
// the object; our number of it is given back in every channel that knows it.
void Rank::free_comm(Comm& comm, MPI_Comm handle)
{
    {
        const auto lock = registry();
        // another thread may have made a communicator at the same address since
        if (const auto at = by_handle_.find(handle); at != by_handle_.end() && at->second == &comm)
            by_handle_.erase(at);
        if (last_comm_ == &comm) {
            last_handle_ = nullptr;
            last_comm_ = nullptr;
        }
    }
    set_word(comm.handle, nullptr);
    set_word(comm.freed, true);
    discard(comm);
    std::vector<Source*> met;
    {
        const Hold queues(comm.lock, threaded_);
        comm.each([&](Source& s) { met.push_back(&s); });
    }
    for (Source* s : met) {
        if (s->channel == nullptr)
            continue;
        const Hold out(s->channel->out_lock, threaded_);
        if (s->defined)
            control(*s->channel, Kind::retire, 0, comm.index, nullptr, 0);
        s->defined = false;
    }
    drop(comm);
}

// Messages on a communicator whose handle is gone, as far as nobody can receive them:
// a persistent request could still be started. The caller is a user of it.
void Rank::discard(Comm& comm)
{
    if (!comm.out_of_reach())
        return;
    std::vector<Message*> gone;
    {
        const Hold queues(comm.lock, threaded_);
        for (Message* m = comm.arrivals.front(); m != nullptr;) {
            Message* next = List<Message, &Message::of_comm>::next(m);
            if (!m->native && m->whole) {
                comm.remove(*m);
                gone.push_back(m);
            }
            m = next;
        }
    }
    for (Message* m : gone)
        free_message(m);
}

Source& Rank::source(Comm& comm, int member)
{
    const Hold queues(comm.lock, threaded_);
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
    const auto lock = registry();
    auto& slot = channels_[world_rank];
    if (slot == nullptr)
        slot = std::make_unique<Channel>(world_rank);
    return *slot;
}

// ---- datatypes

TypeInfo* Rank::type_of(MPI_Datatype handle)
{
    return types_.find(handle);
}

void Rank::forget_type(MPI_Datatype handle)
{
    types_.forget(handle);
}

// Of a type with holes the ends are looked at. The parts of a wide one may lie in memory
// of several kinds.
bool Rank::touches_device(const void* buffer, int count, const TypeInfo& type) const
{
    constexpr std::ptrdiff_t kWide = 1 << 20; // devices hand out no less at once
    if (type.size == 0 || count == 0)
        return false;
    const std::byte* first = static_cast<const std::byte*>(buffer) + type.first;
    if (type.contiguous)
        return devices_.holds(first);
    if (type.absolute || type.width > kWide)
        return true;
    const std::byte* last = first + type.extent * (count - 1);
    return devices_.holds(std::min(first, last)) || devices_.holds(std::max(first, last) + type.width - 1);
}

} // namespace storm
