// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks the arguments of collectives. The thread of the group.
#include <group/group_state.hpp>
#include <lend/base/stop.hpp>
#include <lend/group/group.hpp>

#include <string>
#include <utility>

namespace lend {

using group::Call;
using group::Collective;
using group::Combining;
using group::GroupState;
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

Group::Group(std::unique_ptr<GroupState> state) noexcept : state_{std::move(state)} {}
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(Group&&) noexcept = default;
Group::~Group() = default;

GroupState& Group::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a Group was used after it had been moved from");
  return *state_;
}

std::uint32_t Group::rank() const noexcept {
  return state().ranks().rank;
}
std::uint32_t Group::size() const noexcept {
  return state().ranks().size;
}
Error const* Group::first_cause() const noexcept {
  return state().first_cause();
}

Result<void> Group::barrier(Deadline deadline, SourceLine where) noexcept {
  return state().run({.collective = Collective::barrier, .where = where}, deadline);
}

Result<void> Group::broadcast_bytes(std::uint32_t root, std::span<std::byte> values,
                                    Deadline deadline, SourceLine where) noexcept {
  LEND_TRYV(check_root(state().ranks(), root));
  LEND_TRYV(check_length(values.size()));
  return state_->run({.collective = Collective::broadcast,
                      .root = root,
                      .out = values,
                      .block_bytes = values.size(),
                      .where = where},
                     deadline);
}

Result<void> Group::gather_bytes(std::uint32_t root, std::span<std::byte const> own,
                                 std::span<std::byte> all, Deadline deadline,
                                 SourceLine where) noexcept {
  LEND_TRYV(check_rooted(state().ranks(), root, all.size(), own.size()));
  LEND_TRYV(check_apart(own, all));
  return state_->run({Collective::gather, root, own, all, own.size(), {}, where}, deadline);
}

Result<void> Group::scatter_bytes(std::uint32_t root, std::span<std::byte const> all,
                                  std::span<std::byte> own, Deadline deadline,
                                  SourceLine where) noexcept {
  LEND_TRYV(check_rooted(state().ranks(), root, all.size(), own.size()));
  LEND_TRYV(check_apart(all, own));
  return state_->run({Collective::scatter, root, all, own, own.size(), {}, where}, deadline);
}

Result<void> Group::allgather_bytes(std::span<std::byte const> own, std::span<std::byte> all,
                                    Deadline deadline, SourceLine where) noexcept {
  LEND_TRYV(check_length(own.size()));
  LEND_TRYV(check_parts(state().ranks(), all.size(), own.size()));
  LEND_TRYV(check_apart(own, all));
  return state_->run({Collective::allgather, 0, own, all, own.size(), {}, where}, deadline);
}

Result<void> Group::all_to_all_bytes(std::span<std::byte const> from, std::span<std::byte> to,
                                     std::size_t element_bytes, Deadline deadline,
                                     SourceLine where) noexcept {
  auto const own = from.size() / element_bytes / state().ranks().size * element_bytes;
  LEND_TRYV(check_length(own));
  LEND_TRYV(check_parts(state_->ranks(), from.size(), own));
  LEND_TRYV(check_parts(state_->ranks(), to.size(), own));
  LEND_TRYV(check_apart(from, to));
  return state_->run({Collective::all_to_all, 0, from, to, own, {}, where}, deadline);
}

Result<void> Group::reduce_bytes(std::uint32_t root, Combining op, std::span<std::byte> values,
                                 Deadline deadline, SourceLine where) noexcept {
  LEND_TRYV(check_root(state().ranks(), root));
  LEND_TRYV(check_length(values.size()));
  LEND_TRYV(check_element(op, state_->options()));
  return state_->run({Collective::reduce, root, values, values, values.size(), op, where},
                     deadline);
}

Result<void> Group::allreduce_bytes(Combining op, std::span<std::byte> values, Deadline deadline,
                                    SourceLine where) noexcept {
  LEND_TRYV(check_length(values.size()));
  LEND_TRYV(check_element(op, state().options()));
  return state_->run({Collective::allreduce, 0, values, values, values.size(), op, where},
                     deadline);
}

Result<void> Group::allreduce_value(Combining op, std::span<std::byte> value, Deadline deadline,
                                    SourceLine where) noexcept {
  return state().run_on_value(
      {.collective = Collective::allreduce, .block_bytes = value.size(), .op = op, .where = where},
      value, deadline);
}

Result<void> Group::reduce_scatter_bytes(Combining op, std::span<std::byte const> values,
                                         std::span<std::byte> own, Deadline deadline,
                                         SourceLine where) noexcept {
  LEND_TRYV(check_length(own.size()));
  LEND_TRYV(check_parts(state().ranks(), values.size(), own.size()));
  LEND_TRYV(check_apart(values, own));
  LEND_TRYV(check_element(op, state_->options()));
  return state_->run({Collective::reduce_scatter, 0, values, own, own.size(), op, where}, deadline);
}

// ---- before they are connected ----

PreparedGroup::PreparedGroup(std::unique_ptr<GroupState> state) noexcept
    : state_{std::move(state)} {}
PreparedGroup::PreparedGroup(PreparedGroup&&) noexcept = default;
PreparedGroup& PreparedGroup::operator=(PreparedGroup&&) noexcept = default;
PreparedGroup::~PreparedGroup() = default;

Result<PreparedGroup> PreparedGroup::prepare(ProtectionDomain const& domain, std::uint32_t rank,
                                             std::uint32_t size, GroupOptions const& options) {
  if (rank >= size)
    return Error{Errc::invalid_argument, "rank " + std::to_string(rank) + " of a group of " +
                                             std::to_string(size) + ": ranks begin with 0"};
  if (options.message_bytes < 64 || options.message_bytes > 65'536 ||
      options.message_bytes % 64 != 0)
    return Error{Errc::invalid_argument, "message_bytes is " +
                                             std::to_string(options.message_bytes) +
                                             ": it is a multiple of 64, from 64 to 65536"};
  if (options.window < 4 || options.window > 256)
    return Error{Errc::invalid_argument,
                 "the window is " + std::to_string(options.window) + ": it is 4 to 256"};
  LEND_TRY(state, GroupState::prepare(domain, {rank, size}, options));
  return PreparedGroup{std::move(state)};
}

std::span<Endpoint const> PreparedGroup::endpoints() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a PreparedGroup was used after it had been moved from");
  return state_->endpoints();
}

Result<Group> PreparedGroup::handshake(std::span<Endpoint const> theirs) && {
  if (state_ == nullptr)
    return Error{Errc::stale_handle, "this PreparedGroup was moved from or connected before"};
  if (theirs.size() != state_->ranks().size)
    return Error{Errc::invalid_argument, "there are " + std::to_string(theirs.size()) +
                                             " endpoints for " +
                                             std::to_string(state_->ranks().size) +
                                             " ranks: give one for each, in their order"};
  auto state = std::move(state_);
  LEND_TRYV(state->connect(theirs));
  return Group{std::move(state)};
}

}  // namespace lend
