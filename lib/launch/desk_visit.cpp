// SPDX-License-Identifier: MIT OR Apache-2.0
// The meeting in the order of its frames, and what keeps a rank waiting.
#include <base/giving_up.hpp>
#include <launch/asking.hpp>
#include <launch/desk_visit.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <utility>

namespace lend::launch {

namespace {

using namespace std::chrono_literals;

// So long before its deadline a rank asks which are missing, or a quarter of its time.
constexpr Deadline::Clock::duration asks_before = 1s;
// How long the desk may take to say that a rank is lost.
constexpr Deadline::Clock::duration loss_patience = 2s;
constexpr Deadline::Clock::duration visit_back_off_shortest = 20ms;
constexpr Deadline::Clock::duration visit_back_off_longest = 100ms;

/// By the clock's last digits: ranks that were rejected together do not come again together.
Deadline::Clock::duration back_off() noexcept {
  auto const digits = Deadline::Clock::now().time_since_epoch();
  return visit_back_off_shortest + digits % (visit_back_off_longest - visit_back_off_shortest);
}

Deadline time_to_ask(Deadline deadline) {
  if (deadline.at() == Deadline::Clock::time_point::max()) return Deadline::never();
  return until(deadline.at() - std::min(asks_before, deadline.left() / 4));
}

}  // namespace

DeskVisit::DeskVisit(Seat const& seat, network::Secret secret, Sit sit, Deadline deadline) noexcept
    : rank_{seat.rank},
      size_{seat.size},
      desk_name_{seat.desk},
      secret_{std::move(secret)},
      sit_{std::move(sit)},
      deadline_{deadline},
      asks_at_{time_to_ask(deadline)} {}

Result<DeskVisit> DeskVisit::sit(Seat const& asked, Terms const& terms, Deadline deadline,
                                 Coming const& coming) {
  LEND_TRYV(check(asked));
  LEND_TRY(seat, find_desk(asked, deadline));
  LEND_TRYV(check(seat));
  LEND_TRY(secret, network::Secret::of(seat.secret));
  DeskVisit meeting{seat, std::move(secret), Sit{seat.group, seat.rank, seat.size, terms, coming},
                    deadline};
  if (seat.rank == 0 && !seat.desk_is_served) {
    LEND_TRY(own, network::Secret::of(seat.secret));
    LEND_TRY(desk, DeskState::open(seat.desk, seat.group, std::move(own), deadline));
    LEND_TRYV(desk->begin(seat.size, deadline));
    meeting.desk_ = std::move(desk);
  }
  LEND_TRYV(meeting.sit_again());
  return meeting;
}

Result<void> DeskVisit::sit_again() {
  for (;;) {
    auto const sat = sit_once();
    if (sat) return sat;
    // No desk yet, or one that is full or between two meetings: the next attempt may succeed.
    if (sat.error() != Errc::peer_lost) return sat.error();
    awaited_ = sat.error().message();
    LEND_TRYV(without_value(network::wait_for({}, sooner(deadline_, within(back_off())))));
    if (deadline_.has_passed()) return gave_up();
  }
}

Result<void> DeskVisit::sit_once() {
  network::Waiting const waiting{deadline_, desk_.get()};
  if (desk_) {
    LEND_TRY(within_process, desk_->connect_within());
    socket_ = std::move(within_process);
  } else {
    LEND_TRY(connected, network::reach(desk_name_, deadline_));
    socket_ = std::move(connected);
  }
  reader_ = std::make_unique<network::FrameReader>();
  LEND_TRY(sealing, prove_each_other(socket_, *reader_, secret_, network::Purpose::sit, waiting));
  sealing_ = std::move(sealing);
  LEND_TRYV(offer(socket_, encode(sit_, sealing_.get()), waiting));
  reader_->restart();
  LEND_TRYV(receive_frame(socket_, *reader_, waiting));
  if (reader_->kind() != network::FrameKind::status)
    return refused(socket_, "sent a frame out of turn");
  LEND_TRY(status, read_status(socket_, *reader_));
  if (status.code == network::StatusCode::agreed) return success();
  return error_of_rejection(socket_, status);
}

Result<std::optional<Proposal>> DeskVisit::swap(std::span<Card const> cards) {
  auto const total = static_cast<std::uint32_t>(cards.size());
  auto rest = cards;
  do {
    LEND_TRYV(send(encode_cards(total, rest, sealing_.get())));
    rest = rest.subspan(std::min(rest.size(), network::cards_per_frame));
  } while (!rest.empty());
  Proposal proposal;
  auto& theirs = proposal.cards;
  for (bool has_members = false;;) {
    LEND_TRYV(next_frame());
    if (reader_->kind() == network::FrameKind::status) {
      LEND_TRYV(take_withdrawal());
      return std::nullopt;
    }
    if (reader_->kind() != (has_members ? network::FrameKind::cards : network::FrameKind::members))
      return refused(socket_, "sent a frame out of turn");
    if (!has_members) {
      LEND_TRY(are_all, take_members(proposal.members));
      has_members = are_all;
      continue;
    }
    auto frame = cards_in(*reader_);
    if (!frame) return refused(socket_, frame.error().message());
    if (frame.value().total >= size_ || theirs.size() + frame.value().cards.size() >= size_)
      return refused(socket_, "handed out more cards than there are other ranks");
    theirs.insert(theirs.end(), frame.value().cards.begin(), frame.value().cards.end());
    if (theirs.size() < frame.value().total && !frame.value().cards.empty()) continue;
    LEND_TRY(ordered, in_order_of(cards, std::move(theirs), proposal.members));
    theirs = std::move(ordered);
    return std::optional{std::move(proposal)};
  }
}

Result<bool> DeskVisit::take_members(Members& members) const {
  auto frame = members_in(*reader_);
  if (!frame) return refused(socket_, frame.error().message());
  auto const total = frame.value().total;
  if (total == 0 || total > size_) return refused(socket_, "proposed a group that cannot be");
  auto& ranks = members.ranks;
  members.generation = frame.value().members.generation;
  members.finished_by_all = frame.value().members.finished_by_all;
  std::ranges::copy(frame.value().members.ranks, std::back_inserter(ranks));
  if (ranks.empty() && total == size_)
    for (std::uint32_t rank = 0; rank < size_; ++rank) ranks.push_back(rank);
  if (ranks.size() < total && !frame.value().members.ranks.empty()) return false;
  bool const is_list = ranks.size() == total && std::ranges::is_sorted(ranks, std::less_equal{}) &&
                       std::ranges::find(ranks, rank_) != ranks.end() && ranks.back() < size_;
  if (!is_list) return refused(socket_, "proposed a group that cannot be");
  return true;
}

Result<std::vector<Card>> DeskVisit::in_order_of(std::span<Card const> cards,
                                                 std::vector<Card> theirs,
                                                 Members const& members) const {
  std::vector<bool> is_member(size_);
  for (auto const rank : members.ranks) is_member[rank] = true;
  std::vector<Card const*> by_rank(size_);
  bool is_good = true;
  for (auto const& card : theirs) {
    is_good = is_good && card.rank < size_ && is_member[card.rank] && by_rank[card.rank] == nullptr;
    if (is_good) by_rank[card.rank] = &card;
  }
  std::vector<Card> ordered;
  for (auto const& card : cards)
    if (is_member[card.rank] && by_rank[card.rank] != nullptr)
      ordered.push_back(*by_rank[card.rank]);
  auto const wanted = static_cast<std::size_t>(
      std::ranges::count_if(cards, [&](Card const& card) { return is_member[card.rank]; }));
  if (is_good && ordered.size() == wanted && theirs.size() == wanted) return ordered;
  return Error{Errc::incompatible_peer, "rank " + std::to_string(rank_) + " has " +
                                            std::to_string(wanted) + " links, and " +
                                            std::to_string(theirs.size()) +
                                            " lead to it; join with the same options at all ranks"};
}

Result<bool> DeskVisit::confirm() {
  LEND_TRYV(send(encode(network::Status{network::StatusCode::ready, {}}, sealing_.get())));
  LEND_TRYV(next_frame());
  if (reader_->kind() != network::FrameKind::status)
    return refused(socket_, "sent a frame out of turn");
  LEND_TRY(status, read_status(socket_, *reader_));
  if (status.code != network::StatusCode::ready) {
    LEND_TRYV(take_withdrawal());
    return false;
  }
  // The others' word goes out with this rank's own.
  return true;
}

Result<void> DeskVisit::sleep_on(std::span<int const> descriptors, Deadline deadline) {
  std::vector<pollfd> polled{{socket_.fd.get(), POLLIN, 0},
                             {desk_ ? desk_->descriptor() : -1, POLLIN, 0}};
  for (int const descriptor : descriptors) polled.push_back({descriptor, POLLIN, 0});
  LEND_TRYV(without_value(network::wait_for(polled, deadline)));
  if (polled[1].revents != 0) {
    LEND_TRYV(desk_->serve());
  }
  if (polled[0].revents == 0) return success();
  LEND_TRYV(next_frame());
  if (reader_->kind() != network::FrameKind::status)
    return refused(socket_, "sent a frame out of turn");
  LEND_TRYV(take_withdrawal());
  is_withdrawn_ = true;
  return Error{Errc::peer_lost, awaited_};
}

bool DeskVisit::begins_again(std::string const& why) {
  if (std::exchange(is_withdrawn_, false)) return true;
  auto const deadline = std::exchange(deadline_, sooner(deadline_, within(loss_patience)));
  auto const said = next_frame();
  deadline_ = deadline;
  if (said && reader_->kind() == network::FrameKind::status && take_withdrawal()) return true;
  give_up(why);
  return false;
}

void DeskVisit::give_up(std::string const& why) {
  send_rejection(socket_, network::Status{network::StatusCode::failed, why}, sealing_.get());
  if (desk_) static_cast<void>(desk_->serve());
}

// ---- waiting ----

Result<void> DeskVisit::send(network::Frame const& frame) {
  return offer(socket_, frame, {deadline_, desk_.get()});
}

Result<void> DeskVisit::next_frame() {
  reader_->restart();
  for (;;) {
    auto const limit = has_asked_ ? deadline_ : sooner(deadline_, asks_at_);
    auto const received = receive_frame(socket_, *reader_, {limit, desk_.get()});
    if (!received && base::is_given_up(received.error())) {
      if (has_asked_ || deadline_.has_passed()) return gave_up();
      has_asked_ = true;
      LEND_TRYV(send(encode(network::Status{network::StatusCode::awaited, {}}, sealing_.get())));
      continue;
    }
    if (!received && received.error() == Errc::peer_lost)
      return about_desk(Errc::peer_lost, "is gone; start all ranks again");
    if (!received) return received.error();
    if (reader_->kind() != network::FrameKind::status) return success();
    LEND_TRY(status, read_status(socket_, *reader_));
    if (status.code != network::StatusCode::awaited) return success();
    awaited_ = std::move(status.text);
    reader_->restart();
  }
}

Result<void> DeskVisit::take_withdrawal() {
  LEND_TRY(status, read_status(socket_, *reader_));
  if (status.code == network::StatusCode::again) {
    awaited_ = std::move(status.text);
    return success();
  }
  if (status.code == network::StatusCode::late)
    return about_desk(Errc::timed_out, "ended the meeting: this side " + status.text);
  return error_of_rejection(socket_, status);
}

Error DeskVisit::gave_up() const {
  return base::gave_up(
      deadline_,
      "rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
          " did not meet the others at " + desk_name_ +
          (desk_ ? ", where it listened at " + desk_->places() : ""),
      (awaited_.empty() ? "" : ": " + awaited_) + "; start the missing ranks or wait longer");
}

Error DeskVisit::about_desk(Errc code, std::string const& clause) const {
  return {code, "rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                    ": the desk at " + desk_name_ + " " + clause};
}

}  // namespace lend::launch
