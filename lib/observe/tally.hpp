// SPDX-License-Identifier: MIT OR Apache-2.0
// What a transport or a group counts where LEND_METRICS asks for it. The thread of that.
#pragma once

#include <lend/base/export.hpp>

#include <observe/counting.hpp>

#include <cstdint>
#include <memory>

namespace lend::observe {

class Registry;

/// Of any number of transports and groups.
struct Tallies {
  std::uint64_t sent = 0, received = 0, sent_bytes = 0, received_bytes = 0;  // messages
  std::uint64_t succeeded = 0, failed = 0;                                   // calls of groups
};

class Tally {
 public:
  /// Null if it is not asked for. Throws std::bad_alloc.
  [[nodiscard]] LEND_EXPORT static std::unique_ptr<Tally> if_asked();
  explicit Tally(Registry& registry) noexcept;
  LEND_EXPORT ~Tally();
  Tally(Tally const&) = delete;
  Tally& operator=(Tally const&) = delete;

  void send(std::uint64_t bytes) noexcept {
    count(counted_.sent);
    count(counted_.sent_bytes, bytes);
  }
  void receive(std::uint64_t bytes) noexcept {
    count(counted_.received);
    count(counted_.received_bytes, bytes);
  }
  void succeed() noexcept { count(counted_.succeeded); }
  void fail() noexcept { count(counted_.failed); }
  /// In any thread.
  void add_to(Tallies& totals) const noexcept;

 private:
  friend class Registry;

  Registry& registry_;
  Tally* next_ = nullptr;  // of the registry
  Tally* previous_ = nullptr;
  Tallies counted_{};
};

}  // namespace lend::observe
