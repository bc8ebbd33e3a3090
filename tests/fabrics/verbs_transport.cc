// SPDX-License-Identifier: MIT
// The contract of a Transport over verbs: processes that talk by sockets beside the fabric.
//   verbs_transport [DEVICE [ROUNDS]]
#include "transport.hh"

#include "backends/verbs/verbs.hh"
#include "base/log.hh"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// Each pair has a socket that keeps the bounds of messages.
class Sockets final : public storm::fabrics::Peers {
public:
    Sockets(int rank, std::vector<int> to) : rank_(rank), to_(std::move(to)), later_(to_.size()) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(to_.size()); }
    void send(int to, const void* data, std::size_t bytes) override
    {
        const auto* begin = static_cast<const std::byte*>(data);
        later_[static_cast<std::size_t>(to)].emplace_back(begin, begin + bytes);
        push();
    }
    bool receive(int& from, std::vector<std::byte>& data) override
    {
        push();
        for (from = 0; from < size(); ++from) {
            if (from == rank_)
                continue;
            data.resize(1024);
            const auto n = ::recv(to_[static_cast<std::size_t>(from)], data.data(), data.size(), MSG_DONTWAIT);
            if (n <= 0)
                continue;
            data.resize(static_cast<std::size_t>(n));
            return true;
        }
        return false;
    }

private:
    void push()
    {
        for (std::size_t to = 0; to < to_.size(); ++to)
            while (!later_[to].empty() && ::send(to_[to], later_[to].front().data(), later_[to].front().size(),
                                                 MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
                later_[to].pop_front();
    }
    int rank_;
    std::vector<int> to_;
    std::vector<std::deque<std::vector<std::byte>>> later_; // what a socket had no room for
};

} // namespace

int main(int argc, char** argv)
{
    constexpr int kRanks = 2;
    std::vector<std::vector<int>> ends(kRanks, std::vector<int>(kRanks, -1));
    for (int a = 0; a < kRanks; ++a)
        for (int b = a + 1; b < kRanks; ++b) {
            int pair[2];
            if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
                return 2;
            ends[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] = pair[0];
            ends[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)] = pair[1];
        }
    int rank = 0;
    std::vector<pid_t> children;
    for (int other = 1; other < kRanks && rank == 0; ++other) {
        const pid_t child = ::fork();
        if (child == 0)
            rank = other;
        else
            children.push_back(child);
    }

    storm::Log log;
    storm::BackendSettings settings;
    settings.world_rank_hint = rank;
    settings.log = &log;
    settings.nic = argc > 1 ? argv[1] : "";
    std::string why;
    auto transport = storm::verbs::open_transport(settings, why);
    int wrong = 1;
    if (transport == nullptr) {
        std::printf("FAIL verbs cannot be used here: %s\n", why.c_str());
    } else {
        Sockets sockets(rank, ends[static_cast<std::size_t>(rank)]);
        storm::fabrics::Plan plan;
        plan.rounds = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : plan.rounds;
        plan.last_rank_dies = true;
        wrong = storm::fabrics::check_transport(*transport, sockets, plan);
    }
    for (const pid_t child : children) {
        int status = 0;
        ::waitpid(child, &status, 0);
        wrong += status != 0 ? 1 : 0;
    }
    std::fflush(stdout);
    return wrong != 0 ? 1 : 0;
}
