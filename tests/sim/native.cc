// SPDX-License-Identifier: MIT
#include "native_parts.hh"

namespace storm::sim {

Native* Native::live = nullptr;

Native::Side& Native::side(int rank)
{
    return sides_[static_cast<std::size_t>(rank)];
}

// ---- what stands behind them

Native::Native(World& world, int ranks, const NativeOptions& options)
    : world_(world), options_(options), random_(options.seed * 13 + 5), size_(ranks), tag_max_(options.tag_max)
{
    for (int i = 0; i < ranks; ++i) {
        Side& s = sides_.emplace_back();
        s.mpi = this;
        s.rank = i;
    }
    const auto comm = [&](int context, bool is_world) {
        comms_.push_back({context, is_world, !is_world, {}, ranks});
        return as<std::remove_pointer_t<MPI_Comm>>(&comms_.back());
    };
    static Request null, done;
    null.complete = done.complete = true;
    real_.comm_world = comm(0, true);
    real_.comm_self = comm(1, false);
    private_ = comm(contexts_++, true);
    real_.request_null = as<std::remove_pointer_t<MPI_Request>>(&null);
    real_.request_done = as<std::remove_pointer_t<MPI_Request>>(&done);
    real_.byte = make_type({{0, 1}}, 1);
    real_.int64 = make_type({{0, 8}}, 8);
    as<Type>(real_.byte)->predefined = as<Type>(real_.int64)->predefined = true;
    set_calls();
}

Native::~Native()
{
    live = nullptr;
}

MPI_Comm Native::make_comm(std::vector<int> members)
{
    comms_.push_back({contexts_++, false, false, std::move(members), size_});
    return as<std::remove_pointer_t<MPI_Comm>>(&comms_.back());
}

MPI_Datatype Native::make_type(std::vector<std::pair<std::ptrdiff_t, std::size_t>> blocks, MPI_Aint extent)
{
    auto type = std::make_unique<Type>();
    for (const auto& block : blocks)
        type->size += block.second;
    type->blocks = std::move(blocks);
    type->extent = extent;
    types_.push_back(std::move(type));
    return as<std::remove_pointer_t<MPI_Datatype>>(types_.back().get());
}

void Native::set_inside(int rank, void (*call)(void*), void* with)
{
    side(rank).inside = call;
    side(rank).inside_with = with;
}

void Native::kill(int rank)
{
    side(rank).dead = true;
    side(rank).incoming.clear();
}

bool Native::fault(const char* call)
{
    world_.pause();
    return fails && fails(call);
}

Native::Request* Native::new_request(int rank)
{
    Side& s = side(rank);
    if (s.free_requests.empty()) {
        s.requests.push_back(std::make_unique<Request>());
        s.free_requests.push_back(s.requests.back().get());
    }
    Request* r = s.free_requests.back();
    s.free_requests.pop_back();
    *r = Request();
    r->owner = rank;
    return r;
}

void Native::post(Packet&& packet)
{
    Side& there = side(packet.to);
    ++messages;
    Time& latest = there.latest[packet.from];
    const Time delay = options_.delay_min + random_.below(options_.delay_max - options_.delay_min + 1);
    const Time due = arrival ? arrival(packet.from, packet.to, packet.bytes.size()) : world_.time.now() + delay;
    latest = std::max(latest + 1, due);
    std::size_t slot = flight_.size();
    if (free_flight_.empty()) {
        flight_.push_back(std::move(packet));
    } else {
        slot = free_flight_.back();
        free_flight_.pop_back();
        flight_[slot] = std::move(packet);
    }
    world_.time.at(latest, there, slot);
}

void Native::send(const void* buffer, int count, const Type& type, int dest, int tag, Comm& comm, bool synchronous,
                  MPI_Request* request)
{
    const int me = world_.current();
    Packet p;
    p.from = me;
    p.to = comm.world_rank(dest, me);
    p.context = comm.context;
    p.source = comm.rank_of(me);
    p.tag = tag;
    p.size = type.size * static_cast<std::uint64_t>(count);
    if (!synchronous && p.size <= options_.eager_max) {
        p.bytes.resize(p.size);
        type.pack(buffer, p.size, p.bytes.data());
        *request = real_.request_done;
    } else {
        Request* r = new_request(me);
        r->what = Request::What::send;
        r->buffer = const_cast<void*>(buffer);
        r->type = type;
        p.kind = Packet::Kind::ready;
        p.sender = r;
        *request = as<std::remove_pointer_t<MPI_Request>>(r);
    }
    post(std::move(p));
}

void Native::receive(void* buffer, int count, const Type& type, int source, int tag, Comm& comm,
                     MPI_Request* request)
{
    const int me = world_.current();
    Request* r = new_request(me);
    r->what = Request::What::receive;
    r->comm = &comm;
    r->buffer = buffer;
    r->room = type.size * static_cast<std::uint64_t>(count);
    r->type = type;
    r->source = source;
    r->tag = tag;
    *request = as<std::remove_pointer_t<MPI_Request>>(r);
    auto& unexpected = side(me).unexpected;
    for (auto p = unexpected.begin(); p != unexpected.end(); ++p)
        if (p->context == comm.context && (source == MPI_ANY_SOURCE || source == p->source) &&
            (tag == MPI_ANY_TAG || tag == p->tag)) {
            Packet met = std::move(*p);
            unexpected.erase(p);
            return meet(me, met, *r);
        }
    side(me).posted.push_back(r);
}

void Native::meet(int rank, Packet& p, Request& r)
{
    r.source = p.source;
    r.tag = p.tag;
    if (p.kind == Packet::Kind::eager)
        return fill(r, p);
    Packet go;
    go.kind = Packet::Kind::go;
    go.from = rank;
    go.to = p.from;
    go.sender = p.sender;
    go.receiver = &r;
    go.size = p.size;
    post(std::move(go));
}

void Native::fill(Request& r, const Packet& p)
{
    r.count = std::min(r.room, p.size);
    r.type.unpack(r.buffer, r.count, p.bytes.data());
    r.error = p.size > r.room ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    r.complete = true;
}

void Native::handle(int rank, Packet& p)
{
    if (p.kind == Packet::Kind::data)
        return fill(*p.receiver, p);
    if (p.kind == Packet::Kind::go) {
        Packet data;
        data.kind = Packet::Kind::data;
        data.from = rank;
        data.to = p.from;
        data.receiver = p.receiver;
        data.size = p.size;
        data.bytes.resize(p.size);
        p.sender->type.pack(p.sender->buffer, p.size, data.bytes.data());
        p.sender->complete = true;
        return post(std::move(data));
    }
    auto& posted = side(rank).posted;
    for (auto at = posted.begin(); at != posted.end(); ++at) {
        Request& r = **at;
        if (r.comm->context == p.context && (r.source == MPI_ANY_SOURCE || r.source == p.source) &&
            (r.tag == MPI_ANY_TAG || r.tag == p.tag)) {
            posted.erase(at);
            return meet(rank, p, r);
        }
    }
    side(rank).unexpected.push_back(std::move(p));
}

// A turn of the engine: what has come to this rank, and the call back.
void Native::progress(int rank)
{
    Side& s = side(rank);
    if (s.turning)
        return;
    s.turning = true;
    ++turns;
    while (!s.incoming.empty()) {
        Packet p = std::move(s.incoming.front());
        s.incoming.pop_front();
        handle(rank, p);
    }
    if (s.inside != nullptr)
        s.inside(s.inside_with);
    s.turning = false;
}

int Native::finish(MPI_Request* handle, MPI_Status* status, bool with_error)
{
    if (*handle == real_.request_null || *handle == real_.request_done) {
        if (status != MPI_STATUS_IGNORE)
            *status = {};
        *handle = real_.request_null;
        return MPI_SUCCESS;
    }
    auto* r = as<Request>(*handle);
    const bool received = r->what == Request::What::receive && !r->cancelled;
    const int error = r->error;
    if (status != MPI_STATUS_IGNORE) {
        status->MPI_SOURCE = received ? r->source : MPI_ANY_SOURCE;
        status->MPI_TAG = received ? r->tag : MPI_ANY_TAG;
        status->_ucount = r->count;
        status->_cancelled = r->cancelled ? 1 : 0;
        if (with_error)
            status->MPI_ERROR = error;
    }
    side(r->owner).free_requests.push_back(r);
    *handle = real_.request_null;
    return error;
}

MPI_Request Native::enter(Comm& comm, std::int64_t* values, int count)
{
    const int me = world_.current();
    Request* r = new_request(me);
    r->what = Request::What::collective;
    r->values = values;
    const auto key = std::pair{comm.context, side(me).rounds[comm.context]++};
    Round& round = rounds_[key];
    round.most.resize(static_cast<std::size_t>(count), INT64_MIN);
    for (std::size_t i = 0; i < round.most.size(); ++i)
        round.most[i] = std::max(round.most[i], values[i]);
    round.waiting.push_back(r);
    if (++round.entered == comm.size()) {
        for (Request* member : round.waiting) {
            std::copy(round.most.begin(), round.most.end(), member->values);
            // what was sent to a member before is there when it leaves
            Time due = world_.time.now() + options_.delay_min + random_.below(options_.delay_max);
            for (const auto& [from, latest] : side(member->owner).latest)
                due = std::max(due, latest + 1);
            constexpr std::uint64_t kRound = std::uint64_t{1} << 40;
            world_.time.at(due, side(member->owner), kRound + reinterpret_cast<std::uint64_t>(member));
        }
        rounds_.erase(key);
    }
    return as<std::remove_pointer_t<MPI_Request>>(r);
}

void Native::wait_until(const std::function<bool()>& over)
{
    Time look = world_.options.look_every;
    for (;;) {
        progress(world_.current());
        if (over())
            return;
        world_.idle(look);
        look = std::min(look * 2, world_.options.look_most);
    }
}

} // namespace storm::sim
