// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes and reads of parts: as many requests as they take, and the handle of the last. The thread
// of the channel.
#include <channel/state/channel_state.hpp>
#include <lend/channel/parts.hpp>
#include <verbs/memory/pieces.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace lend {

using channel::ChannelState;
using verbs::PartsAre;
using verbs::Pieces;

namespace {

constexpr std::size_t request_bytes_max = std::size_t{1} << 30;  // ports carry 2 GiB

/// Pieces, of which a part was taken.
class Rest {
 public:
  Rest(Pieces pieces) noexcept : pieces_{pieces}, piece_{pieces_.next()} {}

  /// The bytes that come next, at most `most`.
  [[nodiscard]] ByteRange take(std::size_t most) noexcept {
    ByteRange const taken{piece_.offset, std::min(piece_.length, most)};
    piece_ = {piece_.offset + taken.length, piece_.length - taken.length};
    if (piece_.length == 0) piece_ = pieces_.next();
    return taken;
  }
  [[nodiscard]] std::size_t next_length() const noexcept { return piece_.length; }

 private:
  Pieces pieces_;
  ByteRange piece_;
};

/// The bytes of both.
/// Errors:  invalid_argument  they differ, or parts are wrong.
template <class Element>
Result<std::size_t> check(PartsOf<Element> const& here, RemoteParts const& there) {
  constexpr bool are_written_here = std::is_same_v<Element, ScatterElement>;
  if (here.all.region == nullptr || !here.all.region->contains(here.all.range))
    return verbs::element_error(here.all.region, here.all.range, 0, 1);
  LEND_TRY(bytes, verbs::check_parts(here.which, here.value_bytes, here.all.range.length,
                                     are_written_here ? PartsAre::written : PartsAre::read));
  if (!there.all.in_bounds())
    return Error{Errc::invalid_argument, "the peer's values are out of bounds of their region"};
  LEND_TRY(remote_bytes, verbs::check_parts(there.blocks, there.value_bytes, there.all.length,
                                            are_written_here ? PartsAre::read : PartsAre::written));
  if (bytes != remote_bytes)
    return Error{Errc::invalid_argument, "the parts have " + std::to_string(bytes) +
                                             " bytes here, and " + std::to_string(remote_bytes) +
                                             " at the peer"};
  return bytes;
}

Result<void> add(Batch& batch, GatherList const& here, RemoteSlice const& there, NoHandle,
                 Deadline deadline, SourceLine where) noexcept {
  return batch.add_write({here, there}, no_handle, deadline, where);
}
Result<void> add(Batch& batch, ScatterList const& here, RemoteSlice const& there, NoHandle,
                 Deadline deadline, SourceLine where) noexcept {
  return batch.add_read({here, there}, no_handle, deadline, where);
}
Result<PendingWork> add(Batch& batch, GatherList const& here, RemoteSlice const& there,
                        Deadline deadline, SourceLine where) noexcept {
  return batch.add_write({here, there}, deadline, where);
}
Result<PendingWork> add(Batch& batch, ScatterList const& here, RemoteSlice const& there,
                        Deadline deadline, SourceLine where) noexcept {
  return batch.add_read({here, there}, deadline, where);
}

/// Adds the requests of `bytes` to `batch`, and posts them. `added`: those without a handle.
template <class Element>
Result<PendingWork> post_all(Batch& batch, ChannelState const& channel,
                             PartsOf<Element> const& parts, RemoteParts const& remote,
                             std::size_t bytes, std::uint64_t& added, Deadline deadline,
                             SourceLine where) noexcept {
  verbs::QueuePairHandle const& queue_pair = channel.connection.raw();
  constexpr bool are_reads = std::is_same_v<Element, ScatterElement>;
  verbs::ContextHandle const& context = *queue_pair.domain->context;
  std::size_t most = queue_pair.elements;
  if (are_reads && context.limits.read_elements_max > 0)
    most = std::min(most, static_cast<std::size_t>(context.limits.read_elements_max));
  Rest here{Pieces{parts.which, parts.value_bytes}};
  Rest there{Pieces{remote.blocks, remote.value_bytes}};
  std::array<Element, elements_max> elements;
  while (true) {
    auto const most_at_peer = std::min(there.next_length(), request_bytes_max);
    std::size_t count = 0, length = 0;
    do {
      auto piece = here.take(most_at_peer - length);
      piece.offset += parts.all.range.offset;
      elements[count++] = Element{parts.all.region, piece};
      length += piece.length;
    } while (count < most && length < most_at_peer);
    auto const target = there.take(length);
    bytes -= length;
    ElementList<Element> const list{std::span<Element const>{elements}.first(count)};
    RemoteSlice const slice{remote.all.address + target.offset, length, remote.all.key,
                            remote.all.access};
    if (bytes == 0) return add(batch, list, slice, deadline, where);
    if (are_reads && context.is_iwarp())
      return Error{Errc::unsupported,
                   "these parts take several reads, which iWARP ends in any order: read them one "
                   "by one"};
    LEND_TRYV(add(batch, list, slice, no_handle, deadline, where));
    ++added;
  }
}

}  // namespace

struct channel::PartsCalls {
  template <class Element>
  static Result<PendingWork> post(PollingScope& scope, PartsOf<Element> const& here,
                                  RemoteParts const& there, Deadline deadline,
                                  SourceLine where) noexcept try {
    LEND_TRY(bytes, check(here, there));
    auto requests = scope.batch();
    LEND_TRYV(requests.post());  // of nothing: the scope and its channel exist
    auto const& state = *channel::living(scope.channel_);
    std::uint64_t added = 0;
    auto work = post_all(requests, state, here, there, bytes, added, deadline, where);
    auto const posted = work.has_value() ? requests.post(deadline) : success();
    requests.drop();
    LEND_TRYV(posted);
    if (work.has_value()) scope.record().ahead_of_handles += added;
    return work;
  } catch (std::bad_alloc const&) {
    return Errc::exhausted;
  }
};

Result<PendingWork> post_write_parts(PollingScope& scope, GatherParts const& source,
                                     RemoteParts const& target, Deadline deadline,
                                     SourceLine where) noexcept {
  return channel::PartsCalls::post(scope, source, target, deadline, where);
}

Result<PendingWork> post_read_parts(PollingScope& scope, ScatterParts const& target,
                                    RemoteParts const& source, Deadline deadline,
                                    SourceLine where) noexcept {
  return channel::PartsCalls::post(scope, target, source, deadline, where);
}

}  // namespace lend
