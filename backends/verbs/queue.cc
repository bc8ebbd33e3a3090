// SPDX-License-Identifier: MIT
#include "queue.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace storm::verbs {

ibv_qp_init_attr pair_attributes(const Resources& resources, std::uint32_t inline_max)
{
    ibv_qp_init_attr wanted{};
    wanted.send_cq = resources.sent;
    wanted.recv_cq = resources.came;
    wanted.srq = resources.receives;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = kQueueDepth;
    wanted.cap.max_recv_wr = resources.receives != nullptr ? 0 : 1;
    wanted.cap.max_send_sge = 1;
    wanted.cap.max_recv_sge = 1;
    wanted.cap.max_inline_data = inline_max;
    return wanted;
}

ibv_qp* create_pair(const Resources& resources, std::uint32_t& inline_max)
{
    // a device refuses more than it has instead of giving what it has
    for (const std::uint32_t room : {256U, 128U, 64U, 0U}) {
        ibv_qp_init_attr wanted = pair_attributes(resources, room);
        if (ibv_qp* pair = ibv_create_qp(resources.domain, &wanted); pair != nullptr) {
            inline_max = std::min(room, wanted.cap.max_inline_data);
            return pair;
        }
    }
    return nullptr;
}

ibv_qp* make_pair(const Resources& resources, std::uint32_t inline_max, std::string& why)
{
    ibv_qp_init_attr wanted = pair_attributes(resources, inline_max);
    ibv_qp* pair = ibv_create_qp(resources.domain, &wanted);
    int error = errno;
    if (pair != nullptr) {
        ibv_qp_attr begin{};
        begin.qp_state = IBV_QPS_INIT;
        begin.port_num = resources.device.port;
        begin.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        error = ibv_modify_qp(pair, &begin, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        if (error == 0)
            return pair;
        ibv_destroy_qp(pair);
    }
    why = resources.device.name + " gives no queue pair (" + std::strerror(error) + ")";
    return nullptr;
}

bool connect_pair(const Resources& resources, ibv_qp* pair, const End& there, std::string& why)
{
    const Device& device = resources.device;
    ibv_qp_attr receive{};
    receive.qp_state = IBV_QPS_RTR;
    receive.path_mtu = std::min(device.mtu, static_cast<ibv_mtu>(there.mtu));
    receive.dest_qp_num = there.number;
    receive.rq_psn = there.first_packet;
    receive.max_dest_rd_atomic = 1;
    receive.min_rnr_timer = 12;
    receive.ah_attr.port_num = device.port;
    receive.ah_attr.dlid = there.lid;
    // between subnets of InfiniBand, and always over Ethernet, packets carry the long address
    const bool one_subnet = std::memcmp(device.gid.raw, there.gid.raw, 8) == 0;
    if (device.fabric != Device::Fabric::infiniband || !one_subnet) {
        receive.ah_attr.is_global = 1;
        receive.ah_attr.grh.dgid = there.gid;
        receive.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(device.gid_index);
        receive.ah_attr.grh.hop_limit = 64;
    }
    int error = ibv_modify_qp(pair, &receive,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error == 0) {
        ibv_qp_attr send{};
        send.qp_state = IBV_QPS_RTS;
        send.timeout = kAnswerTime;
        send.retry_cnt = kRetries;
        send.rnr_retry = kForEver;
        send.sq_psn = kFirstPacket;
        send.max_rd_atomic = 1;
        error = ibv_modify_qp(pair, &send,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    }
    if (error != 0)
        why = device.name + " does not connect (" + std::strerror(error) + ")";
    return error == 0;
}

} // namespace storm::verbs
