// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts chains of requests. The thread of the channel.
#pragma once

#include <channel/state/channel_state.hpp>
#include <lend/channel/batch.hpp>
#include <verbs/post/chain.hpp>

#include <cstddef>
#include <type_traits>

namespace lend::channel {

/// Whether a handle is to have the result of a request.
enum class Held : bool { no, yes };

/// The batches of a channel's scopes. A request that was added has its slot and its loans; it
/// counts as outstanding once it is posted.
class Batching {
 public:
  explicit Batching(ChannelState& channel) noexcept : channel_{channel} {}

  /// The id of its slot; of a request without a handle, whether it was added.
  template <Held held>
  using Added = std::conditional_t<held == Held::yes, std::uint64_t, bool>;

  /// Adds work of one element, without an immediate or options, to `batch`, mostly in few
  /// instructions: takes a slot and lends its bytes. No slot if that failed; the channel's
  /// last_error() has the reason, unless the channel is gone.
  template <Held held, class Work>
  [[nodiscard]] static Added<held> add(Batch& batch, verbs::RegionState* region, std::size_t offset,
                                       std::size_t length, char const* file, unsigned line,
                                       verbs::PeerPart<Work> peer) noexcept;
  /// The same of any work.
  template <Held held, class Work>
  [[nodiscard]] static SlotId add_any(Batch& batch, Work const& work, Deadline deadline,
                                      SourceLine where) noexcept;
  /// The same to `chain`, if the work fits.
  /// Errors:  queue_full  every slot is taken; and why it was refused.
  template <class Work>
  [[nodiscard]] Result<SlotId> append(verbs::Chain& chain, Work const& work, ScopeRecord& scope,
                                      Held held, SourceLine const& where) noexcept;
  /// False if `chain` must be posted before this is added.
  [[nodiscard]] bool fits_behind(verbs::Chain const& chain, Operation operation,
                                 std::size_t elements) const noexcept;
  /// Posts `chain` of `scope`, which is then empty; it stays unchanged if there was no room in
  /// time. While it waits, other batches of the scope that have room are posted.
  [[nodiscard]] Result<void> post(verbs::Chain& chain, ScopeRecord& scope,
                                  Deadline deadline) noexcept;
  /// Posts all open batches of `scope`, those with room first; or until `wanted` is posted. Returns
  /// errors of the wait for room; handles have the device's refusals.
  [[nodiscard]] Result<void> post_all(ScopeRecord& scope, Deadline deadline,
                                      Slot const* wanted = nullptr) noexcept;
  /// Posts the requests of `batch`; those that cannot be posted fail.
  void end(Batch& batch, Deadline deadline) noexcept;
  /// The same for all batches of a scope that ends; or drops their requests.
  void end_all(ScopeRecord& scope, Deadline deadline, bool is_unwinding) noexcept;
  /// Drops all requests of `chain`, as if none had been added.
  void cancel(verbs::Chain& chain) noexcept;

 private:
  /// As append(), without the link to the request ahead.
  template <class Work>
  [[nodiscard]] Result<SlotId> describe(verbs::Chain& chain, Work const& work, ScopeRecord& scope,
                                        SourceLine const& where) noexcept;
  /// How the bytes of added work are kept: copied where no ledger need record it; or by a loan.
  enum class Keeping : bool { copies, lends };
  /// As add(), inside the channel. No slot, and nothing was changed, if it is not so simple.
  template <Keeping keeping, Held held, class Work>
  [[nodiscard]] static Added<held> add_at_once(ChannelState& channel, Batch& batch,
                                               verbs::Plain<Work> plain, SourceLine where) noexcept;
  /// As add() where that is not so simple. With its arguments, so that to call this is one jump
  /// and keeps none of them.
  template <Held held, class Work>
  [[nodiscard]] static Added<held> add_otherwise(Batch& batch, verbs::RegionState* region,
                                                 std::size_t offset, std::size_t length,
                                                 char const* file, unsigned line,
                                                 verbs::PeerPart<Work> peer) noexcept;
  [[nodiscard]] bool has_room(verbs::Chain const& chain) const noexcept;
  /// Posts the batches that have room. Whether there are others.
  bool post_those_with_room(ScopeRecord& scope) noexcept;
  /// Until `is_over()`.
  template <class IsOver>
  [[nodiscard]] Result<void> wait(Deadline deadline, IsOver&& is_over) noexcept;
  [[nodiscard]] Result<void> wait_for_room(verbs::Chain const& chain, ScopeRecord& scope,
                                           Deadline deadline) noexcept;
  template <class Request>
  [[nodiscard]] Result<void> post_list(verbs::Chain::List<Request>& list, Operation operation,
                                       ScopeRecord& scope) noexcept;
  template <class Request>
  void note_posted(verbs::Chain::List<Request> const& list, Request const* last,
                   Operation operation, ScopeRecord& scope) noexcept;
  /// Ends the loans of what the post copied.
  template <class Request>
  void give_back_copied(Request const* first, Request const* last) noexcept;
  template <class Request>
  void observe(Request const* first, Request const* last, Operation operation) noexcept;
  template <class Request>
  void fail_list(Request const* first, Request const* last, Error const& why) noexcept;
  void close_behind(SlotId silent, Error const& why) noexcept;
  void give_up(Error const& why) noexcept;

  ChannelState& channel_;
};

}  // namespace lend::channel
