// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what the only thread of a process locks is locked for the second one too. A program of its
// own, since one that has had threads is never alone again.
#include <base/only_thread.hpp>
#include <soft/platform/private_lock.hpp>

#include <thread>

#include "support/catch.hpp"
#include "support/sanitizers.hpp"

using namespace lend;

TEST_CASE("what was locked alone keeps out a thread that is made meanwhile", "[soft]") {
// ThreadSanitizer makes a thread before main().
#if !LEND_TEST_TSAN && __has_include(<sys/single_threaded.h>)
  REQUIRE(base::is_only_thread());
#endif
  soft::PrivateLock lock;
  lock.lock();
  bool got_in_too_early = true, was_alone = true;
  std::thread second{[&] {
    was_alone = base::is_only_thread();
    got_in_too_early = lock.try_lock();
  }};
  second.join();
  CHECK_FALSE(was_alone);
  CHECK_FALSE(got_in_too_early);

  lock.unlock();
  CHECK(lock.try_lock());
}
