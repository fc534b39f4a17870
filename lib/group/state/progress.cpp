// SPDX-License-Identifier: MIT OR Apache-2.0
// The steps of rounds whose values go in messages.
#include <group/state/progress.hpp>

#include <algorithm>
#include <optional>
#include <string>

namespace lend::group {

Result<bool> Progress::advance() noexcept {
  if (call_.is_long()) return advance_long();
  MessageCall& values = call_.message_call();
  while (!values.is_over()) {
    LEND_TRY(is_round_over, advance_round(values));
    if (!is_round_over) return false;
    values.next_round();
  }
  return true;
}

Result<bool> Progress::advance_round(MessageCall& values) noexcept {
  auto const steps = values.steps();
  bool all_sent = true;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Step const& step = steps[i];
    if (step.kind != Step::Kind::send || values.is_done(i)) continue;
    LEND_TRY(is_sent, send_to(call_.rank_of(step.peer), call_.head(step), values.piece_of(step)));
    if (is_sent) values.set_done(i);
    all_sent &= is_sent;
  }
  if (!all_sent) return false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (values.is_done(i)) continue;
    LEND_TRY(is_received, receive(values, steps[i]));
    if (!is_received) return false;
    values.set_done(i);
  }
  return true;
}

// ---- one step ----

Result<bool> Progress::send_to(std::uint32_t rank, MessageHead const& head,
                               std::span<std::byte const> bytes) noexcept {
  Link& link = links_[rank];
  std::optional<Error> failure;
  if (!link.peer_has_left()) {
    auto const sent = link.try_send(head, bytes);
    if (sent.has_value()) return sent.assume_value();
    failure = sent.error();
  }
  // With the rank, if that is why.
  LEND_TRYV(arrivals_.check_for_losses());
  if (!failure || link.peer_has_left()) return arrivals_.needs_one_that_left(rank);
  return *failure;
}

Result<bool> Progress::receive(MessageCall& values, Step const& step) noexcept {
  auto const own = values.piece_of(step);
  if (step.kind == Step::Kind::combine_own) {
    values.take(step, own);
    return true;
  }
  auto const rank = call_.rank_of(step.peer);
  Link& link = links_[rank];
  auto const arrived = link.arrived();
  auto const it =
      std::ranges::find_if(arrived, [&](auto const& each) { return call_.is_of_round(each.head); });
  if (it == arrived.end()) return false;
  auto const theirs = link.bytes_of(*it);
  if (call_.call().is_uneven() && it->head.call_bytes != values.part_bytes(step))
    return arrivals_.detected(
        Fault::Reason::disagreed, rank,
        {Errc::disagreement, "rank " + std::to_string(rank) + " sends " +
                                 std::to_string(it->head.call_bytes) +
                                 " bytes to this rank, which expects " +
                                 std::to_string(values.part_bytes(step)) + " in " + call_.text()});
  if (theirs.size() != own.size())
    return arrivals_.detected(
        Fault::Reason::disagreed, rank,
        {Errc::disagreement, "rank " + std::to_string(rank) + " sent " +
                                 std::to_string(theirs.size()) + " bytes, not " +
                                 std::to_string(own.size())});
  values.take(step, theirs);
  LEND_TRYV(release(link, static_cast<std::size_t>(it - arrived.begin())));
  return true;
}

Result<void> Progress::release(Link& link, std::size_t index) noexcept {
  auto const released = link.release(index);
  // A link that has ended counts where something is needed of it.
  if (!released && link.failure() == nullptr) return released.error();
  return success();
}

}  // namespace lend::group
