// SPDX-License-Identifier: MIT OR Apache-2.0
// What the transports of a MessagePool share. The thread of the set.
#pragma once

#include <flow/grants.hpp>
#include <lend/channel/receive_pool.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/transport/message_pool.hpp>
#include <transport/buffers.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace lend::transport {

/// Messages that one transport may be sending: with its words a power of two, which queues of sends
/// are rounded up to.
inline constexpr std::uint32_t sends_in_pool = 6;

/// Has drafts that its device may still read.
class DraftHolder {
 public:
  /// Gives those back that are known to be sent.
  virtual void give_back_sent() noexcept = 0;

 protected:
  DraftHolder() = default;
  ~DraftHolder() = default;
};

class SharedBuffers {
 public:
  /// Errors:  those of MessagePool::create().
  [[nodiscard]] static Result<std::shared_ptr<SharedBuffers>> create(
      WaitSet& set, ProtectionDomain const& domain, MessagePoolOptions const& options);

  /// The number of one more transport; nothing if there are transports_max.
  [[nodiscard]] std::optional<std::uint32_t> admit() noexcept;
  void leave(std::uint32_t number) noexcept { numbers_.push_back(number); }

  /// A buffer to send from, which `holder` has until it gives it back. If none is free, all holders
  /// are asked.
  [[nodiscard]] std::optional<std::uint32_t> take_draft(DraftHolder& holder) noexcept;
  void give_back_draft(std::uint32_t draft) noexcept {
    holders_[draft] = nullptr;
    free_drafts_.push_back(draft);
  }
  /// The device may read it for good.
  void lose_draft(std::uint32_t draft) noexcept { holders_[draft] = nullptr; }

  [[nodiscard]] MessagePoolOptions const& options() const noexcept { return options_; }
  [[nodiscard]] ReceivePool& pool() noexcept { return pool_; }
  [[nodiscard]] Buffers const& receives() const noexcept { return receives_; }
  [[nodiscard]] Buffers const& drafts() const noexcept { return drafts_; }
  /// Those of transport n begin at n * words_each().
  [[nodiscard]] Buffers const& words() const noexcept { return words_; }
  [[nodiscard]] std::uint32_t words_each() const noexcept { return words_each_; }
  [[nodiscard]] flow::SharedReceives& shared() noexcept { return shared_; }

  [[nodiscard]] std::uint32_t transports() const noexcept {
    return options_.transports_max - static_cast<std::uint32_t>(numbers_.size());
  }
  [[nodiscard]] std::uint32_t free_drafts() const noexcept {
    return static_cast<std::uint32_t>(free_drafts_.size());
  }

 private:
  SharedBuffers(MessagePoolOptions const& options, std::uint32_t words_each, Buffers receives,
                ReceivePool pool, Buffers drafts, Buffers words);

  MessagePoolOptions options_;
  std::uint32_t words_each_;
  Buffers receives_;
  ReceivePool pool_;  // of these
  Buffers drafts_, words_;
  flow::SharedReceives shared_;
  std::vector<std::uint32_t> numbers_;      // of no transport
  std::vector<std::uint32_t> free_drafts_;  // room for all
  std::vector<DraftHolder*> holders_;       // by draft; null while it is free
};

}  // namespace lend::transport
