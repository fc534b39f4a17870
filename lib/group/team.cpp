// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks the arguments of collectives. The thread of the group.
#include <group/group_state.hpp>
#include <lend/base/stop.hpp>
#include <lend/group/team.hpp>

#include <string>
#include <utility>

namespace lend {

using group::Call;
using group::Collective;
using group::Combining;
using group::GroupState;
using group::Membership;
using group::Ranks;

namespace {

Error wrong(std::string why) {
  return {Errc::invalid_argument, std::move(why) + "; nothing was sent"};
}

Result<void> check_root(Ranks ranks, std::uint32_t root) {
  if (root < ranks.size) return success();
  return wrong("there is no rank " + std::to_string(root) + ": the ranks are 0 to " +
               std::to_string(ranks.size - 1));
}

/// `all` has a part as long as `own` for each rank.
Result<void> check_parts(Ranks ranks, std::size_t all, std::size_t own) {
  if (all == own * ranks.size) return success();
  return wrong("all parts together have " + std::to_string(all) + " bytes, not " +
               std::to_string(ranks.size) + " times the " + std::to_string(own) + " of one");
}

Result<void> check_length(std::size_t bytes) {
  constexpr std::size_t longest = std::size_t{1} << 31;
  if (bytes <= longest) return success();
  return wrong("one rank's values have " + std::to_string(bytes) + " bytes; " +
               std::to_string(longest) + " are the most");
}

/// The root has `all` parts, the others none.
Result<void> check_rooted(Ranks ranks, std::uint32_t root, std::size_t all, std::size_t own) {
  LEND_TRYV(check_root(ranks, root));
  LEND_TRYV(check_length(own));
  if (ranks.rank == root) return check_parts(ranks, all, own);
  if (all == 0) return success();
  return wrong("this rank is not the root: it has no parts of all ranks");
}

Result<void> check_element(Combining const& op, GroupOptions const& options) {
  if (op.element_bytes <= options.message_bytes) return success();
  return wrong("an element has " + std::to_string(op.element_bytes) +
               " bytes, and a message of this group " + std::to_string(options.message_bytes));
}

Result<void> check_apart(std::span<std::byte const> in, std::span<std::byte> out) {
  if (in.empty() || out.empty() || in.data() + in.size() <= out.data() ||
      out.data() + out.size() <= in.data())
    return success();
  return wrong("what is sent and what is received overlap");
}

}  // namespace

Team::Team(std::shared_ptr<GroupState> state, Membership& membership) noexcept
    : state_{std::move(state)}, membership_{&membership} {}
Team::Team(Team&&) noexcept = default;
Team& Team::operator=(Team&&) noexcept = default;
Team::~Team() = default;

GroupState& Team::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a Group or Team was used after it had been moved from");
  return *state_;
}

std::uint32_t Team::rank() const noexcept {
  return ranks().rank;
}
std::uint32_t Team::size() const noexcept {
  return ranks().size;
}
std::span<std::uint32_t const> Team::members() const noexcept {
  static_cast<void>(state());
  return membership_->members;
}
std::span<std::uint32_t const> Team::missing() const noexcept {
  return state().missing();
}
std::optional<std::uint32_t> Team::lost_rank() const noexcept {
  return state().lost_rank();
}
Error const* Team::first_cause() const noexcept {
  return state().first_cause();
}
Ranks const& Team::ranks() const noexcept {
  static_cast<void>(state());
  return membership_->ranks;
}
Result<void> Team::run(Call const& call, Deadline deadline) noexcept {
  return state().run(*membership_, call, deadline);
}

Result<void> Team::barrier(Deadline deadline, SourceLine where) noexcept {
  return run({.collective = Collective::barrier, .where = where}, deadline);
}

Result<void> Team::broadcast_bytes(std::uint32_t root, std::span<std::byte> values,
                                   Deadline deadline, SourceLine where) noexcept {
  LEND_TRYV(check_root(ranks(), root));
  LEND_TRYV(check_length(values.size()));
  return run({.collective = Collective::broadcast,
              .root = root,
              .out = values,
              .block_bytes = values.size(),
              .where = where},
             deadline);
}

Result<void> Team::gather_bytes(std::uint32_t root, std::span<std::byte const> own,
                                std::span<std::byte> all, Deadline deadline,
                                SourceLine where) noexcept {
  LEND_TRYV(check_rooted(ranks(), root, all.size(), own.size()));
  LEND_TRYV(check_apart(own, all));
  return run({Collective::gather, root, own, all, own.size(), {}, where}, deadline);
}

Result<void> Team::scatter_bytes(std::uint32_t root, std::span<std::byte const> all,
                                 std::span<std::byte> own, Deadline deadline,
                                 SourceLine where) noexcept {
  LEND_TRYV(check_rooted(ranks(), root, all.size(), own.size()));
  LEND_TRYV(check_apart(all, own));
  return run({Collective::scatter, root, all, own, own.size(), {}, where}, deadline);
}

Result<void> Team::allgather_bytes(std::span<std::byte const> own, std::span<std::byte> all,
                                   Deadline deadline, SourceLine where) noexcept {
  LEND_TRYV(check_length(own.size()));
  LEND_TRYV(check_parts(ranks(), all.size(), own.size()));
  LEND_TRYV(check_apart(own, all));
  return run({Collective::allgather, 0, own, all, own.size(), {}, where}, deadline);
}

Result<void> Team::all_to_all_bytes(std::span<std::byte const> from, std::span<std::byte> to,
                                    std::size_t element_bytes, Deadline deadline,
                                    SourceLine where) noexcept {
  auto const own = from.size() / element_bytes / ranks().size * element_bytes;
  LEND_TRYV(check_length(own));
  LEND_TRYV(check_parts(ranks(), from.size(), own));
  LEND_TRYV(check_parts(ranks(), to.size(), own));
  LEND_TRYV(check_apart(from, to));
  return run({Collective::all_to_all, 0, from, to, own, {}, where}, deadline);
}

Result<void> Team::reduce_bytes(std::uint32_t root, Combining op, std::span<std::byte> values,
                                Deadline deadline, SourceLine where) noexcept {
  LEND_TRYV(check_root(ranks(), root));
  LEND_TRYV(check_length(values.size()));
  LEND_TRYV(check_element(op, state().options()));
  return run({Collective::reduce, root, values, values, values.size(), op, where}, deadline);
}

Result<void> Team::allreduce_bytes(Combining op, std::span<std::byte> values, Deadline deadline,
                                   SourceLine where) noexcept {
  LEND_TRYV(check_length(values.size()));
  LEND_TRYV(check_element(op, state().options()));
  return run({Collective::allreduce, 0, values, values, values.size(), op, where}, deadline);
}

Result<void> Team::allreduce_value(Combining op, std::span<std::byte> value, Deadline deadline,
                                   SourceLine where) noexcept {
  return state().run_on_value(
      *membership_,
      {.collective = Collective::allreduce, .block_bytes = value.size(), .op = op, .where = where},
      value, deadline);
}

Result<void> Team::reduce_scatter_bytes(Combining op, std::span<std::byte const> values,
                                        std::span<std::byte> own, Deadline deadline,
                                        SourceLine where) noexcept {
  LEND_TRYV(check_length(own.size()));
  LEND_TRYV(check_parts(ranks(), values.size(), own.size()));
  LEND_TRYV(check_apart(values, own));
  LEND_TRYV(check_element(op, state().options()));
  return run({Collective::reduce_scatter, 0, values, own, own.size(), op, where}, deadline);
}

}  // namespace lend
