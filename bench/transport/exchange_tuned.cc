// SPDX-License-Identifier: MIT
#include "exchange.hh"
#include "phases.hh"

#include <algorithm>
#include <cstring>
#include <deque>

namespace transport {
namespace {

constexpr int kTag = 12;
constexpr std::size_t kReceives = 16;     // persistent, of any source
constexpr std::size_t kSendsAtFirst = 16; // buffers of the pool; it grows to kSendsMax
constexpr std::size_t kSendsMax = 256;
constexpr int kSkipsMax = 16; // looks left out while nothing comes

// A message: which step it belongs to, then particles. A rank that has seen the end of a
// step may send for the next one before its neighbour has seen it.
struct Header {
    std::int64_t step;
    std::int64_t count;
};

class Tuned final : public Exchange {
public:
    explicit Tuned(const ExchangeSetup& setup)
        : peers_(setup.peers), work_(setup.work), batch_(static_cast<std::size_t>(setup.batch)),
          bytes_(sizeof(Header) + batch_ * sizeof(Particle)), filling_(setup.peers.size(), -1)
    {
        add_sends(kSendsAtFirst);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
        for (Receive& r : receives_) {
            r.bytes.resize(bytes_);
            MPI_Recv_init(r.bytes.data(), static_cast<int>(bytes_), MPI_BYTE, MPI_ANY_SOURCE, kTag, comm_,
                          &r.request);
            MPI_Start(&r.request);
        }
    }

    ~Tuned() override
    {
        reap(true);
        for (Receive& r : receives_) {
            MPI_Cancel(&r.request);
            MPI_Wait(&r.request, MPI_STATUS_IGNORE);
            MPI_Request_free(&r.request);
        }
        MPI_Comm_free(&comm_);
    }

    void begin_step() override
    {
        ++step_;
        for (const Particle& p : early_) {
            work_.push_back(p);
        }
        counts_.received += static_cast<std::int64_t>(early_.size());
        early_.clear();
    }

    void push(int peer, const Particle& p) override
    {
        const In pack(Phase::pack);
        int& buffer = filling_[static_cast<std::size_t>(peer)];
        if (buffer < 0) {
            buffer = free_send();
            header(buffer) = {step_, 0};
        }
        Header& h = header(buffer);
        std::memcpy(send_bytes(buffer) + sizeof(Header) + static_cast<std::size_t>(h.count) * sizeof(Particle), &p,
                    sizeof p);
        if (static_cast<std::size_t>(++h.count) == batch_) {
            send(peer);
        }
    }

    void flush() override
    {
        for (std::size_t peer = 0; peer < filling_.size(); ++peer) {
            if (filling_[peer] >= 0) {
                send(static_cast<int>(peer));
            }
        }
        skip_ = skips_ = 0;
    }

    void poll() override
    {
        if (skip_ > 0) {
            --skip_;
            return;
        }
        skips_ = look() ? 0 : std::min(2 * skips_ + 1, kSkipsMax);
        skip_ = skips_;
    }

    bool over(bool idle) override
    {
        if (idle) {
            skip_ = skips_ = 0;
        }
        return termination_.over(idle, counts_);
    }

    void end_step() override {}

private:
    struct Receive {
        MPI_Request request = MPI_REQUEST_NULL;
        std::vector<char> bytes;
    };

    char* send_bytes(int buffer) { return sends_[static_cast<std::size_t>(buffer)].data(); }
    Header& header(int buffer) { return *reinterpret_cast<Header*>(send_bytes(buffer)); }

    void add_sends(std::size_t count)
    {
        for (std::size_t i = 0; i < count; ++i) {
            free_.push_back(static_cast<int>(sends_.size()));
            sends_.emplace_back(bytes_);
        }
        requests_.resize(sends_.size(), MPI_REQUEST_NULL);
        done_.resize(sends_.size());
    }

    // Messages match these receives in the order in which they were started, so only the
    // oldest one can be the next to complete.
    bool look()
    {
        ++counts_.looks;
        bool found = false;
        for (;;) {
            Receive& r = receives_[oldest_];
            int done = 0;
            MPI_Test(&r.request, &done, MPI_STATUS_IGNORE);
            if (done == 0) {
                return found;
            }
            found = true;
            {
                const In unpack(Phase::pack);
                const auto& h = *reinterpret_cast<const Header*>(r.bytes.data());
                const auto* first = reinterpret_cast<const Particle*>(r.bytes.data() + sizeof(Header));
                std::vector<Particle>& to = h.step == step_ ? work_ : early_;
                to.insert(to.end(), first, first + h.count);
                counts_.received += h.step == step_ ? h.count : 0;
            }
            MPI_Start(&r.request);
            oldest_ = (oldest_ + 1) % kReceives;
        }
    }

    void reap(bool all)
    {
        if (all) {
            MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
            return;
        }
        int count = 0;
        MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(),
                     MPI_STATUSES_IGNORE);
        for (int i = 0; i < count && count != MPI_UNDEFINED; ++i) {
            free_.push_back(done_[static_cast<std::size_t>(i)]);
        }
    }

    int free_send()
    {
        while (free_.empty()) {
            const In in(Phase::send);
            reap(false);
            if (free_.empty() && sends_.size() < kSendsMax) {
                add_sends(sends_.size());
            } else if (free_.empty()) {
                look();
            }
        }
        const int buffer = free_.back();
        free_.pop_back();
        return buffer;
    }

    void send(int peer)
    {
        const In in(Phase::send);
        const int buffer = filling_[static_cast<std::size_t>(peer)];
        filling_[static_cast<std::size_t>(peer)] = -1;
        const std::int64_t count = header(buffer).count;
        counts_.sent += count;
        ++counts_.messages;
        const std::size_t bytes = sizeof(Header) + static_cast<std::size_t>(count) * sizeof(Particle);
        MPI_Isend(send_bytes(buffer), static_cast<int>(bytes), MPI_BYTE, peers_[static_cast<std::size_t>(peer)], kTag,
                  comm_, &requests_[static_cast<std::size_t>(buffer)]);
    }

    const std::vector<int>& peers_;
    std::vector<Particle>& work_;
    std::vector<Particle> early_;
    std::size_t batch_, bytes_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    std::int64_t step_ = -1;

    std::array<Receive, kReceives> receives_;
    std::size_t oldest_ = 0;
    int skip_ = 0, skips_ = 0;

    std::vector<int> filling_; // the buffer of each peer, or -1
    std::deque<std::vector<char>> sends_;
    std::vector<MPI_Request> requests_;
    std::vector<int> free_, done_;
    Termination termination_;
};

} // namespace

std::unique_ptr<Exchange> open_tuned(const ExchangeSetup& setup)
{
    return std::make_unique<Tuned>(setup);
}

} // namespace transport
