// SPDX-License-Identifier: MIT OR Apache-2.0
// Why a list of elements was refused. Any thread.
#include <verbs/posting.hpp>
#include <verbs/verb_error.hpp>

#include <string>

namespace lend {

namespace {

/// One element, as both kinds are seen here.
struct NamedElement {
  RegionState const* region;
  ByteRange range;
};

Error said_wrong(QueuePairHandle const& queue_pair, Operation operation,
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
                   std::to_string(queue_pair.message_bytes_max) +
                   " in one message; cut it by chunks() or split_at()");
  if (remote != nullptr && !remote->in_bounds)
    return refused("the remote slice of " + std::to_string(remote->length) +
                   " bytes is out of bounds of its region");
  if (remote != nullptr)
    return refused("the lengths differ: " + std::to_string(bytes) + " bytes here, " +
                   std::to_string(remote->length) + " bytes of the peer");
  return refused("the list is not valid");
}

/// `remote` is null where there is none.
template <class Element>
Error said_wrong(QueuePairHandle const& queue_pair, Operation operation,
                 ElementList<Element> const& list, RemoteSlice const* remote) {
  NamedElement named[elements_max];
  std::size_t count = 0;
  for (Element const& element : list.elements()) {
    if (count == elements_max) break;
    named[count++] = {element.region, element.range};
  }
  return said_wrong(queue_pair, operation, {named, count}, list.size(), remote);
}

}  // namespace

Error no_immediates(QueuePairHandle const& queue_pair) noexcept {
  return Error{Errc::unsupported, queue_pair.domain->context->name +
                                      " is iWARP, which carries no immediates (RFC 5040); send the "
                                      "value as bytes. Nothing was posted"};
}

Error device_refused(QueuePairHandle const& queue_pair, char const* verb, int result) noexcept {
  int const error = errno_of(result);
  // A full queue. Source: ibv_post_send(3); rdma-core providers answer ENOMEM.
  if (error == ENOMEM) return Errc::queue_full;
  return verb_error(Errc::system_failed, queue_pair.domain->provider(), verb, error,
                    "The queue pair may have left the state in which it takes work: try again, or "
                    "finish the channel's scopes and prepare_again().");
}

Error device_unclear(QueuePairHandle const& queue_pair, char const* verb, int result) noexcept {
  int const error = errno_of(result);
  return verb_error(Errc::system_failed, queue_pair.domain->provider(), verb, error,
                    "The device does not say whether it took the work, and may touch its bytes "
                    "until the queue pair was flushed.");
}

namespace {

Error device_failed(QueuePairHandle const& queue_pair, char const* verb, PostAnswer answer,
                    bool has_immediate) {
  if (answer.is_unclear())
    return device_unclear(queue_pair, verb, answer.result - PostAnswer::unclear);
  if (has_immediate && !queue_pair.carries_immediates()) return no_immediates(queue_pair);
  return device_refused(queue_pair, verb, answer.result);
}

}  // namespace

Error refusal(QueuePairHandle const& queue_pair, Send const& work, PostAnswer answer) noexcept {
  if (answer.result == PostAnswer::said_wrong)
    return said_wrong(queue_pair, Operation::send, work.source, nullptr);
  return device_failed(queue_pair, "ibv_post_send", answer, work.immediate.has_value());
}

Error refusal(QueuePairHandle const& queue_pair, Write const& work, PostAnswer answer) noexcept {
  if (answer.result == PostAnswer::said_wrong)
    return said_wrong(queue_pair, Operation::write, work.source, &work.target);
  return device_failed(queue_pair, "ibv_post_send", answer, work.immediate.has_value());
}

Error refusal(QueuePairHandle const& queue_pair, Read const& work, PostAnswer answer) noexcept {
  if (answer.result == PostAnswer::said_wrong)
    return said_wrong(queue_pair, Operation::read, work.target, &work.source);
  return device_failed(queue_pair, "ibv_post_send", answer, false);
}

Error refusal(QueuePairHandle const& queue_pair, Receive const& work, PostAnswer answer) noexcept {
  if (answer.result == PostAnswer::said_wrong)
    return said_wrong(queue_pair, Operation::receive, work.target, nullptr);
  return device_failed(queue_pair, "ibv_post_recv", answer, false);
}

}  // namespace lend
