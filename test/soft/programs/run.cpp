// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes, in and out; the program's beginning and its end.
#include "soft/programs/run.hpp"

#include <channel/state/preparing.hpp>

#include <random>
#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

namespace {

/// What unwinds past a scope that is opened in a destructor.
struct Unrelated {};

}  // namespace

Run::Run(Workplace& workplace, Program const& program)
    : ProgramRun{workplace, program, workplace.device()}, model_{spy_, program, story_} {}

void Run::begin() {
  std::mt19937 draw{program_.send_depth};
  auto const filled = [&](std::size_t bytes) {
    auto region = must(domain_->allocate(bytes));
    for (auto& byte : must(region.mutable_bytes())) byte = static_cast<std::byte>(draw());
    return region;
  };
  // No two pieces have the same bytes, nor two messages, for a while.
  for (int i = 0; i < 2; ++i) model_.regions.emplace_back(filled(region_bytes));
  unsafe_ = filled(region_bytes * (1 + program_.steps.size()));
  exposed_ = must(domain_->unsafe_allocate_exposed(region_bytes, RemoteAccess::all));
  model_.regions_beside = 2;
  remote_ = must(exposed_->remote());

  ChannelOptions options;
  options.wait = program_.wait;
  if (set_) options.wait_set = &*set_;
  listen();
  if (program_.has_pool) make_pool();
  if (pool_) options.receive_pool = &*pool_;
  options.observe.metrics = program_.has_metrics;
  auto& pair = options.queue_pair;
  pair.send_depth = program_.send_depth;
  pair.receive_depth = program_.receive_depth;
  pair.elements = elements_of_program;
  pair.inline_bytes = program_.inline_bytes;
  if (program_.is_unreliable)
    pair.remote_access = RemoteAccess::write;
  else
    make_impatient(pair);
  auto const prepare = [&] {
    constexpr verbs::ServiceChoice unreliable{Service::unreliable_connection};
    return must(program_.is_unreliable ? channel::Preparing::prepare(*domain_, options, unreliable)
                                       : prepare_channel(*domain_, options));
  };
  PreparedChannel one = prepare();
  options.tag = 1;
  PreparedChannel other = prepare();
  Endpoint const endpoint = one.endpoint();
  auto const join = [&](PreparedChannel prepared, Endpoint const& peer) {
    auto channel = std::make_unique<Channel>(must(std::move(prepared).handshake(peer)));
    auto const number = channel->endpoint().queue_pair_number.value();
    model_.ends.push_back({std::move(channel), number, false, {}});
  };
  bool const loop = program_.is_loop_back;
  join(std::move(one), loop ? endpoint : other.endpoint());
  if (!loop) join(std::move(other), endpoint);
}

void Run::take(Step const& step) {
  switch (step.what) {
    case Do::open: return open(step);
    case Do::close: return;  // of no scope
    case Do::open_set: return open_set(step);
    case Do::finish: return finish(step);
    case Do::post: return post(step);
    case Do::batch: return batch(step);
    case Do::post_unsafely: return post_unsafely(step);
    case Do::block: return block(step);
    case Do::poll: return ask(step, false);
    case Do::wait: return ask(step, true);
    case Do::ask_set: return ask_set(step);
    case Do::ask_channel: return ask_channel(step);
    case Do::ask_events: ask_events(step.numbers[0] % 2 == 0); return;
    case Do::take_message: return take_message();
    case Do::drop_message: return drop_message(step.numbers[0]);
    case Do::drop: return drop(step);
    case Do::leak: return leak(step);
    case Do::move: return move(step);
    case Do::move_channel: return move_channel(step);
    case Do::recall:
    case Do::renew_destination: return;  // of datagrams
    case Do::destroy_channel: return destroy_channel(step.numbers[0] % model_.ends.size());
    case Do::destroy_region: return destroy_region(step);
    case Do::destroy_pool: return destroy_pool();
    case Do::fail_polls: spy_.polls_to_fail = 1; return tell("the next poll fails");
    case Do::refuse_flushes:
      spy_.flushes_fail = true;
      return tell("flushes are refused from here on");
  }
}

Run::Way Run::run_until_left() {
  try {
    Step const* const close = run_block();
    if (close == nullptr) return Way::value;
    levels_ = close->numbers[1] % 8 == 0 ? 1 : 0;
    auto const way = close->numbers[0] % 8;
    return way < 5 ? Way::value : way < 6 ? Way::error : Way::exception;
  } catch (Leave const& leave) {
    levels_ = leave.scopes;
    return Way::exception;
  }
}

void Run::open(Step const& step) {
  auto const end = step.numbers[0] % model_.ends.size();
  if (model_.ends[end].is_gone || depth() >= depth_max) return;
  auto const kind = step.numbers[1] % 8;
  auto const scope = enter(end, kind == 2 || kind == 3);
  if (kind < 4) return run_closure(scope, step);
  if (kind < 7) return run_plain(scope, step);
  run_while_unwinding([&] { run_plain(scope, step); });
}

std::size_t Run::enter(std::size_t end, bool is_manual) {
  model_.scopes.push_back({.end = end, .is_manual = is_manual});
  return model_.scopes.size() - 1;
}

Run::Way Run::inhabit(std::size_t scope, PollingScope& polling, Step const& step) {
  model_.scopes[scope].scope = &polling;
  auto const bound = step.numbers[2] % 8;
  std::string text = "scope " + std::to_string(scope) + " of end " +
                     std::to_string(model_.scopes[scope].end) +
                     (model_.scopes[scope].is_manual ? ", manual" : "");
  if (bound < 3) {
    polling.drain_within(bound * short_bound);
    model_.scopes[scope].is_bounded = true;
    text += ", drains within " + std::to_string(bound * 100) + " us";
  }
  if (bound == 3 || bound == 4) {
    polling.drain_until(within(10s).unless(bound == 3 ? cancelled_ : never_cancelled_));
    model_.scopes[scope].may_be_cancelled = bound == 3;
    text += bound == 3 ? ", drain cancelled" : ", drain cancellable";
  }
  tell("open " + text + " {");
  open_.push_back(scope);
  Way way = run_until_left();
  // Nobody will answer what is not answered by now.
  if (model_.has_receives_in_progress(scope) && !model_.scopes[scope].is_bounded) {
    polling.drain_within(short_bound);
    model_.scopes[scope].is_bounded = true;
  }
  open_.pop_back();
  model_.scopes[scope].scope = nullptr;
  model_.scopes[scope].was_broken = model_.is_broken(model_.scopes[scope].end);
  model_.scopes[scope].had_work = model_.has_work_in_progress(scope);
  model_.scopes[scope].had_receives = model_.has_receives_in_progress(scope);
  return way;
}

void Run::run_closure(std::size_t scope, Step const& step) {
  auto& channel = *model_.ends[model_.scopes[scope].end].channel;
  ScopeEnd before;
  bool had_ended = false;
  auto const body = [&](PollingScope& polling) -> Result<int> {
    auto const way = inhabit(scope, polling, step);
    before = model_.before_end_of(
        scope, way == Way::error ? std::optional<Errc>{Errc::not_found} : std::nullopt);
    had_ended = model_.scopes[scope].has_ended;
    if (way == Way::exception) throw Leave{levels_};
    if (way == Way::error) return Errc::not_found;
    return 7;
  };
  try {
    bool const manual = model_.scopes[scope].is_manual;
    auto const result = manual ? channel.manual_scope(body) : channel.scope(body);
    Result<void> const shown =
        result.has_value() ? Result<void>{success()} : Result<void>{result.error()};
    tell("} closed: " + words_of(shown));
    if (result.has_value() && result.value() != 7) complain("a closure's value is lost");
    if (had_ended && result.has_value() != !before.closure_error)
      complain("a closure that finished its scope itself has not its own result");
    if (!had_ended)
      model_.after_end_of(scope, before,
                          result.has_value() ? std::nullopt : std::optional{result.error()});
  } catch (Leave const& leave) {
    tell("} left by an exception");
    model_.after_destruction_of(scope, true);
    leave_more(leave.scopes);
  }
}

void Run::run_plain(std::size_t scope, Step const& step) {
  std::optional<std::uint32_t> levels;
  bool finished = false;
  try {
    PollingScope polling{*model_.ends[model_.scopes[scope].end].channel};
    auto const way = inhabit(scope, polling, step);
    if (way == Way::exception) throw Leave{levels_};
    if (way == Way::value && !model_.scopes[scope].has_ended) {
      auto const before = model_.before_end_of(scope, std::nullopt);
      auto const result = polling.finish();
      finished = true;
      tell("} finished: " + words_of(result));
      model_.after_end_of(scope, before,
                          result.has_value() ? std::nullopt : std::optional{result.error()});
    }
  } catch (Leave const& leave) {
    levels = leave.scopes;
  }
  if (!finished) {
    tell(levels ? "} left by an exception" : "} left");
    model_.after_destruction_of(scope, levels.has_value());
  }
  leave_more(levels);
}

void Run::leave_more(std::optional<std::uint32_t> levels) {
  if (levels.value_or(0) == 0 || depth() == 0) return;
  model_.check();
  throw Leave{*levels - 1};
}

void Run::run_while_unwinding(std::function<void()> const& block) {
  struct AtExit {
    std::function<void()> const& block;
    ~AtExit() {
      try {
        block();
      } catch (Leave const&) {
        // Must not leave a destructor.
      }
    }
  };
  try {
    AtExit const at_exit{block};
    throw Unrelated{};
  } catch (Unrelated const&) {
  }
}

void Run::finish(Step const& step) {
  std::vector<std::size_t> scopes = open_;
  if (!frames_.empty()) {
    SetFrame& frame = *frames_.back();
    if (step.numbers[1] % 4 == 0) return finish_set(frame);
    auto const members = open_members(frame);
    scopes.insert(scopes.end(), members.begin(), members.end());
  }
  if (scopes.empty()) return;
  auto const scope = scopes[step.numbers[0] % scopes.size()];
  auto& polling = *model_.scopes[scope].scope;
  if (model_.has_receives_in_progress(scope) && !model_.scopes[scope].is_bounded) {
    polling.drain_within(short_bound);
    model_.scopes[scope].is_bounded = true;
  }
  bool const had_ended = model_.scopes[scope].has_ended;
  auto before = model_.before_end_of(scope, std::nullopt);
  before.is_manual = false;  // finish() reports failures, and asks nobody to have polled
  auto const result = polling.finish();
  tell("finish scope " + std::to_string(scope) + ": " + words_of(result));
  if (!had_ended)
    return model_.after_end_of(scope, before,
                               result.has_value() ? std::nullopt : std::optional{result.error()});
  if (result.has_value() || result.error() != Errc::stale_handle)
    complain("a scope was finished twice");
}

void Run::end() {
  for (auto const& handle : handles_) model_.posts[handle.post].held = false;
  handles_.clear();
  check();
  check_slots();
  auto const first = program_.steps.size() % model_.ends.size();
  destroy_channel(first);
  destroy_channel((first + 1) % model_.ends.size());
  for (auto const& post : model_.posts)
    if (model_.is_in_progress(post)) complain("work outlives its channel");
  check();
  settle_events();
  destroy_pool();
  check();
  while (!messages_.empty()) drop_message(0);
  check();
  model_.regions.clear();
  exposed_.reset();
  unsafe_.reset();
}

/// Only of channels that are whole.
void Run::check_slots() {
  bool const is_whole = calm_down() && model_.ends.size() == 2 && !model_.ends[0].is_gone &&
                        !model_.ends[1].is_gone && model_.regions[0] && model_.regions[1];
  if (!is_whole || model_.is_broken(0) || model_.is_broken(1) || !violation().empty()) return;
  for (auto const& post : model_.posts)
    if (model_.is_in_progress(post)) return;
  if (model_.slots_taken(0) + model_.slots_taken(1) > 0) return;  // by leaked handles
  PollingScope sending{*model_.ends[0].channel};
  PollingScope receiving{*model_.ends[1].channel};
  sending.drain_within(1s);
  receiving.drain_within(1s);
  auto const source = model_.regions[0]->gather(0, 1);
  fill_slots(2 * program_.slots(), [&](std::uint32_t i) {
    bool const is_receiving = i % 2 == 0;
    // A channel with a pool has no receives of its own.
    if (program_.has_pool)
      return (is_receiving ? receiving : sending)
          .post_write({source, remote_.slice(0, 1)}, within(10s));
    if (is_receiving)
      return receiving.post_receive(model_.regions[1]->scatter(i / 2, 1), within(10s));
    return sending.post_send(source, within(10s));
  });
  if (!sending.finish().has_value() || !receiving.finish().has_value())
    complain("a channel that was whole is not");
}

}  // namespace lend::test
