// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a peer reaches exposed bytes while they are exposed, and no longer.
// Method: both ends here; the last write is the one that must be refused.
#include "support/two_ends.hpp"

#include <chrono>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// The failure that a write refused by the peer's device ends in, at once or a few writes later.
Error refusal_of(TwoEnds& ends, Write const& write) {
  auto const deadline = within(10s);
  for (;;) {
    auto const result = ends.a.write(write, deadline);
    if (result.has_error()) return result.error();
    REQUIRE_FALSE(ends.context.capabilities().acknowledges);
    REQUIRE_FALSE(deadline.has_passed());
  }
}

void check_remote_access(TwoEnds const& ends, Error const& error) {
  CAPTURE(error.message());
  if (!ends.context.capabilities().acknowledges) return;  // the connection ended; no reason is told
  REQUIRE(error.work() != nullptr);
  CHECK(error.work()->status == WorkStatus::remote_access);
}

}  // namespace

TEST_CASE("a peer reaches exposed bytes until the exposure ends, and none afterwards",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  auto target = must(ends.domain.allocate(64));
  put(memory, 0, "12345678abcdefgh");
  put(target, 0, "................");
  // SAFETY: both ends are this thread, here and below.
  auto exposure = must(target.unsafe_expose(4, 8, RemoteAccess::read_write));
  auto const remote = exposure.remote();

  must(ends.a.write({memory.gather(0, 8), remote}, within(10s)));
  must(ends.a.read({memory.scatter(32, 8), remote}, within(10s)));
  CHECK(text_at(target, 0, 16) == "....12345678....");
  CHECK(text_at(memory, 32, 8) == "12345678");
  CHECK(target.remote().has_error());
  must(exposure.finish());
  auto const error = refusal_of(ends, {memory.gather(8, 8), remote});

  check_remote_access(ends, error);
  CHECK(text_at(target, 0, 16) == "....12345678....");
}

TEST_CASE("bytes exposed anew are reached by the new key and not by the old one", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  auto target = must(ends.domain.allocate(64));
  put(memory, 0, "12345678abcdefgh");
  put(target, 0, "........");
  auto ended = must(target.unsafe_expose(RemoteAccess::write));
  auto const stale = ended.remote();
  must(ended.finish());
  auto const exposure = must(target.unsafe_expose(RemoteAccess::write));

  CHECK(exposure.remote().key() != stale.key());
  must(ends.a.write({memory.gather(0, 8), exposure.remote().slice(0, 8)}, within(10s)));
  auto const error = refusal_of(ends, {memory.gather(8, 8), stale.slice(0, 8)});

  check_remote_access(ends, error);
  CHECK(text_at(target, 0, 8) == "12345678");
}

TEST_CASE("bytes exposed for reading are not written", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  auto target = must(ends.domain.allocate(64));
  put(memory, 0, "12345678");
  put(target, 0, "........");
  auto const exposure = must(target.unsafe_expose(RemoteAccess::read));

  must(ends.a.read({memory.scatter(32, 8), exposure.remote().slice(0, 8)}, within(10s)));
  CHECK(text_at(memory, 32, 8) == "........");
  auto const remote = exposure.remote();
  CHECK(error_of(ends.a.write({memory.gather(0, 8), remote.slice(0, 8)})) ==
        Errc::invalid_argument);  // and nothing was posted
  // Of a peer that does not say what it exposed them for.
  RemoteRegion const untold{remote.address(), remote.size(), remote.key()};
  auto const error = refusal_of(ends, {memory.gather(0, 8), untold.slice(0, 8)});

  check_remote_access(ends, error);
  CHECK(text_at(target, 0, 8) == "........");
}

TEST_CASE("messages come and go through a region while a peer reaches it", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  put(memory, 0, "abcdefgh");
  auto const exposure = must(memory.unsafe_expose(32, 8, RemoteAccess::write));
  PollingScope scope{ends.b};
  auto work = must(scope.post_receive(memory.scatter(8, 8)));

  must(ends.a.write({memory.gather(0, 8), exposure.remote()}, within(10s)));
  must(ends.a.send(memory.gather(0, 8), within(10s)));
  CHECK(must(work.wait(within(10s))).bytes == 8);
  must(scope.finish());

  CHECK(text_at(memory, 8, 8) == "abcdefgh");
  CHECK(text_at(memory, 32, 8) == "abcdefgh");
}
