// SPDX-License-Identifier: MIT
// One-sided writes made of two-sided messages of the real MPI: the baseline that every MPI
// library can run, and what windows (mpi_rma) fall back on where no RMA call may be made.
//
// The target places what a message carries when it looks, in the order in which it was
// written. Writes towards a peer gather in one message while another is on its way.
#pragma once

#include "../wire/transport.hh"

#include "base/begin.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace storm::mpi {

class Messages final : public wire::Transport {
public:
    Messages(const Log* log, int rank);
    ~Messages() override;

    const char* name() const override { return "messages of MPI"; }
    const wire::Promises& promises() const override { return promises_; }
    std::string address() const override { return address_; }
    void begin(const Begin& begin) override;
    void end() override;
    bool calls_mpi() const override { return true; }

    Status expose(std::byte* base, std::uint64_t bytes, wire::Region& region, std::string& why) override;
    void withdraw(wire::Region& region) override;
    Status connect(int peer, std::string_view address, std::string& why) override;
    void disconnect(int peer) override;
    Status write(int peer, const wire::Write& write) override;
    std::uint64_t write_max() const override;
    std::uint64_t inline_max() const override { return write_max(); } // it is copied
    bool next(wire::Event& event) override;
    bool passive_target() const override { return false; }
    std::string why(int peer) const override;

    // Nothing of ours is under way from here.
    bool idle() const { return sending_ == 0 && acks_due_.empty(); }

private:
    struct Header;
    struct Operation;

    struct Buffer {
        std::unique_ptr<std::byte[]> data;
        int peer = -1;
        std::uint64_t used = 0;
        std::vector<std::uint64_t> cookies; // of the writes in it that end when it has left
    };
    struct Delivery { // a write that ends when the peer says that it has placed it
        std::uint64_t message = 0, cookie = 0;
    };
    struct Peer {
        bool connected = false, failed = false;
        std::string why;
        int open = -1;                  // the send buffer that gathers writes, -1 if none
        unsigned sending = 0;           // messages that have not left
        std::uint64_t next_out = 0;     // number of the message that is gathered or comes next
        std::uint64_t next_in = 0;      // number of the message to be placed next
        std::uint64_t ack_due = 0;      // messages placed that the peer wants to hear of, 0: none
        std::deque<Delivery> deliveries;
        std::deque<std::size_t> early;  // receive buffers with messages that came before their turn
    };

    Peer& at(int peer) { return peers_[peer]; }
    bool room_in(Peer& peer, std::uint64_t bytes) const;
    bool open_buffer(int peer);
    std::byte* append(int peer, const Operation& operation);
    void send(int peer);
    void send_acks();
    void left(std::size_t buffer);
    void came(std::size_t receive);
    void place(const std::byte* message, Peer& peer, int from);
    bool place_one(const Operation& operation, const std::byte* payload, int from);
    void start(std::size_t receive);
    void fail(int peer, const std::string& why);
    void look();

    const Log* log_;
    wire::Promises promises_;
    const std::string address_;
    Begin job_;
    std::unordered_map<int, Peer> peers_; // those that we have to do with
    std::vector<std::unique_ptr<std::byte[]>> receives_;
    std::vector<Buffer> buffers_;
    std::vector<std::size_t> free_;
    std::vector<MPI_Request> requests_; // receives first, then one for each send buffer
    std::vector<int> done_;
    std::vector<MPI_Status> statuses_;
    std::size_t high_ = 0;              // send buffers that were ever used
    unsigned sending_ = 0;
    std::vector<int> acks_due_;
    std::unordered_map<std::uint64_t, std::pair<std::byte*, std::uint64_t>> exposed_;
    std::uint64_t last_key_ = 0;
    std::vector<wire::Event> events_;
    std::size_t told_ = 0;
};

std::unique_ptr<wire::Transport> open_messages(const BackendSettings& settings, std::string& why);

} // namespace storm::mpi
