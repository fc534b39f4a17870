// SPDX-License-Identifier: MIT OR Apache-2.0
// Fault plans as values: made, written, read, drawn by lot; and given to a device.
#include <soft/objects/context.hpp>

#include <lend/soft/faults.hpp>

#include <lend/verbs/context.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <new>
#include <optional>
#include <random>

namespace lend {
namespace {

using Kind = PlannedFault::Kind;

constexpr std::size_t kinds = static_cast<std::size_t>(Kind::port_up) + 1;
// The first of them, which FaultPlan::random() draws: with a port that is down no connection is
// made again.
constexpr std::size_t drawn_kinds = 7;

constexpr std::string_view name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::drop: return "drop";
    case Kind::delay: return "delay";
    case Kind::receiver_not_ready: return "rnr";
    case Kind::flush: return "flush";
    case Kind::peer_death: return "peer-death";
    case Kind::queue_error: return "queue-error";
    case Kind::control_call: return "control";
    case Kind::port_down: return "port-down";
    case Kind::port_up: return "port-up";
  }
  return "unknown";
}

constexpr bool has_amount(Kind kind) {
  return kind == Kind::drop || kind == Kind::delay || kind == Kind::receiver_not_ready ||
         kind == Kind::control_call;
}

/// Small enough to be survived as well as not.
std::uint64_t amount_by_lot(Kind kind, std::uint64_t lot) noexcept {
  constexpr std::uint64_t delay_max = 1'000'000;
  constexpr std::array errnos{ENOMEM, EAGAIN, EACCES};
  switch (kind) {
    case Kind::drop:
    case Kind::receiver_not_ready: return 1 + lot % 2;
    case Kind::delay: return 1 + lot % delay_max;
    case Kind::control_call: return static_cast<std::uint64_t>(errnos[lot % errnos.size()]);
    default: return 0;
  }
}

/// The whole of `text`, or nothing.
std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string text_of(PlannedFault const& fault) {
  std::string text{name_of(fault.kind)};
  (text += '@') += std::to_string(fault.at);
  if (!has_amount(fault.kind)) return text;
  // Of a delay, a sign that should not be there shows.
  return (text += ':') += fault.kind == Kind::delay
                              ? std::to_string(static_cast<std::int64_t>(fault.amount))
                              : std::to_string(fault.amount);
}

/// Why the fault can never strike, or null.
char const* reason_against(PlannedFault const& fault) noexcept {
  // Source: Linux include/linux/err.h, MAX_ERRNO.
  constexpr std::uint64_t errno_max = 4095;
  if (fault.at == 0) return "operations and control calls are counted from 1 on";
  switch (fault.kind) {
    case Kind::drop:
    case Kind::receiver_not_ready:
      return fault.amount == 0 || fault.amount > UINT_MAX ? "it repeats 1 to 4294967295 times"
                                                          : nullptr;
    case Kind::delay:
      return fault.amount == 0 || fault.amount > INT64_MAX ? "a delay is positive, in nanoseconds"
                                                           : nullptr;
    case Kind::control_call:
      return fault.amount == 0 || fault.amount > errno_max ? "an errno is 1 to 4095" : nullptr;
    default: return nullptr;
  }
}

std::optional<PlannedFault> parse_one(std::string_view word) {
  auto const at = word.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  auto const rest = word.substr(at + 1);
  auto const colon = rest.find(':');
  auto const when = number(rest.substr(0, colon));
  for (std::size_t i = 0; i < kinds; ++i) {
    auto const kind = static_cast<Kind>(i);
    if (word.substr(0, at) != name_of(kind) || !when) continue;
    if (colon == std::string_view::npos) {
      // A drop or a refusal is one, unless it says more; a delay and an error say how much.
      if (kind == Kind::delay || kind == Kind::control_call) return std::nullopt;
      return PlannedFault{kind, *when, has_amount(kind) ? std::uint64_t{1} : 0};
    }
    auto const amount = number(rest.substr(colon + 1));
    if (!amount || !has_amount(kind)) return std::nullopt;
    return PlannedFault{kind, *when, *amount};
  }
  return std::nullopt;
}

/// Each fault of the plan can strike, or invalid_argument with the first that cannot, and why.
Result<void> check(FaultPlan const& plan) {
  for (auto const& fault : plan.faults())
    if (auto const* const reason = reason_against(fault))
      return Error{Errc::invalid_argument, "no fault: " + text_of(fault) + " (" + reason + ")"};
  return success();
}

}  // namespace

FaultPlan& FaultPlan::add(Kind kind, std::uint64_t at, std::uint64_t amount) {
  faults_.push_back({kind, at, amount});
  return *this;
}

FaultPlan& FaultPlan::drop(std::uint64_t operation, unsigned times) & {
  return add(Kind::drop, operation, times);
}
FaultPlan& FaultPlan::delay(std::uint64_t operation, std::chrono::nanoseconds span) & {
  return add(Kind::delay, operation, static_cast<std::uint64_t>(span.count()));
}
FaultPlan& FaultPlan::receiver_not_ready(std::uint64_t operation, unsigned times) & {
  return add(Kind::receiver_not_ready, operation, times);
}
FaultPlan& FaultPlan::flush(std::uint64_t operation) & {
  return add(Kind::flush, operation, 0);
}
FaultPlan& FaultPlan::peer_dies(std::uint64_t operation) & {
  return add(Kind::peer_death, operation, 0);
}
FaultPlan& FaultPlan::completion_queue_fails(std::uint64_t operation) & {
  return add(Kind::queue_error, operation, 0);
}
FaultPlan& FaultPlan::port_goes_down(std::uint64_t operation) & {
  return add(Kind::port_down, operation, 0);
}
FaultPlan& FaultPlan::port_comes_up(std::uint64_t operation) & {
  return add(Kind::port_up, operation, 0);
}
FaultPlan& FaultPlan::control_call_fails(std::uint64_t call, int errno_value) & {
  return add(Kind::control_call, call, static_cast<std::uint64_t>(errno_value));
}

FaultPlan FaultPlan::random(std::uint64_t seed, unsigned count, std::uint64_t operations) {
  // The engine's numbers are the standard's; those of its distributions are each library's own.
  std::mt19937_64 draw{seed};
  FaultPlan plan;
  for (unsigned i = 0; i < count && operations > 0; ++i) {
    auto const kind = static_cast<Kind>(draw() % drawn_kinds);
    auto const at = 1 + draw() % operations;
    plan.add(kind, at, amount_by_lot(kind, draw()));
  }
  return plan;
}

Result<FaultPlan> FaultPlan::parse(std::string_view text) {
  FaultPlan plan;
  while (!text.empty()) {
    auto const word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty()) continue;
    auto const fault = parse_one(word);
    if (!fault)
      return Error{Errc::invalid_argument,
                   "no fault: " + std::string{word} +
                       " (drop@N:TIMES delay@N:NANOSECONDS rnr@N:TIMES flush@N peer-death@N "
                       "queue-error@N control@N:ERRNO port-down@N port-up@N, N from 1 on)"};
    plan.faults_.push_back(*fault);
  }
  LEND_TRYV(check(plan));
  return plan;
}

std::string FaultPlan::text() const {
  std::string text;
  for (auto const& fault : faults_) {
    if (!text.empty()) text += ' ';
    text += text_of(fault);
  }
  return text;
}

Result<void> inject_faults(Context const& context, FaultPlan const& plan) try {
  if (context.kind() != DeviceKind::soft)
    return Error{Errc::unsupported,
                 "faults can be planned on the soft device only, this is " + context.name()};
  LEND_TRYV(check(plan));
  soft::Context::of(context.native()).faults.plan(plan.faults());
  return success();
} catch (std::bad_alloc const&) {
  return Error{Errc::exhausted};
}

}  // namespace lend
