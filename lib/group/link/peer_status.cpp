// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <channel/work/access.hpp>
#include <group/link/peer_status.hpp>
#include <lend/channel/unsafe.hpp>

#include <atomic>
#include <utility>

namespace lend::group {

PeerStatus::PeerStatus(Channel& channel, LinkMemory& memory, RemoteRegion const& region) noexcept
    : channel_{channel},
      memory_{memory},
      region_{region},
      // Those of a rank begin at a cache line; others no thread touches.
      mapped_{verbs::peer_bytes(channel::ChannelAccess{channel}.queue_pair(), region,
                                WrittenMessage::bytes)} {}

bool PeerStatus::ask() noexcept {
  if (question_) return true;
  is_answered_ = false;
  if (channel_.first_cause() != nullptr || region_.size() < sizeof(RankStatus)) return false;
  // SAFETY: the memory is the link's, which ends after the channel. These bytes are read once the
  // handle has the result.
  auto posted =
      unsafe_post_read(channel_, {memory_.status_target(), region_.slice(0, sizeof(RankStatus))});
  if (!posted) return false;
  question_.emplace(std::move(posted).value());
  return true;
}

bool PeerStatus::has_answer() noexcept {
  if (!question_) return true;
  auto const done = question_->poll();
  if (done.has_value() && !done.value()) return false;
  is_answered_ = done.has_value() && !std::exchange(is_question_old_, false);
  question_.reset();
  return true;
}

std::optional<RankStatus> PeerStatus::answer() const noexcept {
  if (question_ || !is_answered_) return {};
  return RankStatus::from(memory_.status());
}

std::byte const* PeerStatus::mapped(std::size_t offset, std::size_t length) const noexcept {
  if (mapped_.address == nullptr || mapped_.are_faults_planned->load(std::memory_order_relaxed) ||
      !region_.slice(sizeof(RankStatus) + offset, length).in_bounds())
    return nullptr;
  return mapped_.address + sizeof(RankStatus) + offset;
}

Result<void> PeerStatus::read(std::uint32_t lane, std::size_t offset,
                              ScatterElement target) noexcept {
  return read(lane, region_.slice(sizeof(RankStatus) + offset, target.range.length), target);
}

Result<void> PeerStatus::read(std::uint32_t lane, RemoteSlice bytes,
                              ScatterElement target) noexcept {
  // SAFETY: as in ask(); the target is the group's, which outlives its links, or on loan until
  // end_read().
  LEND_TRY(handle, unsafe_post_read(channel_, {target, bytes}));
  reading_[lane].emplace(std::move(handle));
  return success();
}

Result<bool> PeerStatus::has_read(std::uint32_t lane) noexcept {
  LEND_TRY(done, reading_[lane]->poll());
  if (!done) return false;
  reading_[lane].reset();
  return true;
}

std::optional<Error> PeerStatus::end_read(std::uint32_t lane) noexcept {
  if (!reading_[lane]) return {};
  if (auto const done = reading_[lane]->poll(); done.has_value() && done.value()) return {};
  return channel::ChannelAccess{channel_}.end_connection(
      Error{Errc::channel_broken, "the group broke while it read from this rank"});
}

}  // namespace lend::group
