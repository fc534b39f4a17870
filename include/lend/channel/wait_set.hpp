// SPDX-License-Identifier: MIT OR Apache-2.0
// Many channels on one thread: which of them have news, and one descriptor to sleep on. One thread
// at a time, together with all its channels.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/builder.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/device_events.hpp>

#include <cstdint>
#include <memory>
#include <span>

namespace lend {

namespace channel {
class SetState;
struct Preparing;
struct SetAccess;
}  // namespace channel

/// A channel or receive pool of a set that has news, or the set's device.
struct Ready {
  enum class What : std::uint8_t {
    work,      ///< work of it completed: its handles may have results
    broken,    ///< it is broken, and more of its work may have ended; first_cause() says why
    message,   ///< the pool has messages that came since: take them by next()
    pool_low,  ///< fewer of the pool's pieces are posted than its low mark
    device,    ///< `event` came, of a port or of the device itself
  };
  /// Of ChannelBuilder::wait_set(), or of ReceivePoolOptions; of `device` it means nothing.
  std::uint64_t tag = 0;
  What what{};
  DeviceEvent event{};  ///< of `device` only
};

/// Channels that share completion queues, polled together.
///
/// A channel joins when it is built, by `.wait_set(set, tag)`, and leaves when it is destroyed. It
/// keeps the queues alive, so the set may end first. Blocking calls and handles work as on other
/// channels: they process every completion that they poll, and the set reports those of other
/// channels as news. A channel that breaks does not affect the others.
///
///     LEND_TRY(set, WaitSet::create(context));
///     LEND_TRY(prepared, channel_builder().protection_domain(domain).wait_set(set, 7).build());
///     std::array<Ready, 64> room;
///     LEND_TRY(ready, set.wait(room, within(1s)));
class LEND_EXPORT WaitSet {
 public:
  /// Makes a set for channels of `context`; they wait as `how` says. The first channel makes the
  /// first queue.
  /// Errors:  exhausted    no memory, or no descriptor.
  ///          unsupported  the device has no completion events, on which a set sleeps.
  /// Source:  epoll_create1(2), eventfd(2), timerfd_create(2), ibv_create_comp_channel(3).
  [[nodiscard]] static Result<WaitSet> create(Context const& context, Wait how = Wait::adaptive);
  WaitSet(WaitSet&&) noexcept;
  WaitSet& operator=(WaitSet&&) noexcept;
  ~WaitSet();

  /// Which channels have news since they were last listed, without waiting: each at most once, and
  /// those for which `into` has no room the next time. First come, first listed.
  ///
  /// A queue that cannot be polled breaks its channels, which are listed then.
  /// Shape:   `into` has room for one or more.
  /// Errors:  invalid_argument  it has none.
  ///          system_failed     in a forked child: the set is the parent's.
  [[nodiscard]] Result<std::span<Ready>> poll(std::span<Ready> into LEND_LIFETIMEBOUND) noexcept;
  /// The same, but waits until a channel has news. Empty after wake().
  /// Errors:  as poll(), and
  ///          timed_out, cancelled  nothing came; every channel is as before.
  [[nodiscard]] Result<std::span<Ready>> wait(std::span<Ready> into LEND_LIFETIMEBOUND,
                                              Deadline deadline = Deadline::never()) noexcept;

  /// For poll(2) or epoll(7): readable after arm() once a channel may have news, the device or
  /// rdma_cm has an event, a keep-alive is due, or wake() was called. It is the set's, the same for
  /// its whole life: never read or close it.
  [[nodiscard]] int descriptor() const noexcept;
  /// The last call before a sleep on descriptor(). True: nothing is there, sleep. False: poll().
  /// Errors:  as poll(), and
  ///          system_failed  the device refused to signal the next completion.
  /// Source:  ibv_req_notify_cq(3), epoll(7), timerfd_settime(2).
  [[nodiscard]] Result<bool> arm() noexcept;
  /// Ends a wait() or makes the descriptor readable, now or the next time. Any thread, while the
  /// set exists and does not move.
  void wake() noexcept;

 private:
  friend class ReceivePool;
  friend class SetScope;
  friend struct channel::Preparing;
  friend struct channel::SetAccess;
  explicit WaitSet(std::shared_ptr<channel::SetState> state) noexcept;
  [[nodiscard]] channel::SetState& state() const noexcept;  // stops where it was moved from
  std::shared_ptr<channel::SetState> state_;
};

}  // namespace lend
