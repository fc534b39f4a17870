// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a collective over the links. The thread of the group.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/group_state.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace lend::group {

namespace {

std::unique_ptr<Membership> whole_of(Ranks ranks, bool has_few_links) {
  Membership whole{.ranks = ranks, .is_whole = true, .has_few_links = has_few_links};
  for (std::uint32_t rank = 0; rank < ranks.size; ++rank) whole.members.push_back(rank);
  whole.id = Membership::id_of(whole.members);
  return std::make_unique<Membership>(std::move(whole));
}

}  // namespace

// ---- together ----

GroupState::GroupState(ProtectionDomain const& domain, WaitSet set, OwnRecord record,
                       std::optional<MemoryRegion> places, Ranks ranks, GroupOptions const& options)
    : domain_{domain},
      set_{std::move(set)},
      record_{std::move(record)},
      stage_{record_, std::move(places)},
      ranks_{ranks},
      neighbours_{ranks.size, options.links},
      options_{options},
      cards_(ranks.size),
      links_(ranks.size),
      rank_by_tag_(ranks.size),
      ready_(std::max(ranks.size, 1u)),
      call_{options, stage_} {
  std::iota(rank_by_tag_.begin(), rank_by_tag_.end(), 0u);
  teams_.push_back(whole_of(ranks, neighbours_.are_few()));
}

Result<std::shared_ptr<GroupState>> GroupState::prepare(ProtectionDomain const& domain, Ranks ranks,
                                                        GroupOptions const& options) {
  LEND_TRY(set, WaitSet::create(domain.context(), options.wait));
  bool const is_alone = ranks.size <= 1;
  LEND_TRY(record, OwnRecord::create(domain, is_alone ? 0 : Stage::shown_bytes));
  std::optional<MemoryRegion> places;
  if (!is_alone) {
    LEND_TRY(memory, domain.allocate(Stage::shown_bytes));
    places = std::move(memory);
  }
  LEND_TRY(remote, record.remote());
  auto state = std::make_shared<GroupState>(domain, std::move(set), std::move(record),
                                            std::move(places), ranks, options);
  if (!is_alone && !domain.context().capabilities().endpoints) {
    LEND_TRY(linking, Linking::open(domain.context(), options.connector));
    state->linking_ = std::move(linking);
  }
  std::vector<std::uint32_t> linked;
  for (std::uint32_t i = 0; i < ranks.size; ++i)
    if (state->neighbours_.are_linked(ranks.rank, i)) linked.push_back(i);
  // No completion wakes a rank that sleeps when something was written.
  if (!linked.empty() && options.wait != Wait::event) {
    LEND_TRY(made,
             Mailboxes::create(domain, static_cast<std::uint32_t>(linked.size()), options.window));
    state->mailboxes_ = std::move(made);
  }
  for (auto const rank : linked) {
    LEND_TRYV(state->prepare_link(rank, remote));
  }
  return state;
}

Result<void> GroupState::prepare_link(std::uint32_t rank, RemoteRegion const& record) {
  LinkOptions link{options_.message_bytes, options_.window};
  link.mailboxes = mailboxes_ ? &*mailboxes_ : nullptr;
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
  cards_[rank].record = record;
  LEND_TRY(made, Link::prepare(domain_, std::move(prepared), link));
  LEND_TRY(mailbox, made->mailbox());
  cards_[rank].mailbox = mailbox;
  cards_[rank].message_bytes = options_.message_bytes;
  cards_[rank].window = options_.window;
  links_[rank] = std::move(made);
  linked_.push_back(rank);
  return success();
}

void GroupState::keep(std::span<std::uint32_t const> ranks) {
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
  teams_.front() = whole_of(kept, false);
}

// ---- teams ----

Result<Membership*> GroupState::team(std::span<std::uint32_t const> members) {
  if (has_left_) return Error{Errc::stale_handle, "the Group of the team has ended"};
  auto const wrong = [](std::string why) {
    return Error{Errc::invalid_argument, "no such team: " + std::move(why)};
  };
  auto const is_this = [&](auto const& each) { return std::ranges::equal(each->members, members); };
  if (auto const it = std::ranges::find_if(teams_, is_this); it != teams_.end()) return it->get();

  std::vector<bool> is_member(ranks_.size);
  for (std::uint32_t const rank : members) {
    if (rank >= ranks_.size)
      return wrong("there is no rank " + std::to_string(rank) + ", the ranks are 0 to " +
                   std::to_string(ranks_.size - 1));
    if (is_member[rank]) return wrong("rank " + std::to_string(rank) + " is named twice");
    is_member[rank] = true;
  }
  if (!is_member[ranks_.rank])
    return wrong("this rank, " + std::to_string(ranks_.rank) + ", is not one of its " +
                 std::to_string(members.size()) + " members");
  LEND_TRYV(check_links_of(members));
  auto const own = std::ranges::find(members, ranks_.rank) - members.begin();
  auto const id = Membership::id_of(members);
  // Ranks that share a link are in both teams, if messages of both go over it: each sees the clash.
  if (std::ranges::any_of(teams_, [&](auto const& each) { return each->id == id; }))
    return wrong(
        "its number is that of another team of this rank; name the ranks in another order");
  teams_.push_back(std::make_unique<Membership>(Membership{
      .members{members.begin(), members.end()},
      .ranks{static_cast<std::uint32_t>(own), static_cast<std::uint32_t>(members.size())},
      .id = id}));
  return teams_.back().get();
}

/// The same at all members, so that none waits for another that was refused.
Result<void> GroupState::check_links_of(std::span<std::uint32_t const> members) const {
  if (!neighbours_.are_few()) return success();
  for (auto const one : members)
    for (auto const other : members)
      if (one < other && !neighbours_.are_linked(one, other))
        return Error{Errc::invalid_argument,
                     "no such team: ranks " + std::to_string(one) + " and " +
                         std::to_string(other) +
                         " have no link, and all members need one to each other; make the group "
                         "with GroupLinks::all"};
  return success();
}

// ---- one call ----

Result<void> GroupState::check_usable() const noexcept {
  if (has_left_) return Error{Errc::stale_handle, "the Group of the team has ended"};
  if (inheritance_.is_inherited())  // and so is the memory of its messages
    return Error{Errc::system_failed, "the group was made before fork(): it is the parent's"};
  if (broken_) return Error{Errc::channel_broken, "the group is broken"}.with_cause(*broken_);
  return success();
}

Error GroupState::is_under_way() const {
  return {Errc::invalid_argument,
          call_.text() + " is still under way: " +
              (posted_.is_empty() || run_ != 0
                   ? "make that call again, with the same arguments, until it is over"
                   : "it was posted in a GroupScope; wait for it, and for what was posted after")};
}

Result<void> GroupState::begin(Membership& team, Call const& call) noexcept {
  LEND_TRYV(call_.begin(team, call));
  record_.enter(team, call);
  return check_agreement();
}

Result<void> GroupState::check_agreement() noexcept {
  for (auto const rank : linked_) {
    if (links_[rank]->arrived().empty()) continue;
    LEND_TRYV(check_agreement(rank));
  }
  return success();
}

void GroupState::end() noexcept {
  finish(call_.team());
  call_.end();
}

void GroupState::finish(Membership const& team) noexcept {
  if (team.is_whole) ++history_.finished;
  if (tally_) [[unlikely]]
    tally_->succeed();
  record_.leave();
}

Result<void> GroupState::run(Membership& team, Call const& call, Deadline deadline) noexcept {
  LEND_TRYV(check_usable());
  if (call_.exists() && (!posted_.is_empty() || !call_.goes_on_with(team, call)))
    return is_under_way();
  auto const is_new = !call_.exists();
  auto const around = is_new ? look_around() : success();
  if (around.has_error()) {
    break_by(around.error());
    return around;
  }
  if (is_new && run_shortly(team, call, deadline) == Shortly::over) return success();
  begin_waiting(deadline);
  auto const done = [&]() -> Result<void> {
    if (!call_.exists()) {
      LEND_TRYV(begin(team, call));
    } else if (is_new) {
      LEND_TRYV(check_agreement());
    } else {
      call_.go_on(call);
    }
    for (;;) {
      LEND_TRY(is_over, advance());
      if (is_over) return success();
      LEND_TRYV(wait(deadline, "; it is still under way: make the same call again"));
    }
  }();
  if (done.has_value())
    end();
  else if (!base::is_given_up(done.error()))
    break_by(done.error());
  return done;
}

Result<void> GroupState::run_on_value(Membership& team, Call call, std::span<std::byte> value,
                                      Deadline deadline) noexcept {
  std::span<std::byte> const kept{value_.data(), value.size()};
  if (!call.in.empty()) call.in = kept;
  call.out = kept;
  if (!call_.exists()) std::memcpy(kept.data(), value.data(), value.size());
  LEND_TRYV(run(team, call, deadline));
  std::memcpy(value.data(), kept.data(), value.size());
  return success();
}

Result<void> GroupState::run_from_value(Membership& team, Call call, Deadline deadline) noexcept {
  std::span<std::byte> const kept{value_.data(), call.in.size()};
  if (!call_.exists()) std::memcpy(kept.data(), call.in.data(), call.in.size());
  call.in = kept;
  return run(team, call, deadline);
}

Result<bool> GroupState::advance() noexcept {
  if (call_.is_long()) return advance_long();
  while (!call_.is_over()) {
    LEND_TRY(is_round_over, advance_round());
    if (!is_round_over) return false;
    call_.next_round();
  }
  return true;
}

Result<bool> GroupState::advance_round() noexcept {
  auto const steps = call_.steps();
  bool all_sent = true;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (call_.is_done(i) || steps[i].kind != Step::Kind::send) continue;
    LEND_TRY(is_sent, send(steps[i]));
    if (is_sent) call_.set_done(i);
    all_sent &= is_sent;
  }
  if (!all_sent) return false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (call_.is_done(i)) continue;
    LEND_TRY(is_received, receive(steps[i]));
    if (!is_received) return false;
    call_.set_done(i);
  }
  return true;
}

// ---- one step ----

Result<bool> GroupState::send(Step const& step) noexcept {
  return tell(call_.rank_of(step.peer), call_.head(step), call_.piece_of(step));
}

Result<bool> GroupState::tell(std::uint32_t rank, Note const& note,
                              std::span<std::byte const> bytes) noexcept {
  Link& link = *links_[rank];
  std::optional<Error> failure;
  if (!link.peer_has_left()) {
    auto const sent = link.try_send(note, bytes);
    if (sent.has_value()) return sent.assume_value();
    failure = sent.error();
  }
  // With the rank, if that is why.
  LEND_TRYV(check_for_losses());
  if (!failure || link.peer_has_left()) return needs_one_that_left(rank);
  return *failure;
}

Result<bool> GroupState::receive(Step const& step) noexcept {
  auto const own = call_.piece_of(step);
  if (step.kind == Step::Kind::combine_own) {
    call_.take(step, own);
    return true;
  }
  auto const rank = call_.rank_of(step.peer);
  Link& link = *links_[rank];
  auto const arrived = link.arrived();
  auto const it =
      std::ranges::find_if(arrived, [&](auto const& each) { return call_.is_of_round(each.note); });
  if (it == arrived.end()) return false;
  auto const theirs = link.bytes_of(*it);
  if (call_.call().is_uneven() && it->note.call_bytes != call_.part_bytes(step))
    return found(Fault::Reason::disagreed, rank,
                 {Errc::disagreement,
                  "rank " + std::to_string(rank) + " sends " + std::to_string(it->note.call_bytes) +
                      " bytes to this rank, which expects " +
                      std::to_string(call_.part_bytes(step)) + " in " + call_.text()});
  if (theirs.size() != own.size())
    return found(Fault::Reason::disagreed, rank,
                 {Errc::disagreement, "rank " + std::to_string(rank) + " sent " +
                                          std::to_string(theirs.size()) + " bytes, not " +
                                          std::to_string(own.size())});
  call_.take(step, theirs);
  LEND_TRYV(release(link, static_cast<std::size_t>(it - arrived.begin())));
  return true;
}

Result<void> GroupState::release(Link& link, std::size_t index) noexcept {
  auto const released = link.release(index);
  // A link that has ended counts where something is needed of it.
  if (!released && link.failure() == nullptr) return released.error();
  return success();
}

}  // namespace lend::group
