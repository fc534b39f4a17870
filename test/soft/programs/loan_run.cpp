// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes that lend to a peer, in and out; the program's beginning and its end. One thread.
#include "soft/programs/loan_run.hpp"

#include <algorithm>
#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

void LoanRun::begin() {
  memory_ = must(domain_->allocate(bytes_of_region));
  own_ = must(domain_->allocate(bytes_of_region));
  auto const here = must(memory_->mutable_bytes(0, bytes_of_region));
  auto const there = must(own_->mutable_bytes(0, bytes_of_region));
  for (std::size_t i = 0; i < bytes_of_region; ++i) {
    here[i] = expected_[i] = static_cast<std::byte>(i);
    there[i] = static_cast<std::byte>(128 + i);
  }
  ChannelOptions options;
  options.wait = program_.wait;
  if (set_) options.wait_set = &*set_;
  options.observe.metrics = true;
  auto& pair = options.queue_pair;
  pair.send_depth = program_.send_depth;
  pair.receive_depth = program_.receive_depth;
  pair.inline_bytes = program_.inline_bytes;
  make_impatient(pair);
  PreparedChannel one = must(prepare_channel(*domain_, options));
  options.tag = 1;
  PreparedChannel other = must(prepare_channel(*domain_, options));
  Endpoint const endpoint = one.endpoint();
  lender_ = must(std::move(one).handshake(other.endpoint()));
  peer_ = must(std::move(other).handshake(endpoint));
  may_break_ = !program_.faults.empty();
}

void LoanRun::take(Step const& step) {
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

void LoanRun::open(Step const& step) {
  if (!lender_ || depth() >= depth_max) return;
  auto const number = scopes_++;
  bool has_ended = false;
  try {
    PollingScope scope{*lender_};
    tell("open scope " + std::to_string(number) + " {");
    open_.push_back({&scope, number});
    bool const is_left = leaves_by_exception(run_block());
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
  tell("finish scope " + std::to_string(scope.number) + ": " + words_of(result));
  note_end_of(scope.number);
  if (result.has_value()) return;
  auto const& error = result.error();
  bool const by_end = error == Errc::stale_handle && !lender_;
  bool const by_queue = error == Errc::system_failed && spy_.polls_failed > state.polls_failed;
  bool const by_cause = lender_ && lender_->first_cause() != nullptr;
  if (!by_end && !by_queue && !by_cause)
    complain("a scope failed for no reason that there is: " + error.message());
}

void LoanRun::end() {
  check();
  check_slots();
  bool const is_lender_first = program_.steps.size() % 2 == 0;
  destroy_channel(is_lender_first);
  destroy_channel(!is_lender_first);
  check();
  if (memory_ && memory_->loans() != 0) complain("bytes stay on loan for good");
  loans_.clear();
  memory_.reset();
  own_.reset();
}

/// A slot that a bind or an invalidation has lost is missed here.
void LoanRun::check_slots() {
  bool const is_calm = calm_down();
  spy_.flushes_fail = false;
  if (!is_calm || !is_whole(lender_) || !is_whole(peer_) || !violation().empty()) return;
  auto const exposed =
      must(domain_->unsafe_allocate_exposed(bytes_of_region, RemoteAccess::read_write));
  auto const remote = must(exposed.remote());
  PollingScope scope{*lender_};
  scope.drain_within(1s);
  fill_slots(program_.slots(), [&](std::uint32_t) {
    return scope.post_write({own_->gather(0, 1), remote.slice(0, 1)}, within(10s));
  });
  if (!scope.finish().has_value()) complain("a channel that was whole is not");
}

}  // namespace lend::test
