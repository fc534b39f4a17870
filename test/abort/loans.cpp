// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes end or are touched while they are on loan; a Result is not asked what it holds.
#include "cases.hpp"
#include "looped.hpp"
#include "support/sanitizers.hpp"

#include <lend/group.hpp>

#include <array>
#include <optional>

namespace {

// A loop over them would have no end.
ABORT_CASE(chunks_of_no_bytes, "chunks of 0 bytes") {
  LEND_TRY(context, lend::open_device(lend::DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(64));
  return memory.chunks(0).size() == 0 ? lend::success() : lend::Result<void>{lend::Errc::not_found};
}

// An element that was kept is posted after another region was assigned over its own, which lives on
// only because some of it is on loan.
ABORT_CASE(element_outlives_its_region, "after that region had been destroyed or assigned over") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(other, looped.domain.allocate(64));
  lend::PollingScope scope{looped.channel};
  LEND_TRYV(scope.post_receive(looped.memory.scatter(0, 8)));
  auto const kept = looped.memory.scatter(8, 8);
  looped.memory = std::move(other);
  LEND_TRYV(scope.post_receive(kept));
  return scope.finish();
}

// The error of a Result is taken without asking whether it has one.
ABORT_CASE(error_of_a_value, R"re(^lend: error\(\) of a Result that holds a value)re") {
  lend::Result<int> const result = 1;
  return result.error() == lend::Errc::not_found ? lend::success()
                                                 : lend::Result<void>{lend::Errc::denied};
}

// The value of a Result is taken without asking whether it has one.
ABORT_CASE(value_of_an_error,
           R"re(^lend: value\(\) of a Result that holds an error: .*no such device)re") {
  lend::Result<int> const result = lend::Error{lend::Errc::not_found, "no such device"};
  return result.value() == 0 ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

// A region over the caller's bytes that ends before its loan: nobody could keep the bytes alive.
ABORT_CASE(viewed_region_destroyed_on_loan, "on loan") {
  std::array<std::byte, 64> bytes{};
  LEND_TRY(looped, Looped::make());
  lend::PollingScope scope{looped.channel};
  {
    LEND_TRY(view, looped.domain.register_memory(bytes));
    LEND_TRYV(scope.post_receive(view.scatter(0, 64)));
  }
  return scope.finish();
}

// A region over the caller's bytes that ends before its exposure: the peer could go on writing.
ABORT_CASE(viewed_region_destroyed_while_exposed, "exposed to a peer") {
  std::array<std::byte, 64> bytes{};
  LEND_TRY(context, lend::open_device(lend::DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  std::optional<lend::Exposure> kept;
  LEND_TRY(view, domain.register_memory(bytes));
  // SAFETY: no peer is told.
  LEND_TRY(exposure, view.unsafe_expose(lend::RemoteAccess::write));
  kept.emplace(std::move(exposure));
  return lend::success();
}

// A Window that ends while its peers may write: their epoch is not over.
ABORT_CASE(window_destroyed_during_an_epoch, "destroyed during an epoch") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(prepared, lend::PreparedGroup::prepare(looped.domain, 0, 1));
  LEND_TRY(group, std::move(prepared).handshake(std::array{lend::RankCard{}}));
  LEND_TRY(peers, lend::Peers::connect(group, {}, lend::Deadline::never()));
  LEND_TRY(made, lend::Window::create(peers, looped.memory, lend::RemoteAccess::write,
                                      lend::Deadline::never()));
  std::optional<lend::Window> window{std::move(made)};
  LEND_TRY(epoch, window->open());
  window.reset();
  return epoch.finish();
}

#if LEND_TEST_ASAN  // which alone stops stray accesses
// Bytes that the device may write at any moment, read by the program through its own pointer.
ABORT_CASE(stray_read_of_lent_bytes, R"re(use-after-poison(.|\n)*READ of size 1)re") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(bytes, looped.memory.mutable_bytes());
  lend::PollingScope scope{looped.channel};
  LEND_TRYV(scope.post_receive(looped.memory.scatter(0, 32)));
  auto volatile* const stray = bytes.data() + 16;
  return *stray == std::byte{1} ? lend::Errc::timed_out : scope.finish();
}

// Bytes that the device may write at any moment, written by the program through its own pointer.
ABORT_CASE(stray_write_of_lent_bytes, R"re(use-after-poison(.|\n)*WRITE of size 1)re") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(bytes, looped.memory.mutable_bytes());
  lend::PollingScope scope{looped.channel};
  LEND_TRYV(scope.post_receive(looped.memory.scatter(0, 32)));
  auto volatile* const stray = bytes.data() + 16;
  *stray = std::byte{1};
  return scope.finish();
}
#endif

}  // namespace
