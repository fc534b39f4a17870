// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: one thread accepts and serves transports of every kind in its event loop, and connects them
// in another. Method: a server with clients in a thread, or in the same one.
#include <lend/channel/wait_set.hpp>
#include <lend/network/connecting.hpp>
#include <lend/transport/connect.hpp>
#include <lend/transport/message_pool.hpp>
#include <lend/transport/waiting.hpp>

#include <poll.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr auto long_time = 60s;

struct Place {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
};

bool is_readable(int descriptor, Deadline deadline) {
  pollfd waiting{descriptor, POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(deadline.left() / 1ms)) > 0;
}

/// Sends `text` as a message, and receives one.
std::string heard_after(AnyTransport& transport, std::string const& text) {
  must(send_message(transport, std::as_bytes(std::span{text}), within(long_time)));
  auto const received = must(receive_message(transport, within(long_time)));
  return {reinterpret_cast<char const*>(received.bytes().data()), received.bytes().size()};
}

/// Sends back all that has come; false once the peer has finished.
bool echo_all(AnyTransport& transport) {
  static_cast<void>(must(transport.poll()));
  for (;;) {
    auto const received = must(transport.try_receive());
    if (!received) return true;
    if (received.is_end()) return false;
    auto const bytes = received.bytes();
    CHECK(must(try_send(transport, SendPieces{&bytes, 1})));
  }
}

}  // namespace

TEST_CASE("one thread accepts transports and serves them all", "[transport]") {
  auto const kind =
      GENERATE(TransportKind::automatic, TransportKind::send_receive, TransportKind::read_ring);
  CAPTURE(static_cast<int>(kind));
  Place const place;
  if (lacks(place.context, &DeviceCapabilities::endpoints)) return;
  constexpr std::size_t clients = 6, words = 4;
  auto listener = must(TransportListener::open("127.0.0.1:0"));
  must(listener.begin(place.domain, [&](Arrival const&) -> Result<TransportOptions> {
    return TransportOptions{.kind = kind, .wait = Wait::event};
  }));
  std::vector<std::string> heard;
  std::thread talking{[&] {
    Place const there;
    std::vector<AnyTransport> transports;
    for (std::size_t i = 0; i < clients; ++i)
      transports.push_back(must(
          connect_transport(listener.address(), there.domain, {.kind = kind}, within(long_time))));
    for (std::size_t i = 0; i < clients * words; ++i)
      heard.push_back(heard_after(transports[i % clients], "word " + std::to_string(i)));
    for (auto& one : transports) must(finish(one, within(long_time)));
  }};

  std::map<std::uint64_t, AnyTransport> served;
  std::set<std::uint64_t> finished;
  while (finished.size() < clients) {
    while (auto accepted = must(listener.poll()))
      served.emplace(accepted->id, std::move(accepted->made));
    std::vector<pollfd> waiting{{listener.descriptor(), POLLIN, 0}};
    bool may_sleep = true;
    for (auto& [id, one] : served) {
      if (!echo_all(one) && finished.insert(id).second) must(one.finish_sending());
      may_sleep = must(one.arm()) && may_sleep;
      waiting.push_back({must(one.descriptor()), POLLIN, 0});
    }
    static_cast<void>(::poll(waiting.data(), waiting.size(), may_sleep ? 100 : 0));
  }
  talking.join();

  CHECK(served.size() == clients);
  REQUIRE(heard.size() == clients * words);
  for (std::size_t i = 0; i < heard.size(); ++i) CHECK(heard[i] == "word " + std::to_string(i));
}

TEST_CASE("one thread accepts into a MessagePool, and rejects a client beyond it", "[transport]") {
  Place const place;
  if (lacks(place.context, &DeviceCapabilities::endpoints)) return;
  constexpr std::size_t clients = 6, words = 4;
  auto set = must(WaitSet::create(place.context));
  auto pool = must(MessagePool::create(set, place.domain, {.transports_max = clients}));
  auto listener = must(TransportListener::open("127.0.0.1:0"));
  must(listener.begin(place.domain, [&](Arrival const& client) -> Result<TransportOptions> {
    // excerpt pool
    return TransportOptions{
        .kind = TransportKind::send_receive, .wait_set = &set, .tag = client.id, .pool = &pool};
    // end of excerpt
  }));
  std::vector<std::string> heard;
  std::string refused;
  std::thread talking{[&] {
    Place const there;
    auto const connect = [&] {
      return connect_transport(listener.address(), there.domain,
                               {.kind = TransportKind::send_receive}, within(long_time));
    };
    std::vector<AnyTransport> transports;
    for (std::size_t i = 0; i < clients; ++i) transports.push_back(must(connect()));
    refused = error_of(connect()).message();
    for (std::size_t i = 0; i < clients * words; ++i)
      heard.push_back(heard_after(transports[i % clients], "word " + std::to_string(i)));
    for (auto& one : transports) must(finish(one, within(long_time)));
  }};

  std::map<std::uint64_t, AnyTransport> served;
  std::set<std::uint64_t> finished;
  auto const serve = [&](std::uint64_t id) {
    auto const place_of = served.find(id);
    if (place_of == served.end()) return;  // it is listed before it is accepted
    static_cast<void>(must(place_of->second.poll()));
    if (!echo_all(place_of->second) && finished.insert(id).second)
      must(place_of->second.finish_sending());
  };
  while (finished.size() < clients) {
    while (auto accepted = must(listener.poll())) {
      served.emplace(accepted->id, std::move(accepted->made));
      serve(accepted->id);
    }
    std::array<Ready, 4> room;
    for (auto const& ready : must(set.poll(room))) serve(ready.tag);
    bool const may_sleep = must(set.arm());
    std::array waiting{pollfd{listener.descriptor(), POLLIN, 0},
                       pollfd{set.descriptor(), POLLIN, 0}};
    static_cast<void>(::poll(waiting.data(), waiting.size(), may_sleep ? 100 : 0));
  }
  while (std::ranges::any_of(served, [](auto& one) { return one.second.sends_in_flight() > 0; }))
    for (auto& [id, one] : served) static_cast<void>(must(one.poll()));
  talking.join();

  CHECK(served.size() == clients);
  CHECK_THAT(refused, Catch::Contains("its 6 transports"));
  REQUIRE(heard.size() == clients * words);
  for (std::size_t i = 0; i < heard.size(); ++i) CHECK(heard[i] == "word " + std::to_string(i));
}

TEST_CASE("one thread is both sides of a transport", "[transport]") {
  auto const kind =
      GENERATE(TransportKind::automatic, TransportKind::send_receive, TransportKind::read_ring);
  CAPTURE(static_cast<int>(kind));
  Place const place;
  if (lacks(place.context, &DeviceCapabilities::endpoints)) return;
  auto listener = must(TransportListener::open("127.0.0.1:0"));
  must(listener.begin(place.domain, [&](Arrival const& arrival) -> Result<TransportOptions> {
    if (arrival.id == 1) return Error{Errc::denied, "no room for you"};
    return TransportOptions{.kind = kind};
  }));
  auto const begin = [&] {
    return must(TransportConnecting::begin(listener.address(), place.domain, {.kind = kind},
                                           within(long_time)));
  };
  std::optional<AnyTransport> near;
  Result<std::optional<AnyTransport>> far = std::optional<AnyTransport>{};
  auto const go_on = [&](TransportConnecting& connecting) {
    far = std::optional<AnyTransport>{};
    while (far && (!far.value() || !near)) {
      if (is_readable(listener.descriptor(), within(1ms)))
        if (auto accepted = must(listener.poll())) near.emplace(std::move(accepted->made));
      if (connecting.descriptor() != -1 && is_readable(connecting.descriptor(), within(1ms)))
        far = connecting.advance();
    }
  };

  auto refused = begin();
  go_on(refused);
  REQUIRE(far.has_error());
  CHECK(far.error() == Errc::peer_lost);
  CHECK_THAT(far.error().message(), Catch::Contains("no room for you"));
  CHECK(refused.descriptor() == -1);
  CHECK(error_of(refused.advance()) == Errc::stale_handle);

  auto connecting = begin();
  go_on(connecting);
  auto client = must(std::move(far));
  must(send_message(*client, std::as_bytes(std::span{"word"}), within(long_time)));
  auto const came = must(receive_message(*near, within(long_time)));
  CHECK(came.bytes().size() == 5);
}

TEST_CASE("what a transport's loop cannot do is refused", "[transport]") {
  Place const place;
  auto listener = must(TransportListener::open("127.0.0.1:0"));

  CHECK(error_of(listener.poll()) == Errc::invalid_argument);
  CHECK(error_of(listener.begin(place.domain, {})) == Errc::invalid_argument);
  must(listener.begin(place.domain,
                      [](Arrival const&) -> Result<TransportOptions> { return Errc::denied; }));
  CHECK(error_of(listener.accept(place.domain, {}, within(0ms))) == Errc::invalid_argument);
  CHECK(error_of(TransportConnecting::begin("localhost:80", place.domain, {}, within(0ms))) ==
        Errc::invalid_argument);
}
