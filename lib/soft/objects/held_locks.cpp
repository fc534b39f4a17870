// SPDX-License-Identifier: MIT OR Apache-2.0
// Who holds a lock, and whether it is dead.
#include <soft/objects/held_locks.hpp>

#include <soft/objects/context.hpp>
#include <soft/peers/slot.hpp>
#include <soft/platform/reason.hpp>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <utility>

namespace lend::soft {

int fail_held(Context const& context, RobustLock const& lock) noexcept {
  constexpr auto seconds = static_cast<unsigned>(holder_patience / 1'000'000'000);
  auto const holder = lock.holder();
  if (holder == context.claimant.instance)
    return fail(EBUSY,
                "another thread of this process has been executing a request at this object for "
                "%u s: try again when it is done",
                seconds);
  SlotTenant tenant;
  base::UniqueFd file;
  bool const is_known =
      read_slot(context.slot.directory(), slot_of_instance(holder), tenant, file) == 0 &&
      tenant.instance() == holder;
  char name[32] = "another process";
  if (is_known) (void)std::snprintf(name, sizeof name, "process %d", tenant.pid);
  return fail(EBUSY,
              "%s has been executing a request at this object for %u s and may be stopped: let it "
              "continue or end it, then try again",
              name, seconds);
}

void rest_between_attempts() noexcept {
  timespec const rest{0, 1'000'000};
  (void)::nanosleep(&rest, nullptr);  // a signal only makes it shorter
}

bool may_come_free(Context& context, RobustLock const& lock, std::uint64_t& asked_at) noexcept {
  auto const holder = lock.holder();
  if (holder == 0) return true;
  auto const time = tick();
  return std::exchange(asked_at, time) != time && context.peers.instance_is_dead(holder);
}

}  // namespace lend::soft
