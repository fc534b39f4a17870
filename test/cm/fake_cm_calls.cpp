// SPDX-License-Identifier: MIT OR Apache-2.0
// librdmacm's calls, as its man pages say, of the fake.
#include <netdb.h>

#include <endian.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cm/fake_cm.hpp"

using namespace lend::test;

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

FakeCm& fake_cm() {
  return FakeCm::get();
}

int refused(int error) {
  errno = error;
  return -1;
}

std::uint16_t port_of(sockaddr const& address) {
  return be16toh(address.sa_family == AF_INET6
                     ? reinterpret_cast<sockaddr_in6 const&>(address).sin6_port
                     : reinterpret_cast<sockaddr_in const&>(address).sin_port);
}

/// Of IPv6 that of all.
std::uint32_t host_of(sockaddr const& address) {
  if (address.sa_family == AF_INET6) return 0x0a000001;
  return be32toh(reinterpret_cast<sockaddr_in const&>(address).sin_addr.s_addr);
}

sockaddr_in address_of(std::uint32_t host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htobe32(host);
  address.sin_port = htobe16(port);
  return address;
}

/// As it travels: InfiniBand fills the field up.
std::vector<std::byte> bytes_of(rdma_conn_param const& parameters) {
  auto const* const begin = static_cast<std::byte const*>(parameters.private_data);
  std::vector<std::byte> bytes{begin, begin + parameters.private_data_len};
  if (!fake_cm().is_iwarp) bytes.resize(std::max<std::size_t>(bytes.size(), 56));
  return bytes;
}

/// The id, if the call neither is to fail nor comes in the wrong state.
FakeCm::Id* id_of(rdma_cm_id* raw, char const* call, IdState wanted) {
  if (fake_cm().fails(call)) return nullptr;
  errno = EINVAL;
  auto* const id = fake_cm().find(raw, call);
  if (id == nullptr || id->state == wanted) return id;
  if (id->state != IdState::over)  // where the peer was faster, no program can know
    fake_cm().violations.push_back(std::string{call} + " in a wrong state");
  return nullptr;
}

}  // namespace

extern "C" {

rdma_event_channel* rdma_create_event_channel() {
  Lock const lock{fake_cm().mutex};
  return fake_cm().fails("rdma_create_event_channel") ? nullptr : fake_cm().open();
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  Lock const lock{fake_cm().mutex};
  fake_cm().close(channel);
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void*, rdma_port_space) {
  Lock const lock{fake_cm().mutex};
  if (fake_cm().fails("rdma_create_id")) return -1;
  *id = &fake_cm().make_id(channel)->raw;
  return 0;
}

int rdma_destroy_id(rdma_cm_id* id) {
  fake_cm().destroy(id);
  return 0;
}

int rdma_migrate_id(rdma_cm_id* raw, rdma_event_channel* channel) {
  Lock const lock{fake_cm().mutex};
  if (fake_cm().fails("rdma_migrate_id")) return -1;
  auto* const id = fake_cm().find(raw, "rdma_migrate_id");
  if (id == nullptr) return refused(EINVAL);
  raw->channel = channel;  // it has no event yet
  return 0;
}

int rdma_bind_addr(rdma_cm_id* raw, sockaddr* address) {
  Lock const lock{fake_cm().mutex};
  auto* const id = id_of(raw, "rdma_bind_addr", IdState::idle);
  if (id == nullptr) return -1;
  id->port = port_of(*address) != 0 ? port_of(*address) : fake_cm().next_port();
  raw->route.addr.src_sin = address_of(0x0a000001, id->port);
  return 0;
}

int rdma_listen(rdma_cm_id* raw, int) {
  Lock const lock{fake_cm().mutex};
  auto* const id = id_of(raw, "rdma_listen", IdState::idle);
  if (id == nullptr) return -1;
  if (fake_cm().listener_at(id->port) != nullptr) return refused(EADDRINUSE);
  id->state = IdState::listening;
  return 0;
}

int rdma_set_option(rdma_cm_id* raw, int level, int option, void* value, std::size_t size) {
  Lock const lock{fake_cm().mutex};
  auto* const id = id_of(raw, "rdma_set_option", IdState::idle);
  if (id == nullptr) return -1;
  if (level != RDMA_OPTION_ID || option != RDMA_OPTION_ID_TOS || size != 1) return refused(EINVAL);
  id->type_of_service = *static_cast<std::uint8_t const*>(value);
  return 0;
}

int rdma_resolve_addr(rdma_cm_id* raw, sockaddr* from, sockaddr* to, int) {
  Lock const lock{fake_cm().mutex};
  auto* const id = id_of(raw, "rdma_resolve_addr", IdState::idle);
  if (id == nullptr) return -1;
  id->state = IdState::address_asked;
  if (from != nullptr) fake_cm().sources.push_back(host_of(*from));
  // All listen at this one host.
  id->port = host_of(*to) == 0x0a000001 ? port_of(*to) : std::uint16_t{0};
  raw->verbs = fake_cm().device;
  raw->port_num = 1;
  raw->route.addr.src_sin = address_of(0x0a000002, fake_cm().next_port());
  raw->route.addr.dst_sin = address_of(0x0a000001, id->port);
  fake_cm().send(*id, {RDMA_CM_EVENT_ADDR_RESOLVED});
  return 0;
}

int rdma_resolve_route(rdma_cm_id* raw, int) {
  Lock const lock{fake_cm().mutex};
  auto* const id = id_of(raw, "rdma_resolve_route", IdState::address_asked);
  if (id == nullptr) return -1;
  id->state = IdState::route_asked;
  fake_cm().send(*id, {RDMA_CM_EVENT_ROUTE_RESOLVED});
  return 0;
}

int rdma_connect(rdma_cm_id* raw, rdma_conn_param* parameters) {
  Lock const lock{fake_cm().mutex};
  auto* const id = id_of(raw, "rdma_connect", IdState::route_asked);
  if (id == nullptr) return -1;
  id->queue_pair = parameters->qp_num;
  auto* const listener = fake_cm().listener_at(id->port);
  if (listener == nullptr && fake_cm().is_iwarp) return refused(ECONNREFUSED);
  id->state = listener != nullptr ? IdState::asked : IdState::over;
  if (listener == nullptr) return fake_cm().send(*id, {RDMA_CM_EVENT_REJECTED, 8}), 0;
  auto* const request = fake_cm().make_id(listener->raw.channel);
  request->state = IdState::requested;
  request->raw.verbs = fake_cm().device;
  request->raw.port_num = 1;
  request->raw.route.addr.src_storage = raw->route.addr.dst_storage;
  request->raw.route.addr.dst_storage = raw->route.addr.src_storage;
  request->listener = listener;
  request->peer = id;
  id->peer = request;
  fake_cm().send(*request, {RDMA_CM_EVENT_CONNECT_REQUEST, 0, bytes_of(*parameters)});
  return 0;
}

int rdma_accept(rdma_cm_id* raw, rdma_conn_param* parameters) {
  Lock const lock{fake_cm().mutex};
  auto* const id = id_of(raw, "rdma_accept", IdState::requested);
  if (id == nullptr) return -1;
  id->queue_pair = parameters->qp_num;
  id->state = IdState::answered;
  if (!fake_cm().is_iwarp) {
    fake_cm().send(*id->peer, {RDMA_CM_EVENT_CONNECT_RESPONSE, 0, bytes_of(*parameters)});
    return 0;
  }
  id->state = id->peer->state = IdState::established;
  fake_cm().send(*id->peer, {RDMA_CM_EVENT_ESTABLISHED, 0, bytes_of(*parameters)});
  fake_cm().send(*id, {RDMA_CM_EVENT_ESTABLISHED});
  return 0;
}

int rdma_establish(rdma_cm_id* raw) {
  Lock const lock{fake_cm().mutex};
  auto* const id = id_of(raw, "rdma_establish", IdState::asked);
  if (id == nullptr) return -1;
  id->state = id->peer->state = IdState::established;
  fake_cm().send(*id->peer, {RDMA_CM_EVENT_ESTABLISHED});
  return 0;
}

int rdma_reject(rdma_cm_id* raw, void const* bytes, std::uint8_t count) {
  Lock const lock{fake_cm().mutex};
  if (fake_cm().fails("rdma_reject")) return -1;
  auto* const id = fake_cm().find(raw, "rdma_reject");
  if (id == nullptr || id->peer == nullptr) return refused(EINVAL);
  auto const* const begin = static_cast<std::byte const*>(bytes);
  auto* const peer = std::exchange(id->peer, nullptr);
  peer->peer = nullptr;
  id->state = peer->state = IdState::over;
  fake_cm().send(*peer, {RDMA_CM_EVENT_REJECTED, 28, {begin, begin + count}});
  return 0;
}

int rdma_disconnect(rdma_cm_id* raw) {
  Lock const lock{fake_cm().mutex};
  if (fake_cm().fails("rdma_disconnect")) return -1;
  auto* const id = fake_cm().find(raw, "rdma_disconnect");
  if (id == nullptr || id->peer == nullptr) return refused(EINVAL);
  auto* const peer = std::exchange(id->peer, nullptr);
  peer->peer = nullptr;
  id->state = peer->state = IdState::over;
  fake_cm().send(*peer, {RDMA_CM_EVENT_DISCONNECTED});
  return 0;
}

int rdma_init_qp_attr(rdma_cm_id* raw, ibv_qp_attr* attributes, int* mask) {
  Lock const lock{fake_cm().mutex};
  if (fake_cm().fails("rdma_init_qp_attr")) return -1;
  auto* const id = fake_cm().find(raw, "rdma_init_qp_attr");
  if (id == nullptr) return refused(EINVAL);
  *mask = IBV_QP_STATE;
  attributes->port_num = 1;
  if (attributes->qp_state == IBV_QPS_INIT) return *mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT, 0;
  if (id->peer == nullptr) return refused(EINVAL);
  attributes->dest_qp_num = id->peer->queue_pair;
  attributes->path_mtu = IBV_MTU_1024;
  attributes->ah_attr.is_global = 1;
  // As the kernel does: the request carries the class. Source: Linux cma.c, cma_save_net_info().
  attributes->ah_attr.grh.traffic_class =
      id->type_of_service != 0 ? id->type_of_service : id->peer->type_of_service;
  if (attributes->qp_state == IBV_QPS_RTR)
    *mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  return 0;
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  Lock const lock{fake_cm().mutex};
  if (fake_cm().fails("rdma_get_cm_event")) return -1;
  *event = fake_cm().take(channel);
  return *event != nullptr ? 0 : -1;
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  Lock const lock{fake_cm().mutex};
  fake_cm().acknowledge(event);
  return 0;
}

char const* rdma_event_str(rdma_cm_event_type) {
  return "an event";
}

int rdma_getaddrinfo(char const* node, char const* service, rdma_addrinfo const* hints,
                     rdma_addrinfo** result) {
  Lock const lock{fake_cm().mutex};
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICHOST;
  std::string name = "10.0.0.1";
  addrinfo* found = nullptr;
  if ((hints->ai_flags & RAI_NUMERICHOST) == 0 && std::isalpha(node[0]) != 0) {
    ++fake_cm().names_looked_up;
    if (!fake_cm().found_names.empty()) {
      name = fake_cm().found_names.back();
      fake_cm().found_names.pop_back();
    }
    if (name.empty()) return EAI_NONAME;
    node = name.c_str();
  }
  if (int const error = ::getaddrinfo(node, service, &wanted, &found); error != 0) return error;
  auto* const made = new rdma_addrinfo{};
  auto* const address = new sockaddr_storage{};
  std::memcpy(address, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  ((hints->ai_flags & RAI_PASSIVE) != 0 ? made->ai_src_addr : made->ai_dst_addr) =
      reinterpret_cast<sockaddr*>(address);
  *result = made;
  return 0;
}

void rdma_freeaddrinfo(rdma_addrinfo* made) {
  delete reinterpret_cast<sockaddr_storage*>(made->ai_src_addr);
  delete reinterpret_cast<sockaddr_storage*>(made->ai_dst_addr);
  delete made;
}

}  // extern "C"
