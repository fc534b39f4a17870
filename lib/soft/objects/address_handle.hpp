// SPDX-License-Identifier: MIT OR Apache-2.0
// Address handles: the destinations of datagrams. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {

struct Context;

struct AddressHandle : ibv_ah {
  ibv_ah_attr attributes{};
};

/// Whether an address belongs to this host, user and namespace. 0 or errno, with reason.
[[nodiscard]] int check_address(Context const&, ibv_ah_attr const&) noexcept;

[[nodiscard]] ibv_ah* create_ah(ibv_pd*, ibv_ah_attr*) noexcept;
int destroy_ah(ibv_ah*) noexcept;
int init_ah_from_wc(ibv_context*, std::uint8_t port, ibv_wc*, ibv_grh*, ibv_ah_attr*) noexcept;
[[nodiscard]] ibv_ah* create_ah_from_wc(ibv_pd*, ibv_wc*, ibv_grh*, std::uint8_t port) noexcept;

}  // namespace lend::soft
