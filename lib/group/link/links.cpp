// SPDX-License-Identifier: MIT OR Apache-2.0
// Prepares, connects and ends the links. By rdma_cm the higher of two ranks connects to the lower
// one, and so sends first.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <flow/greetings.hpp>
#include <group/link/links.hpp>
#include <launch/desk_table.hpp>
#include <verbs/queue/adoption.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <string>
#include <utility>

namespace lend::group {

namespace {

Error not_connected(std::uint32_t rank, Error const& why) {
  return Error{why.code(), "no connection to rank " + std::to_string(rank) + ": " + why.message()};
}

}  // namespace

// ---- made ----

Links::Links(ProtectionDomain const& domain, WaitSet set, Ranks ranks, GroupOptions const& options)
    : domain_{domain},
      set_{std::move(set)},
      ranks_{ranks},
      neighbours_{ranks.size, options.links},
      options_{options},
      cards_(ranks.size),
      links_(ranks.size),
      rank_by_tag_(ranks.size),
      ready_(std::max(ranks.size, 1u)) {
  std::iota(rank_by_tag_.begin(), rank_by_tag_.end(), 0u);
}

Result<void> Links::prepare(RemoteRegion const& status) {
  if (ranks_.size > 1 && !domain_.context().capabilities().endpoints) {
    LEND_TRY(linking, Linking::open(domain_.context(), options_.connector));
    linking_ = std::move(linking);
  }
  std::vector<std::uint32_t> linked;
  for (std::uint32_t rank = 0; rank < ranks_.size; ++rank)
    if (neighbours_.are_linked(ranks_.rank, rank)) linked.push_back(rank);
  // No completion wakes a rank that sleeps when something was written.
  if (!linked.empty() && options_.wait != Wait::event) {
    LEND_TRY(made, Mailboxes::create(domain_, static_cast<std::uint32_t>(linked.size()),
                                     options_.window));
    mailboxes_ = std::move(made);
  }
  for (auto const rank : linked) {
    LEND_TRYV(prepare_link(rank, status));
  }
  return success();
}

Result<void> Links::prepare_link(std::uint32_t rank, RemoteRegion const& status) {
  LinkOptions link{options_.message_bytes, options_.window};
  if (linking_ != nullptr) {
    link.greetings = flow::greetings_max - 1;  // unread ones
    LEND_TRY(address, linking_->new_address());
    cards_[rank].address = address;
  }
  ChannelOptions channel;
  channel.queue_pair.send_depth = link.send_depth();
  channel.queue_pair.receive_depth = link.receives();
  channel.queue_pair.connection = options_.connection;
  channel.keep_alive = options_.keep_alive;
  channel.wait_set = &set_;
  channel.tag = rank;
  LEND_TRY(prepared, channel::Preparing::prepare(domain_, channel, {}, std::chrono::seconds{1}));
  cards_[rank].endpoint = prepared.endpoint();
  cards_[rank].record = status;
  std::optional<Mailbox> mailbox;
  if (mailboxes_) {
    LEND_TRY(next, mailboxes_->make_next());
    LEND_TRY(remote, next.remote());
    cards_[rank].mailbox = remote;
    mailbox = std::move(next);
  }
  LEND_TRY(made, Link::prepare(domain_, std::move(prepared), std::move(mailbox), link));
  cards_[rank].message_bytes = options_.message_bytes;
  cards_[rank].window = options_.window;
  links_[rank] = std::move(made);
  linked_.push_back(rank);
  return success();
}

void Links::keep(std::span<std::uint32_t const> ranks) {
  if (ranks.size() == ranks_.size) return;
  std::vector<std::unique_ptr<Link>> links;
  std::vector<RankCard> cards;
  Ranks kept{.size = static_cast<std::uint32_t>(ranks.size())};
  linked_.clear();
  for (std::uint32_t const old : ranks) {
    auto const rank = static_cast<std::uint32_t>(links.size());
    if (old == ranks_.rank)
      kept.rank = rank;
    else
      linked_.push_back(rank);
    rank_by_tag_[old] = rank;
    links.push_back(std::move(links_[old]));
    cards.push_back(cards_[old]);
  }
  cards_ = std::move(cards);
  links_ = std::move(links);
  ranks_ = kept;
  neighbours_ = {kept.size, GroupLinks::all};
}

// ---- connected ----

Result<void> Links::connect(std::span<RankCard const> theirs, Deadline deadline,
                            Sleep const& sleep) {
  if (linking_ == nullptr) {
    for (auto const rank : linked_) {
      LEND_TRYV(links_[rank]->connect(theirs[rank]));
    }
    return success();
  }
  auto const linking = std::move(linking_);
  auto& making = linking->links();
  std::vector<Meeting> meetings(ranks_.size);
  for (auto const rank : linked_) {
    auto queue_pair = links_[rank]->take_queue_pair();
    if (ranks_.rank < rank) {
      making.accept(rank, cards_[rank].address.key, std::move(queue_pair), deadline);
      continue;
    }
    auto const begun = making.connect(rank, theirs[rank].address, std::move(queue_pair), deadline);
    if (!begun) return not_connected(rank, begun.error());
  }
  for (;;) {
    LEND_TRYV(take_connections(making, theirs, meetings));
    LEND_TRY(next_greeting, greet_peers(meetings));
    if (!next_greeting) return success();
    if (deadline.has_passed()) return connecting_is_late(meetings, deadline);
    LEND_TRY(may_sleep, set_.arm());
    if (!may_sleep) continue;
    LEND_TRYV(sleep(std::array{making.descriptor(), set_.descriptor()},
                    sooner(deadline, *next_greeting)));
  }
}

Result<void> Links::take_connections(GroupConnector::Links& making,
                                     std::span<RankCard const> theirs,
                                     std::span<Meeting> meetings) {
  for (;;) {
    LEND_TRY(made, making.next());
    if (!made) return success();
    auto& [rank, queue_pair] = *made;
    if (!queue_pair) return not_connected(rank, queue_pair.error());
    auto const first = verbs::QueuePairAccess::handle_of(queue_pair.value()).first_sender;
    auto const adopted = links_[rank]->adopt(std::move(queue_pair).value(), theirs[rank]);
    if (!adopted) return not_connected(rank, adopted.error());
    meetings[rank].begin(first);
  }
}

Result<std::optional<Deadline>> Links::greet_peers(std::span<Meeting> meetings) {
  LEND_TRYV(without_value(poll()));
  std::optional<Deadline> next;
  for (auto const rank : linked_) {
    Meeting& meeting = meetings[rank];
    auto const greeted = meeting.greet(*links_[rank]);
    if (!greeted) return not_connected(rank, greeted.error());
    if (!meeting.is_over())
      next = sooner(next.value_or(Deadline::never()), meeting.next_greeting());
  }
  return next;
}

Error Links::connecting_is_late(std::span<Meeting const> meetings, Deadline deadline) const {
  std::vector<std::uint32_t> missing;
  for (auto const rank : linked_)
    if (!meetings[rank].is_over()) missing.push_back(rank);
  return base::gave_up(deadline, "rank " + std::to_string(ranks_.rank) + " was not connected to " +
                                     launch::list_of(missing));
}

// ---- ended ----

void Links::end(MessageHead const& last, Deadline deadline) noexcept {
  for (;;) {
    bool is_over = true;
    for (auto const rank : linked_)
      is_over = links_[rank]->try_end(last) && links_[rank]->is_quiet() && is_over;
    if (is_over) return;
    auto const ready = wait(deadline);
    if (!ready.has_value()) return;
    for (Ready const& one : ready.value())
      if (is_of_link(one)) static_cast<void>(links_[rank_of(one)]->take_arrivals());
  }
}

void Links::clear() noexcept {
  for (auto const rank : linked_) links_[rank].reset();
  linked_.clear();
}

}  // namespace lend::group
