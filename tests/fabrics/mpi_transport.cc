// SPDX-License-Identifier: MIT
// The contract of the Transports that are made of the real MPI, under mpirun.
//   mpi_transport mpi_p2p|mpi_rma [ROUNDS [THREAD_LEVEL]]
#include "transport.hh"

#include "backends/mpi/messages.hh"
#include "backends/mpi/windows.hh"
#include "base/log.hh"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

namespace {

storm::RealMpi real_mpi()
{
    storm::RealMpi real;
#define STORM_REAL(name) real.name = PMPI_##name;
#include "real_calls.inc"
#undef STORM_REAL
    real.comm_world = MPI_COMM_WORLD;
    real.comm_self = MPI_COMM_SELF;
    real.comm_null = MPI_COMM_NULL;
    real.request_null = MPI_REQUEST_NULL;
    real.byte = MPI_BYTE;
    real.errors_return = MPI_ERRORS_RETURN;
    real.info_null = MPI_INFO_NULL;
    return real;
}

class BesideMpi final : public storm::fabrics::Peers {
public:
    explicit BesideMpi(MPI_Comm comm) : comm_(comm)
    {
        MPI_Comm_rank(comm, &rank_);
        MPI_Comm_size(comm, &size_);
    }
    int rank() const override { return rank_; }
    int size() const override { return size_; }
    void send(int to, const void* data, std::size_t bytes) override
    {
        const auto* begin = static_cast<const std::byte*>(data);
        auto& sent = sent_.emplace_back();
        sent.bytes.assign(begin, begin + bytes);
        MPI_Isend(sent.bytes.data(), static_cast<int>(bytes), MPI_BYTE, to, 7, comm_, &sent.request);
        for (int done = 1; !sent_.empty() && done != 0;) {
            MPI_Test(&sent_.front().request, &done, MPI_STATUS_IGNORE);
            if (done != 0)
                sent_.pop_front();
        }
    }
    bool receive(int& from, std::vector<std::byte>& data) override
    {
        int there = 0, bytes = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, 7, comm_, &there, &status);
        if (there == 0)
            return false;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        data.resize(static_cast<std::size_t>(bytes));
        from = status.MPI_SOURCE;
        MPI_Recv(data.data(), bytes, MPI_BYTE, from, 7, comm_, MPI_STATUS_IGNORE);
        return true;
    }

private:
    struct Sent {
        std::vector<std::byte> bytes;
        MPI_Request request = MPI_REQUEST_NULL;
    };
    MPI_Comm comm_;
    int rank_ = 0, size_ = 1;
    std::deque<Sent> sent_;
};

} // namespace

int main(int argc, char** argv)
{
    const char* which = argc > 1 ? argv[1] : "mpi_p2p";
    int level = argc > 3 ? std::atoi(argv[3]) : MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, level, &level);
    int wrong = 0;
    {
        MPI_Comm beside, own;
        MPI_Comm_dup(MPI_COMM_WORLD, &beside);
        MPI_Comm_dup(MPI_COMM_WORLD, &own);
        MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
        const storm::RealMpi real = real_mpi();
        BesideMpi peers(beside);
        storm::Log log;
        storm::BackendSettings settings;
        settings.log = &log;
        std::string why;
        auto transport = std::strcmp(which, "mpi_rma") == 0 ? storm::mpi::open_windows(settings, why)
                                                            : storm::mpi::open_messages(settings, why);
        storm::Begin begin{&real, own, peers.rank(), peers.size()};
        transport->begin(begin);
        storm::fabrics::Plan plan;
        plan.rounds = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : plan.rounds;
        wrong = storm::fabrics::check_transport(*transport, peers, plan);
        transport->end();
    }
    std::fflush(stdout);
    MPI_Finalize();
    return wrong != 0 ? 1 : 0;
}
