// SPDX-License-Identifier: MIT
// The one class behind wire.hh. wire.cc: the contract and granting; outbound.cc: how what was
// published leaves; inbound.cc: how it becomes visible, and how heads return.
#pragma once

#include "lanes.hh"
#include "pulse.hh"
#include "wire.hh"

#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace storm::wire {

class Wire final : public Backend {
public:
    Wire(const char* name, std::unique_ptr<Transport> transport, const BackendSettings& settings, Mode mode);
    ~Wire() override;

    const char* name() const override { return name_; }
    std::string address() const override;
    void begin(const Begin& begin) override;
    void end() override;
    bool calls_mpi() const override { return transport_->calls_mpi(); }
    void inside_mpi(bool inside) override { transport_->inside_mpi(inside); }

    Status claim(int peer, std::string_view address, std::uint64_t bytes, Lane& lane, std::string& why) override;
    Status grow(int peer, std::uint64_t bytes, Lane& lane, std::string& why) override;
    void drop(int peer, Lane& lane) override;
    bool accept(Claim&) override { return false; } // lanes are granted by words
    const std::uint64_t* doorbell() const override;
    Status open(int peer, std::uint64_t ref, std::uint64_t bytes, Lane& lane) override;
    void close(int peer, Lane& lane) override;

    bool direct() const override { return false; }
    bool placed() const override;
    void publish(int peer, Lane& lane, std::uint64_t from, std::uint64_t to) override;
    bool flush() override;
    void progress() override;

    bool next_word(Word& word) override;
    void take_word(const Word& word) override;
    bool failed(int& peer, std::string& why) override;
    void abandon(int peer) override;
    void strand(int peer, Lane& lane) override;
    bool torn(int& peer, std::string& why) override;
    std::string fact(unsigned n) const override;

private:
    struct Peer {
        std::string address, pulse;
        bool failed = false;
        std::string why;
        Outbound* current = nullptr; // the newest that was handed out
        Outbound* asked = nullptr;
        Quiet quiet; // since when nothing moved towards it (pulse.hh)
    };
    struct Trouble {
        int peer;
        std::string why;
    };
    struct Waiting {
        int peer;
        Ask ask;
    };
    using Guard = std::unique_lock<std::mutex>;
    Guard guard() const { return threaded_ ? Guard(mutex_) : Guard(); }

    // wire.cc: granting
    Status ask_for(int peer, std::uint64_t bytes, std::string& why);
    Status settle(int peer, Lane& lane, std::string& why);
    Status make_outbound(int peer, std::uint64_t bytes, Outbound*& made, std::string& why);
    Status make_inbound(int peer, const Ask& ask, Inbound*& made, std::string& why);
    bool answer(int peer, const Ask& ask);
    void on_grant(int peer, const Grant& grant);
    void on_refuse(int peer, const Refuse& refuse);
    void on_done(int peer, const Done& done);
    Status take_block(Block& block, std::string& why);
    Outbound* out_of(const Lane& lane) const;
    Inbound* in_of(std::uint64_t ref) const;
    void retire(Outbound& o);
    void end_if_done(Outbound& o);
    void end_if_done(Inbound& in);
    void fail(int peer, const std::string& why);
    void look_for_events();
    void move();
    bool send_all();
    void watch();
    void run_thread();

    // outbound.cc
    void advance(Outbound& o);
    bool step(Outbound& o);
    void begin_batch(Outbound& o);
    void end_batch(Outbound& o);
    bool send_cells(Outbound& o);
    bool send_in_place(Outbound& o);
    bool send_signalled(Outbound& o);
    bool announce(Outbound& o);
    bool send_question(Outbound& o);
    bool send_cell(Outbound& o, const CellHead& head, const void* payload, unsigned flags);
    bool write(Outbound& o, Write& w, std::uint64_t stage_end, std::uint64_t unit_end);
    bool waits(const Outbound& o) const;
    void on_written(std::uint64_t cookie);
    static void copy_out(const Outbound& o, std::uint64_t from, std::uint64_t bytes, std::byte* to);
    void read_block(Outbound& o);

    // inbound.cc
    void take(Inbound& in);
    bool take_cell(Inbound& in, const CellHead& head, const std::byte* payload);
    bool take_signal(Inbound& in, const Signal& signal);
    void append(Inbound& in, const std::byte* payload, std::uint64_t bytes);
    bool finish(Inbound& in, std::uint32_t crc);
    bool room_for(Inbound& in, std::uint64_t bytes);
    void tear(Inbound& in, const char* what);
    void tell(Inbound& in);
    void on_arrived(std::uint32_t number);

    const char* const name_;
    std::unique_ptr<Transport> transport_;
    const Log& log_;
    const Mode mode_;
    const bool verify_, threaded_;
    const unsigned batch_, flush_us_;
    const std::uint64_t memory_max_;
    const int rank_;
    std::uint64_t inline_max_ = 0;

    std::unordered_map<int, Peer> peers_;
    std::unique_ptr<Slab> inbound_memory_, outbound_memory_;
    Piece blocks_; // the page that they are taken from
    std::uint64_t blocks_used_ = 0;
    std::uint64_t mirrors_ = 0;
    std::vector<std::unique_ptr<Outbound>> outs_; // by number - 1; null when over
    std::vector<std::unique_ptr<Inbound>> ins_;   // the same
    std::vector<Outbound*> sending_;              // those that are granted
    std::vector<Inbound*> receiving_;
    std::vector<Inbound*> slots_; // by slot
    std::vector<Waiting> waiting_;
    std::deque<Word> words_;
    std::deque<Trouble> failures_, tears_;
    mutable bool ask_ = false; // somebody wants to know what is placed
    std::atomic<bool> held_{false}; // something published has not left
    std::chrono::steady_clock::time_point looked_{}, watched_{};
    std::uint64_t writes_ = 0, batches_ = 0, heads_ = 0;

    std::unique_ptr<Pulse> pulse_;
    mutable std::mutex mutex_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

constexpr std::uint64_t kOfInbound = std::uint64_t{1} << 63; // in a cookie: a head

} // namespace storm::wire
