// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: bytes that are sent from where the program has them come as any message does, or none does.
// Method: all kinds of transport, and one of the program's own.
#include <lend/transport/memory.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include "support/peer_process.hpp"
#include "transport/channel_ends.hpp"
#include "transport/conformance.hpp"

namespace lend::test::send_some {

namespace {

TransportOptions const small{.window = 4, .message_bytes_max = 256, .ring_bytes = 1'280};

std::string numbered(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i)
    text[i] = static_cast<char>(i * 0x9e37'79b9'7f4a'7c15u >> 56);
  return text;
}

Ends in_memory() {
  auto [a, b] = must(memory_transports(small));
  return {AnyTransport{std::move(a)}, AnyTransport{std::move(b)}};
}
Ends over(std::size_t kind) {
  return must(
      channel_kinds[kind].try_ends(must(open_test_device().allocate_protection_domain()), small));
}

}  // namespace

TEST_CASE("some of the bytes go as one message, as many as there is room for", "[transport]") {
  auto const [make, has_ring] = GENERATE(table<Ends (*)(), bool>({
      {[] { return in_memory(); }, false},
      {[] { return over(0); }, false},
      {[] { return accompanied(over(0)); }, false},
      {[] { return over(1); }, true},
      {[] { return accompanied(over(2)); }, true},
  }));
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  if (lacks(context, &DeviceCapabilities::immediates)) return;
  auto [a, b] = make();
  auto const most = a.limits().send_bytes_max;
  auto const text = numbered(5'000);
  std::string got;
  std::size_t shortened = 0;
  // At many places of a ring, and in turn with drafts.
  auto const deadline = patience();
  for (std::size_t sent = 0, round = 0; got.size() < text.size(); ++round) {
    REQUIRE_FALSE(deadline.has_passed());
    auto const length = std::min(text.size() - sent, 37 * (round % 9));
    auto const at_least = std::min<std::size_t>(1 + round % 7, length);
    auto const now = must(a.try_send_some(at_least, bytes_of(text).subspan(sent, length)));
    if (now) {
      CHECK((at_least <= *now && *now <= std::min<std::size_t>(length, most)));
      shortened += *now < std::min<std::size_t>(length, most);
    }
    sent += now.value_or(0);
    if (round % 5 == 0)
      if (auto draft = must(a.try_draft(0, 100))) must(std::move(draft).send(0));
    while (auto const came = must(b.try_receive())) got += text_of(came);
    static_cast<void>(must(a.poll()));
  }
  CHECK(got == text);
  if (has_ring) CHECK(shortened > 0);  // at its end, or for want of credits

  CHECK(error_of(a.try_send_some(most + 1, bytes_of(text))) == Errc::invalid_argument);
  CHECK(error_of(a.try_send_some(2, bytes_of("x"))) == Errc::invalid_argument);
  while (!must(a.try_send_some(1, bytes_of("x")))) must(wait_for_change(a, patience()));
  CHECK(receive(b) == "x");
  {
    auto const draft = must(a.try_draft(1, 1));
    if (draft) CHECK_FALSE(must(a.try_send_some(1, bytes_of("y"))));  // one at a time
  }
  must(a.finish_sending());
  CHECK(error_of(a.try_send_some(1, bytes_of("y"))) == Errc::finished);
  b.disconnect();
  CHECK(error_of(b.try_send_some(1, bytes_of("y"))) == Errc::channel_broken);
}

TEST_CASE("an end that knows that its peer is gone takes no more bytes", "[transport]") {
  auto const kind = GENERATE(0u, 1u);
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  if (lacks(context, &DeviceCapabilities::immediates)) return;
  auto [a, b] = over(kind);
  { AnyTransport const gone = std::move(b); }
  Result<std::optional<std::size_t>> sent = std::optional<std::size_t>{};
  for (auto const deadline = patience(); sent && !deadline.has_passed();) {
    static_cast<void>(a.poll());
    sent = a.try_send_some(1, bytes_of("late"));
  }
  CHECK(error_of(sent) == Errc::peer_lost);
  CHECK(error_of(a.try_send_some(1, bytes_of("late"))) == Errc::peer_lost);
}

TEST_CASE("a forked child sends none of its bytes by its parent's end", "[transport]") {
  auto const kind = GENERATE(0u, 1u);
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  if (lacks(context, &DeviceCapabilities::immediates)) return;
  auto [a, b] = over(kind);
  PeerProcess child{[&](Wire const&) {
    return error_of(a.try_send_some(1, bytes_of("child"))) == Errc::system_failed ? 0 : 1;
  }};
  CHECK(child.exit_status() == 0);
  CHECK(must(a.try_send_some(1, bytes_of("parent"))) == 6);
  CHECK(receive(b) == "parent");
}

}  // namespace lend::test::send_some
