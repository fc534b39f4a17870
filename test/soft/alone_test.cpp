// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what the only thread of a process locks is locked for the second one too. A program of its
// own, since one that has had threads is never alone again.
#include <base/only_thread.hpp>
#include <soft/platform/private_lock.hpp>

#include <thread>

#include "support/catch.hpp"

using namespace lend;

// ThreadSanitizer makes a thread before main().
#if defined(__SANITIZE_THREAD__)
#define has_threads_of_its_own 1
#elif defined(__has_feature)
#define has_threads_of_its_own __has_feature(thread_sanitizer)
#else
#define has_threads_of_its_own 0
#endif

TEST_CASE("what was locked alone keeps out a thread that is made meanwhile", "[soft]") {
#if !has_threads_of_its_own && __has_include(<sys/single_threaded.h>)
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
