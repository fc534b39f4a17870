// SPDX-License-Identifier: MIT OR Apache-2.0
// The same end without lend: verbs on a channel's own queue pair, as a program in C would post and
// poll them. While it is in use the channel must not be. One thread.
#pragma once

#include "pair.hpp"

#include <infiniband/verbs.h>
#include <lend/channel/datagram_channel.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::bench {

class RawEnd {
 public:
  /// Of the end's connected channel.
  explicit RawEnd(End& end);
  /// Of a connected queue pair, for sends and receives of `memory`.
  RawEnd(ibv_qp* queue_pair, MemoryRegion const& memory);
  /// Of a channel for datagrams, which all go `to` one other.
  struct To {
    ibv_ah* address = nullptr;
    std::uint32_t number = 0, key = 0;
  };
  RawEnd(End& end, DatagramChannel const& channel, To to);

  // Each posts one signalled request; false when the device refused. Places are offsets.
  [[nodiscard]] bool receive(std::size_t place, std::size_t bytes);
  [[nodiscard]] bool send(std::size_t place, std::size_t bytes);
  [[nodiscard]] bool write(std::size_t place, std::size_t bytes);
  [[nodiscard]] bool read(std::size_t place, std::size_t bytes);

  struct Seen {
    std::uint32_t receives = 0, others = 0;
    bool failed = false;
  };
  /// Polls once; yields when nothing came and both ends share a CPU.
  [[nodiscard]] Seen poll();

 private:
  [[nodiscard]] bool post(ibv_wr_opcode opcode, std::size_t place, std::size_t bytes);

  ibv_qp* queue_pair_;
  std::uint32_t inline_bytes_ = 0;
  bool one_core_ = false;
  To to_{};
  std::uint64_t address_, remote_address_ = 0;
  std::uint32_t key_, remote_key_ = 0;
};

}  // namespace lend::bench
