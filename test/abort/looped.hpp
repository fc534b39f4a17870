// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel that is its own peer, and one that another thread is using, for programs that are to
// stop.
#pragma once

#include <lend/lend.hpp>

#include <chrono>
#include <cstddef>
#include <thread>

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

/// A looped channel on which another thread waits from the constructor on, for 10 s: whatever this
/// thread does with it meanwhile overlaps.
class Busy {
 public:
  explicit Busy(Looped& looped) {
    auto const before = looped.memory.loans();
    waiting_ = std::jthread{[&looped] {
      static_cast<void>(looped.channel.receive(looped.memory.scatter(56, 8),
                                               lend::within(std::chrono::seconds{10})));
    }};
    // Lending is the last thing but one that the call does before it waits.
    while (looped.memory.loans() == before) std::this_thread::yield();
  }

 private:
  std::jthread waiting_;
};
