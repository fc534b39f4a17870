// SPDX-License-Identifier: MIT OR Apache-2.0
// The scenarios; no device is named here.
#include "transport/conformance.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <thread>

using namespace std::chrono_literals;

namespace lend::test {

namespace {

TransportOptions small(std::uint32_t window = 4, std::uint32_t message = 256) {
  TransportOptions options;
  options.window = window;
  options.message_bytes_max = message;
  options.keep_alive = 20ms;
  return options;
}

void sizes(MakeEnds const& make) {
  auto [a, b] = make(small());
  auto const most = a.limits().send_bytes_max;
  CHECK(most == b.limits().receive_bytes_max);
  for (std::size_t const size : {0u, 1u, 7u, 8u, most - 1, most}) {
    std::string const text(size, static_cast<char>('a' + size % 26));
    send(a, text);
    CHECK(receive(b) == text);
  }

  auto const refused = error_of(a.try_draft(most + 1, most + 1));
  CHECK(refused == Errc::invalid_argument);
  CHECK(refused.message().find(std::to_string(most)) != std::string::npos);
  CHECK(error_of(a.try_draft(2, 1)) == Errc::invalid_argument);
  send(a, "goes on");
  CHECK(receive(b) == "goes on");
}

void order(MakeEnds const& make) {
  auto [a, b] = make(small(8));
  int sent = 0, got = 0;
  auto const deadline = patience();
  for (int round = 0; got < 2'000; ++round) {
    REQUIRE_FALSE(deadline.has_passed());
    sent += fill(a, sent);
    for (int i = 0; i < 1 + round % 8 && got < sent; ++i)
      REQUIRE(receive(b) == std::to_string(got++));
  }
}

void every_length(MakeEnds const& make) {
  auto [a, b] = make(small(8));
  auto const most = a.limits().send_bytes_max;
  // Each length follows each of its neighbours somewhere, at every place of a ring.
  std::size_t sent = 0, got = 0;
  auto const message = [most](std::size_t number) {
    return std::string(number * 67 % (most + 1), static_cast<char>('a' + number % 26));
  };
  while (got < 2'000) {
    while (sent < 2'000) {
      auto const text = message(sent);
      auto const piece = bytes_of(text);
      if (!must(try_send(a, {&piece, 1}))) break;
      ++sent;
    }
    for (std::size_t left = 1 + got % 3; left > 0 && got < sent; --left)
      REQUIRE(receive(b) == message(got++));
  }
}

void gather(MakeEnds const& make) {
  auto [a, b] = make(small());
  std::array const pieces{bytes_of("one "), bytes_of(""), bytes_of("and "), bytes_of("two")};
  REQUIRE(must(try_send(a, pieces)));
  CHECK(receive(b) == "one and two");
}

void window(MakeEnds const& make) {
  auto [a, b] = make(small(8));
  CHECK(fill(a) == 8);
  CHECK(fill(a) == 0);
  std::vector<Received> held;
  for (int i = 0; i < 8; ++i) held.push_back(must(receive_message(b, patience())));
  CHECK(fill(a) == 0);  // held messages take their room
  held[0] = Received{};
  CHECK(fill(a) == 0);  // less than a quarter of the window is not told
  held[1] = Received{};
  send(a, "again");
  CHECK(receive(b) == "again");
}

void every_order_of_release(MakeEnds const& make) {
  auto [a, b] = make(small());
  std::array<std::size_t, 4> order{};
  std::iota(order.begin(), order.end(), 0u);
  do {
    std::array<Received, 4> held;
    for (int i = 0; i < 4; ++i) send_beside(b, a, std::to_string(i));
    for (auto& each : held) each = must(receive_message(b, patience()));
    for (std::size_t const which : order) {
      CHECK(text_of(held[which]) == std::to_string(which));
      held[which] = Received{};
    }
  } while (std::ranges::next_permutation(order).found);
}

void both_fill_before_either_reads(MakeEnds const& make) {
  auto [a, b] = make(small(16));
  for (int round = 0; round < 50; ++round) {
    // There may be no room before the first word of the peer.
    send(a, "0");
    send(b, "0");
    int const from_a = 1 + fill(a, 1), from_b = 1 + fill(b, 1);
    for (int i = 0; i < from_a; ++i) REQUIRE(receive(b) == std::to_string(i));
    for (int i = 0; i < from_b; ++i) REQUIRE(receive(a) == std::to_string(i));
  }
}

void half_close(MakeEnds const& make) {
  auto [a, b] = make(small());
  CHECK(fill(a, 0, 4) == 4);
  must(a.finish_sending());  // although the window is full
  must(a.finish_sending());
  CHECK(error_of(a.try_draft(0, 1)) == Errc::finished);
  for (int i = 0; i < 20; ++i) {
    send(b, "still " + std::to_string(i));
    CHECK(receive(a) == "still " + std::to_string(i));
  }
  for (int i = 0; i < 4; ++i) CHECK(receive(b) == std::to_string(i));
  for (int i = 0; i < 3; ++i) CHECK(must(receive_message(b, patience())).is_end());
  send(b, "last");
  CHECK(receive(a) == "last");
  must(b.finish_sending());
  CHECK(must(receive_message(a, patience())).is_end());
  must(finish(a, patience()));
  must(finish(b, patience()));
  CHECK_FALSE(error_of(b.try_draft(1, 1)) == Errc::peer_lost);
}

void finish_drops_what_is_unread(MakeEnds const& make) {
  auto [a, b] = make(small());
  fill(a);
  must(a.finish_sending());
  must(finish(b, patience()));
  must(finish(a, patience()));
}

void what_came_before_a_loss(MakeEnds const& make) {
  auto [a, b] = make(small());
  {
    AnyTransport gone = std::move(a);
    send(gone, "first");
    send(gone, "second");
    while (gone.sends_in_flight() > 0) must(wait_for_change(gone, patience()));
  }
  CHECK(receive(b) == "first");
  CHECK(receive(b) == "second");
  CHECK(error_of(receive_message(b, patience())) == Errc::peer_lost);
  CHECK(error_of(b.try_receive()) == Errc::peer_lost);
  CHECK(error_of(b.try_draft(1, 1)) == Errc::peer_lost);
  CHECK(error_of(b.finish_sending()) == Errc::peer_lost);
}

void an_end_before_a_loss(MakeEnds const& make) {
  auto [a, b] = make(small());
  {
    AnyTransport gone = std::move(a);
    send(gone, "all");
    must(gone.finish_sending());
    while (gone.sends_in_flight() > 0) must(wait_for_change(gone, patience()));
  }
  CHECK(receive(b) == "all");
  CHECK(must(receive_message(b, patience())).is_end());
  // The other direction is lost: nobody has received it.
  CHECK(error_of(finish(b, patience())) == Errc::peer_lost);
  CHECK(must(b.try_receive()).is_end());
}

void a_peer_goes_before_it_is_read(MakeEnds const& make) {
  auto [a, b] = make(small());
  {
    AnyTransport gone = std::move(a);
    CHECK(fill(gone, 0, 4) == 4);
    must(b.finish_sending());
    must(finish(gone, patience()));
  }
  for (int i = 0; i < 4; ++i) CHECK(receive(b) == std::to_string(i));  // its credits are lost
  must(finish(b, patience()));
  CHECK(must(b.try_receive()).is_end());
}

void a_wait_that_ends_changes_nothing(MakeEnds const& make) {
  auto [a, b] = make(small());
  CHECK(error_of(receive_message(b, within(2ms))) == Errc::timed_out);
  int const sent = fill(a, 0, 4);
  CHECK(error_of(send_message(a, bytes_of("no"), within(2ms))) == Errc::timed_out);
  CHECK(error_of(finish(a, within(2ms))) == Errc::timed_out);
  Cancellation stopping;
  stopping.cancel();
  auto const now = Deadline::never().unless(stopping);
  for (int i = 0; i < sent; ++i) CHECK(receive(b) == std::to_string(i));
  CHECK(must(receive_message(b, patience())).is_end());
  CHECK(error_of(finish(a, now)) == Errc::cancelled);
  send(b, "goes on");
  CHECK(receive(a) == "goes on");
  CHECK(error_of(receive_message(a, now)) == Errc::cancelled);
  must(b.finish_sending());
  must(finish(a, patience()));
}

void drafts(MakeEnds const& make) {
  auto [a, b] = make(small());
  auto const draft_of = [&a = a](std::size_t least, std::size_t most) {
    auto room = must(a.try_draft(least, most));
    for (; !room; room = must(a.try_draft(least, most))) must(wait_for_change(a, patience()));
    return room;
  };
  static_cast<void>(draft_of(1, 1));  // on iWARP it waits until the other end is ready
  for (int i = 0; i < 20; ++i) {
    auto dropped = must(a.try_draft(1, 100));
    REQUIRE(dropped);
    CHECK(dropped.bytes().size() == 100);
    std::memset(dropped.bytes().data(), 'x', 100);
    CHECK_FALSE(must(a.try_draft(1, 100)));  // one at a time
  }
  auto draft = must(a.try_draft(1, 100));
  std::memcpy(draft.bytes().data(), "hello", 5);
  Draft moved = std::move(draft);
  must(std::move(moved).send(5));
  CHECK(receive(b) == "hello");

  // Each is sent with less than was asked for, at every place of a ring.
  for (std::size_t i = 0; i < 300; ++i) {
    std::string const text(i % 97, static_cast<char>('a' + i % 26));
    auto room = draft_of(100 + i % 100, 256);
    std::memcpy(room.bytes().data(), text.data(), text.size());
    must(std::move(room).send(text.size()));
    REQUIRE(receive(b) == text);
  }

  auto late = draft_of(1, 10);
  CHECK(error_of(std::move(late).send(11)) == Errc::invalid_argument);
  CHECK(error_of(Draft{}.send(0)) == Errc::invalid_argument);
  late = draft_of(1, 10);
  must(a.finish_sending());
  CHECK(error_of(std::move(late).send(1)) == Errc::finished);
}

void loans_outlive_their_transport(MakeEnds const& make) {
  Received held;
  Draft draft;
  {
    auto [a, b] = make(small());
    send(a, "kept");
    held = must(receive_message(b, patience()));
    draft = must(b.try_draft(1, 1));
  }
  CHECK(text_of(held) == "kept");
  CHECK(error_of(std::move(draft).send(1)) == Errc::stale_handle);
}

void a_peer_is_not_stopped_while_little_is_held(MakeEnds const& make) {
  auto [a, b] = make(small(16));
  std::size_t const bytes = b.limits().receive_bytes_max;
  auto const text = [bytes](int number) {
    auto whole = std::to_string(number);
    whole.resize(bytes, '.');
    return whole;
  };
  int sent = 0, got = 0;
  auto const send_what_fits = [&, &peer = a] {
    for (;; ++sent) {
      auto const next = text(sent);
      std::span<std::byte const> const piece = bytes_of(next);
      if (!must(try_send(peer, {&piece, 1}))) return;
    }
  };
  auto const receive_next = [&, &end = b] {
    auto message = must(receive_message(end, patience()));
    REQUIRE(text_of(message) == text(got++));
    return message;
  };
  std::vector<Received> held;
  std::vector<int> numbers;  // of what is held
  auto const kind = b.limits().kind;
  auto const taken = kind == TransportKind::read_ring ? (bytes + 8 + 63) / 64 * 64 : bytes;
  auto const most = std::min<std::uint64_t>(b.limits().hold_max, b.limits().hold_bytes_max / taken);
  REQUIRE(most > 0);
  while (held.size() < most) {
    if (sent == got) send(a, text(sent++));
    numbers.push_back(got);
    held.push_back(receive_next());
  }
  // In a ring all count since the oldest that is held.
  bool const is_ring = kind == TransportKind::credit_ring || kind == TransportKind::read_ring;
  for (std::size_t round = 0; round < 200; ++round) {
    if (sent == got) send(a, text(sent++));
    send_what_fits();
    auto const number = got;
    auto message = receive_next();
    if (is_ring) {
      std::swap(held[round % most], message);
      numbers[round % most] = number;
    }
    for (std::size_t i = 0; i < most; ++i) REQUIRE(text_of(held[i]) == text(numbers[i]));
  }
}

void disconnect(MakeEnds const& make) {
  auto [a, b] = make(small());
  send(b, "the first");
  CHECK(receive(a) == "the first");
  settle(a);
  send(b, "came before");
  while (!must(a.poll())) {
  }
  a.disconnect();
  a.disconnect();
  // What poll() told of may have been an acknowledgement.
  if (auto kept = a.try_receive(); kept || !acknowledges_late())
    CHECK(text_of(must(std::move(kept))) == "came before");
  CHECK(error_of(a.try_receive()) == Errc::channel_broken);
  CHECK(error_of(a.try_draft(1, 1)) == Errc::channel_broken);
  CHECK(error_of(a.finish_sending()) == Errc::channel_broken);
  static_cast<void>(must(a.poll()));
  CHECK_FALSE(must(a.poll()));
  CHECK(error_of(receive_message(b, patience())) == Errc::peer_lost);
}

void sleeping(MakeEnds const& make) {
  auto options = small();
  options.wait = Wait::event;
  auto [a, b] = make(options);
  constexpr int rounds = 50;
  // No assertion in here: two threads run it.
  std::optional<Error> failed;
  std::thread other{[&failed, &peer = b] {
    for (int i = 0; i < rounds && !failed; ++i) {
      auto message = receive_message(peer, patience());
      Result<void> sent = message ? send_message(peer, message.value().bytes(), patience())
                                  : Result<void>{message.error()};
      if (!sent) failed = sent.error();
    }
  }};
  for (int i = 0; i < rounds; ++i) {
    send(a, std::to_string(i));
    REQUIRE(receive(a) == std::to_string(i));
  }
  other.join();
  CHECK_FALSE(failed);
}

void silence(MakeEnds const& make) {
  auto options = small();
  options.wait = Wait::event;
  auto [a, b] = make(options);
  send(a, "once");
  CHECK(receive(b) == "once");
  settle(b);
  send(a, "twice");
  while (!must(b.poll())) {
  }
  CHECK((!must(b.poll()) || acknowledges_late()));
  CHECK(receive(b) == "twice");
}

}  // namespace

std::vector<Scenario> const& scenarios_of_transports() {
  static std::vector<Scenario> const all{
      {"messages of every size arrive whole, longer ones are refused", sizes},
      {"messages arrive in order", order},
      {"messages of every length follow each other", every_length},
      {"pieces are one message", gather},
      {"a full window takes nothing until a quarter is free", window},
      {"messages can be let go in every order", every_order_of_release},
      {"both ends fill their windows before either reads", both_fill_before_either_reads},
      {"either end finishes, and the other direction goes on", half_close},
      {"finish() drops what was not read", finish_drops_what_is_unread},
      {"what came before a loss comes before its error", what_came_before_a_loss},
      {"a peer that finished and went is an end", an_end_before_a_loss},
      {"a peer that is over may go before all is read", a_peer_goes_before_it_is_read},
      {"a wait that is given up changes nothing", a_wait_that_ends_changes_nothing},
      {"a draft that is dropped sends nothing", drafts},
      {"a message and a draft outlive their transport", loans_outlive_their_transport},
      {"a peer goes on while hold_max messages are held",
       a_peer_is_not_stopped_while_little_is_held},
      {"a disconnected end keeps what came and says so", disconnect},
      {"an end that sleeps is woken for each message", sleeping},
      {"poll() says once that something changed", silence},
  };
  return all;
}

}  // namespace lend::test
