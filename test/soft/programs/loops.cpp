// SPDX-License-Identifier: MIT OR Apache-2.0
// What an event loop asks: a set, or a channel alone, what is new, and whether it may sleep.
#include <algorithm>
#include <array>
#include <vector>

#include "soft/programs/run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

/// What was outstanding before a call.
struct Run::Seen {
  std::vector<std::ptrdiff_t> in_progress{};  // of each end
  std::size_t arrived = 0;
  std::vector<std::uint32_t> reported{};  // queue pairs, by an event
  unsigned polls_failed = 0;
};

Run::Seen Run::seen() {
  Seen seen{.in_progress = {},
            .arrived = model_.pool ? model_.pool->expected() : 0,
            .reported = {},
            .polls_failed = spy_.polls_failed};
  for (std::size_t end = 0; end < model_.ends.size(); ++end)
    seen.in_progress.push_back(std::ranges::count_if(model_.posts, [&](Posted const& post) {
      return post.end == end && model_.is_in_progress(post);
    }));
  for (auto const& end : model_.ends)
    if (spy_.has_reported(end.queue_pair)) seen.reported.push_back(end.queue_pair);
  return seen;
}

void Run::check_silent(std::string const& what, Seen const& before) {
  auto const now = seen();
  if (now.in_progress != before.in_progress || now.arrived != before.arrived)
    complain(what + ", although work ended or a message came");
  if (owes_low()) complain(what + ", and has not told of a low pool");
  if (events_of_set_ && events_of_set_->owes()) complain(what + ", and has not told of an event");
}

bool Run::owes_low() {
  return pool_ && model_.pool->owes_low();
}

void Run::check_low(std::span<Ready const> listed, bool is_full) {
  auto const times = std::ranges::count(listed, Ready::What::pool_low, &Ready::what);
  if (times > 1) complain("a set tells twice in one call that a pool is low");
  if (times > 0 && !owes_low()) complain("a set tells of a low pool, or once more");
  if (times == 0 && !is_full && owes_low()) complain("a set does not tell of a low pool");
  if (times > 0 && pool_) model_.pool->tell_low();
}

void Run::check_listed(std::span<Ready const> listed, bool is_full, Seen const& before) {
  check_low(listed, is_full);
  check_events(listed, is_full);
  check_all_reported(before.reported);
  auto const now = seen();
  for (std::size_t end = 0; end < model_.ends.size(); ++end) {
    auto const times = std::ranges::count_if(listed, [&](Ready const& news) {
      return news.tag == end && news.what != Ready::What::device;
    });
    if (times > 1) complain("a set names a channel twice");
    if (times > 0 && model_.ends[end].is_gone) complain("a set names a channel that is gone");
    if (times == 0 && !is_full && now.in_progress[end] < before.in_progress[end])
      complain("a set does not name a channel whose work it has seen end");
  }
  if (!pool_) return;
  bool const is_named = std::ranges::any_of(listed, [](Ready const& news) {
    return news.tag == tag_of_pool && news.what == Ready::What::message;
  });
  if (now.arrived > before.arrived && !is_named && !is_full)
    complain("a set does not name a pool to which messages came");
  if (now.polls_failed != before.polls_failed) return;
  for (auto const& bytes : model_.pool->waiting())
    if (!model_.is_lent_by_work({2, bytes}))
      complain("a piece that nobody else has is not posted again");
}

void Run::ask_set(Step const& step) {
  if (!set_) return;
  auto const way = step.numbers[0] % 8;
  auto const before = seen();
  if (way == 0) {
    auto const may_sleep = set_->arm();
    if (!may_sleep.has_value()) return complain("a set cannot be armed");
    tell(may_sleep.value() ? "arm the set: yes" : "arm the set: no");
    if (may_sleep.value()) {
      check_silent("a set allows to sleep", before);
      check_all_reported(before.reported);
    }
    return;
  }
  bool const is_woken = way == 1;
  bool const waits = way <= 3;
  if (is_woken) set_->wake();
  std::array<Ready, 6> all_room;
  auto const room = std::span{all_room}.first(1 + step.numbers[1] % all_room.size());
  auto const ready =
      waits ? set_->wait(room, within(is_woken ? 10'000'000us : 50us)) : set_->poll(room);
  auto const name = std::string{is_woken ? "wake and " : ""} + (waits ? "wait for" : "poll");
  if (ready.has_value()) {
    tell(name + " the set: " + std::to_string(ready.value().size()) + " of at most " +
         std::to_string(room.size()) + " have news");
    return check_listed(ready.value(), ready.value().size() == room.size(), before);
  }
  tell(name + " the set: " + std::string{name_of(ready.error().code())});
  if (waits && !is_woken && ready.error() == Errc::timed_out)
    check_silent("a set has no news in time", before);
  else if (spy_.polls_failed == before.polls_failed)
    complain("a set fails for no reason");
}

void Run::ask_channel(Step const& step) {
  auto const end = step.numbers[1] % model_.ends.size();
  if (model_.ends[end].is_gone) return;
  Channel& channel = *model_.ends[end].channel;
  bool const arms = step.numbers[0] % 2 == 0;
  auto const before = seen();
  auto const answer = arms ? channel.arm() : channel.poll();
  auto const name = std::string{arms ? "arm" : "poll"} + " channel " + std::to_string(end) + ": ";
  if (answer.has_value()) {
    tell(name + (answer.value() ? "yes" : "no"));
    if (set_) complain("a channel of a set is asked without it");
    if (answer.value() == arms) check_silent(name + "nothing new", before);
    if (answer.value() && arms) check_reported(end, before.reported);
    return;
  }
  tell(name + std::string{name_of(answer.error().code())});
  bool const lacks_descriptor = arms && answer.error() == Errc::unsupported;
  if (set_ ? answer.error() != Errc::invalid_argument
           : !lacks_descriptor && spy_.polls_failed == before.polls_failed)
    complain("a channel fails for no reason");
}

}  // namespace lend::test
