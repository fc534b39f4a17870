// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory of other devices is lent like the host's, and neither touched nor copied by the CPU;
// what is no dmabuf is refused. Method: the fake provider, whose addresses nobody could touch.
#include "support/two_ends.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <type_traits>

using namespace lend;
using namespace lend::test;

namespace {

static_assert(!std::is_copy_constructible_v<DeviceRegion>);
static_assert(std::is_nothrow_move_constructible_v<DeviceRegion>);

constexpr int descriptor = 42;
constexpr std::uint64_t offset = 8192;

ProtectionDomain dmabuf_domain() {
  Fake::get().reset();
  return must(must(open_fake()).allocate_protection_domain());
}

struct Opened {
  ProtectionDomain domain = dmabuf_domain();
  DeviceRegion region = must(domain.register_dmabuf(descriptor, offset, 4096));
};

}  // namespace

TEST_CASE("a dmabuf is registered by descriptor and offset, and work names its offsets",
          "[verbs]") {
  Opened opened;
  auto const queue = must(CompletionQueue::create(opened.domain.context(), 256));
  auto prepared = must(PreparedQueuePair::create(opened.domain, queue, {.inline_bytes = 64}));
  auto const self = prepared.endpoint();
  auto queue_pair = must(std::move(prepared).connect(self));
  CHECK(opened.region.size() == 4096);
  REQUIRE(Fake::get().dmabufs.size() == 1);
  CHECK(Fake::get().dmabufs[0] == std::pair{descriptor, offset});

  must(queue_pair.unsafe_post_send(1, opened.region.gather(16, 32)));

  auto const& posted = Fake::get().posted.back();
  REQUIRE(posted.elements.size() == 1);
  CHECK(posted.elements[0].addr == offset + 16);
  CHECK(posted.elements[0].length == 32);
  CHECK(posted.elements[0].lkey == opened.region.local_key());
  CHECK((posted.request.send_flags & IBV_SEND_INLINE) == 0);
  CHECK(error_of(queue_pair.unsafe_post_send(2, opened.region.gather(4090, 8))) ==
        Errc::invalid_argument);
}

TEST_CASE("device memory is lent, exclusively to be written, and outlives its region on loan",
          "[verbs]") {
  Opened opened;
  auto prepared = must(prepare_channel(opened.domain, {}));
  auto const itself = prepared.endpoint();
  std::optional<Channel> channel{must(std::move(prepared).handshake(itself))};
  {
    PollingScope scope{*channel};
    auto const held = must(scope.post_receive(opened.region.scatter(0, 64)));
    CHECK(opened.region.loans() == 1);
    CHECK(error_of(scope.post_send(opened.region.gather(32, 64))) == Errc::already_borrowed);
    { auto const gone = std::move(opened.region); }
    CHECK(Fake::get().live("region") == 1);
    scope.drain_within(std::chrono::nanoseconds{0});
    static_cast<void>(scope.finish());
  }
  channel.reset();
  CHECK(Fake::get().live("region") == 0);
  CHECK(Fake::get().violations.empty());
}

TEST_CASE("a dmabuf that no more regions are left for names the call", "[verbs]") {
  auto const domain = dmabuf_domain();
  Fake::get().fail_after(0, ENOMEM);

  auto const error = error_of(domain.register_dmabuf(descriptor, offset, 4096));

  CHECK(error == Errc::exhausted);
  CHECK(error.message().find("ibv_reg_dmabuf_mr of 4096 bytes") != std::string::npos);
}

TEST_CASE("a dmabuf that is exposed has a key for the peer", "[verbs]") {
  Opened opened;
  CHECK(error_of(opened.region.remote()) == Errc::unsupported);
  auto const exposed = must(opened.domain.unsafe_register_dmabuf_exposed(descriptor, offset, 4096,
                                                                         RemoteAccess::read_write));
  auto const remote = must(exposed.remote());
  CHECK(remote.slice(8, 8).address == offset + 8);
  CHECK((Fake::get().accesses.back() & IBV_ACCESS_REMOTE_WRITE) != 0);
  CHECK(error_of(opened.domain.unsafe_register_dmabuf_exposed(
            descriptor, offset, 64, RemoteAccess{})) == Errc::invalid_argument);
}

TEST_CASE("what is no dmabuf is refused, as is a room of device memory", "[verbs]") {
  Opened opened;
  CHECK(error_of(DatagramRoom::in(opened.region.scatter(0, 100))) == Errc::invalid_argument);
  CHECK(error_of(opened.domain.register_dmabuf(descriptor, 0, 0)) == Errc::invalid_argument);
  Fake::get().fail_after(0, GENERATE(EINVAL, EBADF, EOPNOTSUPP));

  auto const error = error_of(opened.domain.register_dmabuf(descriptor, 0, 64));

  bool const has_none = Fake::get().fail_errno == EOPNOTSUPP;
  CHECK(error == (has_none ? Errc::unsupported : Errc::invalid_argument));
  CHECK(error.message().find(has_none ? "registers no dmabuf" : "It is no dmabuf") !=
        std::string::npos);
  CHECK(Fake::get().live("region") == 1);
}

TEST_CASE("the soft device registers no dmabuf, and says why", "[verbs]") {
  auto const context = open_test_device();
  if (context.kind() != DeviceKind::soft) return;
  auto const domain = must(context.allocate_protection_domain());
  auto const error = error_of(domain.register_dmabuf(0, 0, 64));
  CHECK(error == Errc::unsupported);
  CHECK(error.message().find("the soft device copies by the CPU") != std::string::npos);
}
