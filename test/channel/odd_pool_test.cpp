// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a pool lends each piece to its device once, whatever that answers. Method: the fake
// provider, which completes what the test says.
#include <array>
#include <cerrno>

#include "support/two_ends.hpp"
#include "verbs/fake_provider.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// A pool of four pieces, and a channel that uses it.
struct OddPool {
  Context context;
  ProtectionDomain domain = context.allocate_protection_domain().value();
  MemoryRegion memory = domain.allocate(256).value();
  WaitSet set = WaitSet::create(context).value();
  ReceivePool pool = ReceivePool::create(set, memory.chunks(64)).value();
  Channel channel;
  std::array<Ready, 4> room{};

  static Context open() {
    FakeDevice device;
    device.has_channels = true;
    Fake::get().reset(device);
    return open_fake().value();
  }
  OddPool() : context{open()}, channel{connect()} {}

  Channel connect() {
    auto prepared = channel_builder()
                        .protection_domain(domain)
                        .wait_set(set, 1)
                        .receive_pool(pool)
                        .build()
                        .value();
    auto const itself = prepared.endpoint();
    return std::move(prepared).handshake(itself).value();
  }
  /// A message of 8 bytes arrives in the receive that was posted as the `index`-th of all.
  Message arrival(std::size_t index) {
    complete(Fake::get().posted[index], IBV_WC_SUCCESS, 8);
    REQUIRE(must(set.poll(room)).size() == 1);
    return std::move(pool.next().value());
  }
};

}  // namespace

TEST_CASE("a piece that the device refuses is posted by the next poll", "[channel]") {
  OddPool odd;
  REQUIRE(Fake::get().posted.size() == 4);
  {
    auto const message = odd.arrival(0);
    Fake::get().post_result = ENOMEM;
  }
  CHECK(odd.pool.posted() == 3);
  CHECK(Fake::get().posted.size() == 4);
  Fake::get().post_result = 0;
  static_cast<void>(must(odd.set.poll(odd.room)));
  CHECK(odd.pool.posted() == 4);
  CHECK(Fake::get().posted.size() == 5);
}

TEST_CASE("a piece that the device may have taken is not posted once more", "[channel]") {
  OddPool odd;
  {
    auto const message = odd.arrival(0);
    Fake::get().silent_after = 0;
    Fake::get().post_result = EIO;
    Fake::get().refuses_once = true;
  }
  for (int polls = 0; polls < 3; ++polls) static_cast<void>(must(odd.set.poll(odd.room)));
  CHECK(Fake::get().posted.size() == 5);
  CHECK(error_of(odd.memory.mutable_bytes(0, 64)) == Errc::already_borrowed);
  // It had, and a message comes.
  CHECK(odd.arrival(4).tag() == 1);
  CHECK(odd.pool.posted() == 4);
}
