// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes that lend to a peer, in and out; the program's beginning and its end. One thread.
#include "soft/programs/loan_run.hpp"

#include <lend/soft/faults.hpp>

#include <algorithm>
#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

LoanRun::LoanRun(Workplace& workplace, Program const& program)
    : spy_{workplace.spy}, workplace_{workplace}, program_{program} {
  cancelled_.cancel();
}

std::string LoanRun::execute() {
  if (must(workplace_.context.query_port()).state != PortState::active)
    workplace_.context = spy_.open();
  spy_.begin(false);
  begin();
  while (next_ < program_.steps.size()) {
    one(program_.steps[next_++]);
    check();
  }
  end_of_program();
  return violation().empty() ? spy_.violation() : violation();
}

void LoanRun::begin() {
  must(inject_faults(workplace_.context, {}));
  domain_ = must(workplace_.context.allocate_protection_domain());
  memory_ = must(domain_->allocate(bytes_of_region));
  own_ = must(domain_->allocate(bytes_of_region));
  auto const here = must(memory_->mutable_bytes(0, bytes_of_region));
  auto const there = must(own_->mutable_bytes(0, bytes_of_region));
  for (std::size_t i = 0; i < bytes_of_region; ++i) {
    here[i] = expected_[i] = static_cast<std::byte>(i);
    there[i] = static_cast<std::byte>(128 + i);
  }
  if (program_.is_in_set) set_ = must(WaitSet::create(workplace_.context, program_.wait));
  ChannelOptions options;
  options.wait = program_.wait;
  if (set_) options.wait_set = &*set_;
  options.observe.metrics = true;
  auto& pair = options.queue_pair;
  pair.send_depth = program_.send_depth;
  pair.receive_depth = program_.receive_depth;
  pair.inline_bytes = program_.inline_bytes;
  pair.connection.ack_timeout = 4us;
  pair.connection.ack_retries = 2;
  pair.receiver_not_ready_retries = 3;
  pair.receiver_not_ready_delay = 10us;
  PreparedChannel one = must(prepare_channel(*domain_, options));
  options.tag = 1;
  PreparedChannel other = must(prepare_channel(*domain_, options));
  Endpoint const endpoint = one.endpoint();
  lender_ = must(std::move(one).handshake(other.endpoint()));
  peer_ = must(std::move(other).handshake(endpoint));
  may_break_ = !program_.faults.empty();
  if (may_break_) must(inject_faults(workplace_.context, must(FaultPlan::parse(program_.faults))));
}

void LoanRun::one(Step const& step) {
  switch (step.what) {
    case Do::open: return open(step);
    case Do::finish: return finish(step);
    case Do::post:
    case Do::batch: return lend(step);
    case Do::block: return use(step);
    case Do::take_message: return give_back(step);
    case Do::recall:
    case Do::wait: return recall(step);
    case Do::poll: return ask(step);
    case Do::destroy_channel: return destroy_channel(step.numbers[0] % 2 == 0);
    case Do::destroy_region: memory_.reset(); return tell("destroy the memory");
    case Do::fail_polls:
      spy_.polls_to_fail = static_cast<int>(1 + step.numbers[0] % 3);
      may_break_ = true;
      return tell("the next polls fail");
    case Do::refuse_flushes:
      spy_.flushes_fail = may_break_ = true;
      return tell("flushes are refused from here on");
    default: return;  // of no program of loans
  }
}

bool LoanRun::run_block() {
  while (next_ < program_.steps.size()) {
    Step const& step = program_.steps[next_++];
    if (step.what == Do::close) return step.numbers[0] % 4 == 0;
    one(step);
    check();
  }
  return false;
}

void LoanRun::open(Step const& step) {
  if (!lender_ || open_.size() >= depth_max) return;
  auto const number = scopes_++;
  bool has_ended = false;
  try {
    PollingScope scope{*lender_};
    tell("open scope " + std::to_string(number) + " {");
    open_.push_back({&scope, number});
    bool const is_left = run_block();
    has_ended = open_.back().has_ended;
    // An exception does not wait for receives.
    may_break_ |= is_left && std::ranges::any_of(spy_.works(), [](Accepted const& work) {
                    return work.is_receive && work.is_in_progress();
                  });
    if (is_left || has_ended || step.numbers[1] % 3 == 0) {
      open_.pop_back();
      if (is_left) throw Left{};
    } else {
      finish({Do::finish, {static_cast<std::uint32_t>(open_.size() - 1)}});
      open_.pop_back();
      has_ended = true;
    }
  } catch (Left const&) {
    tell("} left by an exception");
  }
  if (!has_ended) {
    tell("} left");
    note_end_of(number);
  }
}

void LoanRun::finish(Step const& step) {
  if (open_.empty()) return;
  Open& scope = open_[step.numbers[0] % open_.size()];
  if (scope.has_ended) return;
  auto const state = before();
  auto const result = scope.scope->finish();
  scope.has_ended = true;
  tell("finish scope " + std::to_string(scope.number) + ": " +
       (result.has_value() ? "ok" : std::string{name_of(result.error().code())}));
  note_end_of(scope.number);
  if (result.has_value()) return;
  auto const& error = result.error();
  bool const by_end = error == Errc::stale_handle && !lender_;
  bool const by_queue = error == Errc::system_failed && spy_.polls_failed > state.polls_failed;
  bool const by_cause = lender_ && lender_->first_cause() != nullptr;
  if (!by_end && !by_queue && !by_cause)
    complain("a scope failed for no reason that there is: " + error.message());
}

void LoanRun::end_of_program() {
  check();
  fill_slots();
  bool const is_lender_first = program_.steps.size() % 2 == 0;
  destroy_channel(is_lender_first);
  destroy_channel(!is_lender_first);
  check();
  if (memory_ && memory_->loans() != 0) complain("bytes stay on loan for good");
  loans_.clear();
  memory_.reset();
  own_.reset();
  if (spy_.regions != 0) complain("a region is registered without its memory");
  if (spy_.queue_pairs != 0) complain("a queue pair outlives its channel");
}

/// A slot that a bind or an invalidation has lost is missed here.
void LoanRun::fill_slots() {
  must(inject_faults(workplace_.context, {}));
  spy_.polls_to_fail = 0;
  spy_.flushes_fail = false;
  if (!is_whole(lender_) || !is_whole(peer_) || !violation().empty()) return;
  if (program_.faults.find("peer-death") != std::string::npos) return;
  if (program_.faults.find("queue-error") != std::string::npos) return;
  auto const exposed =
      must(domain_->unsafe_allocate_exposed(bytes_of_region, RemoteAccess::read_write));
  auto const remote = must(exposed.remote());
  PollingScope scope{*lender_};
  scope.drain_within(1s);
  std::vector<PendingWork> kept;
  auto const slots = 2 * (program_.send_depth + program_.receive_depth);
  for (std::uint32_t i = 0; i < slots; ++i) {
    auto written = scope.post_write({own_->gather(0, 1), remote.slice(0, 1)}, within(10s));
    if (!written.has_value())
      return complain("slot " + std::to_string(i) + " of " + std::to_string(slots) +
                      " is lost: " + written.error().message());
    kept.push_back(std::move(written).value());
  }
  auto const more = scope.post_write({own_->gather(0, 1), remote.slice(0, 1)}, within(10s));
  if (more.has_value() || more.error() != Errc::queue_full)
    complain("a post finds room where every slot has a handle");
  if (!scope.finish().has_value()) complain("a channel that was whole is not");
}

}  // namespace lend::test
