// SPDX-License-Identifier: MIT
#include "exchange.hh"
#include "phases.hh"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace transport {

std::unique_ptr<Exchange> open_exchange(std::string_view name, const ExchangeSetup& setup)
{
    return name == "legacy" ? open_legacy(setup)
           : name == "tuned" ? open_tuned(setup)
           : name == "direct" ? open_direct(setup)
                              : nullptr;
}

void stop(const char* why)
{
    std::fprintf(stderr, "%s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 2);
    std::abort();
}

namespace {

constexpr int kTag = 11;
constexpr std::size_t kReceiveParticles = 640; // posted far larger than what mostly arrives
constexpr std::size_t kSendsInFlightMax = 8;   // a neighbour

class Legacy final : public Exchange {
public:
    explicit Legacy(const ExchangeSetup& setup)
        : work_(setup.work), batch_(static_cast<std::size_t>(setup.batch)),
          receive_(std::max(batch_, kReceiveParticles))
    {
        for (const int rank : setup.peers) {
            neighbours_.push_back({.rank = rank, .filling = {}, .sends = {}, .receives = {}});
            neighbours_.back().filling.reserve(batch_);
            neighbours_.back().receives.resize(static_cast<std::size_t>(setup.receives));
            for (Receive& r : neighbours_.back().receives) {
                r.particles.resize(receive_);
            }
        }
    }

    void begin_step() override
    {
        for (Neighbour& n : neighbours_) {
            for (Receive& r : n.receives) {
                post(n, r);
            }
        }
    }

    void push(int peer, const Particle& p) override
    {
        const In pack(Phase::pack);
        Neighbour& n = neighbours_[static_cast<std::size_t>(peer)];
        n.filling.push_back(p);
        if (n.filling.size() == batch_) {
            send(n);
        }
    }

    void flush() override
    {
        const In pack(Phase::pack);
        for (Neighbour& n : neighbours_) {
            if (!n.filling.empty()) {
                send(n);
            }
        }
    }

    void poll() override
    {
        ++counts_.looks;
        for (Neighbour& n : neighbours_) {
            for (Receive& r : n.receives) {
                receive(n, r);
            }
            for (Send& s : n.sends) {
                if (s.request != MPI_REQUEST_NULL) {
                    int done = 0;
                    MPI_Test(&s.request, &done, MPI_STATUS_IGNORE);
                }
            }
        }
    }

    bool over(bool idle) override { return termination_.over(idle, counts_); }

    void end_step() override
    {
        for (Neighbour& n : neighbours_) {
            for (Send& s : n.sends) {
                MPI_Wait(&s.request, MPI_STATUS_IGNORE);
            }
            for (Receive& r : n.receives) {
                cancel(r);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD); // no particle of the next step may meet a receive of this one
    }

private:
    struct Send {
        MPI_Request request = MPI_REQUEST_NULL;
        std::vector<Particle> particles;
    };
    struct Receive {
        MPI_Request request = MPI_REQUEST_NULL;
        std::vector<Particle> particles;
    };
    struct Neighbour {
        int rank;
        std::vector<Particle> filling;
        std::vector<Send> sends;
        std::vector<Receive> receives;
    };

    void post(const Neighbour& n, Receive& r)
    {
        MPI_Irecv(r.particles.data(), static_cast<int>(receive_ * sizeof(Particle)), MPI_BYTE, n.rank, kTag,
                  MPI_COMM_WORLD, &r.request);
    }

    void cancel(Receive& r)
    {
        MPI_Cancel(&r.request);
        MPI_Status status;
        MPI_Wait(&r.request, &status);
        int cancelled = 0;
        MPI_Test_cancelled(&status, &cancelled);
        if (cancelled == 0) {
            stop("legacy exchange: a message arrived after the end of the step");
        }
    }

    void receive(const Neighbour& n, Receive& r)
    {
        int done = 0;
        MPI_Status status;
        MPI_Test(&r.request, &done, &status);
        if (done == 0) {
            return;
        }
        int bytes = 0;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        {
            const In unpack(Phase::pack);
            const int count = bytes / static_cast<int>(sizeof(Particle));
            work_.insert(work_.end(), r.particles.begin(), r.particles.begin() + count);
            counts_.received += count;
        }
        post(n, r);
    }

    Send& free_send(Neighbour& n)
    {
        for (;;) {
            for (Send& s : n.sends) {
                if (s.request == MPI_REQUEST_NULL) {
                    return s;
                }
            }
            if (n.sends.size() < kSendsInFlightMax) {
                n.sends.emplace_back();
                n.sends.back().particles.reserve(batch_);
            } else {
                poll();
            }
        }
    }

    void send(Neighbour& n)
    {
        const In in(Phase::send);
        Send& s = free_send(n);
        s.particles.swap(n.filling);
        n.filling.clear();
        counts_.sent += static_cast<std::int64_t>(s.particles.size());
        ++counts_.messages;
        MPI_Isend(s.particles.data(), static_cast<int>(s.particles.size() * sizeof(Particle)), MPI_BYTE, n.rank,
                  kTag, MPI_COMM_WORLD, &s.request);
    }

    std::vector<Particle>& work_;
    std::size_t batch_, receive_;
    std::vector<Neighbour> neighbours_;
    Termination termination_;
};

} // namespace

std::unique_ptr<Exchange> open_legacy(const ExchangeSetup& setup)
{
    return std::make_unique<Legacy>(setup);
}

} // namespace transport
