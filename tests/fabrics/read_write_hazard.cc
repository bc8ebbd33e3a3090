// SPDX-License-Identifier: MIT
// Why an operation of the read class needs a fence before a write to the same place: a READ
// and a WRITE of 32 KiB are posted at once, and what the READ brought is looked at. Without a
// fence some devices (siw) let it see what was written after it; with one it must not.
//
//   read_write_hazard ADDRESS [ROUNDS [must-show]]
//
// Stands alone: verbs and the connection manager, two processes, nothing of this project.
// Ends with 1 when a fenced WRITE passed its READ, or, with must-show, no plain one did.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr std::size_t kBytes = 32768;

struct Target {
    std::uint64_t address = 0;
    std::uint32_t key = 0;
};

[[noreturn]] void give_up(const char* what)
{
    std::perror(what);
    std::exit(2);
}

ibv_qp_init_attr queues()
{
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {16, 16, 1, 1, 0};
    wanted.sq_sig_all = 1;
    return wanted;
}

rdma_conn_param depths()
{
    rdma_conn_param wanted{};
    wanted.responder_resources = wanted.initiator_depth = 4;
    wanted.retry_count = wanted.rnr_retry_count = 6;
    return wanted;
}

rdma_cm_id* end_at(const char* address, const char* port, bool listens)
{
    rdma_addrinfo hints{};
    rdma_addrinfo* found = nullptr;
    hints.ai_port_space = RDMA_PS_TCP;
    hints.ai_flags = listens ? RAI_PASSIVE : 0;
    if (rdma_getaddrinfo(address, port, &hints, &found) != 0)
        give_up("rdma_getaddrinfo");
    ibv_qp_init_attr wanted = queues();
    rdma_cm_id* id = nullptr;
    if (rdma_create_ep(&id, found, nullptr, &wanted) != 0)
        give_up("rdma_create_ep");
    rdma_freeaddrinfo(found);
    return id;
}

// Offers its memory and does nothing more until the other end is through.
int serve(const char* address, int to, int until)
{
    rdma_cm_id* listener = end_at(address, nullptr, true);
    rdma_cm_id* id = nullptr;
    if (rdma_listen(listener, 1) != 0)
        give_up("rdma_listen");
    const std::uint16_t port = rdma_get_src_port(listener);
    if (write(to, &port, sizeof port) != sizeof port || rdma_get_request(listener, &id) != 0)
        give_up("rdma_get_request");
    std::vector<char> memory(kBytes);
    ibv_mr* region = ibv_reg_mr(id->pd, memory.data(), kBytes,
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    rdma_conn_param wanted = depths();
    if (region == nullptr || rdma_accept(id, &wanted) != 0)
        give_up("rdma_accept");
    const Target target{reinterpret_cast<std::uintptr_t>(memory.data()), region->rkey};
    char over = 0;
    if (write(to, &target, sizeof target) != sizeof target || read(until, &over, 1) < 0)
        give_up("pipe");
    return 0;
}

struct Seen {
    unsigned later = 0;   // rounds in which the READ saw the WRITE's bytes
    unsigned foreign = 0; // or bytes that nobody wrote at that time
};

class Origin {
public:
    Origin(rdma_cm_id* id, const Target& target) : id_(id), target_(target), memory_(2 * kBytes)
    {
        region_ = ibv_reg_mr(id->pd, memory_.data(), memory_.size(),
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE); // where a READ of iWARP arrives
        if (region_ == nullptr)
            give_up("ibv_reg_mr");
    }
    Seen rounds(unsigned count, unsigned flags)
    {
        Seen seen;
        for (unsigned i = 0; i < count; ++i) {
            const char before = last_, now = static_cast<char>(last_ % 100 + 1);
            std::memset(memory_.data(), 0x7f, kBytes);
            std::memset(memory_.data() + kBytes, now, kBytes);
            post(IBV_WR_RDMA_READ, 0, 0);
            post(IBV_WR_RDMA_WRITE, kBytes, flags);
            wait(2);
            last_ = now;
            const auto begin = memory_.begin(), end = begin + kBytes;
            seen.later += std::count(begin, end, now) != 0;
            seen.foreign += std::any_of(begin, end, [&](char c) { return c != before && c != now; });
        }
        return seen;
    }

private:
    void post(ibv_wr_opcode what, std::size_t offset, unsigned flags)
    {
        ibv_sge at{reinterpret_cast<std::uintptr_t>(memory_.data()) + offset, kBytes, region_->lkey};
        ibv_send_wr operation{};
        operation.sg_list = &at;
        operation.num_sge = 1;
        operation.opcode = what;
        operation.send_flags = flags;
        operation.wr.rdma.remote_addr = target_.address;
        operation.wr.rdma.rkey = target_.key;
        ibv_send_wr* refused = nullptr;
        if (ibv_post_send(id_->qp, &operation, &refused) != 0)
            give_up("ibv_post_send");
    }
    void wait(int completions)
    {
        ibv_wc wc;
        while (completions != 0) {
            const int n = ibv_poll_cq(id_->send_cq, 1, &wc);
            if (n < 0 || (n > 0 && wc.status != IBV_WC_SUCCESS)) {
                std::fprintf(stderr, "%s\n", n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
                std::exit(2);
            }
            completions -= n;
            if (n == 0)
                sched_yield();
        }
    }
    rdma_cm_id* id_;
    Target target_;
    std::vector<char> memory_;
    ibv_mr* region_ = nullptr;
    char last_ = 0;
};

} // namespace

int main(int argc, char** argv)
{
    if (argc < 2) {
        std::fprintf(stderr, "usage: read_write_hazard ADDRESS [ROUNDS [must-show]]\n");
        return 2;
    }
    const unsigned rounds = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 200;
    const bool must_show = argc > 3 && std::strcmp(argv[3], "must-show") == 0;
    int told[2], over[2];
    if (pipe(told) != 0 || pipe(over) != 0)
        give_up("pipe");
    const pid_t server = fork();
    if (server == 0) {
        close(over[1]);
        return serve(argv[1], told[1], over[0]);
    }
    close(told[1]);
    std::uint16_t port = 0;
    Target target;
    if (read(told[0], &port, sizeof port) != sizeof port)
        give_up("no port");
    rdma_cm_id* id = end_at(argv[1], std::to_string(ntohs(port)).c_str(), false);
    rdma_conn_param wanted = depths();
    if (rdma_connect(id, &wanted) != 0)
        give_up("rdma_connect");
    if (read(told[0], &target, sizeof target) != sizeof target)
        give_up("no target");

    Origin origin(id, target);
    const Seen plain = origin.rounds(rounds, 0);
    const Seen fenced = origin.rounds(rounds, IBV_SEND_FENCE);
    std::printf("%s, READ then WRITE of %zu bytes to one place, %u rounds each:\n",
                ibv_get_device_name(id->verbs->device), kBytes, rounds);
    std::printf("  plain:  the READ saw later bytes in %u, foreign ones in %u\n", plain.later, plain.foreign);
    std::printf("  fenced: the READ saw later bytes in %u, foreign ones in %u\n", fenced.later, fenced.foreign);
    close(over[1]);
    waitpid(server, nullptr, 0);
    const bool shown = !must_show || plain.later != 0;
    const bool good = fenced.later == 0 && fenced.foreign == 0 && plain.foreign == 0 && shown;
    std::printf("%s\n", good ? "ok" : "FAIL");
    return good ? 0 : 1;
}
