// SPDX-License-Identifier: MIT
// Which network device each rank gets, and the sentence that says why, on machines
// recorded as hwloc's XML (machines/) and read by the plugin that reads live ones.
#include "cmocka.hh"

#include "../../topology/choice.hh"
#include "../../topology/interfaces.hh"
#include "../../topology/load.hh"

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace storm::unit {
namespace {

using namespace storm::topology;

struct Shape {
    Machine machine;
    std::string why;
    IndexSet set;

    void read(const char* name)
    {
        if (!load({STORM_TOPOLOGY_PLUGIN}, std::string(STORM_MACHINES "/") + name + ".xml", machine, why))
            throw std::runtime_error(std::string(name) + ": " + why);
    }

    // The choice of rank `local` of `size`, bound to `cpus` ("" for all).
    Choice rank(int local, int size, const char* cpus, Need need = Need::any, const char* wanted = "auto")
    {
        Place place;
        if (!place.binding.parse(cpus))
            throw std::runtime_error(cpus);
        place.local_rank = local;
        place.local_size = size;
        place.need = need;
        place.wanted = wanted;
        return choose(machine, place);
    }

    // Choices of `size` ranks with these bindings, known to all: "mlx5_0 mlx5_1 ..."
    std::string all(const std::vector<IndexSet>& bindings)
    {
        std::string names;
        for (std::size_t r = 0; r < bindings.size(); ++r) {
            Place place;
            place.binding = bindings[r];
            place.local_rank = static_cast<int>(r);
            place.local_size = static_cast<int>(bindings.size());
            place.bindings = bindings;
            names += (names.empty() ? "" : " ") + choose(machine, place).name;
        }
        return names;
    }
};

void is(const Choice& choice, const char* name, const char* sentence)
{
    expect_that(choice.name == name && choice.sentence == sentence && choice.problem.empty(),
                "got    %s: %s %s\nwanted %s: %s", choice.name.c_str(), choice.sentence.c_str(),
                choice.problem.c_str(), name, sentence);
}

void same(const std::string& got, const char* wanted)
{
    expect_that(got == wanted, "got    %s\nwanted %s", got.c_str(), wanted);
}

void one_nic_serves_both_sockets(Shape& f)
{
    f.read("one_nic_two_sockets");
    is(f.rank(0, 2, "0-3"), "mlx5_0",
       "rank 0 of 2 on this node (cpus 0-3, NUMA node 0) uses mlx5_0 at distance 10: "
       "the only one that reaches other hosts");
    is(f.rank(1, 2, "4-7"), "mlx5_0",
       "rank 1 of 2 on this node (cpus 4-7, NUMA node 1) uses mlx5_0 at distance 20: "
       "the only one that reaches other hosts");
}

void each_numa_node_uses_its_own_of_four_nics(Shape& f)
{
    f.read("four_nics_four_nodes");
    is(f.rank(0, 4, "0-3"), "mlx5_0",
       "rank 0 of 4 on this node (cpus 0-3, NUMA node 0) uses mlx5_0 at distance 10: "
       "the nearest of 4, the next is mlx5_1 at 15");
    is(f.rank(2, 4, "10"), "mlx5_2",
       "rank 2 of 4 on this node (cpus 10, NUMA node 2) uses mlx5_2 at distance 10: "
       "the nearest of 4, the next is mlx5_3 at 15");
    same(f.all(equal_shares(f.machine, 8)), "mlx5_0 mlx5_0 mlx5_1 mlx5_1 mlx5_2 mlx5_2 mlx5_3 mlx5_3");
}

void ranks_of_one_package_are_spread_over_its_nics(Shape& f)
{
    f.read("four_nics_four_nodes");
    is(f.rank(3, 4, "0-7"), "mlx5_1",
       "rank 3 of 4 on this node (cpus 0-7, NUMA nodes 0-1) uses mlx5_1 at distance 10: "
       "ranks are spread over mlx5_0, mlx5_1, which are equally near");
    for (const auto& [cpus, wanted] : std::vector<std::pair<const char*, const char*>>{
             {"0-7 0-7 8-15 8-15", "mlx5_0 mlx5_1 mlx5_2 mlx5_3"},
             {"0-7 8-15 0-7 8-15", "mlx5_0 mlx5_2 mlx5_1 mlx5_3"},
             {"0-15 0-15 0-15 0-15", "mlx5_0 mlx5_1 mlx5_2 mlx5_3"}}) {
        std::vector<IndexSet> bindings;
        for (std::string rest = cpus; !rest.empty(); rest.erase(0, rest.find(' ') + 1)) {
            f.set.parse(rest.substr(0, rest.find(' ')));
            bindings.push_back(f.set);
            if (rest.find(' ') == std::string::npos)
                break;
        }
        same(f.all(bindings), wanted);
    }
}

void eight_ranks_with_gpus_use_eight_nics_and_not_the_slow_one(Shape& f)
{
    f.read("eight_nics_with_gpus");
    same(f.all(equal_shares(f.machine, 8)), "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7");
    is(f.rank(6, 8, "8-15"), "mlx5_6",
       "rank 6 of 8 on this node (cpus 8-15, NUMA node 1) uses mlx5_6 at distance 10: "
       "ranks are spread over mlx5_4, mlx5_5, mlx5_6, mlx5_7, which are equally near; "
       "left out are eno1 (no RDMA)");
    is(f.rank(0, 1, "0", Need::interface), "ib0",
       "rank 0 of 1 on this node (cpus 0, NUMA node 0) uses ib0 at distance 10: ranks are spread over "
       "ib0, ib1, ib2, ib3, which are equally near; left out are eno1 (slower)");
}

void gpus_behind_the_switch_of_a_nic_are_told(Shape& f)
{
    f.read("eight_nics_with_gpus");
    int with = 0;
    for (const Nic& nic : f.machine.nics) {
        if (nic.device.empty()) {
            assert_true(nic.gpus.empty());
            continue;
        }
        assert_int_equal(nic.gpus.size(), 1);
        // the card stands on the bus after its GPU's
        const int card = std::stoi(nic.pci.substr(5, 2), nullptr, 16);
        const int gpu = std::stoi(nic.gpus[0].substr(5, 2), nullptr, 16);
        expect_that(card == gpu + 1, "%s %s", nic.pci.c_str(), nic.gpus[0].c_str());
        ++with;
    }
    assert_int_equal(with, 8);
}

void without_a_nic_there_is_no_choice(Shape& f)
{
    f.read("no_nic");
    is(f.rank(0, 1, ""), "",
       "rank 0 of 1 on this node (cpus 0-3) has no network device for other hosts: none was found");
    assert_int_equal(f.rank(0, 1, "").nic, -1);
}

void a_cgroup_leaves_the_nic_of_its_own_socket(Shape& f)
{
    f.read("cgroup");
    same(f.machine.usable.text(), "6-7");
    is(f.rank(0, 1, ""), "mlx5_1",
       "rank 0 of 1 on this node (cpus 6-7, NUMA node 1) uses mlx5_1 at distance 10: "
       "the nearest of 2, the next is mlx5_0 at 20");
    same(f.all(equal_shares(f.machine, 2)), "mlx5_1 mlx5_1");
}

void asymmetric_machines_go_by_the_distances_of_the_system(Shape& f)
{
    f.read("asymmetric");
    is(f.rank(0, 3, "0-1"), "mlx5_0",
       "rank 0 of 3 on this node (cpus 0-1, NUMA node 0) uses mlx5_0 at distance 10: "
       "the nearest of 3, the next is mlx5_1 at 31");
    is(f.rank(1, 3, "4-7"), "mlx5_1",
       "rank 1 of 3 on this node (cpus 4-7, NUMA node 2) uses mlx5_1 at distance 16: "
       "ranks are spread over mlx5_1, mlx5_2, which are equally near");
    same(f.all(equal_shares(f.machine, 8)), "mlx5_0 mlx5_0 mlx5_1 mlx5_2 mlx5_1 mlx5_2 mlx5_1 mlx5_2");
}

void bridges_and_loopback_are_never_chosen(Shape& f)
{
    f.read("bridges_only");
    is(f.rank(0, 1, ""), "",
       "rank 0 of 1 on this node (cpus 0-3) has no network device for other hosts: not fit are "
       "br-5d0c1e2f3a4b (a bridge of containers), docker0 (a bridge of containers), lo (loopback), "
       "veth3f2a1b (a link to a container), virbr0 (a bridge of virtual machines)");
}

void each_port_of_an_adapter_is_a_nic(Shape& f)
{
    f.read("multi_port");
    is(f.rank(0, 2, "0-3"), "mlx4_0:1",
       "rank 0 of 2 on this node (cpus 0-3, NUMA node 0) uses mlx4_0:1 at distance 10: "
       "ranks are spread over mlx4_0:1, mlx4_0:2, which are equally near");
    same(f.all(equal_shares(f.machine, 4)), "mlx4_0:1 mlx4_0:2 mlx4_0:1 mlx4_0:2");
    const Choice second = f.rank(1, 2, "0-3");
    same(f.machine.nics[static_cast<std::size_t>(second.nic)].interface, "ib1");
}

void a_port_that_is_down_is_left_out(Shape& f)
{
    f.read("multi_port_one_down");
    is(f.rank(0, 2, "0-3"), "mlx4_0:2",
       "rank 0 of 2 on this node (cpus 0-3, NUMA node 0) uses mlx4_0:2 at distance 10: "
       "the only one that reaches other hosts; left out are mlx4_0:1 (its port is down)");
}

void a_fast_nic_far_away_beats_a_slow_one_nearby(Shape& f)
{
    f.read("slow_and_fast");
    is(f.rank(0, 2, "0-3"), "ens1",
       "rank 0 of 2 on this node (cpus 0-3, NUMA node 0) uses ens1 at distance 20: the only one that "
       "reaches other hosts; left out are docker0 (a bridge of containers), flannel.1 (an overlay of "
       "containers), eno1 (slower)");
}

void software_is_used_where_there_is_nothing_else(Shape& f)
{
    f.read("software_only");
    is(f.rank(1, 2, "2-3"), "vA",
       "rank 1 of 2 on this node (cpus 2-3, NUMA node 1) uses vA at distance 20: "
       "the only one that reaches other hosts; left out are lo (loopback)");
}

void needs_select_devices_or_interfaces(Shape& f)
{
    f.read("slow_and_fast");
    is(f.rank(0, 1, "0", Need::device), "",
       "rank 0 of 1 on this node (cpus 0, NUMA node 0) has no network device for other hosts: not fit are "
       "eno1 (no RDMA), ens1 (no RDMA), docker0 (a bridge of containers), flannel.1 (an overlay of containers)");
    f.read("one_nic_two_sockets");
    f.machine.nics[0].no_sockets = "it has no address";
    is(f.rank(0, 1, "0", Need::interface), "",
       "rank 0 of 1 on this node (cpus 0, NUMA node 0) has no network device for other hosts: not fit are "
       "ib0 (it has no address)");
    same(f.rank(0, 1, "0", Need::device).name, "mlx5_0");
}

void a_named_nic_is_taken(Shape& f)
{
    f.read("eight_nics_with_gpus");
    for (const char* name : {"mlx5_7", "ib7"}) {
        const std::string sentence = std::string("rank 0 of 8 on this node (cpus 0, NUMA node 0) uses mlx5_7 "
                                                 "at distance 20: STORM_NIC=") + name + " says so";
        is(f.rank(0, 8, "0", Need::any, name), "mlx5_7", sentence.c_str());
    }
    f.read("multi_port");
    same(f.rank(0, 1, "", Need::any, "mlx4_0:2").name, "mlx4_0:2");
    same(f.rank(0, 1, "", Need::any, "ib1").name, "mlx4_0:2");
}

void an_unknown_name_is_told_and_the_nearest_is_used(Shape& f)
{
    f.read("slow_and_fast");
    const Choice choice = f.rank(0, 1, "0", Need::any, "eth7");
    same(choice.name, "ens1");
    same(choice.problem, "STORM_NIC=eth7 names no network device of this machine (it has eno1, ens1, "
                         "docker0, flannel.1): using auto");
    f.read("multi_port");
    same(f.rank(0, 1, "", Need::any, "mlx5_0").problem,
         "STORM_NIC=mlx5_0 names no network device of this machine (it has mlx4_0:1 or ib0, mlx4_0:2 or ib1): "
         "using auto");
    f.read("no_nic");
    same(f.rank(0, 1, "", Need::any, "ib0").problem,
         "STORM_NIC=ib0 names no network device of this machine (it has none): using auto");
}

void a_named_bridge_is_taken_with_a_warning(Shape& f)
{
    f.read("slow_and_fast");
    const Choice choice = f.rank(0, 1, "0", Need::any, "docker0");
    same(choice.name, "docker0");
    same(choice.problem, "STORM_NIC=docker0 may not reach other hosts (a bridge of containers): "
                         "unset it to have the nearest that does");
}

void unknown_bindings_are_taken_for_the_launchers_habit(Shape& f)
{
    f.read("eight_nics_with_gpus"); // in turn over the two sockets
    std::string names;
    for (int r = 0; r < 8; ++r)
        names += f.rank(r, 8, r % 2 == 0 ? "0-7" : "8-15").name + " ";
    same(names, "mlx5_0 mlx5_4 mlx5_1 mlx5_5 mlx5_2 mlx5_6 mlx5_3 mlx5_7 ");
    names.clear(); // not bound at all
    for (int r = 0; r < 8; ++r)
        names += f.rank(r, 8, "").name + " ";
    same(names, "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 mlx5_7 ");
}

void files_that_are_no_machine_are_refused_with_a_reason(Shape& f)
{
    assert_false(load({STORM_TOPOLOGY_PLUGIN}, "/nonexistent.xml", f.machine, f.why));
    assert_true(f.why.find("/nonexistent.xml") != std::string::npos);
    assert_false(load({STORM_TOPOLOGY_PLUGIN}, STORM_MACHINES "/../meson.build", f.machine, f.why));
    assert_true(f.why.find("meson.build") != std::string::npos);
    assert_false(load({"/nonexistent/libstorm-topology.so"}, "live", f.machine, f.why));
    assert_true(f.why.find("not installed") != std::string::npos);
}

void this_machine_can_be_read(Shape& f)
{
    assert_true(load({STORM_TOPOLOGY_PLUGIN}, "live", f.machine, f.why));
    expect_that(f.machine.cores >= 1 && !f.machine.usable.empty() && !f.machine.nodes.empty(), "%d cores",
                f.machine.cores);
    for (const Nic& nic : f.machine.nics)
        expect_that(nic.interface != "lo" || obstacle(nic) == "loopback", "%s", obstacle(nic).c_str());
    assert_false(f.rank(0, 1, "").sentence.empty());
}

void index_sets_are_read_and_written_as_the_kernel_does(Shape& f)
{
    for (const char* text : {"", "0", "0-3,8", "1,3,5", "63-65"}) {
        expect_that(f.set.parse(text) && f.set.text() == text, "%s: %s", text, f.set.text().c_str());
    }
    for (const char* bad : {"a", "-1", "3-1", "1-", "1;2", "65536", "0-99999999"})
        expect_that(!f.set.parse(bad), "%s", bad);
}

// A folder like the kernel's /sys/class/net, and links.
struct Interfaces : Shape {
    std::filesystem::path folder;
    std::vector<Link> links;
    Interfaces()
    {
        std::string name = std::filesystem::temp_directory_path() / "storm-net-XXXXXX";
        folder = mkdtemp(name.data());
    }
    ~Interfaces() { std::filesystem::remove_all(folder); }
    void add(const std::string& name, bool up, bool addressed, const std::string& master = "")
    {
        links.push_back({name, static_cast<unsigned>(links.size() + 1), up, addressed});
        std::filesystem::create_directories(folder / name);
        std::ofstream(folder / name / "ifindex") << links.back().index << "\n";
        if (!master.empty())
            std::filesystem::create_symlink("../" + master, folder / name / "master");
    }
    const Nic& nic(const char* name)
    {
        for (const Nic& nic : machine.nics)
            if (nic.interface == name)
                return nic;
        throw std::runtime_error(std::string(name) + " is not there");
    }
};

void interfaces_tell_what_is_wrong_with_them(Interfaces& f)
{
    f.read("slow_and_fast");
    f.add("eno1", false, true);
    f.add("ens1", true, false, "bond7");
    f.add("bond7", true, true);
    std::filesystem::create_symlink("../ens1", f.folder / "bond7" / "lower_ens1");
    f.add("office", true, true);
    std::filesystem::create_directories(f.folder / "office" / "bridge");
    f.add("plain", true, false);
    add_live_facts(f.machine, f.links, f.folder);
    same(f.nic("eno1").fault, "its link is down");
    same(f.nic("ens1").fault, "a part of bond7");
    same(f.nic("office").fault, "a bridge");
    same(f.nic("plain").fault, "it has no address");
    same(f.nic("docker0").fault, "not of this network name space");
    same(f.nic("bond7").fault, "");
    assert_true(f.nic("bond7").attached); // its place is that of what it is made of
    same(f.nic("bond7").nodes.text(), "1");
    same(f.rank(0, 1, "0").name, "bond7");
}

void another_name_spaces_folder_is_not_believed(Interfaces& f)
{
    f.read("no_nic");
    f.add("vA", true, true, "br7");
    f.links.back().index = 99;
    add_live_facts(f.machine, f.links, f.folder);
    same(f.nic("vA").fault, "");
}

void rdma_works_where_the_interface_does_not(Interfaces& f)
{
    f.read("one_nic_two_sockets");
    f.add("ib0", false, false);
    add_live_facts(f.machine, f.links, f.folder);
    same(f.nic("ib0").no_sockets, "its link is down");
    same(f.rank(0, 1, "").name, "mlx5_0");
    same(f.rank(0, 1, "", Need::interface).name, "");
}

} // namespace
} // namespace storm::unit

int main(int argc, char** argv)
{
    using namespace storm::unit;
    const CMUnitTest tests[] = {
        UNIT(Shape, one_nic_serves_both_sockets),
        UNIT(Shape, each_numa_node_uses_its_own_of_four_nics),
        UNIT(Shape, ranks_of_one_package_are_spread_over_its_nics),
        UNIT(Shape, eight_ranks_with_gpus_use_eight_nics_and_not_the_slow_one),
        UNIT(Shape, gpus_behind_the_switch_of_a_nic_are_told),
        UNIT(Shape, without_a_nic_there_is_no_choice),
        UNIT(Shape, a_cgroup_leaves_the_nic_of_its_own_socket),
        UNIT(Shape, asymmetric_machines_go_by_the_distances_of_the_system),
        UNIT(Shape, bridges_and_loopback_are_never_chosen),
        UNIT(Shape, each_port_of_an_adapter_is_a_nic),
        UNIT(Shape, a_port_that_is_down_is_left_out),
        UNIT(Shape, a_fast_nic_far_away_beats_a_slow_one_nearby),
        UNIT(Shape, software_is_used_where_there_is_nothing_else),
        UNIT(Shape, needs_select_devices_or_interfaces),
        UNIT(Shape, a_named_nic_is_taken),
        UNIT(Shape, an_unknown_name_is_told_and_the_nearest_is_used),
        UNIT(Shape, a_named_bridge_is_taken_with_a_warning),
        UNIT(Shape, unknown_bindings_are_taken_for_the_launchers_habit),
        UNIT(Shape, files_that_are_no_machine_are_refused_with_a_reason),
        UNIT(Shape, this_machine_can_be_read),
        UNIT(Shape, index_sets_are_read_and_written_as_the_kernel_does),
        UNIT(Interfaces, interfaces_tell_what_is_wrong_with_them),
        UNIT(Interfaces, another_name_spaces_folder_is_not_believed),
        UNIT(Interfaces, rdma_works_where_the_interface_does_not),
    };
    return run_all(tests, argc, argv);
}
