// SPDX-License-Identifier: MIT OR Apache-2.0
// Keys are exchanged once; then it is closed, opening, open and finishing in turn, until it ends
// with the group or its owner. The thread of the group.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/link/mailbox.hpp>
#include <group/state/peers_state.hpp>
#include <lend/base/stop.hpp>
#include <lend/group/window.hpp>
#include <lend/verbs/exposure.hpp>
#include <verbs/memory/loan_row.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lend {

using base::is_given_up;
using base::LoanKind;
using group::Mailbox;
using group::PeersState;
using group::WindowState;

namespace {

/// What one member tells all others.
struct WindowCard {
  std::array<std::byte, RemoteRegion::encoded_size> part{};
  std::array<std::byte, RemoteRegion::encoded_size> notices{};
  Errc failure{};  // why it has no part
};

/// Of a call of the group that can be made again. Else the group has ended.
bool goes_on(Error const& error) noexcept {
  return is_given_up(error) || error == Errc::invalid_argument;
}

}  // namespace

class group::WindowState {
 public:
  WindowState(Peers& peers, PeersState& state)
      : peers_{peers}, state_{state}, targets_(state.group().links().ranks().size) {}
  WindowState(WindowState const&) = delete;
  WindowState& operator=(WindowState const&) = delete;
  ~WindowState() {
    if (is_in_epoch()) stop("a Window was destroyed during an epoch: let the Epoch end first");
    static_cast<void>(end());
  }

  [[nodiscard]] Result<void> expose(MemoryRegion& own, RemoteAccess access);
  /// Tells the others the keys, or why there are none.
  [[nodiscard]] Result<void> meet(Result<void> const& exposed, Deadline deadline, SourceLine where);
  [[nodiscard]] Result<void> open(Deadline deadline, SourceLine where) noexcept;

  [[nodiscard]] Result<PollingScope*> on(std::uint32_t rank) noexcept;
  [[nodiscard]] Result<void> notify(std::uint32_t rank, Deadline deadline,
                                    SourceLine where) noexcept;
  [[nodiscard]] Result<void> wait_notices(std::uint32_t rank, std::uint64_t count,
                                          Deadline deadline) noexcept;
  [[nodiscard]] Result<void> finish(Deadline deadline, SourceLine where) noexcept;
  /// The same of an epoch that ends unfinished.
  void finish_at_last(bool is_unwinding) noexcept;

  [[nodiscard]] bool is_in_epoch() const noexcept {
    return phase_ == Phase::open || phase_ == Phase::finishing;
  }
  [[nodiscard]] RemoteRegion remote(std::uint32_t rank) const noexcept {
    return rank < targets_.size() ? targets_[rank].part : RemoteRegion{};
  }
  [[nodiscard]] std::span<std::byte> unsafe_own() noexcept {
    verbs::unpoison(*region_, whole());
    return {region_->address, region_->length};
  }
  [[nodiscard]] GroupState& group() noexcept { return state_.group(); }

 private:
  enum class Phase : std::uint8_t { closed, opening, open, finishing, ended };
  /// Of a peer; of other ranks nothing.
  struct Target {
    RemoteRegion part{};
    RemoteRegion word{};       // where it looks for notices
    std::uint32_t given = 0;   // notices; wraps
    std::uint64_t come = 0;    // notices of its, of those that were looked at
    bool is_in_scope = false;  // in this epoch
  };
  static constexpr std::size_t word_bytes = sizeof(std::uint64_t);

  [[nodiscard]] ByteRange whole() const noexcept { return {0, region_->length}; }
  /// Looks how many notices `rank` has given.
  [[nodiscard]] std::uint64_t come_from(std::uint32_t rank) noexcept;
  /// A device of the same process writes as another thread would. That race is meant: a word is
  /// right or is not taken.
  [[nodiscard, gnu::no_sanitize_thread]] std::uint64_t notice_of(
      std::uint32_t rank) const noexcept {
    return static_cast<std::uint64_t const volatile*>(notices_->native()->addr)[rank];
  }
  /// Until all that was posted in this epoch is over.
  [[nodiscard]] Result<void> wait_for_work(Deadline deadline) noexcept;
  /// Of a group that has ended, or for good: no peer accesses the part any more, and it is given
  /// back.
  /// Errors:  those of Exposure::finish(): it stays on loan.
  [[nodiscard]] Result<void> end() noexcept;

  Peers& peers_;
  PeersState& state_;
  std::vector<Target> targets_;            // by rank of the group
  verbs::RegionState* region_ = nullptr;   // of the part, which its exposure keeps
  LoanKind kind_ = LoanKind::exclusive;    // of an epoch
  std::optional<Exposure> exposure_{};     // of the part
  std::optional<MemoryRegion> notices_{};  // words, by rank: peers write how many they gave
  std::optional<MemoryRegion> counts_{};   // the same, by this rank
  std::unique_ptr<verbs::LentPiece> loan_ = std::make_unique<verbs::LentPiece>();
  Phase phase_ = Phase::closed;
  std::optional<Error> failed_{};     // work of this epoch
  std::optional<PeerScope> scope_{};  // of this epoch, until its work is over
};

// ---- once ----

Result<void> WindowState::expose(MemoryRegion& own, RemoteAccess access) {
  auto const& domain = group().links().domain();
  region_ = own.gather().region;
  if (region_ != nullptr && region_->protection_domain != domain.native())
    return Error{Errc::invalid_argument,
                 "the memory of a window is of another protection domain than the group, so that "
                 "its peers cannot access it: allocate it in that of the group"};
  // SAFETY: what uses this key uses it in epochs, in which the part is on loan.
  LEND_TRY(exposure, own.unsafe_expose(access));
  exposure_ = std::move(exposure);
  if (access == RemoteAccess::read) kind_ = LoanKind::shared;
  loan_->region = region_;
  auto const bytes = targets_.size() * word_bytes;
  // SAFETY: it is read as words that another thread writes.
  LEND_TRY(notices, domain.unsafe_allocate_exposed(bytes, RemoteAccess::write));
  std::ranges::fill(notices.mutable_bytes().value(), std::byte{});
  notices_ = std::move(notices);
  LEND_TRY(counts, domain.allocate(bytes));
  counts_ = std::move(counts);
  return success();
}

Result<void> WindowState::meet(Result<void> const& exposed, Deadline deadline, SourceLine where) {
  Team& team = state_.team();
  std::vector<WindowCard> ours(1), theirs(team.size());
  if (exposed.has_error()) {
    ours[0].failure = exposed.error().code();
  } else {
    ours[0].part = exposure_->remote().encode();
    ours[0].notices = notices_->remote().value().encode();
  }
  LEND_TRYV(team.allgather(ours, theirs, deadline, where));
  if (exposed.has_error()) return exposed;
  auto const members = team.members();
  for (std::size_t i = 0; i < members.size(); ++i)
    if (theirs[i].failure != Errc{})
      return Error{theirs[i].failure, "rank " + std::to_string(members[i]) +
                                          " has no part of a window; its own error says why"};
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (state_.find(members[i]) == nullptr) continue;
    Target& target = targets_[members[i]];
    LEND_TRY(part, RemoteRegion::decode(theirs[i].part));
    LEND_TRY(notices, RemoteRegion::decode(theirs[i].notices));
    LEND_TRY(word, notices.sub_region(group().links().ranks().rank * word_bytes, word_bytes));
    target.part = part;
    target.word = word;
  }
  return success();
}

// ---- each epoch ----

Result<void> WindowState::open(Deadline deadline, SourceLine where) noexcept {
  if (phase_ == Phase::ended) return Error{Errc::stale_handle, "the window ended with its group"};
  if (is_in_epoch())
    return Error{Errc::invalid_argument, "an epoch of this window goes on: finish() it first"};
  if (phase_ == Phase::closed) {
    LEND_TRYV(verbs::begin_loan(loan_->loan, *region_, whole(), kind_, Operation::lend, where));
  }
  auto const met = state_.team().barrier(deadline, where);
  if (met.has_value()) {
    phase_ = Phase::open;
    scope_.emplace(peers_);
    return met;
  }
  if (is_given_up(met.error())) {
    phase_ = Phase::opening;
  } else if (!goes_on(met.error())) {
    LEND_TRYV(end());
  } else if (phase_ == Phase::closed) {
    verbs::end_loan(*loan_);
  }
  return met;
}

Result<PollingScope*> WindowState::on(std::uint32_t rank) noexcept {
  if (phase_ != Phase::open)
    return Error{Errc::invalid_argument, "finish() of this epoch was called before"};
  LEND_TRY(scope, scope_->on(rank));
  targets_[rank].is_in_scope = true;
  return scope;
}

Result<void> WindowState::notify(std::uint32_t rank, Deadline deadline, SourceLine where) noexcept {
  LEND_TRY(scope, on(rank));
  Target& target = targets_[rank];
  auto const offset = rank * word_bytes;
  // Only where the device does not copy what is posted, the last one may be on loan.
  while (counts_->mutable_bytes(offset, word_bytes).has_error()) {
    LEND_TRYV(group().calls().wait_for_any(deadline));
  }
  auto const word = Mailbox::word_of(target.given + 1);
  std::memcpy(counts_->mutable_bytes(offset, word_bytes).assume_value().data(), &word, sizeof word);
  LEND_TRYV(without_value(
      scope->post_write({counts_->gather(offset, word_bytes), target.word}, deadline, where)));
  ++target.given;
  return success();
}

std::uint64_t WindowState::come_from(std::uint32_t rank) noexcept {
  auto& come = targets_[rank].come;
  auto const word = notice_of(rank);
  auto const low = static_cast<std::uint32_t>(word);
  if (Mailbox::word_of(low) == word) come += low - static_cast<std::uint32_t>(come);
  return come;
}

Result<void> WindowState::wait_notices(std::uint32_t rank, std::uint64_t count,
                                       Deadline deadline) noexcept {
  LEND_TRYV(without_value(on(rank)));
  auto const have_come = [&] { return come_from(rank) >= count; };
  while (!have_come()) {
    if (group().peers().have_all_left({&rank, 1}))
      return Error{Errc::peer_lost, "rank " + std::to_string(rank) +
                                        " has left the group, and gives no more notices"};
    auto const waited = group().calls().wait_for_any(deadline, std::ref(have_come));
    if (waited.has_value()) continue;
    if (!is_given_up(waited.error())) return waited;
    return base::gave_up(
        deadline,
        "rank " + std::to_string(rank) + " has not given " + std::to_string(count) + " notices",
        ": so far " + std::to_string(come_from(rank)));
  }
  // After the word, all that was written before it.
  std::atomic_thread_fence(std::memory_order_acquire);
  return success();
}

Result<void> WindowState::wait_for_work(Deadline deadline) noexcept {
  for (std::uint32_t rank = 0; rank < targets_.size(); ++rank) {
    if (!targets_[rank].is_in_scope) continue;
    LEND_TRY(scope, scope_->on(rank));
    while (scope->outstanding() > 0) {
      auto const waited = group().calls().wait_for_any(deadline);
      if (waited.has_value()) continue;
      if (!is_given_up(waited.error())) return waited;
      return base::gave_up(deadline, "work to rank " + std::to_string(rank) + " was not over",
                           ": the epoch goes on, finish() it again");
    }
  }
  return success();
}

Result<void> WindowState::finish(Deadline deadline, SourceLine where) noexcept {
  phase_ = Phase::finishing;
  if (scope_) {
    auto const waited = wait_for_work(deadline);
    if (waited.has_error() && is_given_up(waited.error())) return waited;
    // What was lent to peers is not over: recalling it takes the device some time, and a deadline
    // that has passed would abort that.
    auto const ended = scope_->drain_within(PollingScope::drain_max).finish();
    if (ended.has_error()) failed_ = ended.error();
    scope_.reset();
  }
  Team& team = state_.team();
  auto const met = team.barrier(deadline, where);
  if (met.has_error() && goes_on(met.error())) return met;
  auto const failed = std::exchange(failed_, std::nullopt);
  if (met.has_error()) {
    Error why = failed.value_or(met.error());
    // The same rank at all members, also where this one's own work failed by that.
    Error const* const cause = team.first_cause();
    if (cause != nullptr && (!failed || team.lost_rank())) why = *cause;
    auto const ended = end();
    return ended.has_error() ? ended.error().with_cause(why) : why;
  }
  verbs::end_loan(*loan_);
  for (Target& target : targets_) target.is_in_scope = false;
  phase_ = Phase::closed;
  if (failed) return *failed;
  return success();
}

void WindowState::finish_at_last(bool is_unwinding) noexcept {
  auto const bound =
      is_unwinding ? std::chrono::nanoseconds{channel::unwinding_bound} : PollingScope::drain_max;
  static_cast<void>(finish(within(bound), SourceLine::here()));
  if (!is_in_epoch()) return;
  group().abandon("an epoch of a window did not end in time");
  static_cast<void>(end());
}

Result<void> WindowState::end() noexcept {
  phase_ = Phase::ended;
  scope_.reset();
  if (!exposure_) return success();
  // Queue pairs may have ended, too: but this waits for what a device is in the middle of.
  auto const ended = exposure_->finish();
  exposure_.reset();
  if (ended.has_error() && loan_->loan.on_loan())
    verbs::keep_loans_for_ever(loan_.release());
  else
    verbs::end_loan(*loan_);
  return ended;
}

// ---- the handles ----

Window::Window(std::unique_ptr<WindowState> state) noexcept : state_{std::move(state)} {}
Window::Window(Window&&) noexcept = default;
Window& Window::operator=(Window&&) noexcept = default;
Window::~Window() = default;

WindowState& Window::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a Window was used after it had been moved from");
  return *state_;
}

Result<Window> Window::create(Peers& peers, MemoryRegion& own, RemoteAccess access,
                              Deadline deadline, SourceLine where) {
  auto const& device = peers.state().group().links().domain().context();
  if (!device.capabilities().endpoints)
    return Error{Errc::unsupported,
                 device.name() +
                     " is an iWARP device, on which the end of a write does not say "
                     "that it was placed: ranks there have no windows"};
  auto state = std::make_unique<WindowState>(peers, peers.state());
  auto const met = state->meet(state->expose(own, access), deadline, where);
  if (met.has_error()) {
    // What was sent cannot be taken back.
    if (is_given_up(met.error())) state->group().abandon("its ranks did not make a window");
    return met.error();
  }
  return Window{std::move(state)};
}

Result<Epoch> Window::open(Deadline deadline, SourceLine where) noexcept {
  LEND_TRYV(state().open(deadline, where));
  return Epoch{state()};
}

RemoteRegion Window::remote(std::uint32_t rank) const noexcept {
  return state().remote(rank);
}

std::span<std::byte> Window::unsafe_own() noexcept {
  return state().unsafe_own();
}

Epoch::~Epoch() {
  if (window_ != nullptr) window_->finish_at_last(unwind_.is_unwinding());
}

Result<PollingScope*> Epoch::on(std::uint32_t rank) noexcept {
  if (window_ == nullptr) return Error{Errc::stale_handle, "the epoch has ended"};
  return window_->on(rank);
}

Result<void> Epoch::notify(std::uint32_t rank, Deadline deadline, SourceLine where) noexcept {
  if (window_ == nullptr) return Error{Errc::stale_handle, "the epoch has ended"};
  return window_->notify(rank, deadline, where);
}

Result<void> Epoch::wait_notices(std::uint32_t rank, std::uint64_t count,
                                 Deadline deadline) noexcept {
  if (window_ == nullptr) return Error{Errc::stale_handle, "the epoch has ended"};
  return window_->wait_notices(rank, count, deadline);
}

Result<void> Epoch::finish(Deadline deadline, SourceLine where) noexcept {
  if (window_ == nullptr) return Error{Errc::stale_handle, "the epoch has ended"};
  auto const done = window_->finish(deadline, where);
  if (!window_->is_in_epoch()) window_ = nullptr;
  return done;
}

}  // namespace lend
