// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: unreliable connections and datagrams carry what they promise to, and
// refuse the rest before anything is posted. Method: pairs of queue pairs on
// the test's device, each test for one operation or one refusal.
#include "support/two_ends.hpp"

#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <type_traits>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

static_assert(!std::is_copy_constructible_v<DatagramQueuePair>);
static_assert(std::is_nothrow_move_constructible_v<DatagramQueuePair>);
static_assert(!std::is_constructible_v<AnyQueuePair, UnreliableQueuePair>);  // no slicing

struct Place {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  CompletionQueue queue = must(CompletionQueue::create(context, 1024));
  MemoryRegion memory = must(domain.unsafe_allocate_exposed(65536, RemoteAccess::read_write));

  /// Polls until `count` completions are there, by id, or a second has passed.
  std::map<std::uint64_t, DatagramCompletion> take(std::size_t count) {
    std::map<std::uint64_t, DatagramCompletion> taken;
    std::array<DatagramCompletion, 16> room;
    for (Deadline const deadline = within(10s); taken.size() < count && !deadline.has_passed();)
      for (auto const& completion : must(queue.poll(room))) taken[completion.id] = completion;
    REQUIRE(taken.size() == count);
    return taken;
  }
  [[nodiscard]] bool is_quiet() {
    std::array<DatagramCompletion, 16> room;
    for (int i = 0; i < 1000; ++i)
      if (!must(queue.poll(room)).empty()) return false;
    return true;
  }
};

struct Unreliable : Place {
  PreparedUnreliableQueuePair prepared_a =
      must(PreparedUnreliableQueuePair::create(domain, queue, {.inline_bytes = 16}));
  PreparedUnreliableQueuePair prepared_b =
      must(PreparedUnreliableQueuePair::create(domain, queue, {}));
  Endpoint at_a = prepared_a.endpoint();
  UnreliableQueuePair a = must(std::move(prepared_a).connect(prepared_b.endpoint()));
  UnreliableQueuePair b = must(std::move(prepared_b).connect(at_a));
};

DatagramQueuePair datagrams(Place const& place, DatagramOptions const& options = {}) {
  auto prepared = must(PreparedDatagramQueuePair::create(place.domain, place.queue, options));
  return must(std::move(prepared).activate());
}

struct Datagrams : Place {
  DatagramQueuePair a = datagrams(*this);
  DatagramQueuePair b = datagrams(*this, {.queue_key = 0x77});
  Destination to_b = must(a.destination(b.endpoint()));

  DatagramRoom room(std::size_t offset, std::size_t length = 40 + 4096) {
    return must(DatagramRoom::in(memory.scatter(offset, length)));
  }
};

bool has_none(Context const& context) {
  return lacks(context, &DeviceCapabilities::datagrams);
}

}  // namespace

TEST_CASE("an unreliable connection sends and writes, with immediates", "[verbs]") {
  if (has_none(open_test_device())) return;
  Unreliable ends;
  put(ends.memory, 0, "hello");
  CHECK(ends.a.service() == Service::unreliable_connection);

  must(ends.b.unsafe_post_receive(1, ends.memory.scatter(100, 50)));
  must(ends.a.unsafe_post_send(2, Send{ends.memory.gather(0, 5)}.with_immediate(7)));
  auto done = ends.take(2);
  REQUIRE(done.at(1).success() != nullptr);
  CHECK(done.at(2).success() != nullptr);
  CHECK(done.at(1).success()->bytes == 5);
  CHECK(done.at(1).success()->immediate == 7u);
  CHECK(text_at(ends.memory, 100, 5) == "hello");

  must(ends.b.unsafe_post_receive(3, Receive::only_immediate()));
  Write const write{ends.memory.gather(0, 5), must(ends.memory.remote()).slice(200, 5)};
  must(ends.a.unsafe_post_write(4, write.with_immediate(8)));
  done = ends.take(2);
  REQUIRE(done.at(3).success() != nullptr);
  CHECK(done.at(3).success()->immediate == 8u);
  CHECK(text_at(ends.memory, 200, 5) == "hello");
}

TEST_CASE(
    "an unreliable message without a receive is lost, and the connection "
    "goes on",
    "[verbs]") {
  if (has_none(open_test_device())) return;
  Unreliable ends;
  // A device that carries the message after its sender's completion may find the next receive.
  for (Deadline const deadline = within(60s);;) {
    must(ends.a.unsafe_post_send(1, ends.memory.gather(0, 8)));
    CHECK(ends.take(1).at(1).success() != nullptr);
    CHECK(ends.a.state() == QueuePairState::ready_to_send);

    must(ends.b.unsafe_post_receive(2, ends.memory.scatter(100, 8)));
    must(ends.a.unsafe_post_send(3, ends.memory.gather(0, 4)));
    if (ends.take(2).at(2).success()->bytes == 4) break;
    REQUIRE_FALSE(deadline.has_passed());
  }
}

TEST_CASE("a datagram comes behind 40 bytes, says its sender, and is answered", "[verbs]") {
  if (has_none(open_test_device())) return;
  Datagrams ends;
  put(ends.memory, 0, "question");
  auto const room = ends.room(8192);
  must(ends.b.unsafe_post_receive(1, room));
  must(ends.a.unsafe_post_send(2, Send{ends.memory.gather(0, 8)}.with_immediate(9), ends.to_b));

  auto done = ends.take(2);
  REQUIRE(done.at(1).success() != nullptr);
  CHECK(done.at(2).success() != nullptr);
  CHECK(done.at(1).success()->immediate == 9u);
  CHECK(done.at(1).sender.number == ends.a.number());
  GatherElement const message = room.message(done.at(1).success()->bytes);
  CHECK(message.range == ByteRange{8192 + 40, 8});
  CHECK(text_at(ends.memory, message.range.offset, message.range.length) == "question");

  auto const header = must(ends.memory.bytes(8192, 40));
  Destination const back =
      must(ends.b.destination(done.at(1).sender, header, ends.a.endpoint().queue_key));
  CHECK(back.number() == ends.a.number());
  auto const answer = ends.room(16384);
  must(ends.a.unsafe_post_receive(3, answer));
  must(ends.b.unsafe_post_send(4, message, back));
  done = ends.take(2);
  REQUIRE(done.at(3).success() != nullptr);
  CHECK(done.at(3).success()->bytes == 48);
  CHECK(text_at(ends.memory, 16384 + 40, 8) == "question");
}

TEST_CASE(
    "a datagram with another key, or without a receive, is lost, and no "
    "queue pair breaks",
    "[verbs]") {
  if (has_none(open_test_device())) return;
  Datagrams ends;
  Endpoint with_other_key = ends.b.endpoint();
  with_other_key.queue_key = 0x78;
  auto const astray = must(ends.a.destination(with_other_key));
  put(ends.memory, 0, "unheard ");
  put(ends.memory, 8, "astray  ");
  put(ends.memory, 16, "heard   ");
  // A device that carries a datagram after its sender's completion may find the next receive.
  for (Deadline const deadline = within(60s);;) {
    must(ends.a.unsafe_post_send(1, ends.memory.gather(0, 8), ends.to_b));  // no receive
    CHECK(ends.take(1).at(1).success() != nullptr);
    must(ends.b.unsafe_post_receive(2, ends.room(8192)));
    must(ends.a.unsafe_post_send(3, ends.memory.gather(8, 8), astray));
    must(ends.a.unsafe_post_send(4, ends.memory.gather(16, 8), ends.to_b));
    CHECK(ends.take(3).at(2).success()->bytes == 48);
    auto const came = text_at(ends.memory, 8192 + 40, 8);
    CHECK(came != "astray  ");
    if (came == "heard   ") break;
    REQUIRE_FALSE(deadline.has_passed());
  }
  CHECK(ends.is_quiet());
}

TEST_CASE("a datagram is at most the port's MTU, and its room at least 41 bytes", "[verbs]") {
  if (has_none(open_test_device())) return;
  Datagrams ends;
  auto const most = ends.a.message_bytes_max();
  CHECK(most == ends.context.query_port().value().active_mtu_bytes);
  auto const refused =
      error_of(ends.a.unsafe_post_send(1, ends.memory.gather(0, most + 1), ends.to_b));
  CHECK(refused == Errc::invalid_argument);
  CHECK(refused.message().find("a datagram carries at most") != std::string::npos);
  must(ends.b.unsafe_post_receive(2, ends.room(8192, 40 + most)));
  must(ends.a.unsafe_post_send(3, ends.memory.gather(0, most), ends.to_b));
  CHECK(ends.take(2).at(2).success()->bytes == 40 + most);

  auto const narrow = DatagramRoom::in(ends.memory.scatter(0, 40));
  CHECK(error_of(narrow).message() ==
        "a room of 40 bytes holds no datagram: 40 bytes come before each "
        "message; give it 41 or "
        "more");
  CHECK(ends.room(0, 41).message(39).range.offset == outside_piece);
  CHECK(ends.room(0, 41).message(42).range.offset == outside_piece);
  CHECK(ends.room(0, 41).message(40).range == ByteRange{40, 0});
}

TEST_CASE(
    "destinations of other services, devices and domains are refused, "
    "and nothing is posted",
    "[verbs]") {
  if (has_none(open_test_device())) return;
  Datagrams ends;
  Place elsewhere;
  auto const theirs = datagrams(elsewhere);
  auto const foreign = must(theirs.destination(ends.b.endpoint()));
  auto const refused = ends.a.unsafe_post_send(1, ends.memory.gather(0, 8), foreign);
  CHECK(error_of(refused).message().find("of another protection domain") != std::string::npos);

  Endpoint connection = ends.b.endpoint();
  connection.service = Service::reliable_connection;
  connection.queue_key = 0;
  auto const other = ends.a.destination(connection);
  CHECK(error_of(other) == Errc::incompatible_peer);
  CHECK(error_of(other).message().find("services differ: ours datagrams") != std::string::npos);
  Endpoint of_a_card = ends.b.endpoint();
  of_a_card.device_kind =
      ends.context.kind() == DeviceKind::soft ? DeviceKind::card : DeviceKind::soft;
  CHECK(error_of(ends.a.destination(of_a_card)) == Errc::incompatible_peer);
  std::array<std::byte, 39> const cut{};
  CHECK(error_of(ends.a.destination(DatagramSender{}, cut, 1)) == Errc::invalid_argument);
  CHECK(ends.is_quiet());
}

TEST_CASE(
    "connections of different services do not fit, and a queue key is no "
    "kernel's",
    "[verbs]") {
  if (has_none(open_test_device())) return;
  Place place;
  auto unreliable = must(PreparedUnreliableQueuePair::create(place.domain, place.queue, {}));
  auto reliable = must(PreparedQueuePair::create(place.domain, place.queue, {}));
  auto const refused = std::move(unreliable).connect(reliable.endpoint());
  CHECK(error_of(refused) == Errc::incompatible_peer);
  CHECK(unreliable.native() == nullptr);  // NOLINT(bugprone-use-after-move)

  DatagramOptions const privileged{.queue_key = 1u << 31};
  CHECK(error_of(PreparedDatagramQueuePair::create(place.domain, place.queue, privileged)) ==
        Errc::invalid_argument);
}

TEST_CASE(
    "a destination outlives its queue pair, and a moved queue pair keeps "
    "its work",
    "[verbs]") {
  if (has_none(open_test_device())) return;
  std::optional<Destination> last;
  {
    Datagrams ends;
    last = ends.to_b;
    must(ends.b.unsafe_post_receive(1, ends.room(8192)));
    DatagramQueuePair const moved = std::move(ends.b);
    must(ends.a.unsafe_post_send(2, ends.memory.gather(0, 8), *last));
    CHECK(ends.take(2).at(1).success()->bytes == 48);
    CHECK(ends.b.native() == nullptr);  // NOLINT(bugprone-use-after-move)
  }
  CHECK(last->native() != nullptr);
}
