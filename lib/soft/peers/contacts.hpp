// SPDX-License-Identifier: MIT OR Apache-2.0
// The contexts that a datagram queue pair sends to. Under its send_lock.
#pragma once

#include <soft/peers/peers.hpp>

#include <cstdint>

namespace lend::soft {

/// The contexts that a queue pair recently sent datagrams to, so that each is looked up once.
/// The caller holds send_lock.
class Contacts {
 public:
  explicit Contacts(Peers& peers) noexcept : peers_{peers} {}
  ~Contacts() { forget(); }
  Contacts(Contacts const&) = delete;
  Contacts& operator=(Contacts const&) = delete;

  /// The peer in `slot`, or null.
  [[nodiscard]] Peer* find(std::uint32_t slot) noexcept;
  void forget() noexcept;

 private:
  static constexpr std::uint32_t known_max = 64;
  struct Known {
    std::uint32_t slot = 0;
    Peer* peer = nullptr;
  };
  void release(Known& known) noexcept;

  Peers& peers_;
  std::uint32_t next_ = 0;  // the next to be replaced when all places are taken
  Known known_[known_max];
};

}  // namespace lend::soft
