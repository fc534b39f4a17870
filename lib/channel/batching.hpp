// SPDX-License-Identifier: MIT OR Apache-2.0
// From a chain of requests to posted ones. The thread of the channel.
#pragma once

#include <channel/channel_state.hpp>
#include <lend/channel/batch.hpp>
#include <verbs/chain.hpp>

#include <cstddef>

namespace lend {

/// What a channel does for the batches of its scopes. Work that was added has its slot and its
/// loans; it counts as outstanding once it is posted.
class Batching {
 public:
  explicit Batching(ChannelState& channel) noexcept : channel_{channel} {}

  /// Takes a slot for `work` and lends its bytes, to be posted with the rest of `chain`, behind
  /// which it fits. No slot, and the channel's reason(), where it was not added.
  template <class Work>
  [[nodiscard]] SlotId add(Chain& chain, Work const& work, ScopeRecord& scope,
                           SourceLine const& where) noexcept;
  /// False where `chain` is to be posted before this is added.
  [[nodiscard]] bool fits_behind(Chain const& chain, Operation operation,
                                 std::size_t elements) const noexcept;
  /// Posts `chain` of `scope`, which is empty then; or stays as it is where the wait for room ended
  /// in vain. While it waits, other batches of the scope that have room go.
  [[nodiscard]] Result<void> post(Chain& chain, ScopeRecord& scope, Deadline deadline) noexcept;
  /// Posts all open batches of `scope`, those that have room first; or until `wanted` is posted.
  /// Errors are those of the wait for room; what the device refuses, handles tell.
  [[nodiscard]] Result<void> post_all(ScopeRecord& scope, Deadline deadline,
                                      Slot const* wanted = nullptr) noexcept;
  /// Posts what `batch` has; what cannot be posted has failed.
  void end(Batch& batch, Deadline deadline) noexcept;
  /// The same for all batches of a scope that ends; or gives everything back.
  void end_all(ScopeRecord& scope, Deadline deadline, bool is_unwinding) noexcept;
  /// Gives everything of `chain` back, as if nothing had been added.
  void take_back(Chain& chain) noexcept;

 private:
  [[nodiscard]] bool has_room(Chain const& chain) const noexcept;
  /// Posts the batches that have room; whether there are others.
  bool post_those_with_room(ScopeRecord& scope) noexcept;
  /// One poll, and a pause where it found nothing.
  [[nodiscard]] Result<void> wait_a_while(Waiter& waiter, Deadline deadline) noexcept;
  [[nodiscard]] Result<void> wait_for_room(Chain const& chain, ScopeRecord& scope,
                                           Deadline deadline) noexcept;
  template <class Request>
  [[nodiscard]] Result<void> post_list(Chain::List<Request>& list, char const* verb) noexcept;
  template <class Request>
  void note_posted(Request* first, Request const* end) noexcept;
  template <class Request>
  void fail_list(Request const* first, Error const& why) noexcept;
  void close_behind(SlotId silent, Error const& why) noexcept;
  void give_up(Error const& why) noexcept;

  ChannelState& channel_;
};

}  // namespace lend
