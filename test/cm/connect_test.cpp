// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a connector and a listener get channels that work, know each other's contract and bytes,
// and give up in time with the reason. Method: both sides in one process, on one device.
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cm_ends.hpp"
#include "support/canceller.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<CmListener>);
static_assert(!std::is_copy_constructible_v<CmRequest>);
static_assert(!std::is_copy_constructible_v<CmConnection>);

namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  auto const bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}

/// `from` sends `text`, `to` gets it.
void message(MemoryRegion& memory, Channel& from, Channel& to, std::string_view text) {
  put(memory, 0, text);
  PollingScope scope{to};
  auto arrival = must(scope.post_receive(memory.scatter(512, 64), within(5s)));
  must(from.send(memory.gather(0, text.size()), within(20s)));
  CHECK(must(arrival.wait(within(20s))).bytes == text.size());
  must(scope.finish());
  CHECK(text_at(memory, 512, text.size()) == text);
}

}  // namespace

TEST_CASE("two ends connected by rdma_cm exchange messages both ways", "[cm]") {
  auto ends = cm_ends();
  auto memory = must(ends.host.domain.allocate(4096));

  for (int round = 0; round < 20; ++round) {
    message(memory, ends.a, ends.b, "there");
    message(memory, ends.b, ends.a, "and back");
  }
  CHECK(memory.loans() == 0);
}

TEST_CASE("a listener that was moved from awaits nobody", "[cm]") {
  auto listener = must(CmListener::open(test_address(0)));
  CmListener const elsewhere{std::move(listener)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  CHECK(error_of(listener.next(within(1ms))) == Errc::stale_handle);
  CHECK(!elsewhere.address().empty());
}

TEST_CASE("a connection by rdma_cm carries reads and writes", "[cm]") {
  auto ends = cm_ends();
  auto local = must(ends.host.domain.allocate(64));
  auto exposed = must(ends.host.domain.unsafe_allocate_exposed(64, RemoteAccess::read_write));
  auto const remote = must(exposed.remote());
  put(local, 0, "1234");

  must(ends.a.write({local.gather(0, 4), remote.slice(4, 4)}, within(20s)));
  must(ends.a.read({local.scatter(32, 8), remote.slice(0, 8)}, within(20s)));

  CHECK(text_at(local, 36, 4) == "1234");
}

TEST_CASE("a connection by rdma_cm carries atomic operations, where the device has them", "[cm]") {
  auto ends = cm_ends();
  if (!ends.host.context.capabilities().atomics)
    return skip(ends.host.context, "this device has no atomic operations");
  auto results = must(ends.host.domain.allocate(16));
  auto exposed = must(ends.host.domain.unsafe_allocate_exposed(8, RemoteAccess::atomic));
  auto const word = must(exposed.remote()).word(0);

  must(ends.a.atomic(Atomic::fetch_add(results.scatter(0, 8), word, 5), within(20s)));
  must(ends.b.atomic(Atomic::compare_swap(results.scatter(8, 8), word, 5, 9), within(20s)));

  std::array<std::uint64_t, 2> were{};
  std::memcpy(were.data(), must(results.bytes()).data(), sizeof were);
  CHECK(were == std::array<std::uint64_t, 2>{0, 5});
}

TEST_CASE("each side learns the other's contract and private data", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  auto const hello = bytes_of("hello from the connector");
  auto const longest = std::vector<std::byte>(cm_private_bytes_max, std::byte{7});

  auto connecting = meanwhile([&] {
    ChannelOptions options;
    options.queue_pair.send_depth = 5;
    options.queue_pair.receive_depth = 6;
    return connect_to(listener.address(), host.prepare(options), within(20s),
                      {.private_data = hello});
  });
  auto request = must(listener.next(within(20s)));
  CHECK(request.device() == host.context.name());
  CHECK(request.port() == host.context.port().number);
  CHECK(request.peer().private_data == hello);
  auto const b = must(accept_from(std::move(request), host.prepare(), within(20s), longest));
  auto const a = must(connecting.get());

  CHECK(b.peer.send_depth == 5);
  CHECK(b.peer.receive_depth == 6);
  CHECK(b.channel.peer().send_depth == 5);
  CHECK(b.channel.peer().receive_depth == 6);
  CHECK(a.peer.send_depth == b.channel.send_depth());
  CHECK(a.peer.private_data == longest);
  CHECK(a.peer.message_bytes_max == host.context.port().message_bytes_max);
  CHECK(a.peer.address == listener.address());
  CHECK(b.peer.address.starts_with(std::getenv("LEND_TEST_ADDRESS")));
}

TEST_CASE("a listener accepts several peers, in an order of its own", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  auto const connect = [&](std::string_view who) {
    return meanwhile([&, name = bytes_of(who)] {
      return connect_to(listener.address(), host.prepare(), within(30s), {.private_data = name});
    });
  };
  auto one = connect("one"), two = connect("two"), three = connect("three");

  std::vector<CmRequest> requests;
  for (int i = 0; i < 3; ++i) requests.push_back(must(listener.next(within(20s))));
  std::vector<CmEnd> accepted;
  for (int i = 2; i >= 0; --i) {
    auto const name = requests[static_cast<std::size_t>(i)].peer().private_data;
    accepted.push_back(must(accept_from(std::move(requests[static_cast<std::size_t>(i)]),
                                        host.prepare(), within(20s), name)));
  }
  auto memory = must(host.domain.allocate(4096));
  for (auto* const connecting : {&one, &two, &three}) {
    auto a = must(connecting->get());
    auto const b = std::ranges::find_if(
        accepted, [&](CmEnd& end) { return end.peer.private_data == a.peer.private_data; });
    REQUIRE(b != accepted.end());
    message(memory, a.channel, b->channel, "mine");
  }
}

TEST_CASE("a rejection shows its reason to the peer", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  auto connecting =
      meanwhile([&] { return connect_to(listener.address(), host.prepare(), within(20s)); });

  SECTION("given by the program") {
    must(must(listener.next(within(20s))).reject("the house is full"));
    auto const error = error_of(connecting.get());
    CHECK(error == Errc::denied);
    CHECK(contains(error, "the house is full"));
  }
  SECTION("longer than what travels") {
    must(must(listener.next(within(20s))).reject(std::string(1000, 'x')));
    auto const error = error_of(connecting.get());
    CHECK(contains(error, std::string(cm_reason_bytes_max, 'x')));
    CHECK_FALSE(contains(error, std::string(cm_reason_bytes_max + 1, 'x')));
  }
  SECTION("of a request that was dropped") {
    static_cast<void>(must(listener.next(within(20s))));
    auto const error = error_of(connecting.get());
    CHECK(error == Errc::denied);
    CHECK(contains(error, "dropped the request"));
  }
  SECTION("of a request that could not be accepted") {
    auto prepared = host.prepare();
    static_cast<void>(prepared.take_queue_pair());
    auto const own =
        error_of(must(listener.next(within(20s))).accept(prepared.take_queue_pair(), within(1s)));
    CHECK(own == Errc::invalid_argument);
    CHECK(contains(error_of(connecting.get()), "could not be accepted"));
  }
}

TEST_CASE("a host that does not exist does not hold the connector, and the step is named", "[cm]") {
  CmHost host;
  std::string address{std::getenv("LEND_TEST_ADDRESS")};
  address = address.substr(0, address.rfind('.')) + ".99:7471";

  auto const error = error_of(connect_to(address, host.prepare(), within(200ms)));

  CHECK((error == Errc::timed_out || error == Errc::not_found));
  CHECK(contains(error, "resolving the address"));
}

TEST_CASE("either side's wait can be cancelled", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));

  CHECK(error_of(listener.next(Canceller{20ms}.deadline())) == Errc::cancelled);
  CHECK(error_of(connect_to(listener.address(), host.prepare(), Canceller{200ms}.deadline())) ==
        Errc::cancelled);
}

TEST_CASE("a deadline that has passed ends each call at once", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));

  CHECK(error_of(listener.next(within(0s))) == Errc::timed_out);
  CHECK(error_of(connect_to(listener.address(), host.prepare(), within(0s))) == Errc::timed_out);
}

TEST_CASE("a listener destroyed while a connect is in flight ends that connect", "[cm]") {
  CmHost host;
  std::optional<CmListener> listener{must(CmListener::open(test_address(0)))};
  auto const address = listener->address();
  auto connecting = meanwhile([&] { return connect_to(address, host.prepare(), within(3s)); });

  SECTION("before it was looked at") {
    static_cast<void>(connecting.wait_for(100ms));
    listener.reset();
    auto const error = error_of(connecting.get());
    CHECK((error == Errc::denied || error == Errc::timed_out || error == Errc::peer_lost));
  }
  SECTION("after it was, which does not concern the request") {
    auto request = must(listener->next(within(3s)));
    listener.reset();
    must(accept_from(std::move(request), host.prepare(), within(3s)));
    must(connecting.get());
  }
}

TEST_CASE("a connector that gave up leaves its request without a peer", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  CHECK(error_of(connect_to(listener.address(), host.prepare(), within(200ms))) == Errc::timed_out);

  auto request = listener.next(within(1s));
  if (request.has_value()) {  // the kernel may have taken it back
    auto accepted = accept_from(std::move(request).value(), host.prepare(), within(1s));
    if (accepted.has_value()) {  // the kernel had connected it for the peer (iWARP)
      auto memory = must(host.domain.allocate(64));
      auto const error = error_of(accepted.value().channel.receive(memory.scatter(), within(20s)));
      CHECK(error == Errc::peer_lost);
    } else {
      CAPTURE(accepted.error().message());
      CHECK((accepted.error() == Errc::peer_lost || accepted.error() == Errc::timed_out ||
             accepted.error() == Errc::denied));
    }
  }
}

TEST_CASE("a connector comes from the address that it was told to come from", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  std::string const own{std::getenv("LEND_TEST_ADDRESS")};

  auto connecting = meanwhile([&] {
    return connect_to(listener.address(), host.prepare(), within(20s), {.source = own + ":7171"});
  });
  auto request = must(listener.next(within(20s)));
  CHECK(request.peer().address == own + ":7171");
  must(accept_from(std::move(request), host.prepare(), within(20s)));
  must(connecting.get());

  auto const error =
      error_of(connect_to(listener.address(), host.prepare(), within(1s), {.source = "192.0.2.1"}));
  CAPTURE(error.message());
  CHECK(error == Errc::not_found);
}

TEST_CASE("a connection has the program's own times, not those of its path", "[cm]") {
  CmHost host;
  if (host.context.native()->device->transport_type == IBV_TRANSPORT_IWARP) return;  // has none
  ChannelOptions options;
  options.queue_pair.connection.ack_timeout = 1s;
  options.queue_pair.connection.ack_retries = 3;
  options.queue_pair.receiver_not_ready_retries = 2;
  options.queue_pair.receiver_not_ready_delay = 10ms;
  auto listener = must(CmListener::open(test_address(0)));
  auto connecting = meanwhile([&] {
    return cm_connect(listener.address(), host.prepare(options).take_queue_pair(), within(20s));
  });
  auto const b = must(must(listener.next(within(20s)))
                          .accept(host.prepare(options).take_queue_pair(), within(20s)));
  auto const a = must(connecting.get());

  for (auto const* const end : {&a, &b}) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr initial{};
    REQUIRE(
        ::ibv_query_qp(end->queue_pair.native(), &attributes,
                       IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER,
                       &initial) == 0);
    CHECK(attributes.timeout == 18);  // 4.096 us * 2^18 = 1.07 s
    CHECK(attributes.retry_cnt == 3);
    CHECK(attributes.rnr_retry == 2);
    CHECK(attributes.min_rnr_timer == 20);  // 10.24 ms
  }
}

TEST_CASE("what cannot be an address or does not fit is refused before anything is sent", "[cm]") {
  CmHost host;
  auto const error_with = [&](std::string const& address) {
    return error_of(connect_to(address, host.prepare(), within(1s)));
  };
  std::vector<std::byte> const too_much(cm_private_bytes_max + 1);

  CHECK(error_with("10.77.0.1") == Errc::invalid_argument);
  CHECK(error_with(":7471") == Errc::invalid_argument);
  CHECK(error_with("10.77.0.1:0") == Errc::invalid_argument);
  CHECK(error_with("10.77.0.1:70000") == Errc::invalid_argument);
  CHECK(error_with("[::1:7471") == Errc::invalid_argument);
  CHECK(error_with("no.such.host.invalid:7471") == Errc::timed_out);  // it may become known
  CHECK(error_of(connect_to(test_address(7471), host.prepare(), within(1s),
                            {.private_data = too_much})) == Errc::invalid_argument);
  CHECK(error_of(CmListener::open("192.0.2.1:7471")) == Errc::not_found);
}

TEST_CASE("a queue pair of another device than the route's is refused with both names", "[cm]") {
  CmHost host;
  char const* const name = host.context.name() == "siw0" ? "rxe0" : "siw0";
  auto const other = must(open_device(DeviceChoice::named(name)));
  auto const domain = must(other.allocate_protection_domain());
  auto listener = must(CmListener::open(test_address(0)));

  SECTION("to the connector") {
    auto const error =
        error_of(connect_to(listener.address(), must(prepare_channel(domain, {})), within(20s)));
    CHECK(error == Errc::invalid_argument);
    CHECK(contains(error, "siw0 port 1"));
    CHECK(contains(error, "rxe0 port 1"));
  }
  SECTION("to the listener, and to its peer") {
    auto connecting =
        meanwhile([&] { return connect_to(listener.address(), host.prepare(), within(20s)); });
    auto request = must(listener.next(within(20s)));
    CHECK(error_of(accept_from(std::move(request), must(prepare_channel(domain, {})),
                               within(20s))) == Errc::invalid_argument);
    CHECK(contains(error_of(connecting.get()), "could not be accepted"));
  }
}

TEST_CASE("a port in use is an error with the address", "[cm]") {
  auto const listener = must(CmListener::open(test_address(0)));

  auto const error = error_of(CmListener::open(listener.address()));

  CHECK(error == Errc::system_failed);
  CHECK(contains(error, listener.address()));
}
