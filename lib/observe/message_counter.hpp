// SPDX-License-Identifier: MIT OR Apache-2.0
// What a transport counts of its messages where LEND_METRICS asks for it. The thread of the
// transport.
#pragma once

#include <observe/counting.hpp>

#include <cstdint>
#include <memory>

namespace lend::observe {

class Registry;

/// Words of any number of transports.
struct MessageTotals {
  std::uint64_t sent = 0, received = 0, sent_bytes = 0, received_bytes = 0;
};

class MessageCounter {
 public:
  /// Null if it is not asked for. Throws std::bad_alloc.
  [[nodiscard]] static std::unique_ptr<MessageCounter> if_asked();
  explicit MessageCounter(Registry& registry) noexcept;
  ~MessageCounter();
  MessageCounter(MessageCounter const&) = delete;
  MessageCounter& operator=(MessageCounter const&) = delete;

  void send(std::uint64_t bytes) noexcept {
    count(counted_.sent);
    count(counted_.sent_bytes, bytes);
  }
  void receive(std::uint64_t bytes) noexcept {
    count(counted_.received);
    count(counted_.received_bytes, bytes);
  }
  /// In any thread.
  void add_to(MessageTotals& totals) const noexcept;

 private:
  friend class Registry;

  Registry& registry_;
  MessageCounter* next_ = nullptr;  // of the registry
  MessageCounter* previous_ = nullptr;
  MessageTotals counted_{};
};

}  // namespace lend::observe
