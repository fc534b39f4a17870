// SPDX-License-Identifier: MIT OR Apache-2.0
// One failure domain: what ends a channel to a peer ends the group, and the reverse. The thread of
// the group.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/state/peers_state.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace lend::group {

namespace {

// How long a process that was killed may go on answering, whose memory is gone. It takes some ms,
// and longer where it gets no CPU.
constexpr std::chrono::milliseconds ending_bound{500};
constexpr std::chrono::milliseconds between_questions{1};
constexpr std::chrono::seconds answer_bound{10};

}  // namespace

std::uint64_t PeerList::add(PeersState& peers) {
  auto const place = static_cast<std::size_t>(std::ranges::find(all_, nullptr) - all_.begin());
  if (place == all_.size())
    all_.push_back(&peers);
  else
    all_[place] = &peers;
  return (std::uint64_t{place} + 1) << 32;
}

void PeerList::remove(PeersState& peers) noexcept {
  *std::ranges::find(all_, &peers) = nullptr;
}

Channel* PeerList::find(std::uint64_t tag) const noexcept {
  auto const number = (tag >> 32) - 1;
  PeersState* const peers = number < all_.size() ? all_[number] : nullptr;
  return peers != nullptr ? peers->find(static_cast<std::uint32_t>(tag)) : nullptr;
}

bool PeerList::is_iwarp() const noexcept {
  return !group_.links().domain().context().capabilities().endpoints;
}

bool PeerList::have_all_left(std::span<std::uint32_t const> ranks) const noexcept {
  return std::ranges::all_of(ranks,
                             [this](std::uint32_t rank) { return group_.links().has_left(rank); });
}

Error PeerList::lost(std::uint32_t rank, Error const& why) noexcept {
  using Reason = Fault::Reason;
  auto const name = "rank " + std::to_string(rank);
  auto const own = group_.links().ranks().rank;
  // No device acknowledges there, and connections of a rank end in any order: its reason comes over
  // another one than this.
  bool const may_come_later = is_iwarp();
  bool const has_ended = (may_come_later || channel::is_refusal(why)) && this->has_ended(rank);
  if (may_come_later && group_.links().has(rank))
    if (auto const& fault = group_.links()[rank].fault())
      return group_.failure().reported(rank, *fault, group_.links().ranks());
  if (group_.links().has_left(rank))
    return group_.failure().detected(
        {Reason::left, rank, own},
        Error{Errc::peer_lost, name + " has left the group, and work with it is outstanding"}
            .with_cause(why));
  if (channel::is_refusal(why) && has_ended)
    return group_.failure().detected(
        {Reason::lost, rank, own},
        Error{Errc::peer_lost, name + " is lost: its device refused work with its memory, and "
                                      "then did not answer"}
            .with_cause(why));
  if (channel::shows_loss(why) || has_ended)
    return group_.failure().detected(
        {Reason::lost, rank, own},
        Error{Errc::peer_lost, name + " is lost: " + why.message()}.with_cause(why));
  return group_.failure().detected(
      {why.work() != nullptr ? Reason::failed : Reason::abandoned, own, own},
      Error{Errc::channel_broken,
            "this rank's work with " + name + " has ended, and broke the group: " + why.message()}
          .with_cause(why));
}

bool PeerList::has_ended(std::uint32_t rank) noexcept {
  if (!group_.links().has(rank)) return false;
  Link& link = group_.links()[rank];
  auto const bound = within(ending_bound);
  auto const limit = within(answer_bound);
  auto const has_told = [&link] {  // one that lives learns of the refusal, too, and tells
    static_cast<void>(link.take_arrivals());
    return link.fault().has_value() || link.peer_has_left();
  };
  do {
    link.status().forget_answer();
    if (has_told()) return false;
    if (!link.status().ask()) return link.failure() != nullptr;
    // It is answered, or the device finds that no answer comes.
    while (!link.status().has_answer()) {
      if (limit.has_passed()) return true;
      std::this_thread::sleep_for(between_questions);
    }
    if (has_told()) return false;
    if (link.failure() != nullptr) return true;
    std::this_thread::sleep_for(between_questions);
  } while (!bound.has_passed());
  return false;
}

Result<void> PeerList::check() noexcept {
  auto const tag = std::exchange(broken_, std::nullopt);
  Channel const* const channel = tag ? find(*tag) : nullptr;
  Error const* const why = channel != nullptr ? channel->first_cause() : nullptr;
  if (why == nullptr) return success();
  // Once all have met a rank may end its Peers, which rdma_cm reports.
  auto const& state = channel::ChannelState::of(*channel);
  if (is_iwarp() && state.in_flight.room.outstanding() == 0 && !state.watch.awaits_beside)
    return success();
  return lost(static_cast<std::uint32_t>(*tag), *why);
}

void PeerList::look_for_loss(std::uint64_t tag) noexcept {
  if (!group_.calls().look().has_value()) return;
  auto const rank = static_cast<std::uint32_t>(tag);
  if (!group_.links().has_left(rank)) return;
  // What it sent before has come before its last word.
  Channel const* const channel = find(tag);
  if (channel == nullptr || channel::ChannelState::of(*channel).in_flight.room.outstanding() == 0)
    return;
  break_by_leaving(rank);
}

void PeerList::break_by_leaving(std::uint32_t rank) noexcept {
  group_.break_by(lost(rank, {Errc::peer_lost, "its group has ended"}));
}

void PeerList::note_end(std::uint64_t tag, Error const& why) noexcept {
  // Others may have said why.
  static_cast<void>(group_.calls().look());
  if (group_.is_gone()) return;
  if (group_.failure().cause() != nullptr) return end_all(*group_.failure().cause());
  group_.break_by(lost(static_cast<std::uint32_t>(tag), why));
}

void PeerList::end_all(Error const& why) noexcept {
  if (std::ranges::all_of(all_, [](auto const* each) { return each == nullptr; })) return;
  static_cast<void>(group_.links().poll());  // what has come counts
  auto const lost = group_.failure().lost_rank();
  for (PeersState* const peers : all_)
    if (peers != nullptr)
      for (Channel& channel : peers->channels()) {
        auto& state = channel::ChannelState::of(channel);
        state.losses.end_by_loss(why, lost == static_cast<std::uint32_t>(state.tag()), is_iwarp());
      }
}

}  // namespace lend::group
