// SPDX-License-Identifier: MIT OR Apache-2.0
// Why a list of elements was refused. Any thread.
#include <verbs/posting.hpp>

#include <string>

namespace lend {

Error refusal(QueuePairHandle const& queue_pair, Operation operation,
              std::span<NamedElement const> elements, std::size_t list_size,
              RemoteSlice const* remote) {
  auto const refused = [&](std::string const& why) {
    return Error{Errc::invalid_argument,
                 std::string{name_of(operation)} + " refused: " + why + "; nothing was posted"};
  };
  if (list_size == 0)
    return refused(operation == Operation::receive
                       ? "an empty list; for messages of no bytes use Receive::only_immediate()"
                       : "an empty list and no immediate");
  if (list_size > queue_pair.elements)
    return refused(std::to_string(list_size) + " elements, this queue pair takes at most " +
                   std::to_string(queue_pair.elements));

  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    auto const& [region, range] = elements[i];
    if (region == nullptr || !region->contains(range))
      return refused(element_error(region, range, i, list_size).message());
    if (region->protection_domain != queue_pair.protection_domain)
      return refused("element " + std::to_string(i) + " of " + std::to_string(list_size) + ": " +
                     std::to_string(range.length) + " bytes at offset " +
                     std::to_string(range.offset) + " of a region of " +
                     std::to_string(region->length) +
                     " bytes that was registered with another protection domain; register it with "
                     "the queue pair's");
    bytes += range.length;
  }
  if (bytes > queue_pair.message_bytes_max)
    return refused(std::to_string(bytes) + " bytes, the port carries at most " +
                   std::to_string(queue_pair.message_bytes_max) + " in one message");
  if (remote != nullptr && !remote->in_bounds)
    return refused("the remote slice of " + std::to_string(remote->length) +
                   " bytes is out of bounds of its region");
  if (remote != nullptr)
    return refused("the lengths differ: " + std::to_string(bytes) + " bytes here, " +
                   std::to_string(remote->length) + " bytes of the peer");
  return refused("the list is not valid");
}

}  // namespace lend
