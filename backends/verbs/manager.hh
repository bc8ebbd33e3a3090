// SPDX-License-Identifier: MIT
// Connections of iWARP, which the connection manager alone can make. Each is used by the
// end that asked for it: an end that is asked may not speak first.
#pragma once

#include "queue.hh"

#include <rdma/rdma_cma.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace storm::verbs {

class Manager {
public:
    // Listens on the device's interface and opens the device: `device.context` is set.
    static std::unique_ptr<Manager> open(Device& device, std::string& why);
    ~Manager();
    Manager(const Manager&) = delete;

    std::string address() const;
    void attach(const Resources& resources, std::uint32_t inline_max);
    // False with the queue's `why`; else it becomes ready, or fails, in a later look.
    bool connect(Queue& queue, std::string_view address);
    void release(Queue& queue);
    // Deals with what has happened. Cheap while nothing is expected.
    void look(const std::function<void(Queue&, const std::string&)>& failed);

private:
    Manager() = default;
    void event(const rdma_cm_event& happened, const std::function<void(Queue&, const std::string&)>& failed);
    bool step(rdma_cm_id* id, rdma_cm_event_type reached, std::string& why);
    bool equip(rdma_cm_id* id, std::string& why);
    void drop(rdma_cm_id* id);

    rdma_event_channel* channel_ = nullptr;
    rdma_cm_id* listener_ = nullptr;
    std::string ip_;
    const Resources* resources_ = nullptr;
    std::uint32_t inline_max_ = 0;
    std::unordered_set<rdma_cm_id*> asked_of_us_;
    std::unordered_map<const Queue*, rdma_cm_id*> ours_;
    unsigned expected_ = 0; // of our connections, those that are not made yet
    unsigned looks_ = 0;
};

} // namespace storm::verbs
