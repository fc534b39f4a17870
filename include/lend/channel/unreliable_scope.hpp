// SPDX-License-Identifier: MIT OR Apache-2.0
// A scope of an unreliable connection, and its batch. The thread of its channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/channel/batch.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/verbs/service.hpp>
#include <lend/verbs/work_request.hpp>

#include <chrono>

namespace lend {

class UnreliableChannel;

/// A Batch without reads and atomic operations. From UnreliableScope::batch().
class LEND_EXPORT UnreliableBatch : private Batch {
 public:
  using Batch::add_receive;
  using Batch::add_send;
  using Batch::add_write;
  using Batch::drop;
  using Batch::post;
  using Batch::requests_max;
  using Batch::size;

 private:
  friend class UnreliableScope;
  explicit UnreliableBatch(PollingScope& scope) noexcept;
};

/// A PollingScope without reads and atomic operations. Each call is as there, but a send or write
/// is over once it left, and nothing says whether it arrived.
///
/// The trap: a message that is lost leaves the receive that waited for it outstanding. The next one
/// takes it; if none comes, a bound by drain_within() ends the scope, and breaks the channel.
class UnreliableScope : private PollingScope {
 public:
  explicit UnreliableScope(UnreliableChannel& channel LEND_LIFETIMEBOUND) noexcept;

  using PollingScope::drain_max;
  UnreliableScope& drain_within(std::chrono::nanoseconds bound) noexcept {
    PollingScope::drain_within(bound);
    return *this;
  }
  UnreliableScope& drain_until(Deadline deadline) noexcept {
    PollingScope::drain_until(deadline);
    return *this;
  }

  using PollingScope::post_receive;
  using PollingScope::post_send;
  using PollingScope::post_write;
  using PollingScope::try_post_receive;
  using PollingScope::try_post_send;
  using PollingScope::try_post_write;
  // What the service lacks does not compile, and the compiler says why.
  template <IsService S = Uc>
  Result<PendingWork> post_read(Read const& work,
                                Deadline deadline = Deadline::never()) requires CanRead<S>
  = delete;
  template <IsService S = Uc>
  Result<PendingWork> post_atomic(Atomic const& work,
                                  Deadline deadline = Deadline::never()) requires HasAtomics<S>
  = delete;
  template <IsService S = Uc>
  Result<PeerLoan> post_lend(ScatterElement bytes) requires HasWindows<S>
  = delete;
  template <IsService S = Uc>
  Result<PeerLoan> post_lend(GatherElement bytes) requires HasWindows<S>
  = delete;

  [[nodiscard]] UnreliableBatch batch() LEND_LIFETIMEBOUND { return UnreliableBatch{*this}; }
  using PollingScope::finish;
  using PollingScope::outstanding;

 private:
  friend class Channel;
  friend class SetScope;
  explicit UnreliableScope(Channel& channel) noexcept : PollingScope{channel} {}
  using PollingScope::end;
};

}  // namespace lend
