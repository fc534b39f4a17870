// SPDX-License-Identifier: MIT OR Apache-2.0
// What one transport has of its MessagePool. It outlives the transport until the last message goes
// that the program holds. The thread of the set.
#pragma once

#include <base/ring.hpp>
#include <channel/work/access.hpp>
#include <flow/grants.hpp>
#include <transport/shared_buffers.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace lend::transport {

class PoolShare final : private channel::PoolTaker {
 public:
  /// Errors:  exhausted  the pool has transports_max transports.
  [[nodiscard]] static Result<std::shared_ptr<PoolShare>> open(MessagePool const& pool,
                                                               std::uint32_t window);
  /// By open().
  PoolShare(std::shared_ptr<SharedBuffers> buffers, std::uint32_t window);
  ~PoolShare();

  /// The channel's messages come to this from now on; the channel ends before this does.
  void take_from(PreparedChannel const& channel) noexcept {
    pool_ = channel::PoolAccess{channel, *this};
  }

  struct Came {
    std::uint32_t piece = 0, bytes = 0;
  };
  /// What came first and was not taken yet. Its piece is held until give_back().
  [[nodiscard]] std::optional<Came> next() noexcept;
  [[nodiscard]] bool has_any() const noexcept { return !arrived_.is_empty(); }
  [[nodiscard]] std::uint32_t waiting() const noexcept {
    return static_cast<std::uint32_t>(arrived_.size());
  }
  /// The peer sent more than its grants and words, which was dropped.
  [[nodiscard]] bool is_overrun() const noexcept { return is_overrun_; }
  void give_back(std::uint32_t piece) noexcept;
  /// The line ends: what came and was not taken goes.
  void drop_unread() noexcept;

  [[nodiscard]] SharedBuffers& buffers() const noexcept { return *buffers_; }
  [[nodiscard]] flow::Grants& grants() noexcept { return grants_; }
  /// As of grants().
  [[nodiscard]] std::uint32_t grant_at_release() noexcept;
  /// The peer sends no more: it keeps what the program holds.
  void stop_granting() noexcept;
  /// A number of the pool's words.
  [[nodiscard]] std::uint32_t word(std::uint32_t of_transport) const noexcept {
    return *number_ * buffers_->words_each() + of_transport;
  }

  /// Of the next message, which the program may be writing.
  std::optional<std::uint32_t> draft{};

 private:
  [[nodiscard]] bool take(std::uint32_t piece, std::uint32_t bytes) noexcept override;

  std::shared_ptr<SharedBuffers> buffers_;
  std::optional<channel::PoolAccess> pool_{};
  std::optional<std::uint32_t> number_{};
  flow::Grants grants_;
  base::Ring<Came> arrived_;
  std::vector<std::uint32_t> held_{};  // pieces; room for all that the peer may send
  bool is_overrun_ = false;
};

}  // namespace lend::transport
