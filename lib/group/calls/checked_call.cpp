// SPDX-License-Identifier: MIT OR Apache-2.0
// Any thread.
#include <group/calls/checked_call.hpp>
#include <verbs/memory/region_state.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace lend::group {

namespace {

Error wrong(std::string why) {
  return {Errc::invalid_argument, std::move(why) + "; nothing was sent"};
}

constexpr std::size_t longest = std::size_t{1} << 31;

[[gnu::cold]] Error too_long(std::size_t bytes) {
  return wrong("one rank's values have " + std::to_string(bytes) + " bytes; " +
               std::to_string(longest) + " are the most");
}

inline Result<void> check_length(std::size_t bytes) {
  if (bytes <= longest) [[likely]]
    return success();
  return too_long(bytes);
}

Result<void> check_elements(Combining const& op, std::size_t bytes, std::size_t message_bytes) {
  if (op.element_bytes > message_bytes)
    return wrong("an element has " + std::to_string(op.element_bytes) +
                 " bytes, and a message of this group " + std::to_string(message_bytes));
  if (bytes % op.element_bytes == 0) return success();
  return wrong(std::to_string(bytes) + " bytes are no whole number of elements of " +
               std::to_string(op.element_bytes));
}

Result<void> check_apart(std::span<std::byte const> in, std::span<std::byte> out) {
  if (in.empty() || out.empty() || in.data() + in.size() <= out.data() ||
      out.data() + out.size() <= in.data())
    return success();
  return wrong("what is sent and what is received overlap");
}

[[gnu::cold]] Error why_not_of_host(verbs::RegionState* region, ByteRange range) {
  if (region == nullptr || !region->contains(range))
    return verbs::element_error(region, range, 0, 1);
  return Error{Errc::invalid_argument,
               "a group combines and copies values of the host's memory, not of a device's"};
}

inline Result<std::span<std::byte>> host_bytes_of(verbs::RegionState* region, ByteRange range) {
  if (region == nullptr && range == ByteRange{}) return std::span<std::byte>{};
  if (region == nullptr || !region->contains(range) || region->is_device_memory) [[unlikely]]
    return why_not_of_host(region, range);
  return std::span{region->address + range.offset, range.length};
}

Result<void> check_root(std::uint32_t root, Ranks ranks) {
  if (root < ranks.size) return success();
  return wrong("there is no rank " + std::to_string(root) + ": the ranks are 0 to " +
               std::to_string(ranks.size - 1));
}

/// `all` has a part as long as `own` for each rank.
Result<void> check_parts(std::size_t all, std::size_t own, Ranks ranks) {
  if (all == own * ranks.size) return success();
  return wrong("all parts together have " + std::to_string(all) + " bytes, not " +
               std::to_string(ranks.size) + " times the " + std::to_string(own) + " of one");
}

/// `all` has a part for each rank, as long as counted, and `own` is that of this one.
Result<void> check_counts(Counts counts, std::size_t unit, std::size_t all, std::size_t own,
                          Ranks ranks) {
  if (counts.size() != ranks.size)
    return wrong(std::to_string(counts.size()) + " counts for " + std::to_string(ranks.size) +
                 " ranks");
  std::size_t together = 0;
  for (auto const count : counts) {
    LEND_TRYV(check_length(count * unit));
    together += count * unit;
  }
  if (together != all)
    return wrong("all parts together have " + std::to_string(all) + " bytes, and by their counts " +
                 std::to_string(together));
  auto const counted = counts[ranks.rank] * unit;
  if (counted != own)
    return wrong("the own part has " + std::to_string(own) + " bytes, and by its count " +
                 std::to_string(counted));
  return success();
}

Result<void> check_links(Membership const& team) {
  if (!team.has_few_links) return success();
  return Error{
      Errc::unsupported,
      "parts of different lengths go straight from rank to rank, and these have few links; "
      "make the group with GroupLinks::all; nothing was sent"};
}

}  // namespace

Result<std::span<std::byte const>> bytes_of(GatherElement element) {
  LEND_TRY(bytes, host_bytes_of(element.region, element.range));
  return std::span<std::byte const>{bytes};
}
Result<std::span<std::byte>> bytes_of(ScatterElement element) {
  return host_bytes_of(element.region, element.range);
}

/// Of the own part, which is what the rank gives or gets, or one of all parts.
std::size_t CheckedCall::own_bytes(Ranks ranks) const noexcept {
  auto const& layout = call_.layout();
  if (layout.out == Parts::own) return call_.out.size();
  if (layout.in == Parts::own) return call_.in.size();
  auto const& [counts, counts_out, unit] = given_.counts;
  if (layout.is_uneven()) return counts.size() == ranks.size ? counts[ranks.rank] * unit : 0;
  return call_.in.size() / unit / ranks.size * unit;
}

/// Parts of all ranks with `bytes`, one of which has `own`.
Result<void> CheckedCall::check_all(Counts counts, std::size_t bytes, std::size_t own,
                                    Ranks ranks) const {
  auto const& layout = call_.layout();
  if (layout.has(Parts::all, ranks.rank == call_.root))
    return layout.is_uneven() ? check_counts(counts, given_.counts.unit, bytes, own, ranks)
                              : check_parts(bytes, own, ranks);
  if (bytes == 0 && counts.empty()) return success();
  return wrong(std::string{"this rank is not the root: it has no parts of all ranks"} +
               (layout.is_uneven() ? ", and no counts" : ""));
}

/// Where all ranks know that the parts are equal, it is another collective.
Result<void> CheckedCall::take_counts(Membership const& team) {
  auto const counts = given_.counts.out;
  if (call_.layout().lengths == Lengths::known) {
    if (std::ranges::count(counts, counts.front()) == std::ssize(counts)) {
      call_.collective = Collective::allgather;
      return success();
    }
    LEND_TRYV(check_links(team));
  }
  call_.block_bytes = 0;
  call_.counts = &given_.counts;
  return success();
}

Result<void> CheckedCall::check_values(Membership const& team, GroupOptions const& options) {
  auto const& layout = call_.layout();
  auto const ranks = team.ranks;
  bool const is_in_place = layout.in == Parts::in_place;
  if (call_.out.empty()) {
    LEND_TRY(out, bytes_of(given_.out.lent));
    call_.out = out;
  }
  if (is_in_place) {
    call_.in = call_.out;
  } else if (call_.in.empty()) {
    LEND_TRY(in, bytes_of(given_.in.lent));
    call_.in = in;
  }
  auto const own = own_bytes(ranks);
  if (layout.root != Root::none) LEND_TRYV(check_root(call_.root, ranks));
  if (layout.lengths == Lengths::pairs) LEND_TRYV(check_links(team));
  LEND_TRYV(check_length(own));
  if (layout.in == Parts::all) LEND_TRYV(check_all(given_.counts.in, call_.in.size(), own, ranks));
  if (layout.out == Parts::all)
    LEND_TRYV(check_all(given_.counts.out, call_.out.size(), own, ranks));
  if (!is_in_place) LEND_TRYV(check_apart(call_.in, call_.out));
  if (layout.combines()) LEND_TRYV(check_elements(call_.op, own, options.message_bytes));
  call_.block_bytes = own;
  return layout.is_uneven() ? take_counts(team) : success();
}

}  // namespace lend::group
