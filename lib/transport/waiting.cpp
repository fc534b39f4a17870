// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <base/giving_up.hpp>
#include <channel/parts/waiter.hpp>
#include <lend/transport/waiting.hpp>

#include <poll.h>

namespace lend::transport {

namespace {

class TransportSleeper final : public channel::Sleeper {
 public:
  explicit TransportSleeper(Waited const& waited) noexcept : waited_{waited} {}

  bool arm() noexcept override {
    // If something has changed meanwhile, the poll before the sleep finds it.
    return waited_.arm(waited_.transport).has_value() &&
           waited_.descriptor(waited_.transport).has_value();
  }
  void sleep(Deadline deadline) noexcept override {
    auto const descriptor = waited_.descriptor(waited_.transport);
    if (!descriptor) return;
    auto const until = sooner(deadline, waited_.look_again(waited_.transport));
    pollfd waiting{descriptor.value(), POLLIN, 0};
    static_cast<void>(::poll(&waiting, 1, base::poll_milliseconds(until)));
  }

 private:
  Waited const& waited_;
};

}  // namespace

Result<void> wait_for_change(Waited const& waited, Deadline deadline) noexcept {
  // What one wait learns of the machine holds for the next.
  thread_local channel::WaitPlan plans[] = {
      channel::WaitPlan::for_this_process(Wait::spin),
      channel::WaitPlan::for_this_process(Wait::adaptive),
      channel::WaitPlan::for_this_process(Wait::event),
  };
  static_assert(static_cast<int>(Wait::spin) == 0 && static_cast<int>(Wait::adaptive) == 1 &&
                static_cast<int>(Wait::event) == 2);
  TransportSleeper sleeper{waited};
  channel::Waiter waiter{plans[static_cast<std::size_t>(waited.how)], sleeper};
  for (;;) {
    LEND_TRY(has_changed, waited.poll(waited.transport));
    if (has_changed) return success();
    if (!waiter.pause(deadline))
      return base::gave_up(deadline, "the peer sent, freed and acknowledged nothing",
                           "; this transport is as before: wait again");
  }
}

}  // namespace lend::transport
