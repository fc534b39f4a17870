// SPDX-License-Identifier: MIT OR Apache-2.0
// The rows of each grouped call in one shape: how many, and of each the peer and the work. Values.
#pragma once

#include <lend/channel/peer_work.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lend::channel {

struct SendRows {
  std::span<PeerSend const> works;
  static constexpr Operation operation = Operation::send;
  [[nodiscard]] std::size_t size() const noexcept { return works.size(); }
  [[nodiscard]] std::uint32_t peer(std::size_t i) const noexcept { return works[i].peer; }
  [[nodiscard]] Send const& work(std::size_t i) const noexcept { return works[i].work; }
};
struct ReceiveRows {
  std::span<PeerReceive const> works;
  static constexpr Operation operation = Operation::receive;
  [[nodiscard]] std::size_t size() const noexcept { return works.size(); }
  [[nodiscard]] std::uint32_t peer(std::size_t i) const noexcept { return works[i].peer; }
  [[nodiscard]] Receive const& work(std::size_t i) const noexcept { return works[i].work; }
};
struct WriteRows {
  std::span<PeerWrite const> works;
  static constexpr Operation operation = Operation::write;
  [[nodiscard]] std::size_t size() const noexcept { return works.size(); }
  [[nodiscard]] std::uint32_t peer(std::size_t i) const noexcept { return works[i].target.peer; }
  [[nodiscard]] Write work(std::size_t i) const noexcept {
    Write work{works[i].source, works[i].target.slice};
    work.immediate = works[i].immediate;
    return work;
  }
};
struct ReadRows {
  std::span<PeerRead const> works;
  static constexpr Operation operation = Operation::read;
  [[nodiscard]] std::size_t size() const noexcept { return works.size(); }
  [[nodiscard]] std::uint32_t peer(std::size_t i) const noexcept { return works[i].source.peer; }
  [[nodiscard]] Read work(std::size_t i) const noexcept {
    return {works[i].target, works[i].source.slice};
  }
};
struct MulticastRows {
  std::span<std::uint32_t const> peers;
  Send const& same;
  static constexpr Operation operation = Operation::send;
  [[nodiscard]] std::size_t size() const noexcept { return peers.size(); }
  [[nodiscard]] std::uint32_t peer(std::size_t i) const noexcept { return peers[i]; }
  [[nodiscard]] Send const& work(std::size_t) const noexcept { return same; }
};

}  // namespace lend::channel
