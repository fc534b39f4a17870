// SPDX-License-Identifier: MIT OR Apache-2.0
// How often each kind of step is drawn, and how a program is made shorter. One thread.
#include "soft/programs/program.hpp"

#include <lend/soft/faults.hpp>

#include <functional>
#include <random>

#include "soft/programs/pool_model.hpp"

namespace lend::test {

namespace {

/// How often each kind of step comes, in parts of their sum.
struct Share {
  Do what;
  unsigned parts;
};
constexpr Share shares[] = {
    {Do::open, 10},          {Do::open_set, 6},
    {Do::close, 10},         {Do::finish, 1},
    {Do::post, 40},          {Do::batch, 8},
    {Do::post_unsafely, 2},  {Do::block, 6},
    {Do::poll, 12},          {Do::wait, 10},
    {Do::ask_set, 6},        {Do::ask_channel, 4},
    {Do::ask_events, 2},     {Do::take_message, 4},
    {Do::drop_message, 3},   {Do::drop, 7},
    {Do::leak, 1},           {Do::move, 4},
    {Do::move_channel, 1},   {Do::destroy_channel, 1},
    {Do::destroy_region, 1}, {Do::destroy_pool, 1},
    {Do::fail_polls, 1},     {Do::refuse_flushes, 1},
};

class Lot {
 public:
  explicit Lot(std::uint64_t seed) : draw_{seed} {}
  /// 0 to `bound` - 1. The engine's numbers are the standard's; distributions are each library's.
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(draw_() % bound); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

  Do kind() {
    unsigned sum = 0;
    for (auto const& share : shares) sum += share.parts;
    unsigned at = below(sum);
    for (auto const& share : shares) {
      if (at < share.parts) return share.what;
      at -= share.parts;
    }
    return Do::post;
  }
  Step step(Do what) {
    Step step{what, {}};
    for (auto& number : step.numbers) number = below(1u << 16);
    return step;
  }

 private:
  std::mt19937_64 draw_;
};

std::string faults_by_lot(Lot& lot) {
  FaultPlan plan;
  for (auto count = lot.below(3); count > 0; --count) {
    auto const at = 1 + lot.below(8);
    switch (lot.below(6)) {
      case 0: plan.drop(at, 1 + lot.below(3)); break;
      case 1: plan.delay(at, std::chrono::microseconds{1 + lot.below(200)}); break;
      case 2: plan.receiver_not_ready(at, 1 + lot.below(3)); break;
      case 3: plan.flush(at); break;
      case 4: plan.peer_dies(at); break;
      default: plan.completion_queue_fails(at); break;
    }
  }
  return plan.text();
}

/// The port goes down, and mostly comes up again.
std::string port_by_lot(Lot& lot) {
  FaultPlan plan;
  auto at = 1 + lot.below(4);
  for (auto count = 1 + lot.below(4); count > 0; --count) {
    count % 2 == 0 ? plan.port_comes_up(at) : plan.port_goes_down(at);
    at += 1 + lot.below(3);
  }
  return plan.text();
}

std::string delay_by_lot(Lot& lot) {
  auto const at = 1 + lot.below(8);  // arguments are evaluated in each compiler's order
  return FaultPlan{}.delay(at, std::chrono::microseconds{1 + lot.below(200)}).text();
}

}  // namespace

Program program_of(std::uint64_t seed) {
  Lot lot{seed};
  Program program;
  program.is_loop_back = lot.one_in(4);
  program.is_in_set = lot.one_in(3);
  program.has_pool = program.is_in_set && lot.one_in(2);
  if (program.has_pool) program.low_mark = lot.below(pieces_of_pool + 2);
  program.is_unreliable = !program.has_pool && lot.one_in(3);
  program.has_metrics = seed % 4 == 0;
  program.send_depth = 1 + lot.below(3);
  program.receive_depth = program.has_pool ? 0 : 1 + lot.below(3);
  if (lot.one_in(3)) program.send_depth = 12;  // some of a batch are silent
  program.inline_bytes = lot.one_in(4) ? 16 : 0;
  constexpr Wait waits[] = {Wait::adaptive, Wait::adaptive, Wait::spin, Wait::event};
  program.wait = waits[lot.below(4)];
  if (lot.one_in(2)) program.faults = faults_by_lot(lot);
  if (lot.one_in(6)) program.faults += (program.faults.empty() ? "" : " ") + port_by_lot(lot);
  program.has_events = lot.one_in(4);
  // Half of the programs keep their ends whole, so that they get far.
  bool const is_violent = lot.one_in(2);
  auto const length = 4 + lot.below(40);
  program.steps.push_back(lot.step(Do::open));
  while (program.steps.size() < length) {
    constexpr Do of_pools[] = {Do::ask_set, Do::take_message, Do::drop_message};
    bool const is_of_pool = program.has_pool && lot.one_in(4);
    auto const what = is_of_pool ? of_pools[lot.below(3)] : lot.kind();
    if (!is_violent && what >= Do::destroy_channel) continue;
    program.steps.push_back(lot.step(what));
  }
  return program;
}

Program program_of_datagrams(std::uint64_t seed) {
  Lot lot{seed};
  Program program;
  program.is_in_set = lot.one_in(3);
  program.send_depth = 1 + lot.below(3);
  program.receive_depth = 1 + lot.below(4);
  if (lot.one_in(3)) program.send_depth = 12;  // some of a batch are silent
  program.inline_bytes = lot.one_in(4) ? 16 : 0;
  constexpr Wait waits[] = {Wait::adaptive, Wait::adaptive, Wait::spin, Wait::event};
  program.wait = waits[lot.below(4)];
  if (lot.one_in(3)) program.faults = faults_by_lot(lot);
  bool const is_violent = lot.one_in(3);
  auto const length = 4 + lot.below(40);
  program.steps.push_back(lot.step(Do::open));
  while (program.steps.size() < length) {
    constexpr Do of_datagrams[] = {Do::post, Do::post, Do::recall, Do::renew_destination};
    auto const what = lot.one_in(4) ? of_datagrams[lot.below(4)] : lot.kind();
    if (!is_violent && what >= Do::destroy_channel) continue;
    program.steps.push_back(lot.step(what));
  }
  return program;
}

Program program_of_loans(std::uint64_t seed) {
  Lot lot{seed};
  Program program;
  program.is_in_set = lot.one_in(4);
  program.send_depth = 1 + lot.below(4);
  program.receive_depth = 1 + lot.below(2);
  program.inline_bytes = lot.one_in(4) ? 16 : 0;
  constexpr Wait waits[] = {Wait::adaptive, Wait::adaptive, Wait::spin, Wait::event};
  program.wait = waits[lot.below(4)];
  if (lot.one_in(3)) program.faults = faults_by_lot(lot);
  bool const is_violent = lot.one_in(3);
  auto const length = 4 + lot.below(50);
  program.steps.push_back(lot.step(Do::open));
  while (program.steps.size() < length) {
    constexpr Do of_loans[] = {Do::post,   Do::post,         Do::block, Do::block,
                               Do::recall, Do::take_message, Do::poll};
    auto const what = lot.one_in(2) ? of_loans[lot.below(7)] : lot.kind();
    if (!is_violent && what >= Do::destroy_channel) continue;
    program.steps.push_back(lot.step(what));
  }
  return program;
}

Program program_by_hand(std::uint64_t seed) {
  Lot lot{seed};
  Program program;
  constexpr std::uint32_t depths[] = {4, 16, 64};
  program.send_depth = depths[lot.below(3)];
  program.inline_bytes = lot.one_in(2) ? 16 : 0;
  program.is_on_demand = lot.one_in(4);
  program.is_timed = lot.one_in(3);
  program.is_wakeable = lot.one_in(2);
  program.rights = lot.below(4);
  if (lot.one_in(4)) program.faults = delay_by_lot(lot);
  auto const length = 4 + lot.below(40);
  while (program.steps.size() < length) {
    constexpr Do by_hand[] = {
        Do::post,  Do::post,         Do::post,         Do::batch, Do::batch,
        Do::batch, Do::take_message, Do::take_message, Do::open,  Do::open,
        Do::close, Do::wait,         Do::ask_channel,  Do::wait,  Do::renew_destination};
    program.steps.push_back(
        lot.step(lot.one_in(24) ? Do::destroy_channel : by_hand[lot.below(15)]));
  }
  return program;
}

Program program_of_services(std::uint64_t seed) {
  Lot lot{seed};
  Program program;
  constexpr Service services[] = {Service::reliable_connection, Service::unreliable_connection,
                                  Service::datagram};
  program.service = services[lot.below(3)];
  if (program.service != Service::datagram) program.shared_ends = lot.below(4);
  program.send_depth = 8;
  program.inline_bytes = lot.one_in(2) ? 16 : 0;
  program.is_timed = lot.one_in(3);
  program.is_wakeable = lot.one_in(2);
  if (lot.one_in(4)) program.faults = delay_by_lot(lot);
  auto const length = 4 + lot.below(40);
  while (program.steps.size() < length) {
    constexpr Do of_services[] = {
        Do::post,    Do::post,         Do::post,         Do::batch,        Do::batch,
        Do::batch,   Do::take_message, Do::take_message, Do::take_message, Do::take_message,
        Do::ask_set, Do::wait,         Do::wait,         Do::poll};
    constexpr Do seldom[] = {Do::destroy_channel, Do::refuse_flushes};
    program.steps.push_back(
        lot.step(lot.one_in(20) ? seldom[lot.below(2)] : of_services[lot.below(14)]));
  }
  return program;
}

Program shortened(Program program, std::function<bool(Program const&)> const& fails) {
  auto const without = [](Program whole, std::size_t begin, std::size_t count) {
    auto const from = whole.steps.begin() + static_cast<std::ptrdiff_t>(begin);
    whole.steps.erase(from, from + static_cast<std::ptrdiff_t>(count));
    return whole;
  };
  Program calm = program;
  calm.faults.clear();
  if (fails(calm)) program = calm;
  for (std::size_t piece = program.steps.size() / 2; piece > 0;) {
    bool shrank = false;
    for (std::size_t begin = 0; begin + piece <= program.steps.size();) {
      auto shorter = without(program, begin, piece);
      if (fails(shorter)) {
        program = std::move(shorter);
        shrank = true;
      } else {
        begin += piece;
      }
    }
    if (!shrank || piece > 1) piece = piece > 1 ? piece / 2 : 0;
  }
  return program;
}

}  // namespace lend::test
