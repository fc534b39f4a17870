// SPDX-License-Identifier: MIT OR Apache-2.0
// The words for work that was refused. Any thread.
#include <verbs/post/posting.hpp>
#include <verbs/post/window_work.hpp>

#include <string>
#include <type_traits>
#include <utility>

namespace lend::verbs {

namespace {

/// What is said of work of any kind.
struct RefusedWork {
  Operation operation;
  std::uint64_t bytes;  // wanted; may have wrapped
  std::size_t list_size;
  RegionState const* region;  // of the element at fault
  ByteRange range;
  RemoteSlice remote;  // of writes, reads and atomic operations
  bool has_immediate;
};

std::string other_domain(RefusedWork const& work, std::size_t index) {
  return "element " + std::to_string(index) + " of " + std::to_string(work.list_size) + ": " +
         std::to_string(work.range.length) + " bytes at offset " +
         std::to_string(work.range.offset) + " of a region of " +
         std::to_string(work.region->length) +
         " bytes that was registered with another protection domain; register it with the queue "
         "pair's";
}

char const* post_verb(Operation operation) noexcept {
  return operation == Operation::receive ? "ibv_post_recv" : "ibv_post_send";
}

Error no_immediates(RequestQueue const& queue) noexcept {
  return Error{Errc::unsupported, queue.domain->context->name +
                                      " is iWARP, which carries no immediates (RFC 5040); send the "
                                      "value as bytes. Nothing was posted"};
}

Error no_atomics(RequestQueue const& queue) noexcept {
  return Error{Errc::unsupported, queue.domain->context->name +
                                      " has no atomic operations (capabilities().atomics); use "
                                      "messages. Nothing was posted"};
}

/// "read and write"
std::string access_text(RemoteAccess access) {
  std::string text;
  for (auto const& [right, name] :
       {std::pair{RemoteAccess::read, "read"}, std::pair{RemoteAccess::write, "write"},
        std::pair{RemoteAccess::atomic, "atomic"}})
    if (permits(access, right)) text += (text.empty() ? "" : " and ") + std::string{name};
  return text;
}

Error error_of(RequestQueue const& queue, RefusedWork const& work, PostAnswer answer,
               Error const& conflict) {
  auto const refused = [&](std::string const& why) {
    return Error{Errc::invalid_argument, std::string{name_of(work.operation)} + " refused: " + why +
                                             "; nothing was posted"};
  };
  auto const index = static_cast<std::size_t>(answer.detail);
  switch (answer.refusal) {
    case PostRefusal::none: break;
    case PostRefusal::empty_list:
      return refused(work.operation == Operation::receive
                         ? "an empty list; for messages without bytes use Receive::only_immediate()"
                         : "an empty list and no immediate");
    case PostRefusal::too_many_elements:
      return refused(std::to_string(work.list_size) + " elements, this queue takes at most " +
                     std::to_string(work.operation == Operation::receive ? queue.receive_elements
                                                                         : queue.elements));
    case PostRefusal::outside_region:
      return refused(element_error(work.region, work.range, index, work.list_size).message());
    case PostRefusal::other_domain: return refused(other_domain(work, index));
    case PostRefusal::on_loan: return conflict;
    case PostRefusal::too_long:
      return refused(std::to_string(work.bytes) + " bytes, the port carries at most " +
                     std::to_string(queue.message_bytes_max) +
                     " in one message; cut it by chunks() or split_at()");
    case PostRefusal::outside_remote:
      return refused("the remote slice of " + std::to_string(work.remote.length) +
                     " bytes is out of bounds of its region");
    case PostRefusal::no_access:
      return refused("the peer exposed these bytes for " + access_text(work.remote.access) +
                     " only; it must expose them for " + std::string{name_of(work.operation)});
    case PostRefusal::no_atomics: return no_atomics(queue);
    case PostRefusal::off_word:
      return refused("the peer's word at address " + std::to_string(work.remote.address) +
                     " does not begin at a multiple of 8");
    case PostRefusal::bad_result:
      return refused("the result takes 8 aligned bytes of one element, not " +
                     std::to_string(work.bytes) + " of " + std::to_string(work.list_size) +
                     (work.bytes == RemoteWord::size && work.list_size == 1 ? " off 8 bytes" : ""));
    case PostRefusal::lengths_differ:
      return refused("the lengths differ: " + std::to_string(work.bytes) + " bytes here, " +
                     std::to_string(work.remote.length) + " bytes of the peer");
    case PostRefusal::no_immediates: return no_immediates(queue);
    case PostRefusal::no_destination:
      return Error{Errc::stale_handle, "send refused: the Destination was moved from"};
    case PostRefusal::foreign_destination:
      return refused(
          "the Destination is of another protection domain; take it from destination() "
          "of this queue pair or channel");
    case PostRefusal::too_long_for_a_packet:
      return refused(std::to_string(work.bytes) + " bytes, a datagram carries at most " +
                     std::to_string(answer.detail) +
                     ", the port's MTU; cut it, or use a connection");
    case PostRefusal::no_windows: return no_windows(*queue.domain->context);
    case PostRefusal::returns_elsewhere:
      return refused(
          "it returns what the peer has lent, which a message of a reliable connection does that "
          "carries no immediate");
    case PostRefusal::fences_nothing:
      return refused("it is fenced, and only a reliable connection has reads to wait for");
    case PostRefusal::solicits_nothing:
      return refused(
          "it is solicited without an immediate, so that the peer has no completion; use "
          "with_immediate(), or do not solicit it");
    case PostRefusal::by_device:
      if (work.has_immediate && !queue.carries_immediates()) return no_immediates(queue);
      return device_refused(queue, work.operation, answer.detail);
    case PostRefusal::unclear: return device_unclear(queue, work.operation, answer.detail);
  }
  return {};
}

template <class Work>
Error error_of(RequestQueue const& queue, Work const& work, PostAnswer answer,
               Error const& conflict, RemoteSlice const& remote, bool has_immediate) {
  auto const elements = list_of(work).elements();
  bool const names_element =
      answer.refusal == PostRefusal::outside_region || answer.refusal == PostRefusal::other_domain;
  auto const* const element =
      names_element ? &elements[static_cast<std::size_t>(answer.detail)] : nullptr;
  return error_of(queue,
                  {.operation = operation_of<Work>,
                   .bytes = list_of(work).bytes(),
                   .list_size = elements.size(),
                   .region = element != nullptr ? element->region : nullptr,
                   .range = element != nullptr ? element->range : ByteRange{},
                   .remote = remote,
                   .has_immediate = has_immediate},
                  answer, conflict);
}

}  // namespace

Error device_refused(RequestQueue const& queue, Operation operation, int errno_value) noexcept {
  // A full queue. Source: ibv_post_send(3); rdma-core providers answer ENOMEM.
  if (errno_value == ENOMEM) return Errc::queue_full;
  // What it does not do to these bytes or with this peer.
  if (errno_value == EOPNOTSUPP)
    return verb_error(Errc::unsupported, queue.domain->provider(), post_verb(operation),
                      errno_value);
  return verb_error(Errc::system_failed, queue.domain->provider(), post_verb(operation),
                    errno_value,
                    "The queue pair may have left the state in which it accepts work: try again, "
                    "or end its outstanding work and set up another one.");
}

Error device_unclear(RequestQueue const& queue, Operation operation, int errno_value) noexcept {
  return verb_error(Errc::system_failed, queue.domain->provider(), post_verb(operation),
                    errno_value,
                    "The device does not say whether it took the work, and may access its bytes "
                    "until the queue pair is aborted.");
}

Error refusal_error(RequestQueue const& queue, Send const& work, PostAnswer answer,
                    Error const& conflict) noexcept {
  return error_of(queue, work, answer, conflict, {}, work.immediate.has_value());
}
Error refusal_error(RequestQueue const& queue, Write const& work, PostAnswer answer,
                    Error const& conflict) noexcept {
  return error_of(queue, work, answer, conflict, work.target, work.immediate.has_value());
}
Error refusal_error(RequestQueue const& queue, Read const& work, PostAnswer answer,
                    Error const& conflict) noexcept {
  return error_of(queue, work, answer, conflict, work.source, false);
}
Error refusal_error(RequestQueue const& queue, Atomic const& work, PostAnswer answer,
                    Error const& conflict) noexcept {
  auto const& word = work.change.word;
  return error_of(queue, work, answer, conflict,
                  {word.address, RemoteWord::size, word.key, word.access}, false);
}
Error refusal_error(RequestQueue const& queue, Receive const& work, PostAnswer answer,
                    Error const& conflict) noexcept {
  return error_of(queue, work, answer, conflict, {}, false);
}
Error refusal_error(RequestQueue const& queue, AddressedSend const& work, PostAnswer answer,
                    Error const& conflict) noexcept {
  return error_of(queue, work, answer, conflict, {}, work.immediate.has_value());
}
Error refusal_error(RequestQueue const& queue, RoomReceive const& work, PostAnswer answer,
                    Error const& conflict) noexcept {
  return error_of(queue, work, answer, conflict, {}, false);
}

}  // namespace lend::verbs
