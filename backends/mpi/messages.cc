// SPDX-License-Identifier: MIT
#include "messages.hh"

#include <algorithm>
#include <cstring>

namespace storm::mpi {

using wire::Event;
using wire::Region;
using wire::Write;

namespace {

constexpr std::uint64_t kMessageBytes = 64 * 1024;
constexpr std::size_t kReceives = 16;
constexpr std::size_t kSends = 64;
constexpr unsigned kSendingMost = 4; // messages to one peer on their way, full ones
constexpr std::uint32_t kMagic = 0x53744d31;
constexpr int kTag = 1;
constexpr std::string_view kPrefix = "messages:";

std::string said(const RealMpi& real, int error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (real.Error_string != nullptr)
        real.Error_string(error, text, &length);
    return text;
}

} // namespace

struct Messages::Header {
    std::uint32_t magic = kMagic;
    std::int32_t from = -1;
    std::uint64_t number = 0;
    std::uint64_t bytes = 0; // this header included
};

struct Messages::Operation {
    enum Flags : std::uint32_t { kWrite = 1, kSignals = 2, kAckWanted = 4, kAck = 8 };
    std::uint32_t flags = 0;
    std::uint32_t signal = 0;
    std::uint64_t bytes = 0;    // of the payload that follows, padded to eight
    std::uint64_t address = 0;  // of a write; of an ack the messages that were placed
    std::uint64_t key = 0;
};

Messages::Messages(const Log* log, int rank)
    : log_(log), promises_(wire::promises_of("mpi_p2p", "")), address_(std::string(kPrefix) + std::to_string(rank))
{
}

Messages::~Messages() = default;

std::uint64_t Messages::write_max() const
{
    return kMessageBytes - sizeof(Header) - 2 * sizeof(Operation);
}

// ---- begin and end

void Messages::begin(const Begin& begin)
{
    job_ = begin;
    receives_.resize(kReceives);
    buffers_.resize(kSends);
    requests_.assign(kReceives + kSends, begin.real->request_null);
    done_.resize(kReceives + kSends);
    statuses_.resize(kReceives + kSends);
    for (std::size_t i = kSends; i-- > 0;)
        free_.push_back(i);
    for (std::size_t i = 0; i < kReceives; ++i) {
        receives_[i] = std::make_unique<std::byte[]>(kMessageBytes);
        begin.real->Recv_init(receives_[i].get(), static_cast<int>(kMessageBytes), begin.real->byte, MPI_ANY_SOURCE,
                              kTag, begin.comm, &requests_[i]);
        start(i);
    }
}

// All ranks are here. What is under way leaves, and is taken; then the receives go.
void Messages::end()
{
    if (job_.real == nullptr)
        return;
    const RealMpi& real = *job_.real;
    while (!idle())
        look();
    MPI_Request all_here = real.request_null;
    int done = real.Ibarrier(job_.comm, &all_here) != MPI_SUCCESS;
    while (!done) {
        look();
        if (real.Test(&all_here, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            break;
    }
    while (!idle()) // acks that left meanwhile
        look();
    for (std::size_t i = 0; i < kReceives; ++i) {
        real.Cancel(&requests_[i]);
        real.Wait(&requests_[i], MPI_STATUS_IGNORE);
        real.Request_free(&requests_[i]);
    }
    job_ = {};
    peers_.clear();
}

// ---- memory and peers

Status Messages::expose(std::byte* base, std::uint64_t bytes, Region& region, std::string&)
{
    region.base = base;
    region.bytes = bytes;
    region.address = reinterpret_cast<std::uintptr_t>(base);
    region.key = ++last_key_;
    exposed_[region.key] = {base, bytes};
    return Status::ok;
}

void Messages::withdraw(Region& region)
{
    exposed_.erase(region.key);
    region = {};
}

Status Messages::connect(int peer, std::string_view address, std::string& why)
{
    if (job_.real == nullptr || peer < 0 || peer >= job_.world_size || !address.starts_with(kPrefix)) {
        why = job_.real == nullptr ? "MPI is not there yet, or no more" : "the peer uses another fabric";
        return Status::refused;
    }
    if (at(peer).failed) {
        why = at(peer).why;
        return Status::refused;
    }
    at(peer).connected = true;
    return Status::ok;
}

void Messages::disconnect(int peer)
{
    if (job_.real == nullptr || peer < 0 || peer >= job_.world_size)
        return;
    Peer& p = at(peer);
    p.connected = false;
    p.deliveries.clear();
    for (Buffer& buffer : buffers_) // what is gathered still leaves, and nobody is told
        if (buffer.peer == peer)
            buffer.cookies.clear();
}

std::string Messages::why(int peer) const
{
    const auto found = peers_.find(peer);
    return found != peers_.end() ? found->second.why : "";
}

void Messages::fail(int peer, const std::string& why)
{
    Peer& p = at(peer);
    if (p.failed)
        return;
    p.failed = true;
    p.why = why;
    p.deliveries.clear();
    if (log_ != nullptr)
        log_->debug("mpi_p2p: rank %d cannot be reached (%s)", peer, why.c_str());
    if (p.connected)
        events_.push_back({Event::Kind::failed, peer, 0, 0});
}

// ---- sending

bool Messages::room_in(Peer& peer, std::uint64_t bytes) const
{
    return peer.open >= 0 && buffers_[static_cast<std::size_t>(peer.open)].used + bytes <= kMessageBytes;
}

bool Messages::open_buffer(int peer)
{
    if (free_.empty())
        return false;
    const std::size_t i = free_.back();
    free_.pop_back();
    high_ = std::max(high_, i + 1);
    Buffer& buffer = buffers_[i];
    if (buffer.data == nullptr)
        buffer.data = std::make_unique<std::byte[]>(kMessageBytes);
    buffer.peer = peer;
    buffer.used = sizeof(Header);
    buffer.cookies.clear();
    at(peer).open = static_cast<int>(i);
    return true;
}

// Where the payload of the operation is to be put; there is room.
std::byte* Messages::append(int peer, const Operation& operation)
{
    Buffer& buffer = buffers_[static_cast<std::size_t>(at(peer).open)];
    std::byte* place = buffer.data.get() + buffer.used;
    std::memcpy(place, &operation, sizeof operation);
    buffer.used += sizeof operation + round_up(operation.bytes, 8);
    return place + sizeof operation;
}

Status Messages::write(int peer, const Write& write)
{
    if (job_.real == nullptr || peer < 0 || peer >= job_.world_size || !at(peer).connected || at(peer).failed ||
        write.bytes > write_max())
        return Status::refused;
    Peer& p = at(peer);
    const std::uint64_t room = sizeof(Operation) + round_up(write.bytes, 8);
    if (p.open >= 0 && !room_in(p, room)) { // a full message need not wait for the one before
        if (p.sending >= kSendingMost)
            return Status::again;
        send(peer);
    }
    if (p.open < 0 && !open_buffer(peer))
        return Status::again;
    const bool delivered = (write.flags & wire::kDeliveryComplete) != 0;
    Operation operation;
    operation.flags = Operation::kWrite;
    operation.flags |= (write.flags & wire::kSignal) != 0 ? +Operation::kSignals : 0U;
    operation.flags |= delivered ? +Operation::kAckWanted : 0U;
    operation.signal = write.signal;
    operation.bytes = write.bytes;
    operation.address = write.address;
    operation.key = write.key;
    std::byte* payload = append(peer, operation);
    if (write.bytes != 0)
        std::memcpy(payload, write.from, write.bytes);
    if (delivered)
        p.deliveries.push_back({p.next_out, write.cookie});
    else
        buffers_[static_cast<std::size_t>(p.open)].cookies.push_back(write.cookie);
    if (p.sending == 0)
        send(peer);
    return Status::ok;
}

void Messages::send(int peer)
{
    Peer& p = at(peer);
    const auto i = static_cast<std::size_t>(p.open);
    Buffer& buffer = buffers_[i];
    Header header;
    header.from = job_.world_rank;
    header.number = p.next_out++;
    header.bytes = buffer.used;
    std::memcpy(buffer.data.get(), &header, sizeof header);
    p.open = -1;
    ++p.sending;
    ++sending_;
    const int error = job_.real->Isend(buffer.data.get(), static_cast<int>(buffer.used), job_.real->byte, peer, kTag,
                                       job_.comm, &requests_[kReceives + i]);
    if (error != MPI_SUCCESS) {
        fail(peer, said(*job_.real, error));
        requests_[kReceives + i] = job_.real->request_null;
        left(i);
    }
}

// A message has left: its writes' sources were free all the time.
void Messages::left(std::size_t i)
{
    Buffer& buffer = buffers_[i];
    Peer& p = at(buffer.peer);
    if (!p.failed)
        for (const std::uint64_t cookie : buffer.cookies)
            events_.push_back({Event::Kind::written, buffer.peer, 0, cookie});
    buffer.cookies.clear();
    --p.sending;
    --sending_;
    free_.push_back(i);
    if (p.open >= 0 && p.sending == 0)
        send(buffer.peer);
}

void Messages::send_acks()
{
    std::size_t kept = 0;
    for (const int peer : acks_due_) {
        Peer& p = at(peer);
        Operation ack;
        ack.flags = Operation::kAck;
        ack.address = p.ack_due;
        if (p.open >= 0 && !room_in(p, sizeof ack) && p.sending < kSendingMost)
            send(peer);
        if (p.open >= 0 ? room_in(p, sizeof ack) : open_buffer(peer)) {
            append(peer, ack);
            p.ack_due = 0;
            if (p.sending == 0)
                send(peer);
        } else {
            acks_due_[kept++] = peer;
        }
    }
    acks_due_.resize(kept);
}

// ---- receiving

void Messages::start(std::size_t receive)
{
    if (const int error = job_.real->Start(&requests_[receive]); error != MPI_SUCCESS && log_ != nullptr)
        log_->error("mpi_p2p: a receive does not start (%s)", said(*job_.real, error).c_str());
}

// Messages of one sender match our receives in their order, but may be complete in another.
void Messages::came(std::size_t receive)
{
    Header header;
    std::memcpy(&header, receives_[receive].get(), sizeof header);
    if (header.magic != kMagic || header.from < 0 || header.from >= job_.world_size || header.bytes > kMessageBytes ||
        header.bytes < sizeof header) {
        if (log_ != nullptr)
            log_->error("mpi_p2p: a message that no rank of this job has sent is dropped");
        return start(receive);
    }
    Peer& p = at(header.from);
    p.early.push_back(receive);
    for (bool placed = true; placed;) {
        placed = false;
        for (std::size_t i = 0; i < p.early.size() && !placed; ++i) {
            const std::size_t next = p.early[i];
            std::memcpy(&header, receives_[next].get(), sizeof header);
            if (header.number != p.next_in)
                continue;
            p.early.erase(p.early.begin() + static_cast<std::ptrdiff_t>(i));
            ++p.next_in;
            place(receives_[next].get(), p, header.from);
            start(next);
            placed = true;
        }
    }
}

void Messages::place(const std::byte* message, Peer& peer, int from)
{
    Header header;
    std::memcpy(&header, message, sizeof header);
    bool ack_wanted = false;
    std::uint64_t at_byte = sizeof header;
    while (at_byte < header.bytes) {
        Operation operation;
        if (header.bytes - at_byte < sizeof operation)
            return fail(from, "its message ends in the middle");
        std::memcpy(&operation, message + at_byte, sizeof operation);
        at_byte += sizeof operation;
        if (operation.bytes > header.bytes - at_byte)
            return fail(from, "its message ends in the middle");
        if ((operation.flags & Operation::kAck) != 0) {
            while (!peer.deliveries.empty() && peer.deliveries.front().message < operation.address) {
                events_.push_back({Event::Kind::written, from, 0, peer.deliveries.front().cookie});
                peer.deliveries.pop_front();
            }
        } else if (!place_one(operation, message + at_byte, from)) {
            return fail(from, "it writes outside of what was exposed");
        }
        ack_wanted = ack_wanted || (operation.flags & Operation::kAckWanted) != 0;
        at_byte += round_up(operation.bytes, 8);
    }
    if (ack_wanted) {
        if (peer.ack_due == 0)
            acks_due_.push_back(from);
        peer.ack_due = header.number + 1;
    }
}

bool Messages::place_one(const Operation& operation, const std::byte* payload, int from)
{
    if (operation.bytes != 0) {
        const auto found = exposed_.find(operation.key);
        if (found == exposed_.end())
            return true; // it was withdrawn meanwhile: nobody looks there
        auto [base, bytes] = found->second;
        const std::uint64_t offset = operation.address - reinterpret_cast<std::uintptr_t>(base);
        if (offset > bytes || operation.bytes > bytes - offset)
            return false;
        std::memcpy(base + offset, payload, operation.bytes);
    }
    if ((operation.flags & Operation::kSignals) != 0)
        events_.push_back({Event::Kind::arrived, from, operation.signal, 0});
    return true;
}

// One test of all that is under way; it turns the real MPI's engine too.
void Messages::look()
{
    int count = 0;
    const int error = job_.real->Testsome(static_cast<int>(kReceives + high_), requests_.data(), &count, done_.data(),
                                          statuses_.data());
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS && log_ != nullptr)
        log_->error("mpi_p2p: what is under way cannot be tested (%s)", said(*job_.real, error).c_str());
    for (int i = 0; i < (count == MPI_UNDEFINED ? 0 : count); ++i) {
        const auto which = static_cast<std::size_t>(done_[static_cast<std::size_t>(i)]);
        const int wrong = error == MPI_ERR_IN_STATUS ? statuses_[static_cast<std::size_t>(i)].MPI_ERROR : MPI_SUCCESS;
        if (which >= kReceives && wrong != MPI_SUCCESS)
            fail(buffers_[which - kReceives].peer, said(*job_.real, wrong));
        if (which >= kReceives)
            left(which - kReceives);
        else if (wrong == MPI_SUCCESS)
            came(which);
        else
            start(which); // its sender is told
    }
    if (!acks_due_.empty())
        send_acks();
}

bool Messages::next(Event& event)
{
    if (told_ == events_.size()) {
        events_.clear();
        told_ = 0;
        if (job_.real == nullptr)
            return false;
        look();
        if (events_.empty())
            return false;
    }
    event = events_[told_++];
    return true;
}

std::unique_ptr<wire::Transport> open_messages(const BackendSettings& settings, std::string&)
{
    return std::make_unique<Messages>(settings.log, settings.world_rank_hint);
}

} // namespace storm::mpi
