// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: words arrive as they were said, and whatever else a peer sends ends the conversation with a
// reason. Method: two conversations on a socket pair, or frames at the other end of one.
#include <network/exchange/conversation.hpp>

#include "network/raw_peers.hpp"

using namespace lend;
using namespace lend::test;
using network::Conversation;

namespace {

network::Peer peer_at(network::Socket socket) {
  return {.socket = std::move(socket)};
}

/// Why a conversation does not take these bytes.
std::string refusal_of(Bytes const& bytes) {
  auto [ours, theirs] = socket_pair();
  Conversation const conversation{peer_at(std::move(ours))};
  say(theirs, bytes);
  ::shutdown(theirs.fd.get(), SHUT_WR);
  return error_of(conversation.hear(within(patience))).message();
}

Bytes part(std::string text, bool more = false) {
  return bytes_of(encode(network::Part{more, std::move(text)}, nullptr));
}

}  // namespace

TEST_CASE("words of any length and bytes arrive as they were said", "[network]") {
  auto const length = GENERATE(0u, 1u, 1018u, 1019u, 1020u, 1024u, 5000u, 100'000u);
  auto [ours, theirs] = socket_pair();
  Conversation const one{peer_at(std::move(ours))};
  Conversation const other{peer_at(std::move(theirs))};
  std::vector<std::string> const words{"", std::string(length, '\xff'), "3:x",
                                       std::string(2, '\0')};

  std::thread speaker{[&] { must(one.say(words, within(patience))); }};
  auto const heard = must(other.hear(within(patience)));
  speaker.join();

  CHECK(heard == words);
}

TEST_CASE("a message of no words is one", "[network]") {
  auto [ours, theirs] = socket_pair();
  must(Conversation{peer_at(std::move(ours))}.say({}, within(patience)));
  CHECK(must(Conversation{peer_at(std::move(theirs))}.hear(within(patience))).empty());
}

TEST_CASE("what is no message is refused with the reason", "[network]") {
  for (auto const* const text : {"x", "1", "2:x", ":x", "-1:x", "99999999999999999999:x", "1:xy"}) {
    CAPTURE(text);
    CHECK_THAT(refusal_of(part(text)), Catch::Contains("unknown form"));
  }
  CHECK_THAT(refusal_of(agreed()), Catch::Contains("out of turn"));
  CHECK_THAT(refusal_of(bytes_of(encode(greeting_with(2)))), Catch::Contains("out of turn"));
  CHECK_THAT(refusal_of({std::byte{'G'}}), Catch::Contains("does not speak"));
  CHECK_THAT(refusal_of(part("1:x", true)), Catch::Contains("closed the connection"));
  auto wrong = part("1:x");
  wrong[network::frame_header_bytes] = std::byte{2};
  CHECK_THAT(refusal_of(wrong), Catch::Contains("form 2"));

  auto [ours, theirs] = socket_pair();
  Conversation const conversation{peer_at(std::move(ours))};
  std::thread speaker{[&theirs = theirs] {
    network::Part const one{true, std::string(network::part_bytes_max, '1')};
    for (std::size_t sent = 0; sent <= Conversation::message_bytes_max; sent += one.text.size())
      must(network::send_all(theirs, encode(one, nullptr), within(patience)));
  }};
  CHECK_THAT(error_of(conversation.hear(within(patience))).message(), Catch::Contains("too much"));
  speaker.join();
}

TEST_CASE("a peer that says nothing, or takes nothing, is lost once patience ends", "[network]") {
  auto [ours, theirs] = socket_pair();
  Conversation const conversation{peer_at(std::move(ours)), 50ms};

  auto const unheard = error_of(conversation.hear(within(10s)));
  Result<void> said = success();
  while (said) said = conversation.say({std::string(100'000, 'x')}, within(10s));

  CHECK(unheard == Errc::peer_lost);
  CHECK_THAT(unheard.message(), Catch::Contains("fell silent"));
  CHECK(said.error() == Errc::peer_lost);
  CHECK_THAT(said.error().message(), Catch::Contains("takes nothing"));
  CHECK(error_of(conversation.hear(within(0ms))) == Errc::timed_out);  // the caller's own
}
