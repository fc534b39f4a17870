// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

using namespace std::chrono_literals;

extern lend::PollingScope& scope;
extern lend::MemoryRegion& memory;
extern lend::Cancellation const& stopping;

lend::Result<void> act();

void ignored() {
  static_cast<void>(act());
#ifdef CASE_result_is_not_ignored
  // error: unused-result|ignoring return value
  act();
#endif

  static_cast<void>(scope.post_send(memory.gather(0, 5)));
#ifdef CASE_posted_work_is_not_ignored
  // error: nodiscard|unused-result|ignoring return value
  scope.post_send(memory.gather(0, 5));
#endif
}

void of_temporaries() {
  auto const error = scope.finish().error();
  for (auto const& failure : error.drained()) static_cast<void>(failure.is_flush());
#ifdef CASE_temporary_error_shows_no_drain
  // error: use of deleted function|call to deleted member function
  for (auto const& failure : scope.finish().error().drained())  // refused
    static_cast<void>(failure.is_flush());
#endif

  static_cast<void>(lend::within(1s).unless(stopping).has_passed());
#ifdef CASE_temporary_cancellation_ends_no_wait
  // error: use of deleted function|call to deleted member function
  // It would be gone before the wait begins.
  static_cast<void>(lend::within(1s).unless(lend::Cancellation{}).has_passed());  // refused
#endif
}

#ifdef CASE_groups_have_a_header
// error: class Group; +// lend/group.hpp, liblend-group
// A program with groups includes lend/group.hpp: the compiler shows the line that says so.
lend::Result<void> meet(lend::Group& group) {
  return group.barrier(lend::Deadline::never());
}
#endif
