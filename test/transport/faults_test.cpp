// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever the device does to whichever operation, no end of a transport hangs or takes a
// loss for an end. Method: a fixed dialogue of two ends, with one planned fault at each operation
// in turn.
#include <lend/soft/faults.hpp>
#include <lend/transport/waiting.hpp>

#include <cerrno>
#include <string>
#include <string_view>

#include "transport/channel_ends.hpp"
#include "transport/conformance.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

TransportOptions short_window() {
  TransportOptions options;
  options.window = 4;
  options.message_bytes_max = 64;
  options.keep_alive = 5ms;
  return options;
}

/// What the other end of one that finished reads: the end, unless its own queue failed.
void check_end_of(AnyTransport& end) {
  auto const came = receive_message(end, patience());
  if (came)
    CHECK(came.value().is_end());
  else
    CHECK(came.error() == Errc::system_failed);
}

/// Asks and answers, then both finish.
Result<void> talk(AnyTransport& a, AnyTransport& b) {
  for (int i = 0; i < 5; ++i) {
    for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
      LEND_TRYV(send_message(*from, bytes_of(std::to_string(i)), patience()));
      LEND_TRY(came, receive_message(*to, patience()));
      if (came.is_end() || text_of(came) != std::to_string(i)) return Errc::disagreement;
    }
  }
  LEND_TRYV(a.finish_sending());
  LEND_TRYV(finish(b, patience()));
  check_end_of(a);
  LEND_TRYV(finish(a, patience()));
  check_end_of(b);
  return success();
}

/// What an end says once the dialogue has failed.
Error last_word_of(AnyTransport& end) {
  for (;;) {
    auto const came = receive_message(end, patience());
    if (!came) return came.error();
    if (came.value().is_end()) return error_of(end.try_draft(1, 1));
  }
}

}  // namespace

TEST_CASE("a fault at any operation of a dialogue hangs nothing, and no loss is an end",
          "[transport]") {
  auto const context = open_test_device();
  if (context.kind() != DeviceKind::soft) return skip(context, "faults are planned");
  auto const domain = must(context.allocate_protection_domain());
  auto const& kind = GENERATE(from_range(std::begin(channel_kinds), std::end(channel_kinds)));
  auto const [name, plan] = GENERATE(table<char const*, FaultPlan (*)(std::uint64_t)>({
      {"drop", [](std::uint64_t n) { return FaultPlan{}.drop(n); }},
      {"delay", [](std::uint64_t n) { return FaultPlan{}.delay(n, 2ms); }},
      {"flush", [](std::uint64_t n) { return FaultPlan{}.flush(n); }},
      {"peer_dies", [](std::uint64_t n) { return FaultPlan{}.peer_dies(n); }},
      {"queue", [](std::uint64_t n) { return FaultPlan{}.completion_queue_fails(n); }},
  }));
  // The kinds share the operations among them. A ReadRing has more of them, each of its own, so all
  // are tried where a fault is found out at once, not by retries.
  bool const has_notes = kind.try_ends == channel_kinds[2].try_ends;
  auto const fault = std::string_view{name};
  bool const tries_all = has_notes && (fault == "delay" || fault == "peer_dies");
  auto const first = kind.try_ends == channel_kinds[1].try_ends ? 5u : 1u;
  for (std::uint64_t at = first; at <= (has_notes ? 41 : 21); at += tries_all ? 1 : 8) {
    CAPTURE(kind.name, name, at);
    auto [a, b] = must(kind.try_ends(domain, short_window()));
    must(inject_faults(context, plan(at)));

    auto const done = talk(a, b);

    if (done) continue;
    CAPTURE(done.error().message());
    CHECK((done.error() == Errc::peer_lost || done.error() == Errc::system_failed));
    for (auto* end : {&a, &b}) {
      auto const error = last_word_of(*end);
      CAPTURE(error.message());
      CHECK((error == Errc::peer_lost || error == Errc::system_failed || error == Errc::finished));
    }
  }
  must(inject_faults(context, FaultPlan{}));
}

TEST_CASE("a control call that fails leaves no transport, and the next one works", "[transport]") {
  auto const context = open_test_device();
  if (context.kind() != DeviceKind::soft) return skip(context, "faults are planned");
  auto const domain = must(context.allocate_protection_domain());
  auto const& kind = GENERATE(from_range(std::begin(channel_kinds), std::end(channel_kinds)));
  int failed = 0;
  for (std::uint64_t call = 1; call <= 40; ++call) {
    CAPTURE(kind.name, call);
    must(inject_faults(context, FaultPlan{}.control_call_fails(call, ENOMEM)));
    auto const made = kind.try_ends(domain, short_window());
    must(inject_faults(context, FaultPlan{}));
    if (!made) ++failed;
  }
  CHECK(failed > 10);
  auto [a, b] = must(kind.try_ends(domain, short_window()));
  must(talk(a, b));
}
