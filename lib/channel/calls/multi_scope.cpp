// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts lists of work to many peers. The thread of the set.
#include <channel/calls/peer_rows.hpp>
#include <channel/work/grouped_calls.hpp>
#include <lend/channel/multi_scope.hpp>

#include <new>
#include <string>

namespace lend {

namespace {

Result<PendingWork> post(PollingScope& scope, Send const& work, Deadline deadline,
                         SourceLine const& where) noexcept {
  return scope.post_send(work, deadline, where);
}
Result<PendingWork> post(PollingScope& scope, Receive const& work, Deadline deadline,
                         SourceLine const& where) noexcept {
  return scope.post_receive(work, deadline, where);
}
Result<PendingWork> post(PollingScope& scope, Write const& work, Deadline deadline,
                         SourceLine const& where) noexcept {
  return scope.post_write(work, deadline, where);
}
Result<PendingWork> post(PollingScope& scope, Read const& work, Deadline deadline,
                         SourceLine const& where) noexcept {
  return scope.post_read(work, deadline, where);
}

}  // namespace

MultiScope::MultiScope(MultiChannel& peers) noexcept : peers_{peers}, scope_{peers.state().set()} {}

MultiScope& MultiScope::drain_within(std::chrono::nanoseconds bound) noexcept {
  scope_.drain_within(bound);
  return *this;
}
MultiScope& MultiScope::drain_until(Deadline deadline) noexcept {
  scope_.drain_until(deadline);
  return *this;
}

Result<PollingScope*> MultiScope::on(std::uint32_t peer) noexcept {
  if (peer >= peers_.size())
    return Error{Errc::invalid_argument, "there is no peer " + std::to_string(peer) +
                                             ": the peers are 0 to " +
                                             std::to_string(peers_.size() - 1)};
  return scope_.on(peers_[peer]);
}

template <class Rows>
Result<void> MultiScope::post_all(Rows const& rows, std::vector<PendingWork>& handles,
                                  Deadline deadline, SourceLine const& where) noexcept {
  try {
    handles.reserve(handles.size() + rows.size());
  } catch (std::bad_alloc const&) {
    return Errc::exhausted;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    LEND_TRY(scope, on(rows.peer(i)));
    LEND_TRY(handle, post(*scope, rows.work(i), deadline, where));
    handles.push_back(std::move(handle));
  }
  return success();
}

Result<void> MultiScope::post_scatter_send(std::span<PeerSend const> works,
                                           std::vector<PendingWork>& handles, Deadline deadline,
                                           SourceLine where) noexcept {
  return post_all(channel::SendRows{works}, handles, deadline, where);
}
Result<void> MultiScope::post_gather_receive(std::span<PeerReceive const> works,
                                             std::vector<PendingWork>& handles, Deadline deadline,
                                             SourceLine where) noexcept {
  return post_all(channel::ReceiveRows{works}, handles, deadline, where);
}
Result<void> MultiScope::post_scatter_write(std::span<PeerWrite const> works,
                                            std::vector<PendingWork>& handles, Deadline deadline,
                                            SourceLine where) noexcept {
  return post_all(channel::WriteRows{works}, handles, deadline, where);
}
Result<void> MultiScope::post_gather_read(std::span<PeerRead const> works,
                                          std::vector<PendingWork>& handles, Deadline deadline,
                                          SourceLine where) noexcept {
  return post_all(channel::ReadRows{works}, handles, deadline, where);
}
Result<void> MultiScope::post_multicast_send(std::span<std::uint32_t const> peers, Send const& work,
                                             std::vector<PendingWork>& handles, Deadline deadline,
                                             SourceLine where) noexcept {
  return post_all(channel::MulticastRows{peers, work}, handles, deadline, where);
}

}  // namespace lend
