// SPDX-License-Identifier: MIT
// backends/shm: what the shared-memory backend promises beyond the contract.
#include "cmocka.hh"

#include "ring.hh"

#include <cstdlib>
#include <dirent.h>
#include <linux/mempolicy.h>
#include <memory>
#include <set>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

extern "C" {
extern const storm::BackendPlugin storm_backend; // backends/shm/shm.cc, compiled in
}

namespace storm::unit {
namespace {

constexpr std::uint64_t kBytes = 8192, kMemory = 1 << 20;

std::set<std::string> names_in(const char* folder)
{
    std::set<std::string> names;
    if (DIR* dir = ::opendir(folder)) {
        while (const dirent* entry = ::readdir(dir))
            names.insert(entry->d_name);
        ::closedir(dir);
    }
    return names;
}

// An address in its parts: pid, descriptor, nonce (two), host.
std::vector<std::string> parts(const std::string& address)
{
    std::vector<std::string> out;
    std::size_t at = 0;
    for (int i = 0; i < 4; ++i) {
        const std::size_t colon = address.find(':', at);
        out.push_back(address.substr(at, colon - at));
        at = colon + 1;
    }
    out.push_back(address.substr(at));
    return out;
}

std::string joined(const std::vector<std::string>& p)
{
    return p[0] + ":" + p[1] + ":" + p[2] + ":" + p[3] + ":" + p[4];
}

struct Slabs {
    Slabs()
    {
        log.set_level(LogLevel::quiet);
        for (int i = 0; i < 2; ++i)
            open(i, kMemory);
    }
    void open(int rank, std::uint64_t memory)
    {
        ends.emplace_back(storm_backend.open({rank, memory, &log}, why));
        if (ends.back() == nullptr)
            throw std::runtime_error(why);
    }
    int descriptor(int rank) const
    {
        return std::atoi(parts(ends[static_cast<std::size_t>(rank)]->address())[1].c_str());
    }
    bool refused(const std::string& address, const char* words)
    {
        why.clear();
        return ends[0]->claim(1, address, kBytes, lane, why) == Status::refused &&
               why.find(words) != std::string::npos;
    }
    // Pages of rank 1's slab that have memory.
    long blocks() const
    {
        struct stat st = {};
        ::fstat(descriptor(1), &st);
        return static_cast<long>(st.st_blocks) * 512 / static_cast<long>(kPage);
    }

    std::vector<std::unique_ptr<Backend>> ends;
    Log log;
    Lane lane, larger, opened;
    Claim found;
    std::string why, address;
    std::vector<std::string> pieces;
    std::set<std::string> before;
};

void slab_is_private_to_its_user(Slabs& f)
{
    struct stat st = {};
    assert_int_equal(::fstat(f.descriptor(0), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_nlink, 0); // it has no name
}

void slab_leaves_nothing_in_a_file_system(Slabs& f)
{
    f.before = names_in("/dev/shm");
    f.open(2, kMemory);
    assert_int_equal(f.ends[0]->claim(1, f.ends[1]->address(), kBytes, f.lane, f.why), Status::ok);
    assert_true(names_in("/dev/shm") == f.before);
    f.ends.clear();
    assert_true(names_in("/dev/shm") == f.before);
}

void slab_stays_away_from_low_descriptors(Slabs& f)
{
    assert_true(f.descriptor(0) >= 200 && f.descriptor(1) >= 200);
}

void claim_leaves_no_descriptor_open(Slabs& f)
{
    f.before = names_in("/proc/self/fd");
    assert_int_equal(f.ends[0]->claim(1, f.ends[1]->address(), kBytes, f.lane, f.why), Status::ok);
    assert_int_equal(f.ends[0]->grow(1, 2 * kBytes, f.larger, f.why), Status::ok);
    assert_true(f.ends[1]->accept(f.found));
    assert_int_equal(names_in("/proc/self/fd").size(), f.before.size());
    assert_true(f.refused("1:2:3:4:nowhere", "another host"));
    assert_int_equal(names_in("/proc/self/fd").size(), f.before.size());
    f.ends.clear();
    assert_int_equal(names_in("/proc/self/fd").size(), f.before.size() - 2);
}

void claim_is_one_memory_on_both_sides(Slabs& f)
{
    assert_int_equal(*f.ends[1]->doorbell(), 0);
    assert_int_equal(f.ends[0]->claim(1, f.ends[1]->address(), kBytes, f.lane, f.why), Status::ok);
    assert_true(*f.ends[1]->doorbell() != 0);
    assert_true(f.ends[1]->accept(f.found));
    assert_int_equal(f.found.peer, 0);
    f.lane.base[100] = std::byte{77};
    assert_int_equal(f.found.lane.base[100], 77);
    f.found.lane.head->store(5);
    assert_int_equal(f.lane.head->load(), 5);
}

void wrong_nonce_is_refused(Slabs& f)
{
    f.pieces = parts(f.ends[1]->address());
    f.pieces[2] = "1";
    assert_true(f.refused(joined(f.pieces), "another one"));
    assert_false(f.ends[1]->accept(f.found));
}

void wrong_host_is_refused(Slabs& f)
{
    f.pieces = parts(f.ends[1]->address());
    f.pieces[4] += "x";
    assert_true(f.refused(joined(f.pieces), "another host"));
}

void wrong_process_is_refused(Slabs& f)
{
    f.pieces = parts(f.ends[1]->address());
    f.pieces[0] = "999999999";
    assert_true(f.refused(joined(f.pieces), "cannot be opened"));
    f.pieces = parts(f.ends[1]->address());
    f.pieces[1] = "0"; // a descriptor that is something else
    f.why.clear();
    assert_int_equal(f.ends[0]->claim(1, joined(f.pieces), kBytes, f.lane, f.why), Status::refused);
    assert_false(f.why.empty());
}

void slab_of_another_rank_is_refused(Slabs& f)
{
    f.why.clear();
    assert_int_equal(f.ends[0]->claim(7, f.ends[1]->address(), kBytes, f.lane, f.why), Status::refused);
    assert_true(f.why.find("another one") != std::string::npos);
}

void budget_that_is_used_up_is_named(Slabs& f)
{
    f.address = f.ends[1]->address();
    int claims = 0;
    while (f.ends[0]->claim(1, f.address, 131072, f.lane, f.why) == Status::ok)
        ++claims;
    assert_int_equal(claims, 7); // each with a page for its head
    assert_true(f.why.find("STORM_MEMORY_MAX") != std::string::npos);
    // what a larger claim could not have, a smaller one still gets
    assert_int_equal(f.ends[0]->claim(1, f.address, kBytes, f.lane, f.why), Status::ok);
}

void closed_ring_gives_its_budget_back(Slabs& f)
{
    assert_int_equal(f.ends[0]->claim(1, f.ends[1]->address(), kBytes, f.lane, f.why), Status::ok);
    assert_true(f.ends[1]->accept(f.found));
    f.opened = f.found.lane;
    for (int i = 0; i < 20; ++i) { // four times the budget in all
        const std::uint64_t bytes = std::uint64_t{131072} << i % 2;
        assert_int_equal(f.ends[0]->grow(1, bytes, f.larger, f.why), Status::ok);
        f.ends[0]->drop(1, f.lane);
        f.lane = f.larger;
        Lane next;
        assert_int_equal(f.ends[1]->open(0, f.larger.ref, bytes, next), Status::ok);
        f.ends[1]->close(0, f.opened);
        f.opened = next;
    }
}

void slab_without_room_for_a_ring_does_not_open(Slabs& f)
{
    f.why.clear();
    assert_null(storm_backend.open({0, 4096, &f.log}, f.why));
    assert_true(f.why.find("STORM_MEMORY_MAX") != std::string::npos);
}

void growth_without_a_claim_is_refused(Slabs& f)
{
    assert_int_equal(f.ends[0]->grow(1, kBytes, f.lane, f.why), Status::refused);
    assert_false(f.why.empty());
}

void closed_ring_gives_its_memory_back(Slabs& f)
{
    assert_int_equal(f.ends[0]->claim(1, f.ends[1]->address(), kBytes, f.lane, f.why), Status::ok);
    assert_true(f.ends[1]->accept(f.found));
    const long before = f.blocks();
    assert_int_equal(f.ends[0]->grow(1, 4 * kBytes, f.larger, f.why), Status::ok);
    assert_int_equal(f.blocks(), before + 9);
    f.ends[0]->drop(1, f.lane);
    assert_null(f.lane.base);
    assert_int_equal(f.ends[1]->open(0, f.larger.ref, f.larger.bytes, f.opened), Status::ok);
    f.ends[1]->close(0, f.found.lane);
    assert_int_equal(f.blocks(), before + 9 - 3);
    f.larger.base[5] = std::byte{9};
    assert_int_equal(f.opened.base[5], 9);
}

void ring_outside_the_slab_cannot_be_opened(Slabs& f)
{
    assert_int_equal(f.ends[0]->claim(1, f.ends[1]->address(), kBytes, f.lane, f.why), Status::ok);
    assert_int_equal(f.ends[1]->open(0, f.lane.ref, 2 * kBytes, f.opened), Status::refused);
    assert_int_equal(f.ends[1]->open(0, f.lane.ref + 16, kPage, f.opened), Status::refused);
    assert_int_equal(f.ends[1]->open(0, 0, kPage, f.opened), Status::refused);
    // sums that run over
    assert_int_equal(f.ends[1]->open(0, -kPage, kPage, f.opened), Status::refused);
    assert_int_equal(f.ends[1]->open(0, f.lane.ref, -(f.lane.ref + kPage), f.opened), Status::refused);
}

void full_directory_is_refused_and_its_doorbell_is_silent(Slabs& f)
{
    f.open(2, std::uint64_t{64} << 20);
    f.address = f.ends[2]->address();
    int claims = 0;
    while (f.ends[0]->claim(2, f.address, kBytes, f.lane, f.why) == Status::ok)
        ++claims;
    assert_int_equal(claims, 1024);
    assert_true(f.why.find("directory") != std::string::npos);
    for (int i = 0; i < claims; ++i)
        assert_true(*f.ends[2]->doorbell() != 0 && f.ends[2]->accept(f.found));
    assert_int_equal(*f.ends[2]->doorbell(), 0);
    assert_false(f.ends[2]->accept(f.found));
}

// Where the memory at an address is taken from; MPOL_DEFAULT: from the process that touches it.
struct Policy {
    int mode = MPOL_DEFAULT;
    unsigned long nodes[16] = {};
    bool read(const void* at)
    {
        return ::syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof nodes, at, MPOL_F_ADDR) == 0;
    }
};

void rings_are_taken_from_the_node_of_their_receiver(Slabs& f)
{
    Policy policy, grown;
    if (!policy.read(&policy))
        cmocka_skip(); // a kernel without NUMA
    unsigned cpu = 0, node = 0;
    assert_int_equal(::syscall(SYS_getcpu, &cpu, &node, nullptr), 0);
    assert_int_equal(static_cast<int>(f.ends[0]->claim(1, f.ends[1]->address(), kBytes, f.lane, f.why)),
                     static_cast<int>(Status::ok));
    assert_true(policy.read(f.lane.base));
    assert_int_equal(policy.mode, MPOL_PREFERRED);
    assert_int_equal(policy.nodes[node / 64] >> node % 64, 1);
    f.ends[0]->drop(1, f.lane);
    assert_int_equal(static_cast<int>(f.ends[0]->grow(1, 8 * kBytes, f.lane, f.why)), static_cast<int>(Status::ok));
    assert_true(grown.read(f.lane.base));
    assert_int_equal(grown.mode, MPOL_PREFERRED);
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Slabs, slab_is_private_to_its_user),
        UNIT(Slabs, slab_leaves_nothing_in_a_file_system),
        UNIT(Slabs, slab_stays_away_from_low_descriptors),
        UNIT(Slabs, claim_leaves_no_descriptor_open),
        UNIT(Slabs, claim_is_one_memory_on_both_sides),
        UNIT(Slabs, rings_are_taken_from_the_node_of_their_receiver),
        UNIT(Slabs, wrong_nonce_is_refused),
        UNIT(Slabs, wrong_host_is_refused),
        UNIT(Slabs, wrong_process_is_refused),
        UNIT(Slabs, slab_of_another_rank_is_refused),
        UNIT(Slabs, budget_that_is_used_up_is_named),
        UNIT(Slabs, closed_ring_gives_its_budget_back),
        UNIT(Slabs, slab_without_room_for_a_ring_does_not_open),
        UNIT(Slabs, growth_without_a_claim_is_refused),
        UNIT(Slabs, closed_ring_gives_its_memory_back),
        UNIT(Slabs, ring_outside_the_slab_cannot_be_opened),
        UNIT(Slabs, full_directory_is_refused_and_its_doorbell_is_silent),
    };
    return run_all(tests, argc, argv);
}
