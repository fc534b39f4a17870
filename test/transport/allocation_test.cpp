// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: once warm, no message takes anything from the heap, and memory stays as it is. Method: this
// program's operator new counts while two ends of a transport swap messages.
#include <lend/stream/byte_stream.hpp>

#include <array>

#include "support/allocation_counter.hpp"
#include "support/two_ends.hpp"
#include "transport/channel_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

std::pair<ByteStream, ByteStream> streams(ChannelKind const& kind) {
  auto const domain = must(open_test_device().allocate_protection_domain());
  auto [one, other] = must(kind.try_ends(domain, {}));
  return {ByteStream{std::move(one)}, ByteStream{std::move(other)}};
}

}  // namespace

TEST_CASE("a stream that is warm takes nothing from the heap", "[transport]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  auto const& kind = GENERATE(from_range(std::begin(channel_kinds), std::end(channel_kinds)));
  CAPTURE(kind.name);
  auto [a, b] = streams(kind);
  std::array<std::byte, 64> out{}, in{};
  auto const swap = [&, &one = a, &other = b](int times) {
    for (int i = 0; i < times; ++i) {
      static_cast<void>(must(one.write(out)));
      if (i % 3 == 0) {
        static_cast<void>(must(other.write(out)));
        static_cast<void>(must(one.read_some(in)));
      }
      static_cast<void>(must(other.read_some(in)));
    }
  };
  swap(300);
  auto const before = allocations();
  swap(20'000);
  CHECK(allocations() == before);
}
