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

Result<void> check_length(std::size_t bytes) {
  constexpr std::size_t longest = std::size_t{1} << 31;
  if (bytes <= longest) return success();
  return wrong("one rank's values have " + std::to_string(bytes) + " bytes; " +
               std::to_string(longest) + " are the most");
}

Result<void> check_apart(std::span<std::byte const> in, std::span<std::byte> out) {
  if (in.empty() || out.empty() || in.data() + in.size() <= out.data() ||
      out.data() + out.size() <= in.data())
    return success();
  return wrong("what is sent and what is received overlap");
}

Result<std::span<std::byte>> host_bytes_of(verbs::RegionState* region, ByteRange range) {
  if (region == nullptr && range == ByteRange{}) return std::span<std::byte>{};
  if (region == nullptr || !region->contains(range))
    return verbs::element_error(region, range, 0, 1);
  if (region->is_device_memory)
    return Error{Errc::invalid_argument,
                 "a group combines and copies values of the host's memory, not of a device's"};
  return std::span{region->address + range.offset, range.length};
}

}  // namespace

Result<std::span<std::byte const>> bytes_of(GatherElement element) {
  LEND_TRY(bytes, host_bytes_of(element.region, element.range));
  return std::span<std::byte const>{bytes};
}
Result<std::span<std::byte>> bytes_of(ScatterElement element) {
  return host_bytes_of(element.region, element.range);
}

Result<std::span<std::byte const>> bytes_of(GivenValues const& values) {
  if (!values.row.empty()) return values.row;
  return bytes_of(values.lent);
}
Result<std::span<std::byte>> bytes_of(GivenPlace const& place) {
  if (!place.row.empty()) return place.row;
  return bytes_of(place.lent);
}

Result<void> CheckedCalls::check_root(std::uint32_t root) const {
  if (root < ranks_.size) return success();
  return wrong("there is no rank " + std::to_string(root) + ": the ranks are 0 to " +
               std::to_string(ranks_.size - 1));
}

/// `all` has a part as long as `own` for each rank.
Result<void> CheckedCalls::check_parts(std::size_t all, std::size_t own) const {
  if (all == own * ranks_.size) return success();
  return wrong("all parts together have " + std::to_string(all) + " bytes, not " +
               std::to_string(ranks_.size) + " times the " + std::to_string(own) + " of one");
}

/// The root has `all` parts, the others none.
Result<void> CheckedCalls::check_rooted(std::uint32_t root, std::size_t all,
                                        std::size_t own) const {
  LEND_TRYV(check_root(root));
  LEND_TRYV(check_length(own));
  if (ranks_.rank == root) return check_parts(all, own);
  if (all == 0) return success();
  return wrong("this rank is not the root: it has no parts of all ranks");
}

Result<void> CheckedCalls::check_elements(Combining const& op, std::size_t bytes) const {
  if (op.element_bytes > message_bytes_)
    return wrong("an element has " + std::to_string(op.element_bytes) +
                 " bytes, and a message of this group " + std::to_string(message_bytes_));
  if (bytes % op.element_bytes == 0) return success();
  return wrong(std::to_string(bytes) + " bytes are no whole number of elements of " +
               std::to_string(op.element_bytes));
}

Call CheckedCalls::barrier() const noexcept {
  return {.collective = Collective::barrier, .where = where_};
}

Result<Call> CheckedCalls::broadcast(std::uint32_t root, Place values) const {
  LEND_TRYV(check_root(root));
  LEND_TRYV(check_length(values.size()));
  return Call{Collective::broadcast, root, {}, values, values.size(), {}, where_};
}

Result<Call> CheckedCalls::gather(std::uint32_t root, Bytes own, Place all) const {
  LEND_TRYV(check_rooted(root, all.size(), own.size()));
  LEND_TRYV(check_apart(own, all));
  return Call{Collective::gather, root, own, all, own.size(), {}, where_};
}

Result<Call> CheckedCalls::scatter(std::uint32_t root, Bytes all, Place own) const {
  LEND_TRYV(check_rooted(root, all.size(), own.size()));
  LEND_TRYV(check_apart(all, own));
  return Call{Collective::scatter, root, all, own, own.size(), {}, where_};
}

Result<Call> CheckedCalls::allgather(Bytes own, Place all) const {
  LEND_TRYV(check_length(own.size()));
  LEND_TRYV(check_parts(all.size(), own.size()));
  LEND_TRYV(check_apart(own, all));
  return Call{Collective::allgather, 0, own, all, own.size(), {}, where_};
}

Result<Call> CheckedCalls::all_to_all(Bytes from, Place to, std::size_t element_bytes) const {
  auto const own = from.size() / element_bytes / ranks_.size * element_bytes;
  LEND_TRYV(check_length(own));
  LEND_TRYV(check_parts(from.size(), own));
  LEND_TRYV(check_parts(to.size(), own));
  LEND_TRYV(check_apart(from, to));
  return Call{Collective::all_to_all, 0, from, to, own, {}, where_};
}

Result<Call> CheckedCalls::reduce(std::uint32_t root, Combining op, Place values) const {
  LEND_TRYV(check_root(root));
  LEND_TRYV(check_length(values.size()));
  LEND_TRYV(check_elements(op, values.size()));
  return Call{Collective::reduce, root, values, values, values.size(), op, where_};
}

Result<Call> CheckedCalls::allreduce(Combining op, Place values) const {
  LEND_TRYV(check_length(values.size()));
  LEND_TRYV(check_elements(op, values.size()));
  return Call{Collective::allreduce, 0, values, values, values.size(), op, where_};
}

Result<Call> CheckedCalls::reduce_scatter(Combining op, Bytes values, Place own) const {
  LEND_TRYV(check_length(own.size()));
  LEND_TRYV(check_parts(values.size(), own.size()));
  LEND_TRYV(check_apart(values, own));
  LEND_TRYV(check_elements(op, own.size()));
  return Call{Collective::reduce_scatter, 0, values, own, own.size(), op, where_};
}

Result<Call> CheckedCalls::scan(Collective collective, Combining op, Place values) const {
  LEND_TRYV(check_length(values.size()));
  LEND_TRYV(check_elements(op, values.size()));
  return Call{collective, 0, values, values, values.size(), op, where_};
}

// ---- uneven parts ----

Result<void> CheckedCalls::check_links() const {
  if (!has_few_links_) return success();
  return Error{
      Errc::unsupported,
      "parts of different lengths go straight from rank to rank, and these have few links; "
      "make the group with GroupLinks::all; nothing was sent"};
}

Result<void> CheckedCalls::check_counts(Counts counts, std::size_t unit, std::size_t all,
                                        std::size_t own) const {
  if (counts.size() != ranks_.size)
    return wrong(std::to_string(counts.size()) + " counts for " + std::to_string(ranks_.size) +
                 " ranks");
  std::size_t together = 0;
  for (auto const count : counts) {
    LEND_TRYV(check_length(count * unit));
    together += count * unit;
  }
  if (together != all)
    return wrong("all parts together have " + std::to_string(all) + " bytes, and by their counts " +
                 std::to_string(together));
  auto const counted = counts[ranks_.rank] * unit;
  if (counted != own)
    return wrong("the own part has " + std::to_string(own) + " bytes, and by its count " +
                 std::to_string(counted));
  return success();
}

Result<void> CheckedCalls::check_uneven(std::uint32_t root, Counts counts, std::size_t unit,
                                        std::size_t all, std::size_t own) const {
  LEND_TRYV(check_root(root));
  LEND_TRYV(check_links());
  LEND_TRYV(check_length(own));
  if (ranks_.rank == root) return check_counts(counts, unit, all, own);
  if (all == 0 && counts.empty()) return success();
  return wrong("this rank is not the root: it has no parts of all ranks, and no counts");
}

Result<Call> CheckedCalls::gatherv(std::uint32_t root, Bytes own, PartCounts const& counts,
                                   Place all) const {
  LEND_TRYV(check_uneven(root, counts.out, counts.unit, all.size(), own.size()));
  LEND_TRYV(check_apart(own, all));
  return Call{Collective::gatherv, root, own, all, 0, {}, where_, nullptr, &counts};
}

Result<Call> CheckedCalls::scatterv(std::uint32_t root, Bytes all, PartCounts const& counts,
                                    Place own) const {
  LEND_TRYV(check_uneven(root, counts.in, counts.unit, all.size(), own.size()));
  LEND_TRYV(check_apart(all, own));
  return Call{Collective::scatterv, root, all, own, 0, {}, where_, nullptr, &counts};
}

Result<Call> CheckedCalls::allgatherv(Bytes own, PartCounts const& counts, Place all) const {
  LEND_TRYV(check_counts(counts.out, counts.unit, all.size(), own.size()));
  // All ranks have the same counts, and so the same answer.
  if (std::ranges::count(counts.out, counts.out.front()) == std::ssize(counts.out))
    return allgather(own, all);
  LEND_TRYV(check_links());
  LEND_TRYV(check_apart(own, all));
  return Call{Collective::allgatherv, 0, own, all, 0, {}, where_, nullptr, &counts};
}

Result<Call> CheckedCalls::all_to_allv(Bytes from, PartCounts const& counts, Place to) const {
  LEND_TRYV(check_links());
  auto const own = counts.in.size() == ranks_.size ? counts.in[ranks_.rank] * counts.unit : 0;
  LEND_TRYV(check_counts(counts.in, counts.unit, from.size(), own));
  LEND_TRYV(check_counts(counts.out, counts.unit, to.size(), own));
  LEND_TRYV(check_apart(from, to));
  return Call{Collective::all_to_allv, 0, from, to, 0, {}, where_, nullptr, &counts};
}

}  // namespace lend::group
