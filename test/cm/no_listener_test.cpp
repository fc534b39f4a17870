// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a connector waits for a listener until its deadline, and then says that there was none.
// Method: both sides in one process, on one device.
#include <cstdlib>
#include <fstream>
#include <string>

#include "cm_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// The two ports, from `first` on, that this host's connections come from: rdma_cm takes none twice
/// in turn. In a guest alone: other hosts have other programs.
class OnlyPorts {
 public:
  explicit OnlyPorts(int first) {
    if (std::getenv("LEND_GUEST_KERNEL") == nullptr) return;
    std::getline(std::ifstream{range_}, before_);
    std::ofstream file{range_};
    is_set_ = bool{file << first << ' ' << first + 1 << std::flush};
  }
  ~OnlyPorts() {
    if (is_set_) std::ofstream{range_} << before_;
  }
  OnlyPorts(OnlyPorts const&) = delete;
  OnlyPorts& operator=(OnlyPorts const&) = delete;
  [[nodiscard]] bool is_set() const noexcept { return is_set_; }

 private:
  static constexpr char const* range_ = "/proc/sys/net/ipv4/ip_local_port_range";
  std::string before_{};
  bool is_set_ = false;
};

}  // namespace

TEST_CASE("a connector waits for a listener that comes later", "[cm]") {
  CmHost host;
  auto const address = must(CmListener::open(test_address(0))).address();
  auto connecting = meanwhile([&] { return connect_to(address, host.prepare(), within(30s)); });
  CHECK(connecting.wait_for(100ms) == std::future_status::timeout);

  auto listener = must(CmListener::open(address));
  auto const b = must(accept_from(must(listener.next(within(30s))), host.prepare(), within(30s)));
  CHECK(must(connecting.get()).peer.address == address);
}

TEST_CASE("connecting where nobody listens ends at the deadline and says so", "[cm]") {
  CmHost host;
  auto const address = must(CmListener::open(test_address(0))).address();

  auto const error = error_of(connect_to(address, host.prepare(), within(2s)));

  CHECK(error == Errc::timed_out);
  CHECK(contains(error, "no peer listened"));
  CHECK(contains(error, address));
}

TEST_CASE("a connector does not take itself for the listener that it looks for", "[cm]") {
  CmHost host;
  auto const address = must(CmListener::open(test_address(0))).address();
  OnlyPorts const ports{std::stoi(address.substr(address.rfind(':') + 1))};
  if (!ports.is_set()) return skip(host.context, "only a guest's range of ports is changed");

  auto const error = error_of(connect_to(address, host.prepare(), within(1s)));

  CHECK(error == Errc::timed_out);
  CHECK(contains(error, "no peer listened"));
}

TEST_CASE("a listener that never looks lets the connector's deadline pass", "[cm]") {
  CmHost host;
  auto const listener = must(CmListener::open(test_address(0)));

  auto const error = error_of(connect_to(listener.address(), host.prepare(), within(2s)));

  CHECK(error == Errc::timed_out);
  CHECK(contains(error, "connecting to"));
}
