// SPDX-License-Identifier: MIT OR Apache-2.0
// What a desk does with each frame, and what it sends. desk_state.cpp has the loop.
#include <launch/desk_state.hpp>

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

namespace lend::launch {

// ---- what comes ----

/// One frame at most: the others take turns.
void DeskState::read(Connection& one) {
  auto const arrived = read_available(one.socket, one.reader);
  if (!arrived) {
    return leave(one, arrived.error().message());
  }
  if (!arrived.value()) return;
  on_frame(one);
  one.reader.restart();
}

void DeskState::on_frame(Connection& one) {
  auto const kind = one.reader.kind();
  if (kind == network::FrameKind::cards) return on_cards(one);
  if (kind == network::FrameKind::status) return on_status(one);
  leave(one, "sent a frame out of turn");
}

/// A client has sent its sit, or something else.
network::Status DeskState::admit(network::Admission::Client& client) {
  if (client.reader.kind() != network::FrameKind::sit)
    return {network::StatusCode::foreign, "sent a frame out of turn"};
  auto const sit = sit_in(client.reader);
  if (!sit) return {network::StatusCode::foreign, sit.error().message()};
  auto const rank = sit.value().rank;
  // One that was started again may sit before it was noticed that its predecessor hung up.
  auto* const holder = rank < seats_.size() ? seats_[rank] : nullptr;
  if (holder != nullptr && network::has_hung_up(holder->socket.fd.get()))
    leave(*holder, "closed the connection during the exchange");
  auto status = table_->sit(sit.value(), name_of(client.socket));
  if (status.code != network::StatusCode::agreed) return status;
  auto& one = seated_.emplace_back();
  one.socket = std::move(client.socket);
  one.sealing = std::move(client.sealing);
  if (one.sealing) one.reader.open_by(*one.sealing);
  one.rank = rank;
  seats_[rank] = &one;
  auto const watched = poller_.watch(one.socket.fd.get(), network::event_input, &one);
  if (!watched)
    leave(one, "came when this failed: " + watched.error().message());
  else if (!sends_at_once(one.socket, encode(status, one.sealing.get())))
    leave(one, "closed the connection when it sat");
  return status;
}

void DeskState::on_cards(Connection& one) {
  auto frame = cards_in(one.reader);
  if (!frame) return leave(one, frame.error().message());
  auto const total = frame.value().total;
  if (table_->state(one.rank) != DeskTable::State::seated || total >= table_->size() ||
      one.cards.size() + frame.value().cards.size() > total)
    return leave(one, "handed in too many endpoints");
  for (auto const& card : frame.value().cards) {
    if (card.rank >= table_->size() || card.rank == one.rank)
      return leave(one, "handed in an endpoint for no other rank");
    one.cards.push_back(card);
  }
  if (one.cards.size() < total || !table_->offers(one.rank)) return;
  if (table_->phase() == DeskTable::Phase::asking) hand_out_cards();
}

void DeskState::on_status(Connection& one) {
  auto const status = one.reader.status();
  if (!status) return leave(one, status.error().message());
  if (status.value().code == network::StatusCode::awaited) {
    one.owes_awaited = true;
    return push(one);
  }
  if (status.value().code != network::StatusCode::ready) return leave(one, status.value().text);
  if (!table_->is_ready(one.rank)) return leave(one, "was ready out of turn");
  if (table_->phase() == DeskTable::Phase::going) let_go();
}

// ---- what it brings about ----

void DeskState::begin_if_due() {
  if (!table_->are_enough()) {
    others_until_ = Deadline::never();
    return;
  }
  if (others_until_.is_never())
    others_until_ = within(std::chrono::milliseconds{table_->patience_ms()});
  if (others_until_.has_passed() && table_->begin_without_the_others()) hand_out_cards();
}

/// Those for ranks that are no members lead nowhere.
void DeskState::hand_out_cards() {
  std::vector<Connection*> members;
  for (auto* const one : seats_)
    if (one != nullptr) members.push_back(one);
  for (auto* const from : members) {
    for (auto const& card : from->cards)
      if (auto* const to = seats_[card.rank]; to != nullptr) {
        to->theirs.push_back(card);
        to->theirs.back().rank = from->rank;
      }
    from->cards = {};
  }
  for (auto* const to : members) {
    to->next_member = to->next_card = 0;
    to->owes_members = to->owes_cards = true;
  }
  // One that hangs up here withdraws all: nothing more is owed then.
  for (auto* const to : members)
    if (to->owes_cards) push(*to);
}

/// Nothing is withdrawn any more: one that cannot be told has no part in the group.
void DeskState::let_go() {
  for (auto* const one : std::vector{seats_}) {
    if (one == nullptr) continue;
    auto const go = encode(network::Status{network::StatusCode::ready, {}}, one->sealing.get());
    // It has read all that it was sent, so that there is room.
    if (!one->sending && sends_at_once(one->socket, go)) {
      table_->tell(one->rank);
      end_sending(one->socket);
      close(*one);
    } else {
      leave(*one, "closed the connection when all were ready");
    }
  }
}

/// One that sits is over. If endpoints had been handed out, the others hand in other ones.
void DeskState::leave(Connection& one, std::string const& why) {
  auto const rank = one.rank;
  reject(one, network::StatusCode::foreign, why);
  seats_[rank] = nullptr;
  one.owes_members = one.owes_cards = false;
  if (!table_->leaves(rank, why)) return;
  for (auto* const other : seats_) {
    if (other == nullptr) continue;
    other->theirs.clear();
    other->owes_members = other->owes_cards = false;
    other->owes_again = true;
  }
  for (auto* const other : std::vector{seats_})
    if (other != nullptr && !other->is_closed) push(*other);
}

// ---- what is sent ----

void DeskState::push(Connection& one) {
  for (;;) {
    if (!one.sending) {
      one.sending = next_frame(one);
      one.sent = 0;
    }
    if (!one.sending) break;
    auto const bytes = one.sending->bytes().subspan(one.sent);
    auto const sent = ::send(one.socket.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (sent < 0) return leave(one, "closed the connection");
    one.sent += static_cast<std::size_t>(sent);
    if (one.sent == one.sending->size) one.sending.reset();
  }
  bool const waits = one.sending.has_value();
  if (waits == one.waits_to_write) return;
  one.waits_to_write = waits;
  poller_.watch_again(one.socket.fd.get(),
                      waits ? network::event_input | EPOLLOUT : network::event_input, &one);
}

std::optional<network::Frame> DeskState::next_frame(Connection& one) {
  auto* const sealing = one.sealing.get();
  if (std::exchange(one.owes_again, false))
    return encode(network::Status{network::StatusCode::again, awaited()}, sealing);
  if (one.owes_members) {
    auto const first = std::exchange(one.next_member, one.next_member + network::members_per_frame);
    auto const& members = table_->members();
    one.owes_members =
        members.ranks.size() < table_->size() && one.next_member < members.ranks.size();
    return encode_members(members, first, table_->size(), sealing);
  }
  if (one.owes_cards) {
    auto const total = static_cast<std::uint32_t>(one.theirs.size());
    auto const rest = std::span<Card const>{one.theirs}.subspan(one.next_card);
    one.next_card += std::min(rest.size(), network::cards_per_frame);
    one.owes_cards = one.next_card < one.theirs.size();
    return encode_cards(total, rest, sealing);
  }
  if (std::exchange(one.owes_awaited, false))
    return encode(network::Status{network::StatusCode::awaited, awaited()}, sealing);
  return std::nullopt;
}

}  // namespace lend::launch
