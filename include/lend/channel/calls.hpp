// SPDX-License-Identifier: MIT OR Apache-2.0
// What the inline calls of Channel, PollingScope, Batch and unsafe.hpp call in the library. Not for
// programs. The thread of the channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/work_kind.hpp>

#include <cstddef>
#include <cstdint>

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

// The ways of one kind of work: plain, and any.

template <class Work>
struct LEND_EXPORT ChannelCalls {
  static WorkAnswer run(Channel& channel, verbs::RegionState* region, std::size_t offset,
                        std::size_t length, char const* file, unsigned line,
                        verbs::PeerPart<Work> peer) noexcept;
  static WorkAnswer run_any(Channel& channel, Work const& work, Deadline deadline,
                            SourceLine where) noexcept;
};

template <class Work>
struct LEND_EXPORT ScopeCalls {
  static std::uint64_t post(PollingScope& scope, verbs::RegionState* region, std::size_t offset,
                            std::size_t length, char const* file, unsigned line,
                            verbs::PeerPart<Work> peer) noexcept;
  static std::uint64_t post_any(PollingScope& scope, Work const& work, Deadline deadline,
                                SourceLine where) noexcept;
  static std::uint64_t try_post(PollingScope& scope, Work const& work, SourceLine where) noexcept;
};

template <class Work>
struct LEND_EXPORT BatchCalls {
  static std::uint64_t add(Batch& batch, verbs::RegionState* region, std::size_t offset,
                           std::size_t length, char const* file, unsigned line,
                           verbs::PeerPart<Work> peer) noexcept;
  static std::uint64_t add_any(Batch& batch, Work const& work, Deadline deadline,
                               SourceLine where) noexcept;
  // The same without a handle. Whether it was added.
  static bool add_unheld(Batch& batch, verbs::RegionState* region, std::size_t offset,
                         std::size_t length, char const* file, unsigned line,
                         verbs::PeerPart<Work> peer) noexcept;
  static bool add_any_unheld(Batch& batch, Work const& work, Deadline deadline,
                             SourceLine where) noexcept;
};

template <class Work>
struct LEND_EXPORT UnsafePosts {
  static PostedWork post(Channel& channel, verbs::RegionState* region, std::size_t offset,
                         std::size_t length, verbs::PeerPart<Work> peer) noexcept;
  static PostedWork post_any(Channel& channel, Work const& work) noexcept;
};

/// Calls `function` with the words of plain work.
template <class Function, class Subject, class Work, class... Where>
auto pass(Function function, Subject& subject, Work const& work, Where... where) noexcept {
  auto const element = verbs::list_of(work).only();
  auto const [offset, length] = element.range;
  return function(subject, element.region, offset, length, where..., verbs::peer_part_of(work));
}

}  // namespace channel
}  // namespace lend
