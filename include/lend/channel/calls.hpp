// SPDX-License-Identifier: MIT OR Apache-2.0
// What the inline calls of Channel, PollingScope, Batch and unsafe.hpp call in the library. Not for
// programs. The thread of the channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/datagram_work.hpp>
#include <lend/verbs/work_request.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace lend {

class Batch;
class Channel;
class PollingScope;

namespace channel {

// Most work is plain: one element, no immediate and no options. Where a compiler sees that, the
// words of the element go to the library in registers and the request is never built, which would
// cost a tenth of a post. All other work, and what may wait for room until a deadline, goes by
// reference.

/// A request of a channel, by its id, which is 0 where nothing was posted.
struct PostedWork {
  std::uint64_t id;
  ChannelReference const* channel;
};

// The ways of one kind of work: plain, and any. Peer is the type of the peer's part, if any.

template <class Work, class... Peer>
struct LEND_EXPORT ChannelCalls {
  static WorkAnswer run(Channel& channel, verbs::RegionState* region, std::size_t offset,
                        std::size_t length, char const* file, unsigned line,
                        Peer const&... peer) noexcept;
  static WorkAnswer run_any(Channel& channel, Work const& work, Deadline deadline,
                            SourceLine where) noexcept;
};

template <class Work, class... Peer>
struct LEND_EXPORT ScopeCalls {
  static std::uint64_t post(PollingScope& scope, verbs::RegionState* region, std::size_t offset,
                            std::size_t length, char const* file, unsigned line,
                            Peer const&... peer) noexcept;
  static std::uint64_t post_any(PollingScope& scope, Work const& work, Deadline deadline,
                                SourceLine where) noexcept;
  static std::uint64_t try_post(PollingScope& scope, Work const& work, SourceLine where) noexcept;
};

template <class Work, class... Peer>
struct LEND_EXPORT BatchCalls {
  static std::uint64_t add(Batch& batch, verbs::RegionState* region, std::size_t offset,
                           std::size_t length, char const* file, unsigned line,
                           Peer const&... peer) noexcept;
  static std::uint64_t add_any(Batch& batch, Work const& work, Deadline deadline,
                               SourceLine where) noexcept;
  // The same without a handle. Whether it was added.
  static bool add_unheld(Batch& batch, verbs::RegionState* region, std::size_t offset,
                         std::size_t length, char const* file, unsigned line,
                         Peer const&... peer) noexcept;
  static bool add_any_unheld(Batch& batch, Work const& work, Deadline deadline,
                             SourceLine where) noexcept;
};

template <class Work, class... Peer>
struct LEND_EXPORT UnsafePosts {
  static PostedWork post(Channel& channel, verbs::RegionState* region, std::size_t offset,
                         std::size_t length, Peer const&... peer) noexcept;
  static PostedWork post_any(Channel& channel, Work const& work) noexcept;
};

// Of each kind of work: this side's memory, and the peer's part.

[[nodiscard]] inline GatherList const& memory_of(Send const& work) noexcept {
  return work.source;
}
[[nodiscard]] inline GatherList const& memory_of(Write const& work) noexcept {
  return work.source;
}
[[nodiscard]] inline ScatterList const& memory_of(Receive const& work) noexcept {
  return work.target;
}
[[nodiscard]] inline ScatterList const& memory_of(Read const& work) noexcept {
  return work.target;
}
[[nodiscard]] inline ScatterList const& memory_of(Atomic const& work) noexcept {
  return work.result;
}

[[nodiscard]] inline GatherList const& memory_of(AddressedSend const& work) noexcept {
  return work.source;
}
[[nodiscard]] inline ScatterList const& memory_of(RoomReceive const& work) noexcept {
  return work.target;
}

[[nodiscard]] inline RemoteSlice const& peer_of(Write const& work) noexcept {
  return work.target;
}
[[nodiscard]] inline RemoteSlice const& peer_of(Read const& work) noexcept {
  return work.source;
}
[[nodiscard]] inline AtomicChange const& peer_of(Atomic const& work) noexcept {
  return work.change;
}

[[nodiscard]] inline Destination const& peer_of(AddressedSend const& work) noexcept {
  return *work.to;
}

template <class Work>
concept HasPeerPart = requires(Work const& work) {
  peer_of(work);
};

template <template <class, class...> class Calls, class Work>
struct CallsOf : Calls<Work> {};
template <template <class, class...> class Calls, HasPeerPart Work>
struct CallsOf<Calls, Work>
    : Calls<Work, std::remove_cvref_t<decltype(peer_of(std::declval<Work const&>()))>> {};

template <class Work>
[[nodiscard]] bool is_plain(Work const& work) noexcept {
  if constexpr (requires { work.immediate; })
    if (work.immediate.has_value()) return false;
  if constexpr (requires { work.options; })
    if (work.options != RequestOption::none) return false;
  if constexpr (requires { work.change; })
    if (work.change.options != RequestOption::none) return false;
  return memory_of(work).size() == 1;
}

/// Calls `function` with the words of plain work.
template <class Function, class Subject, class Work, class... Where>
auto pass(Function function, Subject& subject, Work const& work, Where... where) noexcept {
  auto const element = memory_of(work).only();
  auto const [offset, length] = element.range;
  if constexpr (HasPeerPart<Work>)
    return function(subject, element.region, offset, length, where..., peer_of(work));
  else
    return function(subject, element.region, offset, length, where...);
}

}  // namespace channel
}  // namespace lend
