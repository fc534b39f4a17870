// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whichever limit is met, the error names it, its value, what was asked and what to do.
// Method: a fake device with small limits; the process's own RLIMIT_MEMLOCK set for a while.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/channel/builder.hpp>
#include <lend/verbs/context.hpp>

#include <sys/resource.h>

#include <vector>

using namespace lend;
using namespace lend::test;

namespace {

/// RLIMIT_MEMLOCK as wanted for a while.
class LockedMemoryLimit {
 public:
  explicit LockedMemoryLimit(rlim_t bytes) {
    REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &before_) == 0);
    is_set = bytes <= before_.rlim_max;
    rlimit const wanted{bytes, before_.rlim_max};
    if (is_set) REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &wanted) == 0);
  }
  LockedMemoryLimit(LockedMemoryLimit const&) = delete;
  LockedMemoryLimit& operator=(LockedMemoryLimit const&) = delete;
  ~LockedMemoryLimit() { ::setrlimit(RLIMIT_MEMLOCK, &before_); }

  bool is_set = false;  // false: above what this process may set

 private:
  rlimit before_{};
};

template <class T>
void check_error(Result<T> const& result, Errc code, std::vector<std::string_view> const& words) {
  REQUIRE(result.has_error());
  INFO(result.error().message());
  CHECK(result.error() == code);
  for (auto const word : words) {
    INFO(word);
    CHECK(result.error().message().find(word) != std::string::npos);
  }
}

/// The fake device with `change` made to it, and a domain of it.
template <class Change>
ProtectionDomain domain_of(Change change) {
  FakeDevice device;
  change(device);
  Fake::get().reset(device);
  return open_fake().value().allocate_protection_domain().value();
}
ProtectionDomain domain_of_fake() {
  return domain_of([](FakeDevice&) {});
}

/// Fills `limit` and one more, which it returns.
template <class Make>
auto one_too_many(int limit, Make make) {
  std::vector<typename decltype(make())::value_type> kept;
  for (int i = 0; i < limit; ++i) kept.push_back(make().value());
  return make();
}

constexpr std::string_view raise_it =
    "raise it with `ulimit -l unlimited`, a memlock line in "
    "/etc/security/limits.conf or LimitMEMLOCK=infinity";

}  // namespace

TEST_CASE("a registration refused for want of lockable memory names the limit and how to raise it",
          "[verbs]") {
  auto const domain = domain_of_fake();
  LockedMemoryLimit const limit{65'536};
  Fake::get().fail_after(1, ENOMEM);  // allocating, then registering

  check_error(domain.allocate(1 << 20), Errc::exhausted,
              {"ibv_reg_mr of 1048576 bytes failed", "RLIMIT_MEMLOCK is 65536 bytes, 0 of them",
               raise_it, "fake0 has at most 64 regions, of all processes together"});
}

TEST_CASE("a locked-memory limit of 0, which the kernel answers with EPERM, is named too",
          "[verbs]") {
  auto const domain = domain_of_fake();
  LockedMemoryLimit const limit{0};
  std::array<std::byte, 64> bytes{};
  Fake::get().fail_after(0, EPERM);

  check_error(domain.register_memory(bytes), Errc::exhausted,
              {"RLIMIT_MEMLOCK is 0 bytes", raise_it});
}

TEST_CASE("a registration denied for another reason stays denied", "[verbs]") {
  auto const domain = domain_of_fake();
  LockedMemoryLimit const limit{65'536};
  Fake::get().fail_after(1, EPERM);

  check_error(domain.allocate(64), Errc::denied, {"RLIMIT_MEMLOCK is 65536 bytes"});
}

TEST_CASE(
    "queues and queue pairs denied by a locked-memory limit of 0 are exhausted, as regions are",
    "[verbs]") {
  auto const domain = domain_of([](FakeDevice& device) {
    device.limit_errno = EPERM;
    device.completion_queues_max = 1;
    device.queue_pairs_max = 0;
  });
  LockedMemoryLimit const limit{0};
  auto const queue = CompletionQueue::create(domain.context(), 2048).value();

  check_error(CompletionQueue::create(domain.context(), 64), Errc::exhausted, {raise_it});
  check_error(PreparedQueuePair::create(domain, queue, {}), Errc::exhausted, {raise_it});
}

TEST_CASE("where memory may be locked without limit, the limit is not blamed", "[verbs]") {
  auto const domain = domain_of_fake();
  LockedMemoryLimit const limit{RLIM_INFINITY};
  if (!limit.is_set) {
    WARN("skipped: this process may not lift its RLIMIT_MEMLOCK");
    return;
  }
  Fake::get().fail_after(1, ENOMEM);

  auto const memory = domain.allocate(64);

  check_error(memory, Errc::exhausted, {"unlimited, so the machine's memory ran out"});
  CHECK(memory.error().message().find("ulimit") == std::string::npos);
}

TEST_CASE("a region of more bytes than the device takes is refused before it is allocated",
          "[verbs]") {
  auto const domain = domain_of_fake();
  auto const calls = Fake::get().calls;

  check_error(domain.allocate((1u << 30) + 1), Errc::invalid_argument,
              {"1073741825", "fake0", "1073741824"});
  CHECK(Fake::get().calls == calls);
}

TEST_CASE("too many of a thing are refused with how many there can be", "[verbs]") {
  for (int const error : {ENOMEM, EINVAL}) {
    INFO("errno " << error);
    auto const set = [&](FakeDevice& device) {
      device.limit_errno = error;
      device.regions_max = device.completion_queues_max = device.queue_pairs_max = 2;
      device.domains_max = 3;
    };
    auto const domain = domain_of(set);
    auto const context = domain.context();
    auto const code_of_region = error == ENOMEM ? Errc::exhausted : Errc::invalid_argument;

    check_error(one_too_many(2, [&] { return domain.allocate(64); }), code_of_region,
                {"fake0 has at most 2 regions, of all processes together: end some"});
    check_error(one_too_many(2, [&] { return CompletionQueue::create(context, 64); }),
                Errc::exhausted,
                {"ibv_create_cq of 64 entries", "at most 2 completion queues, of all"});
    check_error(one_too_many(2, [&] { return context.allocate_protection_domain(); }),
                Errc::exhausted, {"ibv_alloc_pd on fake0", "at most 3 protection domains, of all"});
    auto const queue = CompletionQueue::create(context, 2048).value();
    check_error(one_too_many(2, [&] { return PreparedQueuePair::create(domain, queue, {}); }),
                Errc::exhausted,
                {"ibv_create_qp with send_depth 128, receive_depth 128, elements 4",
                 "Not even the smallest can be made: fake0 has at most 2 queue pairs, of all"});
  }
}

TEST_CASE("what each device limit refuses is named before the device is asked", "[verbs]") {
  auto const domain = domain_of_fake();
  auto const builder = channel_builder().protection_domain(domain);
  auto const calls = Fake::get().calls;

  check_error(builder.send_depth(1025).build(), Errc::invalid_argument,
              {"send_depth is 1025; it must be 1 to 1024, the work_requests_max of fake0"});
  check_error(builder.receive_depth(0xffff'ffff).build(), Errc::invalid_argument,
              {"receive_depth is 4294967295; it must be 1 to 1024, the work_requests_max of"});
  check_error(CompletionQueue::create(domain.context(), 4097), Errc::invalid_argument,
              {"completion queue depth is 4097; it must be 1 to 4096, the completions_max of"});
  CHECK(Fake::get().calls == calls);
  check_error(builder.elements(9).build(), Errc::invalid_argument,
              {"elements is 9; it must be 1 to 8, the elements_max of fake0"});
  CHECK(Fake::get().live("queue pair") == 0);
}

TEST_CASE("depths whose completions do not fit one queue are refused with both and the limit",
          "[verbs]") {
  auto const domain = domain_of([](FakeDevice& device) { device.completions_max = 1000; });
  auto const builder = channel_builder().protection_domain(domain);

  check_error(builder.send_depth(600).receive_depth(401).build(), Errc::invalid_argument,
              {"send_depth 600 and receive_depth 401 need a completion queue of 1001 entries",
               "fake0 have at most 1000 (completions_max): ask for less of either"});
  CHECK(builder.send_depth(600).receive_depth(400).build().has_value());
}

TEST_CASE("of inline bytes, which no query tells, the error has how many the device takes",
          "[verbs]") {
  for (std::uint32_t const possible : {0u, 1u, 60u, 512u, 1023u}) {
    auto const domain = domain_of([&](FakeDevice& device) { device.inline_max = possible; });
    auto const builder = channel_builder().protection_domain(domain);

    check_error(builder.inline_bytes(1024).build(), Errc::invalid_argument,
                {"inline_bytes 1024 failed: Invalid argument",
                 "Of inline_bytes fake0 takes at most " + std::to_string(possible) + " with"});
    CHECK(Fake::get().live("queue pair") == 0);
    CHECK(builder.inline_bytes(possible).build().has_value());
  }
}

TEST_CASE("a queue pair that was asked for no inline bytes has 64, or as many as are taken",
          "[verbs]") {
  for (std::uint32_t const possible : {0u, 1u, 63u, 64u, 512u}) {
    auto const domain = domain_of([&](FakeDevice& device) {
      device.inline_max = possible;
      device.inline_granted = 36;
    });
    auto const granted = std::min(possible, inline_bytes_unasked);
    auto prepared = channel_builder().protection_domain(domain).build().value();
    auto const self = prepared.endpoint();
    CHECK(std::move(prepared).handshake(self).value().inline_bytes() == granted);
    CHECK(Fake::get().live("queue pair") == 0);
  }
}

TEST_CASE("a queue pair that cannot be made at all is refused as asked for without inline bytes",
          "[verbs]") {
  auto const domain = domain_of([](FakeDevice& device) {
    device.queue_elements_max = 4096;
    device.inline_max = 60;
  });
  auto const builder = channel_builder().protection_domain(domain).send_depth(1024).elements(8);
  check_error(builder.build(), Errc::exhausted,
              {"elements 8, inline_bytes 0", "A smaller one can be made"});
  CHECK(Fake::get().live("queue pair") == 0);
}

TEST_CASE("a queue pair too large in all is told from too many of them", "[verbs]") {
  auto const domain = domain_of([](FakeDevice& device) { device.queue_elements_max = 4096; });
  auto const builder = channel_builder().protection_domain(domain).send_depth(1024);

  check_error(builder.elements(8).build(), Errc::exhausted,
              {"send_depth 1024", "elements 8", "A smaller one can be made: ask for less depth",
               "fake0 (1024 requests, 8 elements)"});
  check_error(builder.elements(8).inline_bytes(64).build(), Errc::exhausted,
              {"A smaller one can be made"});
  CHECK(builder.elements(4).build().has_value());
  CHECK(Fake::get().live("queue pair") == 0);
}

TEST_CASE("a queue refused where locked memory is limited says so", "[verbs]") {
  auto const domain = domain_of_fake();
  LockedMemoryLimit const limit{65'536};

  Fake::get().fail_after(0, ENOMEM);
  check_error(CompletionQueue::create(domain.context(), 4096), Errc::exhausted,
              {"One of a single entry can be made: ask for less depth", raise_it});
  auto const queue = CompletionQueue::create(domain.context(), 256).value();
  Fake::get().fail_after(2, ENOMEM);  // port, GID, queue pair
  check_error(PreparedQueuePair::create(domain, queue, {.inline_bytes = 0}), Errc::exhausted,
              {raise_it});
}

TEST_CASE("a failure that is no limit is not explained as one", "[verbs]") {
  auto const domain = domain_of_fake();
  Fake::get().fail_after(0, EIO);

  auto const queue = CompletionQueue::create(domain.context(), 64);

  check_error(queue, Errc::system_failed, {"Input/output error"});
  CHECK(queue.error().message().find("at most") == std::string::npos);
}
