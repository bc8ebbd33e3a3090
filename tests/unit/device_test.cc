// SPDX-License-Identifier: MIT
// Buffers that the CPU must not touch: their pages are closed except while the real MPI
// (the fake one) reads or writes them, so that a touch of ours ends the test with a signal.
#include "job.hh"

#include "base/device_memory.hh"

#include <sys/mman.h>

#include <cstring>

namespace storm::unit {
namespace {

// A device's memory, and the runtime that tells of it.
class Device : public DeviceMemory {
public:
    static constexpr std::size_t kBytes = 1 << 20;

    Device()
    {
        memory_ = static_cast<std::byte*>(
            ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        if (memory_ == MAP_FAILED)
            throw std::runtime_error("no memory for a device");
        loads_ = &loaded_;
    }
    virtual ~Device() { ::munmap(memory_, kBytes); }
    bool holds(const void* address) override
    {
        ++asked;
        const auto* at = static_cast<const std::byte*>(address);
        return at >= memory_ && at < memory_ + kBytes;
    }
    void open(bool open) { ::mprotect(memory_, kBytes, open ? PROT_READ | PROT_WRITE : PROT_NONE); }
    std::byte* at(std::size_t place) { return memory_ + place; }

    unsigned asked = 0;

private:
    std::byte* memory_ = nullptr;
    std::uint64_t loaded_ = 1;
};

template <Where where>
struct Shape : Device, Job {
    static JobOptions with(Device& device)
    {
        JobOptions o;
        o.where = where;
        o.devices = &device;
        return o;
    }
    Shape() : Job(with(*this))
    {
        mpi.touches = [this](bool now) { open(now); };
    }
};

const Mode kModes[] = {Mode::standard, Mode::synchronous, Mode::ready, Mode::buffered};
const std::size_t kSizes[] = {0, 1, 17, 64, 1000, 4001, 20000, 32768, 40000};
constexpr std::size_t kRoom = 100000, kSendAt = 0, kReceiveAt = 1 << 19;

enum class Receive { posted, late, persistent, matched, blocking, last };

// Where a message's ends are: two bits, a device's or the CPU's memory.
struct Ends {
    Bytes sent = pattern(kRoom, 1), got = Bytes(kRoom, std::byte{0xee});
    bool from_device = false, to_device = false;
};

Ends& ends()
{
    static Ends now;
    return now;
}

Ends& fresh(Device& device, unsigned which)
{
    ends() = Ends{};
    ends().from_device = (which & 1) != 0;
    ends().to_device = (which & 2) != 0;
    device.open(true);
    std::memcpy(device.at(kSendAt), ends().sent.data(), kRoom);
    std::memset(device.at(kReceiveAt), 0xee, kRoom);
    device.open(false);
    return ends();
}

const std::byte* send_buffer(Device& device)
{
    return ends().from_device ? device.at(kSendAt) : ends().sent.data();
}

std::byte* receive_buffer(Device& device)
{
    return ends().to_device ? device.at(kReceiveAt) : ends().got.data();
}

// Is byte i of what was received the one that was sent, for each i; and none further?
bool received(Device& device, const MPI_Status& status, std::size_t bytes, std::size_t sent, const FakeType& out,
              const FakeType& in)
{
    device.open(true);
    const std::byte* got = receive_buffer(device);
    bool good = status._ucount == sent;
    for (std::size_t i = 0; i < kRoom / 4 && good; ++i) {
        const auto place = [&](const FakeType& type) {
            return static_cast<std::size_t>(static_cast<MPI_Aint>(i / type.bytes.size()) * type.extent +
                                            type.bytes[i % type.bytes.size()]);
        };
        good = got[place(in)] == (i < bytes ? ends().sent[place(out)] : std::byte{0xee});
    }
    device.open(false);
    return good;
}

struct Message {
    Mode mode;
    Receive how;
    int to;
    int sent, room; // elements
    MPI_Datatype out, in;
};

void deliver(Job& job, Device& device, const Message& m, MPI_Status& status)
{
    Rank &from = job[0], &to = job[m.to];
    TypeInfo &out = *from.type_of(m.out), &in = *to.type_of(m.in);
    MPI_Request send = nullptr, receive = nullptr;
    std::byte* buffer = receive_buffer(device);
    const auto post = [&] { receive = to.irecv(buffer, m.room, in, 0, 5, job.comm(m.to)); };
    if (m.how == Receive::persistent) {
        receive = to.recv_init(buffer, m.room, in, 0, 5, job.comm(m.to));
        to.start(*reinterpret_cast<Request*>(receive));
    } else if (m.how == Receive::posted) {
        post();
    }
    send = from.isend(send_buffer(device), m.sent, out, m.to, 5, job.comm(0), m.mode);
    job.settle();
    if (m.how == Receive::late)
        post();
    if (m.how == Receive::matched) {
        MPI_Message message = to.mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, job.comm(m.to), &status);
        receive = to.imrecv(buffer, m.room, in, message);
    }
    if (m.how == Receive::blocking) {
        to.recv(buffer, m.room, in, 0, 5, job.comm(m.to), &status);
    } else {
        job.settle();
        expect_that(job.done(m.to, receive, &status), "the receive does not end");
        if (m.how == Receive::persistent && status._ucount <= in.size * static_cast<unsigned>(m.room))
            to.free_request(&receive);
    }
    job.settle();
    expect_that(job.done(0, send), "the send does not end");
}

// All modes, ways to receive, sizes and kinds of memory, to a peer and to itself.
void sweep(Job& job, Device& device, MPI_Datatype out, MPI_Datatype in, int cut)
{
    const auto &sent_as = *reinterpret_cast<FakeType*>(out), &got_as = *reinterpret_cast<FakeType*>(in);
    const int element = static_cast<int>(sent_as.bytes.size());
    for (const Mode mode : kModes)
        for (int how = 0; how < static_cast<int>(Receive::last); ++how)
            for (const std::size_t bytes : kSizes)
                for (unsigned run = 0; run < 8; ++run) {
                    fresh(device, run & 3);
                    const int n = static_cast<int>(bytes) / element, room = std::max(n / cut, cut - 1);
                    MPI_Status status{};
                    deliver(job, device, {mode, static_cast<Receive>(how), run < 4 ? 1 : 0, n, room, out, in}, status);
                    const auto sent = static_cast<std::size_t>(n * element);
                    const auto fit = std::min(sent, static_cast<std::size_t>(room) * got_as.bytes.size());
                    expect_that(received(device, status, fit, sent, sent_as, got_as),
                                "%zu bytes, mode %d, receive %d, run %u", bytes, static_cast<int>(mode), how, run);
                }
}

void memory_of_a_device_is_left_to_the_real_mpi(Job& job, Device& device)
{
    sweep(job, device, job.mpi.real(0).byte, job.mpi.real(0).byte, 1);
    expect_that(device.asked != 0, "nobody asked what memory it is");
}

void types_with_holes_are_left_to_the_real_mpi(Job& job, Device& device)
{
    sweep(job, device, job.mpi.make_type({0, 1}, 0, 4), job.mpi.make_type({1, 0}, 0, 2), 1);
}

void truncated_messages_are_left_to_the_real_mpi(Job& job, Device& device)
{
    sweep(job, device, job.mpi.real(0).byte, job.mpi.real(0).byte, 2);
    sweep(job, device, job.mpi.real(0).byte, job.mpi.make_type({0, 2}, 0, 4), 4);
}

// Its parts may be anywhere: neither end is a device's, the middle is.
void wide_types_are_left_to_the_real_mpi(Job& job, Device& device)
{
    fresh(device, 3);
    const auto out = device.at(kSendAt) - ends().sent.data(), in = device.at(kReceiveAt) - ends().got.data();
    const MPI_Datatype sent = job.mpi.make_type({0, out, 1}, 0, 1), got = job.mpi.make_type({0, in, 1}, 0, 1);
    MPI_Request receive = job[1].irecv(ends().got.data(), 1, *job[1].type_of(got), 0, 1, job.comm(1));
    MPI_Request send =
        job[0].isend(ends().sent.data(), 1, *job[0].type_of(sent), 1, 1, job.comm(0), Mode::standard);
    job.settle();
    expect_that(job.done(1, receive) && job.done(0, send), "it does not arrive");
    device.open(true);
    const bool good = *device.at(kReceiveAt) == *device.at(kSendAt);
    device.open(false);
    expect_that(good && ends().got[1] == ends().sent[1], "the parts are not those sent");
}

template <Where where, void (*body)(Job&, Device&)>
void with_device(Shape<where>& f)
{
    body(f, f);
    const std::string complaints = f.complaints();
    expect_that(complaints.empty(), "%s", complaints.c_str());
}

} // namespace
} // namespace storm::unit

#define UNIT_WITH_DEVICE(name)                                                                              \
    UNIT_NAMED(#name " over loop", Shape<Where::loop>, (with_device<Where::loop, name>)),                   \
        UNIT_NAMED(#name " over shm", Shape<Where::shm>, (with_device<Where::shm, name>)),                  \
        UNIT_NAMED(#name " carried", Shape<Where::carried>, (with_device<Where::carried, name>))

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT_WITH_DEVICE(memory_of_a_device_is_left_to_the_real_mpi),
        UNIT_WITH_DEVICE(types_with_holes_are_left_to_the_real_mpi),
        UNIT_WITH_DEVICE(truncated_messages_are_left_to_the_real_mpi),
        UNIT_WITH_DEVICE(wide_types_are_left_to_the_real_mpi),
    };
    return run_all(tests, argc, argv);
}
