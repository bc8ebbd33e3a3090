// SPDX-License-Identifier: MIT
// One-sided writes by MPI_Put into a dynamic window of the real MPI, complete at the target
// when MPI_Win_flush returns. From within the real MPI's progress engine, where no RMA call
// may be made, writes go as messages (mpi_p2p), so that nobody waits for them in vain.
#pragma once

#include "messages.hh"

#include <unordered_map>
#include <vector>

namespace storm::mpi {

class Windows final : public wire::Transport {
public:
    Windows(const Log* log, int rank);

    const char* name() const override { return "windows of MPI"; }
    const wire::Promises& promises() const override { return promises_; }
    std::string address() const override { return address_; }
    void begin(const Begin& begin) override;
    void end() override;
    bool calls_mpi() const override { return true; }
    void inside_mpi(bool inside) override { inside_ = inside; }

    Status expose(std::byte* base, std::uint64_t bytes, wire::Region& region, std::string& why) override;
    void withdraw(wire::Region& region) override;
    Status connect(int peer, std::string_view address, std::string& why) override;
    void disconnect(int peer) override;
    Status write(int peer, const wire::Write& write) override;
    std::uint64_t write_max() const override { return messages_.write_max(); }
    bool next(wire::Event& event) override;
    bool passive_target() const override { return false; }
    std::string why(int peer) const override;

private:
    struct Peer {
        bool connected = false, failed = false;
        std::string why;
    };
    bool make_window(std::string& why);
    bool attach(std::byte* base, std::uint64_t bytes, std::string& why);
    void fail(int peer, const std::string& why);
    std::string said(int error) const;

    const Log* log_;
    wire::Promises promises_;
    const std::string address_;
    Messages messages_;
    Begin job_;
    MPI_Win window_ = nullptr;
    std::string why_none_ = "MPI is not there yet, or no more";
    std::vector<std::pair<std::byte*, std::uint64_t>> attached_;
    std::unordered_map<int, Peer> peers_; // those that we have to do with
    std::vector<wire::Event> events_;
    std::size_t told_ = 0;
    bool inside_ = false;
};

std::unique_ptr<wire::Transport> open_windows(const BackendSettings& settings, std::string& why);

} // namespace storm::mpi
