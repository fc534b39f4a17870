// SPDX-License-Identifier: MIT OR Apache-2.0
// A scope over all channels of a set. The thread of the set.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/unwind.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/drain_bound.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/channel/wait_set.hpp>

#include <chrono>
#include <cstddef>
#include <memory>

namespace lend {

class DatagramChannel;
class DatagramScope;
class UnreliableChannel;
class UnreliableScope;

/// Posts work on any channel of a set, and gets every byte back before it ends: on success, on
/// error or under an exception.
///
/// It holds one scope for each channel, of the kind that the channel has, made when the channel is
/// first named. Channels may come and go meanwhile: one that is destroyed takes its failures along,
/// so that a server does not grow with each client that dies. It lives on the stack, as a
/// PollingScope does.
///
///     SetScope scope{set};
///     LEND_TRY(client, scope.on(channel));
///     LEND_TRYV(client->post_send(memory.gather(0, 64)));
class LEND_EXPORT SetScope {
 public:
  explicit SetScope(WaitSet& set LEND_LIFETIMEBOUND) noexcept;
  SetScope(SetScope const&) = delete;
  SetScope& operator=(SetScope const&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;
  /// Waits for all work like finish(), but for at most PollingScope::drain_max in all; then it
  /// aborts the work. During an exception as ~PollingScope(), 100 ms in all. Each channel's
  /// last_failures() keeps its failures.
  ~SetScope();

  /// Bounds every drain, of all channels together: see PollingScope::drain_within(). On a channel
  /// whose own scope was given a cancellation, that one counts and this one's does not.
  SetScope& drain_within(std::chrono::nanoseconds bound) noexcept;
  SetScope& drain_until(Deadline deadline) noexcept;

  /// The scope of `channel`: the same one at each call, until the channel or this scope ends, or
  /// the program finishes it by itself. Allocates when it names the channel for the first time.
  /// Errors:  invalid_argument  the channel is not of this set.
  ///          exhausted         no memory.
  ///          stale_handle      this scope has ended.
  [[nodiscard]] Result<PollingScope*> on(Channel& channel) noexcept LEND_LIFETIMEBOUND;
  [[nodiscard]] Result<UnreliableScope*> on(UnreliableChannel& channel) noexcept LEND_LIFETIMEBOUND;
  [[nodiscard]] Result<DatagramScope*> on(DatagramChannel& channel) noexcept LEND_LIFETIMEBOUND;

  /// Waits for all work, ends all scopes and reports the failures that no handle reported. A
  /// channel that fails does not keep the others from being drained.
  /// Errors:  as PollingScope::finish() of the first channel that has one; drained() has the
  ///          failures of all.
  [[nodiscard]] Result<void> finish() noexcept;

 private:
  friend class MultiScope;
  explicit SetScope(std::shared_ptr<channel::SetState> set) noexcept;
  struct State;
  template <class Scope, class AnyChannel>
  [[nodiscard]] Result<Scope*> scope_on(AnyChannel& channel) noexcept;

  std::shared_ptr<channel::SetState> set_;
  std::unique_ptr<State> state_{};  // from the first on(); null once it has ended
  UnwindDetector unwind_{};
  channel::DrainBound drain_bound_{};
  bool ended_ = false;
};

}  // namespace lend
