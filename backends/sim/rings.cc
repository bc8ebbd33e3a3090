// SPDX-License-Identifier: MIT
#include "rings.hh"

#include "path.hh"

#include <algorithm>
#include <cstring>

namespace storm::sim {

class Rings final : public Backend, private Actor {
public:
    Rings(Net& net, int rank) : net_(net), rank_(rank) { net_.ends[rank] = this; }
    ~Rings() override { net_.ends.erase(rank_); }

    const char* name() const override { return "sim"; }
    std::string address() const override { return "sim:" + std::to_string(rank_); }
    Status claim(int peer, std::string_view address, std::uint64_t bytes, Lane& lane, std::string& why) override;
    Status grow(int peer, std::uint64_t bytes, Lane& lane, std::string& why) override;
    void drop(int peer, Lane& lane) override;
    bool accept(Claim& claim) override;
    const std::uint64_t* doorbell() const override { return &doorbell_; }
    Status open(int peer, std::uint64_t ref, std::uint64_t bytes, Lane& lane) override;
    void close(int peer, Lane& lane) override;
    bool direct() const override { return net_.fabric.attributes().direct; }
    bool placed() const override;
    void publish(int peer, Lane& lane, std::uint64_t from, std::uint64_t to) override;
    void progress() override;

private:
    void fire(std::uint64_t from) override // a claim has arrived here
    {
        ++doorbell_;
        if (const auto sender = net_.ends.find(static_cast<int>(from)); sender != net_.ends.end())
            --sender->second->announcing_;
        if (net_.fabric.poke)
            net_.fabric.poke(rank_);
    }
    Status take(int peer, std::uint64_t bytes, Path*& out, std::string& why);
    bool expect(bool kept, const char* what);
    void handle(const Event& event);

    Net& net_;
    const int rank_;
    std::uint64_t doorbell_ = 0;          // claims that accept() gives
    unsigned announcing_ = 0;             // claims of ours on their way
    std::uint64_t taken_ = 0;             // bytes of inbound rings
    std::deque<Path*> claimed_;
    std::map<int, Path*> towards_;        // the ring that is written at present
    std::vector<std::shared_ptr<Path>> out_, in_; // an index names one here: Path::out_number, in_number
    std::vector<Path*> moving_out_, moving_in_;   // those that progress() looks at
};

std::unique_ptr<Backend> Net::attach(int rank)
{
    return std::make_unique<Rings>(*this, rank);
}

bool Rings::expect(bool kept, const char* what)
{
    if (!kept && net_.broken.size() < 20)
        net_.broken.push_back("rank " + std::to_string(rank_) + ": " + what);
    return kept;
}

Status Rings::take(int peer, std::uint64_t bytes, Path*& out, std::string& why)
{
    const auto there = net_.ends.find(peer);
    if (there == net_.ends.end()) {
        why = "there is no such rank";
        return Status::refused;
    }
    if (there->second->taken_ + bytes > net_.memory_max) {
        why = "its memory for rings is used up";
        return Status::refused;
    }
    Rings& end = *there->second;
    auto path = std::make_shared<Path>(net_.fabric, net_.mode, rank_, peer, bytes);
    path->out_number = static_cast<std::uint32_t>(out_.size());
    path->in_number = static_cast<std::uint32_t>(end.in_.size());
    out_.push_back(path);
    end.in_.push_back(path);
    if (!direct()) {
        moving_out_.push_back(path.get());
        end.moving_in_.push_back(path.get());
    }
    end.taken_ += bytes;
    out = path.get();
    return Status::ok;
}

Status Rings::claim(int peer, std::string_view address, std::uint64_t bytes, Lane& lane, std::string& why)
{
    Path*& current = towards_[peer];
    expect(current == nullptr, "a second claim towards one peer");
    if (address != "sim:" + std::to_string(peer) || (net_.faults.fails && net_.faults.fails("claim"))) {
        why = "the fabric refuses";
        return Status::refused;
    }
    if (take(peer, bytes, current, why) != Status::ok)
        return Status::refused;
    Rings& end = *net_.ends[peer];
    end.claimed_.push_back(current);
    ++announcing_;
    if (direct()) {
        end.fire(static_cast<std::uint64_t>(rank_));
    } else {
        Timeline& time = net_.fabric.time();
        time.at(time.now() + net_.fabric.random().below(10 * kMicrosecond), end, static_cast<std::uint64_t>(rank_));
    }
    lane = current->sending();
    return Status::ok;
}

Status Rings::grow(int peer, std::uint64_t bytes, Lane& lane, std::string& why)
{
    Path*& current = towards_[peer];
    if (!expect(current != nullptr, "growth of a ring that was never claimed"))
        return Status::refused;
    expect(bytes > current->bytes, "growth to a ring that is not larger");
    if (net_.faults.fails && net_.faults.fails("grow")) {
        why = "the fabric refuses";
        return Status::refused;
    }
    Path* larger = nullptr;
    if (take(peer, bytes, larger, why) != Status::ok)
        return Status::refused;
    current = larger;
    lane = current->sending();
    return Status::ok;
}

void Rings::drop(int peer, Lane& lane)
{
    const bool known = lane.ref != 0 && (lane.ref & 0xffffffffu) <= out_.size();
    Path* path = known ? out_[(lane.ref & 0xffffffffu) - 1].get() : nullptr;
    if (expect(path != nullptr && path->to == peer && !path->dropped, "drop of a lane that is not the sender's"))
        path->dropped = true;
    lane = {};
}

bool Rings::accept(Claim& claim)
{
    if (doorbell_ == 0)
        return false;
    // claims of different senders may pass each other
    const std::size_t at = net_.fabric.random().below(std::min<std::size_t>(doorbell_, claimed_.size()));
    Path* path = claimed_[at];
    claimed_.erase(claimed_.begin() + static_cast<std::ptrdiff_t>(at));
    --doorbell_;
    path->opened = true;
    claim = {path->from, path->receiving()};
    return true;
}

Status Rings::open(int peer, std::uint64_t ref, std::uint64_t bytes, Lane& lane)
{
    const std::uint64_t number = ref >> 32;
    if (number == 0 || number > in_.size() || in_[number - 1] == nullptr)
        return Status::refused;
    Path& path = *in_[number - 1];
    if (path.from != peer || path.bytes != bytes || path.opened)
        return Status::refused;
    path.opened = true;
    lane = path.receiving();
    return Status::ok;
}

void Rings::close(int peer, Lane& lane)
{
    const std::uint64_t number = lane.ref >> 32;
    Path* path = number != 0 && number <= in_.size() ? in_[number - 1].get() : nullptr;
    if (expect(path != nullptr && path->from == peer && path->opened && !path->closed,
               "close of a lane that is not the receiver's")) {
        // over a fabric the sender keeps its mirror until it has seen how far we read
        expect(path->dropped || !direct(), "close of a lane that may still be written");
        path->close();
        taken_ -= path->bytes;
        std::erase(moving_in_, path);
        in_[number - 1].reset();
    }
    lane = {};
}

bool Rings::placed() const
{
    if (direct())
        return true;
    const auto all_out = [](const Path* path) { return path->nothing_waits(); };
    return announcing_ == 0 && std::all_of(moving_out_.begin(), moving_out_.end(), all_out) &&
           net_.fabric.flushed(rank_);
}

void Rings::publish(int peer, Lane& lane, std::uint64_t from, std::uint64_t to)
{
    Path* path = (lane.ref & 0xffffffffu) != 0 && (lane.ref & 0xffffffffu) <= out_.size()
                     ? out_[(lane.ref & 0xffffffffu) - 1].get()
                     : nullptr;
    if (!expect(path != nullptr && path->to == peer && !path->dropped, "publish on a lane that is not the sender's"))
        return;
    const std::uint64_t head = path->head_here.load(std::memory_order_relaxed); // relaxed: one thread
    expect(from == path->published && from < to && to % 16 == 0, "a range that does not follow the last one");
    expect(to + 16 - head <= path->bytes, "a range larger than what is free");
    path->publish(from, to);
}

void Rings::handle(const Event& event)
{
    if (event.kind == Event::Kind::arrived) {
        const std::uint64_t number = event.signal >> Path::kSignalBits;
        if (number < in_.size() && in_[number] != nullptr)
            in_[number]->signalled(event.signal);
        return;
    }
    const auto number = static_cast<std::size_t>(event.cookie >> 32);
    if ((event.cookie & Path::kOfHead) != 0) {
        if (number < in_.size() && in_[number] != nullptr)
            in_[number]->head_written();
    } else {
        out_[number]->payload_written(event.cookie);
    }
}

void Rings::progress()
{
    Event event;
    while (net_.fabric.next(rank_, event))
        handle(event);
    for (std::size_t i = 0; i < moving_out_.size();) {
        Path& path = *moving_out_[i];
        path.push();
        if (path.dropped && path.nothing_waits() && path.nothing_under_way())
            moving_out_.erase(moving_out_.begin() + static_cast<std::ptrdiff_t>(i));
        else
            ++i;
    }
    for (Path* path : moving_in_) {
        path->collect();
        path->return_head();
    }
}

} // namespace storm::sim
