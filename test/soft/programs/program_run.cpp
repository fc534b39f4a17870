// SPDX-License-Identifier: MIT OR Apache-2.0
// One program at a time, one thread.
#include "soft/programs/program_run.hpp"

#include <lend/soft/faults.hpp>

#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

Context Workplace::device() {
  if (must(context.query_port()).state != PortState::active) context = spy.open();
  return context;
}

ProgramRun::ProgramRun(Workplace& workplace, Program const& program, Context device)
    : spy_{workplace.spy},
      program_{program},
      context_{std::move(device)},
      draw_{1 + program.send_depth} {
  cancelled_.cancel();
}

std::string ProgramRun::execute() {
  spy_.begin(program_.faults.empty());
  must(inject_faults(context_, {}));
  domain_ = must(context_.allocate_protection_domain());
  if (program_.is_in_set) set_ = must(WaitSet::create(context_, program_.wait));
  begin();
  if (!program_.faults.empty())
    must(inject_faults(context_, must(FaultPlan::parse(program_.faults))));
  run_block();
  end();
  if (spy_.regions != 0) complain("a region is registered without its memory");
  if (spy_.queue_pairs != 0) complain("a queue pair outlives its channel");
  return violation();
}

Step const* ProgramRun::run_block() {
  while (next_ < program_.steps.size() && violation().empty()) {
    Step const& step = program_.steps[next_++];
    if (step.what == Do::close && depth() > 0) return &step;
    draw_.seed(1 + step.numbers[0] + (step.numbers[1] << 16));
    take(step);
    check();
  }
  return nullptr;
}

bool ProgramRun::is_result(Answer const& answer, Accepted const& work,
                           std::optional<std::string>& told, bool is_stale, bool waits,
                           unsigned polls_failed) {
  auto const wrong = [this](char const* text) {
    complain(text);
    return false;
  };
  if (answer.has_value() && !answer.value()) {
    if (waits || !work.is_in_progress() || told)
      complain("a handle has no result of work that is over");
    return false;
  }
  auto const words = answer.has_value() ? *answer.value() : answer.error().message();
  if (told) return *told == words ? false : wrong("a handle has changed its mind");
  if (!answer.has_value()) {
    auto const& error = answer.error();
    bool const is_early = error == Errc::timed_out || error == Errc::cancelled;
    if (is_early || error == Errc::system_failed) {
      if (is_early ? !waits : spy_.polls_failed == polls_failed)
        complain("a handle gives up for no reason");
      if (!work.is_in_progress()) complain("a handle gives up on work that is over");
      return false;
    }
  }
  told = words;
  if (is_stale) {
    if (answer.has_value() || answer.error() != Errc::stale_handle)
      complain("a handle that outlives its scope or channel is not stale");
    return false;
  }
  if (work.is_in_progress()) return wrong("a handle has a result before there is one");
  if (answer.has_value() == work.has_failed())
    return wrong("a handle does not say how its work ended");
  return true;
}

/// A dead peer or a failed queue may not have been met yet. Nor by the end that is asked: the poll
/// that starts the request which a failed queue strikes may bring all completions.
bool ProgramRun::calm_down() {
  must(inject_faults(context_, {}));
  spy_.polls_to_fail = 0;
  return program_.faults.find("peer-death") == std::string::npos &&
         program_.faults.find("queue-error") == std::string::npos;
}

}  // namespace lend::test
