// SPDX-License-Identifier: MIT
#include "manager.hh"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <vector>

namespace storm::verbs {
namespace {

constexpr int kBacklog = 128, kResolve_ms = 5000;
constexpr unsigned kLookEvery = 64;

sockaddr_in at(const std::string& ip, std::uint16_t port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, ip.c_str(), &address.sin_addr);
    return address;
}

rdma_conn_param parameters()
{
    rdma_conn_param wanted{};
    wanted.responder_resources = 1;
    wanted.initiator_depth = 1;
    wanted.retry_count = kRetries;
    wanted.rnr_retry_count = kForEver;
    return wanted;
}

} // namespace

std::unique_ptr<Manager> Manager::open(Device& device, std::string& why)
{
    std::unique_ptr<Manager> manager(new Manager);
    const auto lacks = [&](const char* what) {
        why = device.name + " " + what + " (" + std::strerror(errno) + ")";
        return nullptr;
    };
    manager->ip_ = device.ip;
    if (device.ip.empty()) {
        why = device.name + " has no IPv4 address on its network interface";
        return nullptr;
    }
    manager->channel_ = rdma_create_event_channel();
    if (manager->channel_ == nullptr)
        return lacks("has no connection manager");
    if (rdma_create_id(manager->channel_, &manager->listener_, nullptr, RDMA_PS_TCP) != 0)
        return lacks("gives no identifier for connections");
    sockaddr_in here = at(device.ip, 0);
    if (rdma_bind_addr(manager->listener_, reinterpret_cast<sockaddr*>(&here)) != 0 ||
        rdma_listen(manager->listener_, kBacklog) != 0)
        return lacks("cannot be listened on");
    device.context = manager->listener_->verbs;
    const int flags = ::fcntl(manager->channel_->fd, F_GETFL);
    ::fcntl(manager->channel_->fd, F_SETFL, flags | O_NONBLOCK);
    return manager;
}

Manager::~Manager()
{
    for (const auto& [queue, id] : ours_)
        drop(id);
    for (rdma_cm_id* id : asked_of_us_)
        drop(id);
    if (listener_ != nullptr)
        rdma_destroy_id(listener_);
    if (channel_ != nullptr)
        rdma_destroy_event_channel(channel_);
}

std::string Manager::address() const
{
    return ip_ + ":" + std::to_string(ntohs(rdma_get_src_port(listener_)));
}

void Manager::attach(const Resources& resources, std::uint32_t inline_max)
{
    resources_ = &resources;
    inline_max_ = inline_max;
}

bool Manager::connect(Queue& queue, std::string_view address)
{
    const std::size_t colon = address.rfind(':');
    rdma_cm_id* id = nullptr;
    sockaddr_in here = at(ip_, 0);
    sockaddr_in there = at(std::string(address.substr(0, colon)),
                           colon != std::string_view::npos
                               ? static_cast<std::uint16_t>(std::atoi(std::string(address.substr(colon + 1)).c_str()))
                               : std::uint16_t{0});
    if (rdma_create_id(channel_, &id, &queue, RDMA_PS_TCP) != 0 ||
        rdma_resolve_addr(id, reinterpret_cast<sockaddr*>(&here), reinterpret_cast<sockaddr*>(&there), kResolve_ms) !=
            0) {
        queue.why = std::string(address) + " cannot be asked for a connection (" + std::strerror(errno) + ")";
        if (id != nullptr)
            rdma_destroy_id(id);
        return false;
    }
    ours_[&queue] = id;
    ++expected_;
    return true;
}

void Manager::release(Queue& queue)
{
    if (const auto found = ours_.find(&queue); found != ours_.end()) {
        expected_ -= queue.state == Queue::State::asked && expected_ != 0 ? 1 : 0;
        drop(found->second);
        ours_.erase(found);
    }
}

void Manager::drop(rdma_cm_id* id)
{
    if (id->qp != nullptr) {
        rdma_disconnect(id);
        rdma_destroy_qp(id);
    }
    rdma_destroy_id(id);
}

bool Manager::equip(rdma_cm_id* id, std::string& why)
{
    ibv_qp_init_attr wanted = pair_attributes(*resources_, inline_max_);
    if (id->verbs == resources_->device.context && rdma_create_qp(id, resources_->domain, &wanted) == 0)
        return true;
    why = resources_->device.name + " gives no queue pair (" + std::strerror(errno) + ")";
    return false;
}

// From one stage of a connection of ours to the next.
bool Manager::step(rdma_cm_id* id, rdma_cm_event_type reached, std::string& why)
{
    why = std::string(rdma_event_str(reached)) + " leads nowhere";
    if (reached == RDMA_CM_EVENT_ADDR_RESOLVED)
        return rdma_resolve_route(id, kResolve_ms) == 0;
    rdma_conn_param wanted = parameters();
    return equip(id, why) && rdma_connect(id, &wanted) == 0;
}

void Manager::event(const rdma_cm_event& happened, const std::function<void(Queue&, const std::string&)>& failed)
{
    auto* queue = static_cast<Queue*>(happened.id->context);
    const auto give_up = [&](const std::string& why) {
        expected_ -= queue->state == Queue::State::asked && expected_ != 0 ? 1 : 0;
        failed(*queue, why);
    };
    std::string why;
    switch (happened.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        if (!step(happened.id, happened.event, why))
            give_up(why);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        if (queue != nullptr && queue->state == Queue::State::asked) {
            --expected_;
            queue->pair = happened.id->qp;
            queue->state = Queue::State::ready;
        }
        break;
    case RDMA_CM_EVENT_CONNECT_REQUEST: {
        rdma_conn_param wanted = parameters();
        happened.id->context = nullptr; // it has inherited the listener's
        if (equip(happened.id, why) && rdma_accept(happened.id, &wanted) == 0)
            asked_of_us_.insert(happened.id);
        else
            rdma_reject(happened.id, nullptr, 0);
        break;
    }
    case RDMA_CM_EVENT_DISCONNECTED:
        if (queue != nullptr)
            give_up("the peer has closed its connection");
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        if (queue != nullptr)
            give_up(std::string(rdma_event_str(happened.event)) + " (" +
                    std::strerror(std::abs(happened.status)) + ")");
        break;
    default:
        break;
    }
}

void Manager::look(const std::function<void(Queue&, const std::string&)>& failed)
{
    if (expected_ == 0 && ++looks_ % kLookEvery != 0)
        return;
    rdma_cm_event* happened = nullptr;
    while (rdma_get_cm_event(channel_, &happened) == 0) {
        rdma_cm_id* id = happened->id;
        const bool over = happened->event == RDMA_CM_EVENT_DISCONNECTED && asked_of_us_.count(id) != 0;
        const bool refused = happened->event == RDMA_CM_EVENT_CONNECT_REQUEST;
        event(*happened, failed);
        rdma_ack_cm_event(happened); // an identifier with events that are not acknowledged cannot go
        if (over || (refused && asked_of_us_.count(id) == 0)) {
            asked_of_us_.erase(id);
            drop(id);
        }
    }
}

} // namespace storm::verbs
