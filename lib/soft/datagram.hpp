// SPDX-License-Identifier: MIT OR Apache-2.0
// Datagrams: address handles, and the sender's side of one datagram. Any thread.
#pragma once

#include "engine.hpp"
#include "queue_pair.hpp"

#include <infiniband/verbs.h>

#include <cstdint>

namespace lend::soft {

/// The contexts that a queue pair sent datagrams to lately, so that each is found once.
/// The caller holds send_lock.
class Contacts {
 public:
  explicit Contacts(Peers& peers) noexcept : peers_{peers} {}
  ~Contacts() { forget(); }
  Contacts(Contacts const&) = delete;
  Contacts& operator=(Contacts const&) = delete;

  /// Whoever lives in `slot`, or null.
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
  std::uint32_t next_ = 0;  // to be forgotten when all places are taken
  Known known_[known_max];
};

struct AddressHandle : ibv_ah {
  ibv_ah_attr attributes{};
};

/// What a work request of a datagram queue pair says of its destination.
[[nodiscard]] Destination destination_of(QueuePair const&, ibv_ah const*, std::uint32_t number,
                                         std::uint32_t key) noexcept;

/// Sends, or loses it silently; only our own faults are errors. The caller holds send_lock.
[[nodiscard]] Outcome execute_datagram(QueuePair&, Work const&) noexcept;

[[nodiscard]] ibv_ah* create_ah(ibv_pd*, ibv_ah_attr*) noexcept;
int destroy_ah(ibv_ah*) noexcept;
int init_ah_from_wc(ibv_context*, std::uint8_t port, ibv_wc*, ibv_grh*, ibv_ah_attr*) noexcept;
[[nodiscard]] ibv_ah* create_ah_from_wc(ibv_pd*, ibv_wc*, ibv_grh*, std::uint8_t port) noexcept;

}  // namespace lend::soft
