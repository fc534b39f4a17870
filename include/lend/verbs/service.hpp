// SPDX-License-Identifier: MIT OR Apache-2.0
// What each kind of queue pair can do, in its type. Constants; any thread.
#pragma once

#include <lend/base/export.hpp>

#include <concepts>
#include <cstdint>
#include <string_view>

namespace lend {

/// How a queue pair carries messages: InfiniBand's transport service type.
enum class Service : std::uint8_t {
  reliable_connection = 0,    ///< in order, once, acknowledged
  unreliable_connection = 1,  ///< in order or not at all
  datagram = 2,               ///< to any queue pair, one packet, perhaps not at all
};

[[nodiscard]] LEND_EXPORT std::string_view name_of(Service) noexcept;

// Source: InfiniBand Architecture Specification vol. 1, 9.2 and table "Operations supported";
// ibv_post_send(3).
struct Rc {
  static constexpr Service service = Service::reliable_connection;
  static constexpr bool is_connected = true;
  static constexpr bool acknowledges = true;
  static constexpr bool writes = true;
  static constexpr bool reads = true;
  static constexpr bool has_atomics = true;
  static constexpr bool has_windows = true;
};
struct Uc {
  static constexpr Service service = Service::unreliable_connection;
  static constexpr bool is_connected = true;
  static constexpr bool acknowledges = false;
  static constexpr bool writes = true;
  static constexpr bool reads = false;
  static constexpr bool has_atomics = false;
  static constexpr bool has_windows = false;
};
struct Ud {
  static constexpr Service service = Service::datagram;
  static constexpr bool is_connected = false;
  static constexpr bool acknowledges = false;
  static constexpr bool writes = false;
  static constexpr bool reads = false;
  static constexpr bool has_atomics = false;
  static constexpr bool has_windows = false;
};

template <class S>
concept IsService = std::same_as<S, Rc> || std::same_as<S, Uc> || std::same_as<S, Ud>;
/// It has one peer.
template <class S>
concept IsConnected = IsService<S> && S::is_connected;
/// Each send says where it goes.
template <class S>
concept IsAddressed = IsService<S> && !S::is_connected;
/// A send completes when the peer's device has the message.
template <class S>
concept Acknowledges = IsService<S> && S::acknowledges;
template <class S>
concept CanWrite = IsService<S> && S::writes;
template <class S>
concept CanRead = IsService<S> && S::reads;
template <class S>
concept HasAtomics = IsService<S> && S::has_atomics;
/// Its peer can be lent bytes by a memory window, and returns them.
template <class S>
concept HasWindows = IsService<S> && S::has_windows;

}  // namespace lend
