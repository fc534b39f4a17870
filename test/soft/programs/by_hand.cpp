// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread.
#include "soft/programs/by_hand.hpp"

#include <algorithm>

namespace lend::test {

using namespace std::chrono_literals;

void ByHand::give_bytes(std::size_t at, MemoryRegion& own, std::span<std::byte> own_bytes,
                        MemoryRegion& shown, std::span<std::byte> shown_bytes) {
  auto const here = must(own.mutable_bytes());
  // SAFETY: no peer knows the key yet.
  auto const there = must(shown.mutable_bytes());
  for (std::size_t i = 0; i < own_bytes.size(); ++i) {
    here[i] = own_bytes[i] = static_cast<std::byte>(i + 64 * at);
    there[i] = shown_bytes[i] = static_cast<std::byte>(i + 128 + 64 * at);
  }
}

void ByHand::check_bytes(MemoryRegion& region, std::span<std::byte const> wanted,
                         std::string const& what) {
  if (region.loans() != 0) return complain("what is posted by hand is on loan");
  auto const bytes = must(region.bytes());
  auto const [differs, expected] = std::ranges::mismatch(bytes, wanted);
  if (differs != bytes.end())
    complain("byte " + std::to_string(differs - bytes.begin()) + " of what " + what + " is " +
             std::to_string(std::to_integer<int>(*differs)) + " instead of " +
             std::to_string(std::to_integer<int>(*expected)));
}

void ByHand::check_state(AnyQueuePair const& pair, bool is_broken) {
  auto const wanted = is_broken ? QueuePairState::error : QueuePairState::ready_to_send;
  if (pair.state() != wanted)
    complain("a queue pair is in state " + std::string{name_of(pair.state())} + " instead of " +
             std::string{name_of(wanted)});
}

void ByHand::arm(CompletionQueue& queue, std::optional<EventFor>& armed, std::string const& what) {
  auto const which = one_in(2) ? EventFor::any : EventFor::solicited;
  if (!queue.arm(which)) complain("a queue cannot be armed");
  if (armed != EventFor::any) armed = which;
  tell(what + (which == EventFor::any ? "" : " for solicited completions"));
}

void ByHand::check_time(TimedCompletion const& one, DeviceTime& last, std::string const& what) {
  auto const end = program_.faults.empty() ? posted_ : must(clock_->now());
  if (clock_->elapsed(last, one.at) < 0ns)
    complain(what + " completed before it was posted, or before one that was posted earlier");
  if (clock_->elapsed(one.at, end) < 0ns) complain(what + " completed after it was over");
  last = one.at;
}

void ByHand::compare_one(TimedCompletion const& one, Told const& told, std::string const& what) {
  auto const* const success = one.success();
  auto const status = success != nullptr ? WorkStatus::success : one.failure()->status;
  if (status != told.status)
    return complain(what + " ends as " + std::string{name_of(status)} + " instead of " +
                    std::string{name_of(told.status)});
  if (success == nullptr) return;
  if (success->bytes != told.bytes)
    complain(what + " tells of " + std::to_string(success->bytes) + " bytes instead of " +
             std::to_string(told.bytes));
  if (success->immediate != told.immediate) complain(what + " has another immediate");
  if (success->returned != told.returned) complain(what + " tells of another window");
}

}  // namespace lend::test
