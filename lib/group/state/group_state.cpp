// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes a group and ends it.
#include <group/state/group_state.hpp>

#include <chrono>
#include <string>
#include <utility>

namespace lend::group {

namespace {

constexpr std::chrono::seconds leaving_bound{1};
constexpr std::chrono::milliseconds telling_bound{200};

}  // namespace

// ---- together ----

GroupState::GroupState(ProtectionDomain const& domain, WaitSet set, OwnStatus status,
                       std::optional<MemoryRegion> landing, Ranks ranks,
                       GroupOptions const& options)
    : status_{std::move(status)},
      buffers_{status_, std::move(landing)},
      links_{domain, std::move(set), ranks, options},
      teams_{ranks, links_.neighbours()},
      calls_{*this, status_, buffers_} {}

Result<std::shared_ptr<GroupState>> GroupState::prepare(ProtectionDomain const& domain, Ranks ranks,
                                                        GroupOptions const& options) {
  LEND_TRY(set, WaitSet::create(domain.context(), options.wait));
  bool const is_alone = ranks.size <= 1;
  LEND_TRY(status, OwnStatus::create(domain, is_alone ? 0 : LongBuffers::total_bytes));
  std::optional<MemoryRegion> landing;
  if (!is_alone) {
    LEND_TRY(memory, domain.allocate(LongBuffers::total_bytes));
    landing = std::move(memory);
  }
  LEND_TRY(remote, status.remote());
  auto state = std::make_shared<GroupState>(domain, std::move(set), std::move(status),
                                            std::move(landing), ranks, options);
  LEND_TRYV(state->links_.prepare(remote));
  if (is_alone) return state;
  // If the links leave no key for it, parts are copied.
  LEND_TRY(shown, verbs::ShownBytes::create(domain));
  if (shown) state->buffers_.show_by(std::move(*shown));
  return state;
}

void GroupState::keep(std::span<std::uint32_t const> ranks) {
  if (ranks.size() == links_.ranks().size) return;
  links_.keep(ranks);
  teams_ = {links_.ranks(), links_.neighbours()};
}

Error GroupState::why_unusable() const noexcept {
  if (has_left_) return Error{Errc::stale_handle, "the Group of the team has ended"};
  if (is_inherited())  // and so is the memory of its messages
    return Error{Errc::system_failed, "the group was made before fork(): it is the parent's"};
  std::string why = "the group is broken";
  if (auto const lost = failure_.lost_rank())
    why += ": rank " + std::to_string(*lost) + " is lost or has left";
  return Error{Errc::channel_broken, why}.with_cause(*failure_.cause());
}

// ---- apart ----

void GroupState::leave() noexcept {
  if (std::exchange(has_left_, true)) return;
  auto const* const cause = failure_.cause();
  if (cause == nullptr && !is_inherited()) {
    for (auto const rank : links_.linked())
      static_cast<void>(links_[rank].take_arrivals());  // the peer may have left before
    // In the middle of a call it is missed.
    auto const own = links_.ranks().rank;
    links_.end(calls_.has_one() ? MessageHead::of({Fault::Reason::left, own, own})
                                : MessageHead{.kind = MessageHead::Kind::left},
               within(leaving_bound));
  }
  if (!is_inherited())
    peers_.end_all(cause != nullptr
                       ? *cause
                       : Error{Errc::channel_broken, "the Group of these peers has ended"});
  KeptBytes kept;
  static_cast<void>(calls_.end_reads(kept));
  links_.clear();
  calls_.posted().fail(kept);
}

void GroupState::break_by(Error const& error) noexcept {
  if (failure_.cause() == nullptr) calls_.count_failure();
  failure_.set(error);
  status_.set(RankStatus::State::broken);
  links_.end(failure_.last_message(links_.ranks().rank), within(telling_bound));
  peers_.end_all(error);
  KeptBytes kept;
  if (auto const why = calls_.end_reads(kept)) failure_.set(why->with_cause(error));
  calls_.posted().fail(kept);
}

void GroupState::abandon() noexcept {
  if (calls_.has_one()) abandon({});
}

void GroupState::abandon(std::string_view why) noexcept {
  if (failure_.cause() != nullptr || is_gone()) return;
  auto text = "this rank has abandoned " + (calls_.has_one() ? calls_.text() : "the group");
  if (!why.empty()) text.append(": ").append(why);
  auto const own = links_.ranks().rank;
  break_by(failure_.detected({Fault::Reason::abandoned, own, own},
                             {Errc::channel_broken, std::move(text)}));
  calls_.end();
}

}  // namespace lend::group
