// SPDX-License-Identifier: MIT
// libstorm-topology.so: turns hwloc's objects into a Machine. Loaded by load.cc.
#include "hwloc_calls.hh"
#include "interfaces.hh"
#include "load.hh"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <tuple>
#include <unistd.h>

namespace storm::topology {
namespace {

class Reader {
public:
    explicit Reader(Machine& machine) : machine_(machine) {}
    ~Reader()
    {
        if (topology_ != nullptr)
            hwloc_.topology_destroy(topology_);
    }
    Reader(const Reader&) = delete;

    bool read(const std::string& file, std::string& why)
    {
        if (!open(file, why))
            return false;
        machine_ = {};
        const bool live = hwloc_.topology_is_thissystem(topology_) != 0;
        const char* variable = secure_getenv("HWLOC_XMLFILE");
        machine_.origin = !file.empty()            ? file
                          : variable == nullptr || live ? "this machine"
                                                   : std::string(variable) + " (HWLOC_XMLFILE)";
        read_cpus();
        read_nodes();
        read_distances();
        read_devices();
        if (live)
            add_live_facts(machine_, links_of_kernel(), "/sys/class/net");
        const auto key = [](const Nic& n) { return std::tuple(n.pci.empty(), n.pci, n.port, n.name()); };
        std::sort(machine_.nics.begin(), machine_.nics.end(),
                  [&](const Nic& a, const Nic& b) { return key(a) < key(b); });
        return true;
    }

private:
    bool open(const std::string& file, std::string& why)
    {
        if (!hwloc_.open(why))
            return false;
        if (hwloc_.topology_init(&topology_) != 0) {
            topology_ = nullptr;
            why = "hwloc cannot begin";
            return false;
        }
        if (!file.empty() && (::access(file.c_str(), R_OK) != 0 ||
                              hwloc_.topology_set_xml(topology_, file.c_str()) != 0)) {
            why = file + " cannot be read as hwloc's XML: " + std::strerror(errno);
            return false;
        }
        // What is not allowed to us stays in sight: a card there keeps its place.
        if (hwloc_.topology_set_flags(topology_, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
            hwloc_.topology_set_io_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
            hwloc_.topology_load(topology_) != 0) {
            why = (file.empty() ? std::string("hwloc cannot read this machine: ")
                                : file + " cannot be read as hwloc's XML: ") + std::strerror(errno);
            return false;
        }
        return true;
    }

    template <class Use>
    void each(hwloc_obj_type_t type, Use use) const
    {
        const int depth = hwloc_.get_type_depth(topology_, type);
        const unsigned count = hwloc_.get_nbobjs_by_depth(topology_, depth);
        for (unsigned i = 0; i < count; ++i)
            use(hwloc_.get_obj_by_depth(topology_, depth, i));
    }

    IndexSet set_of(hwloc_const_bitmap_t bitmap) const
    {
        IndexSet set;
        if (bitmap == nullptr)
            return set;
        for (int i = hwloc_.bitmap_next(bitmap, -1); i >= 0 && i < IndexSet::kMost;
             i = hwloc_.bitmap_next(bitmap, i))
            set.add(i);
        return set;
    }

    void read_cpus()
    {
        const int depth = hwloc_.get_type_depth(topology_, HWLOC_OBJ_CORE);
        machine_.cores = static_cast<int>(hwloc_.get_nbobjs_by_depth(topology_, depth));
        machine_.usable = set_of(hwloc_.topology_get_allowed_cpuset(topology_));
        each(HWLOC_OBJ_PU, [&](hwloc_obj_t pu) { machine_.cpu_order.push_back(static_cast<int>(pu->os_index)); });
    }

    void read_nodes()
    {
        each(HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t object) {
            Node node;
            node.os_index = static_cast<int>(object->os_index);
            node.cpus = set_of(object->cpuset);
            for (hwloc_obj_t up = object->parent; up != nullptr; up = up->parent)
                if (up->type == HWLOC_OBJ_PACKAGE)
                    node.package = static_cast<int>(up->logical_index);
            nodes_.push_back(object);
            machine_.nodes.push_back(node);
        });
    }

    void read_distances()
    {
        constexpr unsigned kSame = 10, kPackage = 15, kOther = 20; // where the system tells none
        const std::size_t n = machine_.nodes.size();
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < n; ++j)
                machine_.distances.push_back(i == j ? kSame
                                             : machine_.nodes[i].package == machine_.nodes[j].package
                                                 ? kPackage
                                                 : kOther);
        hwloc_distances_s* told = nullptr;
        unsigned count = 1;
        if (hwloc_.distances_get(topology_, &count, &told,
                                 HWLOC_DISTANCES_KIND_FROM_OS | HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
            count == 0)
            return;
        for (unsigned i = 0; i < told->nbobjs; ++i)
            for (unsigned j = 0; j < told->nbobjs; ++j) {
                const std::size_t from = index_of(told->objs[i]), to = index_of(told->objs[j]);
                if (from < n && to < n)
                    machine_.distances[from * n + to] =
                        static_cast<unsigned>(told->values[i * told->nbobjs + j]);
            }
        hwloc_.distances_release(topology_, told);
    }

    std::size_t index_of(hwloc_obj_t node) const
    {
        return static_cast<std::size_t>(std::find(nodes_.begin(), nodes_.end(), node) - nodes_.begin());
    }

    // The nodes beside a device; none when hwloc found it no place in the machine.
    IndexSet nodes_beside(hwloc_obj_t object) const
    {
        IndexSet beside;
        while (object != nullptr && hwloc_.obj_type_is_io(object->type) != 0)
            object = object->parent;
        if (object == nullptr || (object->parent == nullptr && machine_.nodes.size() > 1))
            return beside;
        for (std::size_t i = 0; i < nodes_.size(); ++i)
            if (hwloc_.bitmap_isset(object->nodeset, nodes_[i]->os_index) != 0)
                beside.add(static_cast<int>(i));
        return beside;
    }

    static std::string info(hwloc_obj_t object, const std::string& name)
    {
        for (unsigned i = 0; i < object->infos_count; ++i)
            if (name == object->infos[i].name)
                return object->infos[i].value;
        return "";
    }

    static std::string bus_address(hwloc_obj_t device)
    {
        char text[32];
        const auto& pci = device->attr->pcidev;
        std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain),
                      static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.dev),
                      static_cast<unsigned>(pci.func));
        return text;
    }

    // The PCI device that an operating system's device belongs to, or null.
    static hwloc_obj_t pci_of(hwloc_obj_t object)
    {
        while (object != nullptr && object->type == HWLOC_OBJ_OS_DEVICE)
            object = object->parent;
        return object != nullptr && object->type == HWLOC_OBJ_PCI_DEVICE ? object : nullptr;
    }

    // The outermost switch above a PCI device, or null when it stands alone.
    static hwloc_obj_t switch_of(hwloc_obj_t object)
    {
        hwloc_obj_t found = nullptr;
        for (object = object->parent; object != nullptr && object->type == HWLOC_OBJ_BRIDGE; object = object->parent)
            if (object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
                found = object;
        return found;
    }

    // Operating system's devices of one PCI device, or one that belongs to none.
    struct Card {
        std::vector<hwloc_obj_t> rdma, interfaces;
    };

    void read_devices()
    {
        std::map<hwloc_obj_t, Card> cards;
        each(HWLOC_OBJ_OS_DEVICE, [&](hwloc_obj_t object) {
            const hwloc_obj_t pci = pci_of(object);
            Card& card = cards[pci != nullptr ? pci : object];
            if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
                card.rdma.push_back(object);
            else if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK)
                card.interfaces.push_back(object);
        });
        for (auto& [object, card] : cards)
            add_card(object, card);
    }

    Nic common(hwloc_obj_t object) const
    {
        Nic nic;
        nic.nodes = nodes_beside(object);
        if (object->type != HWLOC_OBJ_PCI_DEVICE)
            return nic;
        nic.attached = true;
        nic.pci = bus_address(object);
        nic.gbytes_per_s = static_cast<double>(object->attr->pcidev.linkspeed);
        if (const hwloc_obj_t above = switch_of(object); above != nullptr)
            each(HWLOC_OBJ_PCI_DEVICE, [&](hwloc_obj_t other) {
                constexpr unsigned kDisplay = 0x03; // the class of graphics processors
                if (other->attr->pcidev.class_id >> 8 == kDisplay && switch_of(other) == above)
                    nic.gpus.push_back(bus_address(other));
            });
        return nic;
    }

    void add_card(hwloc_obj_t object, Card& card)
    {
        for (const hwloc_obj_t device : card.rdma)
            add_ports(object, device, card);
        for (const hwloc_obj_t left : card.interfaces) { // those that no port took
            Nic nic = common(object);
            nic.interface = left->name;
            machine_.nics.push_back(nic);
        }
    }

    // One entry for each port, with the network interface that belongs to it.
    void add_ports(hwloc_obj_t object, hwloc_obj_t device, Card& card)
    {
        int ports = 0;
        while (!info(device, "Port" + std::to_string(ports + 1) + "State").empty())
            ++ports;
        for (int port = 1; port <= std::max(ports, 1); ++port) {
            Nic nic = common(object);
            nic.attached = true;
            nic.device = device->name;
            nic.port = ports > 1 ? port : 0;
            const std::string state = info(device, "Port" + std::to_string(port) + "State");
            constexpr const char* kActive = "4"; // IBV_PORT_ACTIVE
            if (!state.empty() && state != kActive)
                nic.fault = "its port is down";
            const auto mate = std::find_if(card.interfaces.begin(), card.interfaces.end(), [&](hwloc_obj_t i) {
                const std::string number = info(i, "Port");
                return std::max(ports, 1) == 1 || (number.empty() ? port == 1 : number == std::to_string(port));
            });
            if (mate != card.interfaces.end()) {
                nic.interface = (*mate)->name;
                card.interfaces.erase(mate);
            }
            machine_.nics.push_back(nic);
        }
    }

    HwlocCalls hwloc_;
    hwloc_topology_t topology_ = nullptr;
    Machine& machine_;
    std::vector<hwloc_obj_t> nodes_; // as in Machine::nodes
};

bool read(const std::string& file, Machine& machine, std::string& why)
{
    try { // the caller has a run-time library of its own
        return Reader(machine).read(file, why);
    } catch (const std::exception& e) {
        why = e.what();
        return false;
    }
}

} // namespace
} // namespace storm::topology

extern "C" {
[[gnu::visibility("default")]] extern const storm::topology::TopologyPlugin storm_topology;
const storm::topology::TopologyPlugin storm_topology = {storm::topology::kTopologyAbi, storm::topology::read};
}
