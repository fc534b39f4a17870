// SPDX-License-Identifier: MIT OR Apache-2.0
// The channels of a MultiChannel, and the calls that concern several of them. The thread of their
// set.
#pragma once

#include <channel/state/channel_state.hpp>
#include <channel/state/set_state.hpp>
#include <channel/work/post.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/peer_work.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lend::channel {

/// The calls of MultiChannel. `Rows` of run() has size(), for each row peer(i) and work(i), and
/// their operation.
class GroupedCalls {
 public:
  /// `channels` are of `set`.
  GroupedCalls(std::vector<Channel> channels, std::shared_ptr<SetState> set);

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(channels_.size());
  }
  [[nodiscard]] Channel& at(std::uint32_t peer) noexcept {
    if (peer >= channels_.size()) [[unlikely]]
      stop_for_unknown(peer);
    return channels_[peer];
  }

  [[nodiscard]] std::shared_ptr<SetState> set() const noexcept { return set_; }

  /// One request for each row, and its outcome: a call of MultiChannel.
  template <class Rows>
  [[nodiscard]] Result<void> run(Rows const& rows, std::span<Outcome> outcomes, Deadline deadline,
                                 SourceLine const& where) noexcept;

 private:
  enum class Posted : std::uint8_t { yes, refused, no_room };
  /// A row between its post and its result.
  struct Row {
    SlotId id{};  // none: not posted
    std::optional<Deadline> patience{};
  };

  [[noreturn]] void stop_for_unknown(std::uint32_t peer) const noexcept;
  [[nodiscard]] Result<void> check_count(std::size_t works, std::span<Outcome> outcomes) noexcept;
  [[nodiscard]] Result<void> refuse_all(Error why, std::span<Outcome> outcomes) noexcept;
  [[nodiscard]] Error unknown_peer(std::size_t row, std::uint32_t peer) const noexcept;
  template <class Work>
  [[nodiscard]] Posted post(Work const& work, Row& row, Outcome& outcome,
                            SourceLine const& where) noexcept;
  void wait_for(SlotId id, Outcome& outcome, Deadline deadline, Waiter& waiter) noexcept;
  /// The error of the whole call.
  [[nodiscard]] static Result<void> summary(std::span<Outcome const> outcomes) noexcept;

  std::vector<Channel> channels_;
  std::vector<std::uint64_t> blocked_in_;  // by peer: the last pass in which it had no room
  std::uint64_t pass_ = 0;
  std::vector<Row> rows_{};  // kept, so that a call takes no memory once warm
  std::shared_ptr<SetState> set_;
};

template <class Work>
GroupedCalls::Posted GroupedCalls::post(Work const& work, Row& row, Outcome& outcome,
                                        SourceLine const& where) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  ChannelState& channel = ChannelState::of(channels_[outcome.peer]);
  if (channel.progress.set() != set_.get()) {
    outcome.error = Error{Errc::invalid_argument,
                          "the channel of this peer was replaced by one of another WaitSet"};
    return Posted::refused;
  }
  row.id = channel::post<Lending::lends, Room::must_be_there>(channel, work, channel.unscoped,
                                                              Deadline::never(), where);
  if (row.id.is_valid()) return Posted::yes;
  outcome.error = channel.failures.take_last_error();
  if (outcome.error != Errc::queue_full) return Posted::refused;
  auto const may_come = check_for_room(channel, operation, row.patience);
  outcome.error = may_come.has_value() ? Error{} : error_of(channel, work, may_come.error(), where);
  return may_come.has_value() ? Posted::no_room : Posted::refused;
}

template <class Rows>
Result<void> GroupedCalls::run(Rows const& rows, std::span<Outcome> outcomes, Deadline deadline,
                               SourceLine const& where) noexcept {
  SetState::Use const use{*set_};
  LEND_TRYV(check_count(rows.size(), outcomes));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    outcomes[i] = {.peer = rows.peer(i)};
    if (rows.peer(i) >= channels_.size())
      return refuse_all(unknown_peer(i, rows.peer(i)), outcomes);
  }
  try {
    rows_.assign(rows.size(), Row{});
  } catch (std::bad_alloc const&) {
    return refuse_all(Errc::exhausted, outcomes);
  }

  // A row that has no room holds up the later ones of its peer, and no others.
  Waiter waiter = set_->make_waiter();
  for (bool is_last = false;;) {
    ++pass_;
    bool is_blocked = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Outcome& outcome = outcomes[i];
      if (rows_[i].id.is_valid() || outcome.error.code() != Errc{}) continue;
      auto& blocked_in = blocked_in_[outcome.peer];
      if (blocked_in != pass_ && post(rows.work(i), rows_[i], outcome, where) != Posted::no_room)
        continue;
      blocked_in = pass_;
      is_blocked = true;
      if (is_last) outcome.error = no_room_in_time(Rows::operation, deadline);
    }
    if (!is_blocked || is_last) break;
    is_last = !set_->poll_or_pause(waiter, deadline);
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows_[i].id.is_valid()) wait_for(rows_[i].id, outcomes[i], deadline, waiter);
  return summary(outcomes);
}

}  // namespace lend::channel
