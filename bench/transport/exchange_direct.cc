// SPDX-License-Identifier: MIT
#include "exchange.hh"
#include "phases.hh"

#include "storm.h"

namespace transport {
namespace {

void must(int code)
{
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length = 0;
        MPI_Error_string(code, text, &length);
        stop(text);
    }
}

class Direct final : public Exchange {
public:
    explicit Direct(const ExchangeSetup& setup) : peers_(setup.peers), work_(setup.work), batch_(setup.batch)
    {
        must(storm_channel_open(MPI_COMM_WORLD, sizeof(Particle), batch_, &channel_));
    }
    ~Direct() override { must(storm_channel_close(&channel_)); }

    void begin_step() override {}
    void end_step() override {}

    void push(int peer, const Particle& p) override
    {
        const In pack(Phase::pack);
        must(storm_channel_push(channel_, peers_[static_cast<std::size_t>(peer)], &p));
        ++counts_.sent;
    }

    void flush() override
    {
        const In in(Phase::send);
        must(storm_channel_flush(channel_));
    }

    void poll() override
    {
        ++counts_.looks;
        for (;;) {
            const void* records = nullptr;
            int count = 0;
            must(storm_channel_poll(channel_, &records, &count, nullptr));
            if (count == 0) {
                return;
            }
            const In unpack(Phase::pack);
            const auto* first = static_cast<const Particle*>(records);
            work_.insert(work_.end(), first, first + count);
            counts_.received += count;
            ++counts_.messages; // those received: the channel sends when it likes
        }
    }

    bool over(bool idle) override
    {
        int over = 0;
        must(storm_channel_terminate(channel_, idle ? 1 : 0, &over));
        return over != 0;
    }

private:
    const std::vector<int>& peers_;
    std::vector<Particle>& work_;
    int batch_;
    storm_channel* channel_ = nullptr;
};

} // namespace

std::unique_ptr<Exchange> open_direct(const ExchangeSetup& setup)
{
    return std::make_unique<Direct>(setup);
}

} // namespace transport
