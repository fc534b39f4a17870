// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

extern lend::ProtectionDomain const& domain;
extern lend::MemoryRegion& memory;
extern lend::DeviceRegion const& of_device;
extern lend::Channel& channel;

void constant(std::span<std::byte> bytes) {
  static_cast<void>(domain.register_memory(bytes));
#ifdef CASE_const_bytes_are_not_registered
  // error: use of deleted function|call to deleted member function
  static_cast<void>(domain.register_memory(std::span<std::byte const>{bytes}));
#endif

  static_cast<void>(channel.receive(memory.scatter(0, 5)));
#ifdef CASE_const_region_is_not_scattered_into
  // error: discards qualifiers|not marked const|no matching
  static_cast<void>(channel.receive(std::as_const(memory).scatter(0, 5)));
#endif

  static_cast<void>(memory.bytes());
#ifdef CASE_device_region_shows_no_bytes
  // error: has no member named .bytes|no member named 'bytes'
  static_cast<void>(of_device.bytes());
#endif
}

void temporary() {
  auto kept = domain.allocate(64).value();
  static_cast<void>(kept.gather(0, 5));
  static_cast<void>(kept.gather());
  static_cast<void>(kept.scatter(0, 5));
  static_cast<void>(kept.scatter());
  static_cast<void>(kept.chunks(8));
  static_cast<void>(kept.split_at(8));
  static_cast<void>(kept.unsafe_expose(0, 8, lend::RemoteAccess::read));
  static_cast<void>(kept.unsafe_expose(lend::RemoteAccess::read));
#ifdef CASE_temporary_region_is_not_lent
  // error: use of deleted function|call to deleted member function
  auto const read = lend::RemoteAccess::read;
  static_cast<void>(domain.allocate(64).value().gather(0, 5));               // refused
  static_cast<void>(domain.allocate(64).value().gather());                   // refused
  static_cast<void>(domain.allocate(64).value().scatter(0, 5));              // refused
  static_cast<void>(domain.allocate(64).value().scatter());                  // refused
  static_cast<void>(domain.allocate(64).value().chunks(8));                  // refused
  static_cast<void>(domain.allocate(64).value().split_at(8));                // refused
  static_cast<void>(domain.allocate(64).value().unsafe_expose(0, 8, read));  // refused
  static_cast<void>(domain.allocate(64).value().unsafe_expose(read));        // refused
#endif

  static_cast<void>(kept.bytes(0, 5));
  static_cast<void>(kept.bytes());
  static_cast<void>(kept.mutable_bytes(0, 5));
  static_cast<void>(kept.mutable_bytes());
#ifdef CASE_temporary_region_shows_no_bytes
  // error: use of deleted function|call to deleted member function
  static_cast<void>(domain.allocate(64).value().bytes(0, 5));          // refused
  static_cast<void>(domain.allocate(64).value().bytes());              // refused
  static_cast<void>(domain.allocate(64).value().mutable_bytes(0, 5));  // refused
  static_cast<void>(domain.allocate(64).value().mutable_bytes());      // refused
#endif

  auto const exposure = memory.unsafe_expose(lend::RemoteAccess::read).value();
  static_cast<void>(exposure.remote());
#ifdef CASE_temporary_exposure_shows_no_key
  // error: use of deleted function|call to deleted
  static_cast<void>(memory.unsafe_expose(lend::RemoteAccess::read).value().remote());
#endif
}
