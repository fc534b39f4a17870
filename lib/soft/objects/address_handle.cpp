// SPDX-License-Identifier: MIT OR Apache-2.0
// Making address handles, and from what a datagram said of its sender.
// Source: ibv_create_ah(3), ibv_create_ah_from_wc(3); rdma-core libibverbs/verbs.c.
#include <soft/objects/address_handle.hpp>

#include <soft/objects/context.hpp>
#include <soft/objects/domain.hpp>
#include <soft/platform/reason.hpp>

#include <endian.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace lend::soft {

int check_address(Context const& context, ibv_ah_attr const& address) noexcept {
  if (address.is_global != 0) {
    if (address.grh.sgid_index != 0)
      return fail(EINVAL, "GID index %u, but the soft device has one GID, 0",
                  address.grh.sgid_index);
    auto const& gid = address.grh.dgid.global;
    if (gid.subnet_prefix == htobe64(0xfe80000000000000) &&
        gid.interface_id == htobe64(context.guid))
      return 0;
    return fail(ENETUNREACH,
                "the peer's GID is not of this host, user, boot and namespaces: the soft device "
                "connects processes of one user on one host, in one pid and time namespace");
  }
  return address.dlid == 1
             ? 0
             : fail(ENETUNREACH, "the peer's LID is %u, but every soft device has LID 1",
                    address.dlid);
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes) noexcept {
  auto const& context = Context::of(pd->context);
  if (context.check_ours() != 0) return nullptr;
  if (attributes->port_num != 1) {
    fail(EINVAL, "the soft device has one port, number 1");
    return nullptr;
  }
  if (check_address(context, *attributes) != 0) return nullptr;
  auto* const handle = new (std::nothrow) AddressHandle{};
  if (handle == nullptr) {
    fail(ENOMEM);
    return nullptr;
  }
  handle->context = pd->context;
  handle->pd = pd;
  handle->attributes = *attributes;
  static_cast<Domain*>(pd)->users.fetch_add(1);
  return handle;
}

int destroy_ah(ibv_ah* ah) noexcept {
  auto* const handle = static_cast<AddressHandle*>(ah);
  if (!Context::of(ah->context).is_ours()) return 0;
  static_cast<Domain*>(ah->pd)->users.fetch_sub(1);
  delete handle;
  return 0;
}

int init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                    ibv_ah_attr* attributes) noexcept {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->dlid = wc->slid;
  attributes->sl = wc->sl;
  attributes->src_path_bits = wc->dlid_path_bits;
  attributes->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  attributes->is_global = 1;
  attributes->grh.dgid = grh->sgid;
  auto const own = Context::of(context).gid();
  if (port != 1 || std::memcmp(&own, &grh->dgid, sizeof own) != 0) {
    fail(EINVAL, "the datagram's header names a destination that is not this port");
    return -1;
  }
  auto const word = be32toh(grh->version_tclass_flow);
  attributes->grh.flow_label = word & 0xfffff;
  attributes->grh.traffic_class = static_cast<std::uint8_t>(word >> 20);
  attributes->grh.hop_limit = grh->hop_limit;
  return 0;
}

ibv_ah* create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) noexcept {
  ibv_ah_attr attributes;
  if (init_ah_from_wc(pd->context, port, wc, grh, &attributes) != 0) return nullptr;
  return create_ah(pd, &attributes);
}

}  // namespace lend::soft
