// SPDX-License-Identifier: MIT OR Apache-2.0
// Ranks that meet at a desk without any device: as threads, or played frame by frame.
#pragma once

#include <sys/resource.h>
#include <unistd.h>
#include <launch/desk_visit.hpp>
#include <lend/launch/desk.hpp>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "network/raw_peers.hpp"

namespace lend::test {

inline constexpr launch::Terms usual_terms{4096, 8};

/// A name that no other test has.
inline std::string desk_name() {
  static std::atomic<int> count{0};
  return "unix:@lend-desk-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

inline Seat seat_at(std::string desk, std::uint32_t rank, std::uint32_t size) {
  return {.rank = rank, .size = size, .desk = std::move(desk), .desk_is_served = true};
}

/// The endpoint that rank `from` has for rank `to`.
inline Endpoint link(std::uint32_t from, std::uint32_t to) {
  return endpoint_of(from * 4096 + to + 1);
}
/// The memory that goes with it.
inline RemoteRegion memory(std::uint32_t from, std::uint32_t to) {
  return {from * 4096 + to + 1, 128, to + 1, RemoteAccess::read};
}
/// The mailbox that goes with it.
inline RemoteRegion mailbox(std::uint32_t from, std::uint32_t to) {
  return {from * 4096 + to + 2, 512, to + 2, RemoteAccess::write};
}
/// Where it awaits the other one.
inline LinkAddress address(std::uint32_t from, std::uint32_t to) {
  return {.host = {static_cast<std::uint8_t>(from)},
          .port = static_cast<std::uint16_t>(to + 1),
          .key = {std::byte{1}}};
}
/// All of that, as it goes to the desk or comes from it.
inline launch::Card card_of(std::uint32_t rank, std::uint32_t from, std::uint32_t to) {
  return {rank, link(from, to), memory(from, to), mailbox(from, to), address(from, to)};
}
inline std::vector<launch::Card> cards_to_all(std::uint32_t rank, std::uint32_t size) {
  std::vector<launch::Card> cards;
  for (std::uint32_t to = 0; to < size; ++to)
    if (to != rank) cards.push_back(card_of(to, rank, to));
  return cards;
}
/// To the ranks at a distance of a power of two: few, however many there are.
inline std::vector<launch::Card> cards_to_few(std::uint32_t rank, std::uint32_t size) {
  std::vector<launch::Card> cards;
  for (std::uint32_t to = 0; to < size; ++to) {
    auto const apart = (to + size - rank) % size;
    auto const is_power = [](std::uint32_t n) { return n != 0 && (n & (n - 1)) == 0; };
    if (is_power(apart) || is_power((size - apart) % size)) cards.push_back(card_of(to, rank, to));
  }
  return cards;
}

inline Result<launch::DeskVisit> sit(Seat const& seat, Deadline deadline = within(patience)) {
  return launch::DeskVisit::sit(seat, usual_terms, deadline);
}
/// Sits, swaps endpoints and waits until it may go. With whom; `rounds` is how often it swapped.
inline Result<launch::Members> meet_as(Seat const& seat, launch::Coming const& coming,
                                       Deadline deadline = within(patience),
                                       int* rounds = nullptr) {
  LEND_TRY(meeting, launch::DeskVisit::sit(seat, usual_terms, deadline, coming));
  for (int round = 1;; ++round) {
    LEND_TRY(proposal, meeting.swap(cards_to_all(seat.rank, seat.size)));
    if (!proposal) continue;
    std::vector<launch::Card> expected;
    for (auto const from : proposal->members.ranks)
      if (from != seat.rank) expected.push_back(card_of(from, from, seat.rank));
    auto const is_same = [](launch::Card const& one, launch::Card const& other) {
      return one.rank == other.rank && one.endpoint == other.endpoint &&
             one.record == other.record && one.mailbox == other.mailbox &&
             one.address == other.address;
    };
    if (!std::ranges::equal(proposal->cards, expected, is_same))
      return Error{Errc::incompatible_peer, "these are the endpoints of other links"};
    LEND_TRY(may_go, meeting.confirm());
    if (rounds != nullptr) *rounds = round;
    if (may_go) return std::move(proposal->members);
  }
}
/// The same for the first time. How often it had to swap.
inline Result<int> meet(Seat const& seat, Deadline deadline = within(patience)) {
  int rounds = 0;
  LEND_TRYV(without_value(meet_as(seat, {}, deadline, &rounds)));
  return rounds;
}

/// meet() on a thread.
class RankThread {
 public:
  explicit RankThread(Seat const& seat, Deadline deadline = within(patience))
      : thread_{[this, seat, deadline] { met_.emplace(meet(seat, deadline)); }} {}
  Result<int> const& met() {
    if (thread_.joinable()) thread_.join();
    return *met_;
  }

 private:
  std::optional<Result<int>> met_{};
  std::jthread thread_;
};

/// All that a rank without a secret says until it has its cards.
inline Bytes sitting(std::uint32_t rank, std::uint32_t size,
                     std::vector<launch::Card> const& cards) {
  network::Hello const hello{.nonce = {std::byte{9}}, .purpose = network::Purpose::sit};
  auto said = joined(bytes_of(encode(hello)),
                     bytes_of(encode(launch::Sit{"", rank, size, usual_terms}, nullptr)));
  auto rest = std::span{cards};
  do {
    said = joined(std::move(said),
                  bytes_of(encode_cards(static_cast<std::uint32_t>(cards.size()), rest, nullptr)));
    rest = rest.subspan(std::min(rest.size(), network::cards_per_frame));
  } while (!rest.empty());
  return said;
}
inline Bytes status(network::StatusCode code) {
  return bytes_of(encode(network::Status{code, {}}));
}

/// The next frame that comes.
inline network::FrameReader next_frame(network::Socket const& socket) {
  network::FrameReader reader;
  must(network::receive_frame(socket, reader, within(patience)));
  return reader;
}

/// A descriptor for each of so many ends of connections. False: this process may not have so many.
inline bool may_open(rlim_t descriptors) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  if (limit.rlim_cur >= descriptors) return true;
  limit.rlim_cur = descriptors;
  return limit.rlim_max >= descriptors && ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace lend::test
