// SPDX-License-Identifier: MIT OR Apache-2.0
// From elements to ibv_sge, checked before anything is posted. Pure; any thread.
#pragma once

#include <lend/base/error.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <lend/verbs/work_request.hpp>
#include <verbs/handles.hpp>
#include <verbs/region_state.hpp>

#include <cstdint>
#include <span>

namespace lend {

/// What was made of a list. Elements of no bytes are left out: on some cards a length of 0 means
/// 2^31. Source: rdma-core providers/mlx5/qp.c.
struct Resolved {
  std::uint64_t bytes;
  int count;  ///< -1: refused; the caller asks refusal() why
};

/// Fills `target`, which has room for elements_max. No list is longer than `elements`, which is not
/// above that.
template <class Element>
[[nodiscard, gnu::always_inline]] inline Resolved resolve(QueuePairHandle const& queue_pair,
                                                          ElementList<Element> const& list,
                                                          ibv_sge* target) noexcept {
  auto const elements = list.elements();
  if (elements.size() > queue_pair.elements) [[unlikely]]
    return {0, -1};
  std::uint64_t bytes = 0;
  int count = 0;
  for (Element const& element : elements) {
    RegionState const* const region = element.region;
    if (region == nullptr || region->protection_domain != queue_pair.protection_domain ||
        !region->contains(element.range)) [[unlikely]]
      return {0, -1};
    ibv_sge& entry = target[count];
    entry.addr = reinterpret_cast<std::uintptr_t>(region->address + element.range.offset);
    // Narrows only where `bytes` is refused below: message_bytes_max fits in 32 bits.
    entry.length = static_cast<std::uint32_t>(element.range.length);
    entry.lkey = region->local_key;
    count += element.range.length != 0 ? 1 : 0;
    bytes += element.range.length;  // cannot wrap: 32 regions fit in the address space
  }
  if (bytes > queue_pair.message_bytes_max) [[unlikely]]
    return {0, -1};
  return {bytes, count};
}

/// One element, as refusal() sees both kinds.
struct NamedElement {
  RegionState const* region;
  ByteRange range;
};

/// Why a list or its lengths were refused. `remote` is null where there is none.
[[nodiscard]] Error refusal(QueuePairHandle const& queue_pair, Operation operation,
                            std::span<NamedElement const> elements, std::size_t list_size,
                            RemoteSlice const* remote);

/// The same for either kind of list.
template <class Element>
[[nodiscard, gnu::cold, gnu::noinline]] Error refusal_of(QueuePairHandle const& queue_pair,
                                                         Operation operation,
                                                         ElementList<Element> const& list,
                                                         RemoteSlice const* remote) {
  NamedElement named[elements_max];
  std::size_t count = 0;
  for (Element const& element : list.elements()) {
    if (count == elements_max) break;
    named[count++] = {element.region, element.range};
  }
  return refusal(queue_pair, operation, {named, count}, list.size(), remote);
}

}  // namespace lend
