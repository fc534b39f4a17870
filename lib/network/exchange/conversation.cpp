// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages as frames. A message is its words, each after its length: "5:hello".
#include <network/exchange/conversation.hpp>

#include <sys/random.h>

#include <cerrno>
#include <charconv>
#include <utility>

namespace lend::network {

namespace {

/// The exchange wants an endpoint, which differs from the other side's. Nothing connects to it.
Result<Greeting> greeting_without_device() {
  std::uint16_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number)
    return Error::from_errno("getrandom", errno);
  auto const queue_pair = QueuePairNumber::from(2);
  auto const sequence = PacketSequenceNumber::from(number);
  return Greeting{.endpoint = {.queue_pair_number = *queue_pair,
                               .packet_sequence_number = *sequence,
                               .mtu_bytes = 256,
                               .send_depth = 1,
                               .receive_depth = 1}};
}

/// `error` as one of a conversation; `silence` says what a peer does that does nothing.
Error as_lost(Error error, std::string const& address, Deadline deadline,
              std::string_view silence) {
  if (error == Errc::timed_out && !deadline.has_passed())
    return Error{Errc::peer_lost, about_peer(address, silence)};
  if (error == Errc::peer_lost)
    return Error{Errc::peer_lost, about_peer(address, "closed the connection")};
  return error;
}

/// The words of a message; nothing if it is none.
std::optional<std::vector<std::string>> words_in(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    std::size_t length = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    auto const at = static_cast<std::size_t>(end - text.data());
    if (error != std::errc{} || at == text.size() || *end != ':' || length > text.size() - at - 1)
      return std::nullopt;
    words.emplace_back(text.substr(at + 1, length));
    text.remove_prefix(at + 1 + length);
  }
  return words;
}

}  // namespace

Conversation::Conversation(Peer peer, std::chrono::nanoseconds patience)
    : peer_{std::make_unique<Peer>(std::move(peer))},
      reader_{std::make_unique<FrameReader>()},
      patience_{patience} {
  if (peer_->sealing) reader_->open_by(*peer_->sealing);
}

Result<Conversation> Conversation::with_listener(std::string_view address, Deadline deadline,
                                                 ExchangeOptions const& options) {
  LEND_TRY(secret, Secret::of(options.secret));
  LEND_TRY(greeting, greeting_without_device());
  LEND_TRY(peer, greet(address, greeting, deadline, secret, Purpose::examine));
  return Conversation{std::move(peer)};
}

Result<void> Conversation::say(std::vector<std::string> const& words, Deadline deadline) const {
  std::string message;
  for (auto const& word : words) ((message += std::to_string(word.size())) += ':') += word;
  if (message.size() > message_bytes_max)
    return Error{Errc::invalid_argument, "a message of " + std::to_string(message.size()) +
                                             " bytes to a peer, where " +
                                             std::to_string(message_bytes_max) + " are the most"};
  auto const limit = sooner(deadline, within(patience_));
  for (std::size_t at = 0; at <= message.size(); at += part_bytes_max) {
    Part const part{message.size() > at + part_bytes_max, message.substr(at, part_bytes_max)};
    auto const sent = send_all(peer_->socket, encode(part, peer_->sealing.get()), limit);
    if (!sent) return as_lost(sent.error(), address(), deadline, "takes nothing");
    if (!part.more) break;
  }
  return success();
}

Result<std::vector<std::string>> Conversation::hear(Deadline deadline) const {
  auto const limit = sooner(deadline, within(patience_));
  std::string message;
  for (bool more = true; more;) {
    reader_->restart();
    if (auto const received = receive_frame(peer_->socket, *reader_, limit); !received)
      return as_lost(received.error(), address(), deadline, "fell silent");
    if (reader_->kind() != FrameKind::part)
      return refused(peer_->socket, "sent a frame out of turn");
    auto part = reader_->part();
    if (!part) return refused(peer_->socket, part.error().message());
    message += part.value().text;
    more = part.value().more;
    if (message.size() > message_bytes_max) return refused(peer_->socket, "says too much");
  }
  auto words = words_in(message);
  if (!words) return refused(peer_->socket, "sent a message of unknown form");
  return *std::move(words);
}

Result<ConversationListener> ConversationListener::open(std::string_view address,
                                                        ExchangeOptions const& options) {
  LEND_TRY(secret, Secret::of(options.secret));
  LEND_TRY(candidates, candidates_at(address, false));
  LEND_TRY(listening, open_listening(candidates));
  SocketFile file{candidates.front()};
  LEND_TRY(acceptor, Acceptor::open(std::move(listening), {}, std::move(secret), Purpose::examine));
  return ConversationListener{std::move(file), std::move(acceptor)};
}

Result<Conversation> ConversationListener::accept(Deadline deadline) {
  LEND_TRY(greeting, greeting_without_device());
  LEND_TRY(peer, acceptor_.accept(greeting, deadline));
  return Conversation{std::move(peer)};
}

}  // namespace lend::network
