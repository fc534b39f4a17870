// SPDX-License-Identifier: MIT OR Apache-2.0
// What a transport, group, listener or pool counts where LEND_METRICS asks for it. Its thread.
#pragma once

#include <lend/base/export.hpp>

#include <observe/counting.hpp>
#include <observe/totals.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lend::observe {

class CountsFile;
class Registry;

class Tally {
 public:
  /// Null if it is not asked for. Throws std::bad_alloc.
  [[nodiscard]] LEND_EXPORT static std::unique_ptr<Tally> if_asked();
  explicit Tally(Registry& registry) noexcept;
  LEND_EXPORT ~Tally();
  /// In the file of counts, if there is one. Throws std::bad_alloc.
  [[nodiscard]] static void* operator new(std::size_t bytes);
  LEND_EXPORT static void operator delete(void* at) noexcept;
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
  /// A call of that number.
  void succeed(std::size_t call, std::uint64_t nanoseconds) noexcept {
    count(counted_.calls[call].succeeded);
    count(counted_.calls[call].nanoseconds, nanoseconds);
  }
  void fail(std::size_t call) noexcept { count(counted_.calls[call].failed); }
  void end_client(ClientEnd how) noexcept {
    count(counted_.clients[static_cast<std::size_t>(how)]);
  }
  /// Of a pool: it has so many now.
  void set_part(PoolPart part, std::uint64_t used, std::uint64_t free) noexcept {
    auto& its = counted_.pools[static_cast<std::size_t>(part)];
    set_count(its.used, used);
    set_count(its.free, free);
  }
  void lack(PoolPart part) noexcept {
    count(counted_.pools[static_cast<std::size_t>(part)].lacking);
  }
  /// A message came to a ReceivePool.
  void take_pooled() noexcept { count(counted_.pooled); }
  /// What it has counted so far, in any thread.
  void add_to(Tallies& totals) const noexcept { totals += counted_; }

 private:
  friend class Registry;
  friend class CountsFile;

  Registry& registry_;
  Tally* next_ = nullptr;  // of the registry
  Tally* previous_ = nullptr;
  Tallies counted_{};
};

}  // namespace lend::observe
