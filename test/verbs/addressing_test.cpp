// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every address of a port can be used by index and by text, and what is not there is refused
// with what is. Method: the device that LEND_TEST_DEVICE names (default: soft); its network
// interface, if LEND_TEST_INTERFACE names it, taken down in the middle.
#include <cstdlib>
#include <thread>
#include <vector>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

ChannelOptions options_with(GidChoice choice) {
  ChannelOptions options;
  options.queue_pair.connection.gid = std::move(choice);
  return options;
}

void check_carries_a_message(TwoEnds& ends) {
  auto memory = must(ends.domain.allocate(64));
  put(memory, 0, "by this way");
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(32, 32)));
  must(ends.a.send(memory.gather(0, 11), within(5s)));
  CHECK(must(arrival.wait(within(5s))).bytes == 11);
  must(scope.finish());
  CHECK(text_at(memory, 32, 11) == "by this way");
}

void check_refused(GidChoice choice, Errc code, std::vector<std::string> const& words) {
  auto const domain = must(open_test_device().allocate_protection_domain());
  auto const error = error_of(prepare_channel(domain, options_with(std::move(choice))));
  INFO(error.message());
  CHECK(error == code);
  for (auto const& word : words) CHECK(error.message().find(word) != std::string::npos);
}

/// A network interface that is down while this lives.
class Down {
 public:
  Down(std::string name, std::string device) : name_{std::move(name)}, device_{std::move(device)} {
    set("down");
  }
  Down(Down const&) = delete;
  Down& operator=(Down const&) = delete;
  /// Waits for the port, which the kernel brings up a moment later.
  ~Down() {
    set("up");
    auto const deadline = within(10s);
    while (!open_device(DeviceChoice::named(device_)) && !deadline.has_passed())
      std::this_thread::sleep_for(10ms);
  }

 private:
  void set(char const* state) {
    CHECK(std::system(("ip link set " + name_ + ' ' + state).c_str()) == 0);
  }
  std::string name_;
  std::string device_;
};

}  // namespace

TEST_CASE("a channel uses the first address that the port lists", "[verbs]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const gids = must(context.gids());
  auto const domain = must(context.allocate_protection_domain());

  auto const endpoint = must(channel_builder().protection_domain(domain).build()).endpoint();

  REQUIRE_FALSE(gids.empty());
  CHECK(endpoint.gid == gids.front().gid);
  CHECK(endpoint.gid_type == gids.front().type);
}

TEST_CASE("a channel over any address of the port, by index and by text, carries messages",
          "[verbs]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  for (auto const& entry : must(context.gids())) {
    INFO(entry.index << ": " << text_of(entry.gid) << ' ' << name_of(entry.type));
    auto by_index = two_ends(options_with({.index = entry.index}));
    CHECK(by_index.a.peer().gid == entry.gid);
    check_carries_a_message(by_index);
    auto by_address = two_ends(options_with({.address = text_of(entry.gid)}));
    CHECK(by_address.a.peer().gid == entry.gid);
    check_carries_a_message(by_address);
  }
}

TEST_CASE("an index or address that the port does not have is refused with those it has",
          "[verbs]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const best = must(context.gids()).front();
  std::string const present = context.name() + " port 1 has " + std::to_string(best.index) + ": " +
                              text_of(best.gid) + " (" + std::string{name_of(best.type)} + ')';
  auto const entries = static_cast<std::uint32_t>(context.port().gid_count);

  check_refused({.index = entries}, Errc::not_found,
                {"gid_index " + std::to_string(entries) + " is beyond the table", present});
  check_refused({.address = "192.0.2.1"}, Errc::not_found,
                {"192.0.2.1 is no address of the port", present});
  check_refused({.address = "nowhere"}, Errc::invalid_argument, {"\"nowhere\" is no IP address"});
}

TEST_CASE("a port whose network interface is down is refused before anything is connected",
          "[verbs]") {
  auto const context = open_test_device();
  char const* const interface = std::getenv("LEND_TEST_INTERFACE");
  if (interface == nullptr) return skip(context, "has no LEND_TEST_INTERFACE to take down");
  auto const domain = must(context.allocate_protection_domain());
  auto prepared = must(channel_builder().protection_domain(domain).build());
  auto const self = prepared.endpoint();
  Down const down{interface, context.name()};

  auto const opened = open_device(DeviceChoice::named(context.name()));
  auto const built = channel_builder().protection_domain(domain).build();
  std::vector<Error> errors{error_of(opened), error_of(built)};
  if (context.capabilities().endpoints)
    errors.push_back(error_of(std::move(prepared).handshake(self)));

  for (auto const& error : errors) {
    INFO(error.message());
    CHECK(error == Errc::not_found);
    CHECK(error.message().find("port 1 is DOWN; bring its cable and network interface up") !=
          std::string::npos);
  }
}
