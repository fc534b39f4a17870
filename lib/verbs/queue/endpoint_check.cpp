// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether two endpoints fit together. Pure; any thread.
#include <verbs/device/gid_table.hpp>
#include <verbs/queue/endpoint_check.hpp>

#include <algorithm>

namespace lend::verbs {

namespace {

Error mismatch(std::string_view what, std::string_view ours, std::string_view theirs,
               std::string_view remedy) {
  std::string text{what};
  ((text += " differ: ours ") += ours) += ", the peer's ";
  ((text += theirs) += "; ") += remedy;
  return Error{Errc::incompatible_peer, std::move(text)};
}

/// Unspecified is what drivers older than RoCE say, and means InfiniBand. Source:
/// ibv_query_port(3).
LinkLayer effective(LinkLayer layer) noexcept {
  return layer == LinkLayer::unspecified ? LinkLayer::infiniband : layer;
}

std::string gid_form(Endpoint const& endpoint) {
  if (!endpoint.has_gid()) return "no GID";
  return (is_ipv4_mapped(endpoint.gid) ? "IPv4 " : "IPv6 ") + lend::text_of(endpoint.gid);
}

/// "RoCE v2 (10.77.0.1)"
std::string gid_type(Endpoint const& endpoint) {
  return std::string{name_of(endpoint.gid_type)} + " (" + lend::text_of(endpoint.gid) + ')';
}

bool is_soft(Endpoint const& endpoint) noexcept {
  return endpoint.device_kind == DeviceKind::soft;
}

/// The first eight bytes of a GID. Source: InfiniBand Architecture Specification vol. 1, §4.1.1.
bool same_subnet(Endpoint const& a, Endpoint const& b) noexcept {
  return std::equal(a.gid.begin(), a.gid.begin() + 8, b.gid.begin());
}

}  // namespace

bool needs_global_route(Endpoint const& local, Endpoint const& peer) noexcept {
  if (!local.has_gid() || !peer.has_gid()) return false;
  if (is_soft(local) || local.link_layer == LinkLayer::ethernet) return true;
  return local.lid == 0 || peer.lid == 0 || !same_subnet(local, peer);
}

Result<void> check_fit(Endpoint const& local, Endpoint const& peer) {
  if (auto const defect = endpoint_defect(peer))
    return Error{Errc::incompatible_peer,
                 "the peer's endpoint cannot be one: " + *defect + "; exchange it again"};
  if (local.service != peer.service)
    return mismatch("services", name_of(local.service), name_of(peer.service),
                    "make queue pairs of one service on both sides");
  if (is_soft(local) != is_soft(peer))  // a card and software RDMA speak the same protocols
    return mismatch("device kinds", name_of(local.device_kind), name_of(peer.device_kind),
                    "open soft devices on both sides (LEND_DEVICE=soft), or on neither");
  if (effective(local.link_layer) != effective(peer.link_layer))
    return mismatch("link layers", name_of(local.link_layer), name_of(peer.link_layer),
                    "use ports of one network on both sides");
  bool const ethernet = local.link_layer == LinkLayer::ethernet;
  bool const same_form =
      local.has_gid() == peer.has_gid() &&
      (is_soft(local) || !ethernet || is_ipv4_mapped(local.gid) == is_ipv4_mapped(peer.gid));
  if (!same_form)
    return mismatch("address forms", gid_form(local), gid_form(peer),
                    "give both ports an IPv4 address, or neither, or choose with gid_index() or "
                    "gid_address()");
  if (!is_soft(local) && ethernet && local.gid_type != peer.gid_type)
    return mismatch("GID types", gid_type(local), gid_type(peer),
                    "choose an entry of the same type on both sides with gid_index(); "
                    "Context::gids() and `ibv_devinfo -v` list them");
  if (is_soft(local) || needs_global_route(local, peer)) return success();
  if (ethernet)
    return Error{Errc::incompatible_peer,
                 "neither side has a GID, which Ethernet needs; give both ports an IP address"};
  if (local.lid == 0 || peer.lid == 0)
    return Error{Errc::incompatible_peer,
                 "without GIDs both sides need a LID: ours is " + std::to_string(local.lid) +
                     ", the peer's " + std::to_string(peer.lid) +
                     ", where 0 is none; a subnet manager must run on the fabric"};
  return success();
}

}  // namespace lend::verbs
