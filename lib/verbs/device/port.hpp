// SPDX-License-Identifier: MIT OR Apache-2.0
// The present state of a device's ports, and their MTU. Any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/device.hpp>
#include <verbs/device/handles.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace lend::verbs {

/// Payload bytes of an ibv_mtu; 0 if it is none. Source: enum ibv_mtu: 256 is 1, each next doubles.
[[nodiscard]] constexpr std::uint32_t mtu_bytes_of(ibv_mtu mtu) noexcept {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << static_cast<unsigned>(mtu) : 0;
}
[[nodiscard]] constexpr std::optional<ibv_mtu> mtu_of(std::uint32_t bytes) noexcept {
  for (auto mtu : {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096})
    if (mtu_bytes_of(mtu) == bytes) return mtu;
  return std::nullopt;
}

/// Port `wanted` of a device that has `count`; 0 means its first active one.
/// Errors:  not_found  no such port, or no active one; the message has the states and what to do.
/// Source:  ibv_query_port(3).
[[nodiscard]] Result<PortInfo> choose_port(Provider const& provider, ibv_context* context,
                                           std::string const& name, std::uint8_t wanted,
                                           std::uint8_t count);

/// Port `number` as it is now, whatever its state.
/// Errors:  not_found  no such port.
/// Source:  ibv_query_port(3).
[[nodiscard]] Result<PortInfo> read_port(ContextHandle const& context, std::uint8_t number);

/// Entry `index` of the partition keys of the context's port; 0 is an empty one.
/// Source:  ibv_query_pkey(3).
[[nodiscard]] Result<std::uint16_t> partition_key(ContextHandle const& context, int index);

/// The context's port, which may have gone down, or changed its MTU or LID, since it was opened.
/// Errors:  as choose_port().
[[nodiscard]] inline Result<PortInfo> usable_port(ContextHandle const& context) {
  auto const number = context.port.number;
  return choose_port(context.provider(), context.raw.get(), context.name, number, number);
}

}  // namespace lend::verbs
