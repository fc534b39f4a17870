// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: on a real device, what it or the kernel refuses for a limit is explained by that limit.
// Method: the device that LEND_TEST_DEVICE names (default: soft); a forked process without
// privileges registers memory under small RLIMIT_MEMLOCK, and tells what it was told.
#include <grp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "support/device_environment.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr uid_t nobody_at_all = 65'534;

/// What `act` answers in a process that may lock `bytes` and has no privileges.
std::string told_without_privileges(rlim_t bytes, std::function<std::string()> const& act) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    rlimit const limit{bytes, bytes};
    // Leaving user 0 takes CAP_IPC_LOCK away, which would lift the limit. Source: capabilities(7).
    bool const is_ready =
        ::setrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
        (::getuid() != 0 || (::setgroups(0, nullptr) == 0 && ::setgid(nobody_at_all) == 0 &&
                             ::setuid(nobody_at_all) == 0));
    std::string const told = is_ready ? act() : "no such process could be made";
    auto const sent = ::write(ends[1], told.data(), told.size());
    ::_exit(sent == static_cast<ssize_t>(told.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string told;
  char buffer[512];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    told.append(buffer, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  return told;
}

/// "registered", or the error, after its code's name.
std::string register_bytes(std::size_t length) {
  auto const context = open_device(DeviceChoice::named(open_test_device().name()));
  if (!context) return context.error().message();
  auto const domain = context.value().allocate_protection_domain();
  if (!domain) return domain.error().message();
  auto const memory = domain.value().allocate(length);
  if (memory) return "registered";
  return std::string{name_of(memory.error().code())} + ": " + memory.error().message();
}

bool locks_memory() {
  return open_test_device().kind() != DeviceKind::soft;
}

void check_says(Error const& error, std::vector<std::string> const& words) {
  INFO(error.message());
  for (auto const& word : words) {
    INFO(word);
    CHECK(error.message().find(word) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("memory beyond RLIMIT_MEMLOCK is refused with the limit and how to raise it", "[verbs]") {
  for (rlim_t const limit : {rlim_t{0}, rlim_t{8192}, rlim_t{65'536}}) {
    auto const told = told_without_privileges(limit, [] { return register_bytes(1 << 20); });

    INFO(told);
    if (!locks_memory()) {
      CHECK(told == "registered");  // memory that no card reaches is never locked
      continue;
    }
    CHECK(told.starts_with("exhausted: ibv_reg_mr of 1048576 bytes failed"));
    CHECK(told.find("RLIMIT_MEMLOCK is " + std::to_string(limit) + " bytes, ") !=
          std::string::npos);
    CHECK(told.find("raise it with `ulimit -l unlimited`") != std::string::npos);
    CHECK(told.find("LimitMEMLOCK=infinity") != std::string::npos);
  }
}

TEST_CASE("memory within RLIMIT_MEMLOCK is registered without privileges", "[verbs]") {
  CHECK(told_without_privileges(65'536, [] { return register_bytes(8192); }) == "registered");
}

TEST_CASE("a limit of the device that is exceeded is named with its value", "[verbs]") {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto const& limits = context.limits();
  auto const text = [&](auto limit, std::string_view name) {
    return "must be 1 to " + std::to_string(limit) + ", the " + std::string{name} + " of " +
           context.name();
  };
  auto const above = [](std::int32_t limit) { return static_cast<std::uint32_t>(limit) + 1; };
  auto const builder = channel_builder().protection_domain(domain);

  check_says(error_of(builder.send_depth(above(limits.work_requests_max)).build()),
             {"send_depth", text(limits.work_requests_max, "work_requests_max")});
  check_says(error_of(CompletionQueue::create(context, above(limits.completions_max))),
             {text(limits.completions_max, "completions_max")});
  auto const elements = std::min(limits.elements_max, std::int32_t{elements_max});
  check_says(error_of(builder.elements(above(elements)).build()),
             {"elements is " + std::to_string(elements + 1)});
  auto const depth = static_cast<std::uint32_t>(
      std::min(limits.work_requests_max, limits.completions_max - limits.completions_max / 4));
  if (std::cmp_greater(2ull * depth, limits.completions_max))
    check_says(error_of(builder.send_depth(depth).receive_depth(depth).build()),
               {"need a completion queue of " + std::to_string(2 * depth) + " entries",
                std::to_string(limits.completions_max) + " (completions_max)"});
}

TEST_CASE("inline_bytes beyond the device are refused with what it takes, which it then takes",
          "[verbs]") {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto const builder = channel_builder().protection_domain(domain).elements(2);

  auto const error = error_of(builder.inline_bytes(1 << 20).build());

  INFO(error.message());
  CHECK(error.message().find("inline_bytes 1048576") != std::string::npos);
  CHECK(error.message().find(context.kind() == DeviceKind::soft ? "256 inline" : "at most ") !=
        std::string::npos);
  if (context.kind() == DeviceKind::soft) return;  // it names its limit itself
  auto const text = error.message().substr(error.message().find("at most ") + 8);
  auto const possible = static_cast<std::uint32_t>(std::stoul(text));
  CHECK(possible > 0);
  CHECK(builder.inline_bytes(possible).build().has_value());
  CHECK(builder.inline_bytes(possible + 1).build().has_error());
}

TEST_CASE("a message longer than the port carries is refused with both lengths", "[verbs]") {
  auto const context = open_test_device();
  auto const most = std::uint64_t{context.port().message_bytes_max};
  if (most > (64u << 20)) return skip(context, "carries more than this test has memory for");
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(most + 1));

  check_says(
      error_of(ends.a.send(memory.gather(0, most + 1))),
      {std::to_string(most + 1) + " bytes, the port carries at most " + std::to_string(most)});
}

TEST_CASE("the kernel's own devices are software RDMA, and by default SoftRoCE is taken",
          "[verbs]") {
  bool has_roce = false;
  bool has_card = false;
  for (auto const& device : must(list_devices())) {
    bool const is_roce = device.name().starts_with("rxe");  // as test/guest calls them
    bool const is_own = is_roce || device.name().starts_with("siw");
    has_roce = has_roce || is_roce;
    has_card = has_card || device.kind() == DeviceKind::card;
    if (is_own) CHECK(device.kind() == DeviceKind::software_rdma);
  }
  if (!has_roce || has_card) return;

  DeviceEnvironment const environment{nullptr};
  auto const opened = must(open_device());
  CHECK(opened.name().starts_with("rxe"));
  CHECK(opened.kind() == DeviceKind::software_rdma);
}
