// SPDX-License-Identifier: MIT OR Apache-2.0
// What a channel's peer is part of, and what ends all of that at once: a seam for groups. The
// thread of the channel.
#pragma once

#include <lend/base/error.hpp>
#include <lend/base/work_failure.hpp>

#include <cstdint>

namespace lend::channel {

/// Whether a failure looks as the loss of the peer does, or of one that the peer has lost.
[[nodiscard]] inline bool shows_loss(Error const& failure) noexcept {
  if (failure == Errc::peer_lost || failure.is_flush()) return true;
  return failure.work() != nullptr && class_of(failure.work()->status) == FailureClass::delivery;
}

/// Whether the peer's device refused the work. That of a killed process may do so, too: Linux
/// destroys its objects one after the other, the newest first, as memory before older queue pairs.
/// Source: Linux drivers/infiniband/core/rdma_core.c, alloc_commit_idr_uobject() and
/// __uverbs_cleanup_ufile(); seen on SoftRoCE of 6.1.
[[nodiscard]] inline bool is_refusal(Error const& failure) noexcept {
  return failure.work() != nullptr && class_of(failure.work()->status) == FailureClass::remote;
}

/// Called while no call of the program is inside a channel of the set, as calls of the program are:
/// it may poll the set and end channels, by LossDetection::end_by_loss().
class LossSource {
 public:
  /// Between two polls of a wait of the channel with that tag: whether it waits for what will not
  /// come.
  virtual void look_for_loss(std::uint64_t tag) noexcept = 0;
  /// The channel has broken, or is about to be aborted.
  virtual void note_end(std::uint64_t tag, Error const& why) noexcept = 0;

 protected:
  LossSource() = default;
  ~LossSource() = default;
};

}  // namespace lend::channel
