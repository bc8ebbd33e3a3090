// SPDX-License-Identifier: MIT
// Whether a silent peer is alive: a helper thread answers questions on a datagram socket
// that is bound to the address of the rank's network device, whatever the rank itself is
// doing. It sleeps in the kernel while nobody asks. Time alone is no evidence of a failure:
// a peer that computes answers, one behind a dead link does not.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

namespace storm::wire {

// One peer's silence, as its sender sees it.
struct Quiet {
    using Time = std::chrono::steady_clock::time_point;
    std::uint64_t mark = 0;  // of what moved
    Time since{};            // nothing has moved
    Time asked{};            // the last question
    unsigned questions = 0;  // without an answer
};

class Pulse {
public:
    // Null, with the reason, when the address cannot be bound.
    static std::unique_ptr<Pulse> open(const std::string& host, std::string& why);
    ~Pulse();

    const std::string& address() const { return address_; } // host:port:nonce
    void ask(int peer, std::string_view address);
    // Answers of this peer so far.
    std::uint64_t answers(int peer);

private:
    Pulse(int socket, std::string address, std::uint64_t nonce);
    void serve();

    const int socket_;
    const std::string address_;
    const std::uint64_t nonce_;
    std::mutex mutex_;
    std::unordered_map<int, std::uint64_t> answers_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

} // namespace storm::wire
