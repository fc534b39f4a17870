// SPDX-License-Identifier: MIT OR Apache-2.0
// Any thread.
#include <group/checked_call.hpp>
#include <verbs/memory/region_state.hpp>

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

}  // namespace lend::group
