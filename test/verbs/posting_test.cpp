// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what is posted is what was said, and what is wrong is refused before anything is posted.
// Method: the fake provider keeps what it was given.
#include "support/catch.hpp"
#include "support/two_ends.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/context.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/post/posting.hpp>

#include <endian.h>

#include <cerrno>

using namespace lend;
using namespace lend::test;

namespace {

// A kind of work, and of element, that nobody has described.
struct NewWork : Send {};
struct NewElement : GatherElement {};

template <class Work>
concept IsDescribed = requires {
  verbs::WorkKind<Work>::operation;
};
template <class Element>
concept SaysItsLoan = requires {
  verbs::ElementKind<Element>::loan;
};
static_assert(IsDescribed<Send> && !IsDescribed<NewWork>, "no kind of work has defaults");
static_assert(SaysItsLoan<GatherElement> && !SaysItsLoan<NewElement>, "nor has an element");

struct Connected {
  Context context;
  ProtectionDomain domain;
  QueuePair queue_pair;
  MemoryRegion memory;
};

Connected connected(QueuePairOptions options = {.inline_bytes = 0}, FakeDevice device = {}) {
  Fake::get().reset(std::move(device));
  auto context = open_fake().value();
  auto domain = context.allocate_protection_domain().value();
  auto const queue = CompletionQueue::create(context, 256).value();
  auto prepared = PreparedQueuePair::create(domain, queue, options).value();
  auto const self = prepared.endpoint();
  auto queue_pair = std::move(prepared).connect(self).value();
  auto memory = domain.allocate(1000).value();
  return {context, domain, std::move(queue_pair), std::move(memory)};
}

Posted take() {
  REQUIRE(Fake::get().posted.size() == 1);
  auto posted = Fake::get().posted.front();
  Fake::get().posted.clear();
  return posted;
}

RemoteRegion const remote{0x5000, 1000, 0x77};

void check_refused(Result<void> const& result, std::string_view because) {
  REQUIRE(result.has_error());
  INFO(result.error().message());
  CHECK(result.error() == Errc::invalid_argument);
  CHECK(result.error().message().find(because) != std::string::npos);
  CHECK(result.error().message().find("nothing was posted") != std::string::npos);
  CHECK(Fake::get().posted.empty());
}

}  // namespace

TEST_CASE("a send carries its id, its elements and a signal", "[verbs]") {
  auto end = connected();

  REQUIRE(end.queue_pair.unsafe_post_send(5, {end.memory.gather(10, 20), end.memory.gather(100, 1)})
              .has_value());

  auto const posted = take();
  auto const base = reinterpret_cast<std::uintptr_t>(end.memory.bytes().value().data());
  CHECK(posted.request.wr_id == 5);
  CHECK(posted.request.next == nullptr);
  CHECK(posted.request.opcode == IBV_WR_SEND);
  CHECK(posted.request.send_flags == IBV_SEND_SIGNALED);
  REQUIRE(posted.elements.size() == 2);
  CHECK(posted.elements[0].addr == base + 10);
  CHECK(posted.elements[0].length == 20);
  CHECK(posted.elements[1].addr == base + 100);
  CHECK(posted.elements[1].length == 1);
  CHECK(posted.elements[0].lkey != 0);
  CHECK(posted.elements[0].lkey == posted.elements[1].lkey);
}

TEST_CASE("work of braced elements may be kept and posted later", "[verbs]") {
  auto end = connected();
  auto const& memory = end.memory;
  auto const make = [&memory] { return Send{memory.gather(10, 20), memory.gather(100, 1)}; };
  Send const kept = make();
  Receive const room{end.memory.scatter(7, 3)};

  REQUIRE(end.queue_pair.unsafe_post_send(5, kept).has_value());
  auto const base = reinterpret_cast<std::uintptr_t>(memory.bytes().value().data());
  auto const sent = take();
  REQUIRE(sent.elements.size() == 2);
  CHECK(sent.elements[0].addr == base + 10);
  CHECK(sent.elements[1].addr == base + 100);

  REQUIRE(end.queue_pair.unsafe_post_receive(6, room).has_value());
  auto const received = take();
  REQUIRE(received.elements.size() == 1);
  CHECK(received.elements[0].addr == base + 7);
}

TEST_CASE("an immediate travels in network order", "[verbs]") {
  auto end = connected();

  REQUIRE(
      end.queue_pair.unsafe_post_send(1, Send(end.memory.gather(0, 4)).with_immediate(0x0102'0304))
          .has_value());
  auto posted = take();
  CHECK(posted.request.opcode == IBV_WR_SEND_WITH_IMM);
  CHECK(posted.request.imm_data == htobe32(0x0102'0304));

  REQUIRE(end.queue_pair
              .unsafe_post_write(
                  2, Write(end.memory.gather(0, 4), remote.slice(8, 4)).with_immediate(7))
              .has_value());
  posted = take();
  CHECK(posted.request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
  CHECK(posted.request.imm_data == htobe32(7));
  CHECK(posted.request.wr.rdma.remote_addr == 0x5008);
  CHECK(posted.request.wr.rdma.rkey == 0x77);
}

TEST_CASE("a read names the peer's bytes and its own", "[verbs]") {
  auto end = connected({.inline_bytes = 64});

  REQUIRE(end.queue_pair.unsafe_post_read(3, Read(end.memory.scatter(0, 16), remote.slice(984, 16)))
              .has_value());

  auto const posted = take();
  CHECK(posted.request.opcode == IBV_WR_RDMA_READ);
  CHECK(posted.request.wr.rdma.remote_addr == 0x5000 + 984);
  CHECK(posted.request.send_flags == IBV_SEND_SIGNALED);  // inline is for what leaves
  CHECK(posted.elements.at(0).length == 16);
}

TEST_CASE("what fits the inline room that was asked for is copied when posted", "[verbs]") {
  FakeDevice device;
  device.inline_granted = 36;  // more than that, as the program cannot know
  auto end = connected({.inline_bytes = 100}, device);
  CHECK(end.queue_pair.inline_bytes() == 100);
  auto const flags_of = [&](std::size_t length) {
    REQUIRE(end.queue_pair.unsafe_post_send(1, end.memory.gather(0, length)).has_value());
    return take().request.send_flags;
  };

  CHECK(flags_of(0) == IBV_SEND_SIGNALED);
  CHECK(flags_of(1) == (IBV_SEND_SIGNALED | IBV_SEND_INLINE));
  CHECK(flags_of(100) == (IBV_SEND_SIGNALED | IBV_SEND_INLINE));
  CHECK(flags_of(101) == IBV_SEND_SIGNALED);
  REQUIRE(end.queue_pair.unsafe_post_write(1, Write(end.memory.gather(0, 8), remote.slice(0, 8)))
              .has_value());
  CHECK(take().request.send_flags == (IBV_SEND_SIGNALED | IBV_SEND_INLINE));
}

TEST_CASE("elements of no bytes are left out, and may be all there is", "[verbs]") {
  auto end = connected();

  REQUIRE(end.queue_pair
              .unsafe_post_send(
                  1, {end.memory.gather(5, 0), end.memory.gather(7, 3), end.memory.gather(1000, 0)})
              .has_value());
  auto posted = take();
  REQUIRE(posted.elements.size() == 1);
  CHECK(posted.elements[0].length == 3);

  CHECK(end.queue_pair.unsafe_post_send(1, end.memory.gather(0, 0)).has_value());
  CHECK(take().request.num_sge == 0);
  CHECK(end.queue_pair.unsafe_post_receive(1, end.memory.scatter(0, 0)).has_value());
  CHECK(take().request.num_sge == 0);
  CHECK(end.queue_pair.unsafe_post_write(1, Write(end.memory.gather(0, 0), remote.slice(0, 0)))
            .has_value());
  CHECK(take().request.num_sge == 0);
  CHECK(end.queue_pair.unsafe_post_read(1, Read(end.memory.scatter(0, 0), remote.slice(0, 0)))
            .has_value());
  CHECK(take().request.num_sge == 0);
}

TEST_CASE("an empty list needs an immediate, or a receive that says so", "[verbs]") {
  auto end = connected();
  auto& queue_pair = end.queue_pair;

  check_refused(queue_pair.unsafe_post_send(1, Send(GatherList{})), "an empty list");
  check_refused(queue_pair.unsafe_post_write(1, Write(GatherList{}, remote.slice(0, 0))),
                "an empty list");
  check_refused(queue_pair.unsafe_post_read(1, Read(ScatterList{}, remote.slice(0, 0))),
                "an empty list");
  check_refused(queue_pair.unsafe_post_receive(1, Receive(ScatterList{})), "only_immediate()");
  CHECK(queue_pair.unsafe_post_send(1, Send::only_immediate(3)).has_value());
  CHECK(take().request.imm_data == htobe32(3));
  CHECK(queue_pair.unsafe_post_write(1, Write(GatherList{}, remote.slice(0, 0)).with_immediate(4))
            .has_value());
  CHECK(take().request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
  CHECK(queue_pair.unsafe_post_receive(1, Receive::only_immediate()).has_value());
  CHECK(take().is_receive);
}

TEST_CASE("an element that is wrong is named with its range and its region's size", "[verbs]") {
  auto end = connected();
  auto& queue_pair = end.queue_pair;
  auto other_memory = end.context.allocate_protection_domain().value().allocate(1000).value();

  check_refused(
      queue_pair.unsafe_post_send(1, {end.memory.gather(0, 8), end.memory.gather(990, 11)}),
      "element 1 of 2: 11 bytes at offset 990 of a region of 1000 bytes");
  check_refused(queue_pair.unsafe_post_send(1, end.memory.gather(SIZE_MAX, 2)), "out of bounds");
  check_refused(queue_pair.unsafe_post_send(1, GatherElement{}), "of no region");
  check_refused(queue_pair.unsafe_post_receive(1, {end.memory.scatter(0, 8), ScatterElement{}}),
                "element 1 of 2: 0 bytes at offset 0 of no region");
  check_refused(queue_pair.unsafe_post_receive(1, other_memory.scatter(0, 8)),
                "another protection domain");
  check_refused(
      queue_pair.unsafe_post_send(1, {end.memory.gather(0, 8), other_memory.gather(0, 8)}),
      "element 1 of 2: 8 bytes at offset 0 of a region of 1000 bytes");
}

TEST_CASE("a list longer than the queue pair's elements is refused with the limit", "[verbs]") {
  auto end = connected({.elements = 4});
  std::vector<GatherElement> const many(5, end.memory.gather(0, 1));

  check_refused(end.queue_pair.unsafe_post_send(1, Send(GatherList(std::span(many)))),
                "5 elements, this queue takes at most 4");
  std::vector<GatherElement> const very_many(1000, end.memory.gather(0, 1));
  check_refused(end.queue_pair.unsafe_post_send(1, Send(GatherList(std::span(very_many)))),
                "1000 elements");
}

TEST_CASE("lengths that differ, remote bounds and message size are checked", "[verbs]") {
  FakeDevice device;
  device.message_bytes_max = 500;
  auto end = connected({}, device);
  auto& queue_pair = end.queue_pair;
  CHECK(queue_pair.message_bytes_max() == 500);

  check_refused(queue_pair.unsafe_post_write(1, Write(end.memory.gather(0, 8), remote.slice(0, 9))),
                "8 bytes here, 9 bytes of the peer");
  check_refused(queue_pair.unsafe_post_read(1, Read(end.memory.scatter(0, 9), remote.slice(0, 8))),
                "9 bytes here, 8 bytes of the peer");
  check_refused(
      queue_pair.unsafe_post_write(1, Write(end.memory.gather(0, 8), remote.slice(993, 8))),
      "out of bounds of its region");
  check_refused(
      queue_pair.unsafe_post_send(1, {end.memory.gather(0, 250), end.memory.gather(0, 251)}),
      "501 bytes, the port carries at most 500");
  CHECK(queue_pair.unsafe_post_send(1, end.memory.gather(0, 500)).has_value());
}

TEST_CASE("a full queue is queue_full, any other refusal system_failed", "[verbs]") {
  auto end = connected();
  auto& queue_pair = end.queue_pair;

  Fake::get().post_result = ENOMEM;
  CHECK(queue_pair.unsafe_post_send(1, end.memory.gather(0, 8)).error() == Errc::queue_full);
  CHECK(queue_pair.unsafe_post_receive(1, end.memory.scatter(0, 8)).error() == Errc::queue_full);
  Fake::get().post_result = EINVAL;
  auto const refused = queue_pair.unsafe_post_send(1, end.memory.gather(0, 8));
  CHECK(refused.error() == Errc::system_failed);
  CHECK(refused.error().os_error() == EINVAL);
  CHECK(refused.error().message().find("ibv_post_send") != std::string::npos);
  Fake::get().post_result = -1;  // some verbs set errno instead
  errno = ENOMEM;
  CHECK(queue_pair.unsafe_post_send(1, end.memory.gather(0, 8)).error() == Errc::queue_full);
  CHECK(Fake::get().posted.empty());
}

TEST_CASE("fenced and solicited requests carry their flags, and others none", "[verbs]") {
  auto made = connected();
  auto& queue_pair = made.queue_pair;
  auto const flags_of = [](Result<void> const& posted) {
    REQUIRE(posted.has_value());
    return take().request.send_flags & (IBV_SEND_FENCE | IBV_SEND_SOLICITED);
  };
  GatherElement const bytes = made.memory.gather(0, 8);
  Write const write{bytes, remote.slice(0, 8)};
  Read const read{made.memory.scatter(0, 8), remote.slice(0, 8)};

  CHECK(flags_of(queue_pair.unsafe_post_send(1, bytes)) == 0);
  CHECK(flags_of(queue_pair.unsafe_post_send(1, Send{bytes}.fenced())) == IBV_SEND_FENCE);
  CHECK(flags_of(queue_pair.unsafe_post_send(1, Send{bytes}.solicited())) == IBV_SEND_SOLICITED);
  CHECK(flags_of(queue_pair.unsafe_post_write(1, write.with_immediate(1).fenced().solicited())) ==
        (IBV_SEND_FENCE | IBV_SEND_SOLICITED));
  CHECK(flags_of(queue_pair.unsafe_post_write(1, write)) == 0);
  CHECK(flags_of(queue_pair.unsafe_post_read(1, read.fenced())) == IBV_SEND_FENCE);
}

TEST_CASE("so do atomic operations, datagrams and those of a batch", "[verbs]") {
  FakeDevice device;
  device.has_atomics = true;
  auto made = connected({}, device);
  auto const flags = [] {
    return take().request.send_flags & (IBV_SEND_FENCE | IBV_SEND_SOLICITED);
  };
  auto const atomic = Atomic::fetch_add(made.memory.scatter(0, 8), remote.word(0), 1);
  must(made.queue_pair.unsafe_post_atomic(1, atomic));
  CHECK(flags() == 0);
  must(made.queue_pair.unsafe_post_atomic(1, atomic.fenced()));
  CHECK(flags() == IBV_SEND_FENCE);
  auto batch = made.queue_pair.unsafe_batch();
  must(batch.add_atomic(1, atomic.fenced()));
  must(batch.post());
  CHECK(flags() == IBV_SEND_FENCE);

  auto const queue = must(CompletionQueue::create(made.context, 256));
  auto datagrams = must(must(PreparedDatagramQueuePair::create(made.domain, queue, {})).activate());
  auto const to = must(datagrams.destination(datagrams.endpoint()));
  must(datagrams.unsafe_post_send(1, Send{made.memory.gather(0, 8)}.solicited(), to));
  CHECK(flags() == IBV_SEND_SOLICITED);
}

TEST_CASE("a batch is empty where the device does not say which receives it took", "[verbs]") {
  auto made = connected();
  auto batch = made.queue_pair.unsafe_batch();
  must(batch.add_receive(1, made.memory.scatter(0, 8)));
  must(batch.add_send(2, made.memory.gather(8, 8)));
  Fake::get().post_result = EIO;
  Fake::get().silent_after = 0;

  CHECK(error_of(batch.post()) == Errc::system_failed);
  CHECK(batch.size() == 0);
  REQUIRE(Fake::get().posted.size() == 1);
  CHECK(Fake::get().posted.front().is_receive);
  Fake::get().post_result = 0;
  must(batch.add_send(3, made.memory.gather(8, 8)));
  must(batch.post());
  CHECK(Fake::get().posted.back().request.wr_id == 3);
}
