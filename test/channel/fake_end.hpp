// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel on the fake provider.
#pragma once

#include <lend/lend.hpp>

#include <utility>

#include "verbs/fake_provider.hpp"

namespace lend::test {

/// A channel that is connected to itself, and 64 bytes.
struct FakeEnd {
  MemoryRegion memory;
  Channel channel;
};

[[nodiscard]] inline ChannelOptions one_element() {
  ChannelOptions options;
  options.queue_pair = {.elements = 1, .inline_bytes = 0};
  return options;
}

/// The fake provider begins anew, as `device`.
[[nodiscard]] inline FakeEnd fake_end(FakeDevice device = {},
                                      ChannelOptions const& options = one_element()) {
  Fake::get().reset(std::move(device));
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto prepared = prepare_channel(domain, options).value();
  auto const itself = prepared.endpoint();
  return {domain.allocate(64).value(), std::move(prepared).handshake(itself).value()};
}

}  // namespace lend::test
