// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a stream of sends needs no retries where both ends go by credits, as on iWARP.
// Method: two ends on the soft device that retry nothing; the receiving one is slow.
#include <tools/loops/stream.hpp>

#include <array>
#include <future>
#include <string_view>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// One end without the region and the meeting place of the other.
tools::End end_on(ProtectionDomain const& domain, Channel channel, bool near) {
  // SAFETY: what the bytes are does not matter.
  auto exposed = must(domain.unsafe_allocate_exposed(tools::end_bytes, RemoteAccess::read_write));
  auto memory = must(domain.allocate(tools::end_bytes));
  return {near, true, std::move(memory), std::move(exposed), std::move(channel), {}, {}, true};
}

}  // namespace

TEST_CASE("a stream of sends that goes by credits finds a receive for each message", "[tools]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  auto const domain = must(context.allocate_protection_domain());
  ChannelOptions options;
  options.queue_pair.receiver_not_ready_retries = 0;
  auto [a, b] = connected(domain, options, options);
  auto near = end_on(domain, std::move(a), true), far = end_on(domain, std::move(b), false);
  near.remote = must(far.exposed.remote());
  far.remote = must(near.exposed.remote());
  // Windows of 128, 10, 7 and 4 messages; counts on both sides of a half window, and of a byte.
  for (std::string_view const via : {"scoped", "unsafe", "batch"})
    for (auto const& [bytes, count] :
         {std::pair{8, 40'000}, {100'000, 61}, {149'000, 60}, {262'144, 9}, {262'144, 4}}) {
      INFO(via << ", " << count << " messages of " << bytes << " bytes");
      std::array<std::promise<void>, 2> is_there;
      auto const meet_at = [&](std::size_t own) {
        return [&, own]() -> Result<void> {
          is_there[own].set_value();
          is_there[1 - own].get_future().wait();
          return success();
        };
      };
      near.meet = meet_at(0);
      far.meet = meet_at(1);
      tools::Load const load{.operation = "send",
                             .via = via,
                             .bytes = static_cast<std::size_t>(bytes),
                             .count = static_cast<std::uint64_t>(count)};
      auto receiving =
          std::async(std::launch::async, [&] { return tools::measure_stream(far, load); });
      auto const sent = tools::measure_stream(near, load);
      auto const received = receiving.get();
      REQUIRE(sent.has_value());
      REQUIRE(received.has_value());
    }
}
