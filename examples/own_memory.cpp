// SPDX-License-Identifier: MIT OR Apache-2.0
// A solver whose arrays are its own: it registers them where they lie, once, and lends parts of
// them by their address. One thread, whose channel is its own peer.
#include <lend/lend.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <numeric>
#include <span>
#include <vector>

using namespace std::chrono_literals;

/// The regions of a program's arrays. The arrays outlive it.
class Arrays {
 public:
  lend::Result<void> add(lend::ProtectionDomain const& domain, std::span<double> array) {
    LEND_TRY(region, domain.register_memory(std::as_writable_bytes(array)));
    regions_.push_back(std::move(region));
    return lend::success();
  }
  /// The region with these values, or an error: they were not registered.
  lend::Result<lend::MemoryRegion*> of(std::span<double const> values) {
    auto const bytes = std::as_bytes(values);
    auto const found =
        std::ranges::find_if(regions_, [&](auto const& one) { return one.encloses(bytes); });
    if (found == regions_.end()) return lend::Errc::not_found;
    return &*found;
  }

 private:
  std::vector<lend::MemoryRegion> regions_;
};

static lend::Result<void> send_edge(std::span<double> pressure, std::span<double> edge) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  Arrays arrays;
  LEND_TRYV(arrays.add(domain, pressure));
  LEND_TRYV(arrays.add(domain, edge));

  LEND_TRY(prepared, lend::channel_builder(domain).build());
  lend::Endpoint const itself = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(itself));

  std::span const last = pressure.last(edge.size());
  LEND_TRY(from, arrays.of(last));
  LEND_TRY(into, arrays.of(edge));
  lend::PollingScope scope{channel};
  LEND_TRY(arrival, scope.post_receive(into->scatter(std::as_writable_bytes(edge))));
  LEND_TRYV(scope.post_send(from->gather(std::as_bytes(last))));
  LEND_TRYV(arrival.wait(lend::within(2s)));  // `edge` is the program's again
  return scope.finish();
}

int main() {
  std::vector<double> pressure(1024);
  std::iota(pressure.begin(), pressure.end(), 0.0);
  std::array<double, 16> edge{};
  auto const done = send_edge(pressure, edge);
  if (!done)
    std::cerr << "own_memory: " << done.error().describe() << '\n';
  else
    std::cout << "the edge begins with " << edge.front() << ", as the part that was sent\n";
  return done ? 0 : 1;
}
