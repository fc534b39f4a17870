// SPDX-License-Identifier: MIT OR Apache-2.0
// The work of channels for datagrams, as their inline calls pass it. Not for programs. Values; any
// thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/verbs/datagram.hpp>
#include <lend/verbs/work_request.hpp>

#include <cstdint>
#include <optional>

namespace lend {

/// A send with where it goes.
struct LEND_EXPORT AddressedSend {
  GatherList source;
  std::optional<std::uint32_t> immediate{};
  RequestOption options = RequestOption::none;
  Destination const* to;

  AddressedSend(Send const& work, Destination const& where) noexcept
      : source{work.source}, immediate{work.immediate}, options{work.options}, to{&where} {}
  AddressedSend(GatherElement element, Destination const& where) noexcept
      : source{element}, to{&where} {}
};

/// A receive of one datagram.
struct LEND_EXPORT RoomReceive {
  ScatterList target;

  // NOLINTNEXTLINE(google-explicit-constructor)
  RoomReceive(ScatterElement room) noexcept : target{room} {}
};

}  // namespace lend
