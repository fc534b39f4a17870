// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel that is its own peer, for programs that are to stop. One thread.
#pragma once

#include <lend/lend.hpp>

struct Looped {
  lend::ProtectionDomain domain;
  lend::MemoryRegion memory;  ///< 64 bytes
  lend::Channel channel;

  static lend::Result<Looped> make() {
    LEND_TRY(context, lend::open_device(lend::DeviceChoice::soft()));
    LEND_TRY(domain, context.allocate_protection_domain());
    LEND_TRY(memory, domain.allocate(64));
    LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
    lend::Endpoint const self = prepared.endpoint();
    LEND_TRY(channel, std::move(prepared).handshake(self));
    return Looped{std::move(domain), std::move(memory), std::move(channel)};
  }
};
