// SPDX-License-Identifier: MIT OR Apache-2.0
// The links of a group, its teams, and the collective under way. The thread of the group.
#pragma once

#include <group/call.hpp>
#include <group/link.hpp>
#include <group/linking.hpp>
#include <group/neighbours.hpp>
#include <group/peer_list.hpp>
#include <group/posted_calls.hpp>
#include <group/record.hpp>
#include <group/roll_call.hpp>
#include <group/stage.hpp>
#include <group/under_way.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/group/prepared_group.hpp>
#include <verbs/device/forking.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lend::group {

/// Of a group among those that its ranks have been in.
struct History {
  std::uint32_t generation = 1;
  std::uint32_t seen = 1;             ///< the latest that a desk has proposed to this rank
  std::uint64_t finished = 0;         ///< calls of the whole group
  std::uint64_t finished_by_all = 0;  ///< of the group before
};

class GroupState {
 public:
  [[nodiscard]] static Result<std::shared_ptr<GroupState>> prepare(ProtectionDomain const& domain,
                                                                   Ranks ranks,
                                                                   GroupOptions const& options);
  GroupState(ProtectionDomain const& domain, WaitSet set, OwnRecord record,
             std::optional<MemoryRegion> places, Ranks ranks, GroupOptions const& options);
  GroupState(GroupState const&) = delete;
  GroupState& operator=(GroupState const&) = delete;
  ~GroupState() { leave(); }

  [[nodiscard]] std::span<RankCard const> cards() const noexcept { return cards_; }
  /// Leaves out the other ranks, and numbers these from 0. Before connect().
  /// Shape:   `ranks` ascend and have this one; all, where there are few links.
  void keep(std::span<std::uint32_t const> ranks);
  /// Where endpoints connect, at once; else until all have met, and `sleep` is called meanwhile.
  /// Errors:  name the rank.
  [[nodiscard]] Result<void> connect(std::span<RankCard const> theirs, Deadline deadline,
                                     Sleep const& sleep);

  /// Not all ranks met: it ends without a word to the others.
  void end_silently() noexcept { broken_ = Error{Errc::peer_lost}; }
  /// Tells the others, unless the group is broken or a call is under way, and disconnects. Handles
  /// of teams may stay.
  void leave() noexcept;

  [[nodiscard]] ProtectionDomain const& domain() const noexcept { return domain_; }
  [[nodiscard]] bool is_inherited() const noexcept { return inheritance_.is_inherited(); }
  [[nodiscard]] History& history() noexcept { return history_; }
  [[nodiscard]] Ranks ranks() const noexcept { return ranks_; }
  [[nodiscard]] Neighbours const& neighbours() const noexcept { return neighbours_; }
  [[nodiscard]] GroupOptions const& options() const noexcept { return options_; }
  [[nodiscard]] Membership& whole() const noexcept { return *teams_.front(); }
  /// The team of these ranks, which is always the same.
  /// Errors:  invalid_argument  no such team.
  [[nodiscard]] Result<Membership*> team(std::span<std::uint32_t const> members);

  /// Begins a call, or goes on with the one under way, until it is over.
  [[nodiscard]] Result<void> run(Membership& team, Call const& call, Deadline deadline) noexcept;
  /// A call on one value, which is kept here meanwhile.
  [[nodiscard]] Result<void> run_on_value(Membership& team, Call call, std::span<std::byte> value,
                                          Deadline deadline) noexcept;
  /// The same of a call that sends one value and sets the caller's row.
  [[nodiscard]] Result<void> run_from_value(Membership& team, Call call,
                                            Deadline deadline) noexcept;

  /// The same of registered memory, which is lent until the call is over.
  [[nodiscard]] Result<void> run_lent(Membership& team, Call const& call, GatherElement in,
                                      ScatterElement out, Deadline deadline) noexcept;

  /// Posts a call for a scope: begins it, or has it wait for those that were posted before.
  [[nodiscard]] Result<PostedCalls::Id> post(Membership& team, Call const& call, GatherElement in,
                                             ScatterElement out) noexcept;
  /// Whether it has ended.
  [[nodiscard]] Result<bool> poll(PostedCalls::Id id) noexcept;
  /// Until it has ended; `then` is what an error says of the call that has not.
  [[nodiscard]] Result<void> wait_for(PostedCalls::Id id, Deadline deadline,
                                      std::string_view then) noexcept;
  /// The same; at the deadline all calls are abandoned.
  [[nodiscard]] Result<void> drain(PostedCalls::Id id, Deadline deadline) noexcept;

  /// Ends the call under way, and those that were posted, and so breaks the group.
  void abandon() noexcept;
  /// The same with a reason, also between calls.
  void abandon(std::string_view why) noexcept;
  /// Takes what has come, without waiting, and goes on with what was posted. Whether there was any.
  [[nodiscard]] Result<bool> look() noexcept;
  [[nodiscard]] Result<bool> arm() noexcept;
  [[nodiscard]] int descriptor() const noexcept;
  [[nodiscard]] Deadline look_again() const noexcept;
  /// Ranks that had not entered the call that timed out last.
  [[nodiscard]] std::span<std::uint32_t const> missing() const noexcept { return missing_; }
  [[nodiscard]] std::optional<std::uint32_t> lost_rank() const noexcept;
  [[nodiscard]] Error const* first_cause() const noexcept { return broken_ ? &*broken_ : nullptr; }
  [[nodiscard]] PeerList& peers() noexcept { return peers_; }

 private:
  friend class PeerList;
  [[nodiscard]] Result<void> prepare_link(std::uint32_t rank, RemoteRegion const& record);
  [[nodiscard]] Result<void> take_connections(GroupConnector::Links& making,
                                              std::span<RankCard const> theirs);
  [[nodiscard]] Result<std::optional<Deadline>> greet_peers();
  [[nodiscard]] Error connecting_is_late(Deadline deadline) const;

  [[nodiscard]] Result<void> check_usable() const noexcept;
  [[nodiscard]] Result<void> check_links_of(std::span<std::uint32_t const> members) const;
  /// With the reason why the posted call has not ended.
  [[nodiscard]] Result<void> check_usable_for(PostedCalls::Id id) const noexcept;
  [[nodiscard]] Error error_of(PostedCalls::Id id) const noexcept;
  /// Refuses a call beside the one under way.
  [[nodiscard]] Error is_under_way() const;

  // short_call.cpp: calls of few bytes

  enum class Shortly {
    not_begun,
    over,
    under_way,  // as begin() would have left it
  };
  [[nodiscard]] Shortly run_shortly(Membership& team, Call const& call, Deadline deadline) noexcept;
  /// Null: no memory for it.
  [[nodiscard]] ShortPlan const* make_plan(Membership& team, Call const& call) noexcept;
  /// Between calls that wait for nothing: now and then takes what has come.
  [[nodiscard]] Result<void> look_around() noexcept;

  [[nodiscard]] Result<void> begin(Membership& team, Call const& call) noexcept;
  /// Of all that came before the call began.
  [[nodiscard]] Result<void> check_agreement() noexcept;
  /// Lends what it needs, and goes as far as it can.
  [[nodiscard]] Result<PostedCalls::Id> add(Membership& team, Call const& call, GatherElement in,
                                            ScatterElement out) noexcept;
  void end() noexcept;
  void finish(Membership const& team) noexcept;
  /// With what was posted, as far as it goes without waiting.
  [[nodiscard]] Result<void> go_on() noexcept;
  /// As far as it goes without waiting. True once the call is over.
  [[nodiscard]] Result<bool> advance() noexcept;
  /// True once all steps of the round are done.
  [[nodiscard]] Result<bool> advance_round() noexcept;
  [[nodiscard]] Result<bool> send(Step const& step) noexcept;
  [[nodiscard]] Result<bool> receive(Step const& step) noexcept;
  /// The same of long values, which are read.
  [[nodiscard]] Result<bool> advance_long() noexcept;
  [[nodiscard]] Result<bool> advance_round_of(LongCall::Lane& lane) noexcept;
  [[nodiscard]] Result<bool> take_steps(LongCall::Lane& lane) noexcept;
  [[nodiscard]] Result<bool> take_step(LongCall::Lane& lane, std::size_t index) noexcept;
  [[nodiscard]] Result<bool> hear(LongCall::Lane& lane, std::uint32_t rank) noexcept;
  [[nodiscard]] Result<bool> read(LongCall::Lane& lane, std::size_t index) noexcept;
  /// Ends what is being read to memory that was lent. Why a device keeps that, and may
  /// still write there; otherwise nothing.
  [[nodiscard]] std::optional<Error> end_reads() noexcept;
  /// Sends a note of the round to a rank that is needed.
  [[nodiscard]] Result<bool> tell(std::uint32_t rank, Note const& note,
                                  std::span<std::byte const> bytes) noexcept;
  /// Done with a message that came.
  [[nodiscard]] Result<void> release(Link& link, std::size_t index) noexcept;

  /// So many rounds are made whatever the time: a peer that sends on and on keeps no rank here.
  static constexpr int rounds_max = 1'000;
  void begin_waiting(Deadline deadline) noexcept {
    is_polling_ = deadline.has_passed();
    rounds_ = 0;
  }
  [[nodiscard]] Result<void> wait(Deadline deadline, std::string_view then) noexcept;
  /// Learns which ranks have not entered the call, and what they are in, from their devices. For
  /// people.
  [[nodiscard]] Result<std::string> call_the_roll() noexcept;
  /// What linked ranks know of those without a link: which are missing, or awaited.
  void add_hearsay(RollCall& roll) const;
  /// Takes what has come by now. Whether there was any.
  [[nodiscard]] Result<bool> take_what_came() noexcept;
  /// `has_come`: as PeerList::wait_for_news().
  [[nodiscard]] Result<void> wait_for_news(Deadline deadline,
                                           std::function<bool()> const& has_come = {}) noexcept;
  [[nodiscard]] Result<void> take_news(std::span<Ready const> ready) noexcept;
  /// Takes what peers have written. Whether there was any.
  [[nodiscard]] Result<bool> take_written() noexcept;
  /// Of what came from `rank` with the call.
  [[nodiscard]] Result<void> check_agreement(std::uint32_t rank) noexcept;
  /// A rank that is needed and gone, or whose loss was found out, here or by another rank.
  [[nodiscard]] Result<void> check_for_losses() noexcept;
  [[nodiscard]] Error needs_one_that_left(std::uint32_t rank) noexcept;

  /// Remembers what to tell the others of an error.
  [[nodiscard]] Error found(Fault::Reason reason, std::uint32_t rank, Error error) noexcept;
  [[nodiscard]] Error told(std::uint32_t teller, Fault const& fault) noexcept;
  /// Tells the others why; they know it before they can see that the links end.
  void break_by(Error const& error) noexcept;
  /// Sends `note` as the last one of each link, until it has arrived.
  void end_links(Note const& note, Deadline deadline) noexcept;

  verbs::Inheritance inheritance_{};
  ProtectionDomain domain_;
  WaitSet set_;
  OwnRecord record_;
  Stage stage_;                           // like the record, it outlives the links
  std::optional<Mailboxes> mailboxes_{};  // these, too
  Ranks ranks_;
  Neighbours neighbours_;
  GroupOptions options_;
  std::vector<RankCard> cards_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank; null: this one, and without a link
  std::vector<std::uint32_t> linked_{};       // ranks that have one; they ascend
  std::vector<std::uint32_t> rank_by_tag_;    // of channels
  std::unique_ptr<Linking> linking_{};        // until connect(), where a connector makes the links
  PeerList peers_{*this};
  History history_{};
  std::vector<std::unique_ptr<Membership>> teams_;  // the first is that of all ranks
  std::vector<Ready> ready_;
  std::optional<Error> broken_{};
  std::optional<Fault> fault_{};
  bool has_left_ = false;
  UnderWay call_;
  PostedCalls posted_;       // if there are any, the first is call_, and the group works
  PostedCalls::Id run_ = 0;  // the one posted by run_lent() that is not over; 0: none
  bool is_polling_ = false;  // its deadline had passed before
  int rounds_ = 0;           // of waiting in this call
  std::uint32_t short_calls_ = 0;
  std::vector<std::uint32_t> missing_{};
  alignas(64) std::array<std::byte, 64> value_{};
};

}  // namespace lend::group
