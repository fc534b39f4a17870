// SPDX-License-Identifier: MIT OR Apache-2.0
// What must have come of each step of a program of services: completions, their times, headers of
// datagrams, events, states, bytes. One thread.
#include <algorithm>
#include <cstring>
#include <utility>

#include "soft/programs/service_run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

/// Polls for what must come, and once more.
void ServiceRun::settle() {
  if (clock_) posted_ = must(clock_->now());
  auto const for_all = [&](auto&& call) {
    for (auto& end : ends_)
      for (auto& lane : end.lanes) call(lane);
  };
  bool is_there = false;
  for (Deadline const deadline = within(10s); !is_there && !deadline.has_passed();) {
    is_there = true;
    for_all([&](Lane& lane) {
      poll<DatagramCompletion>(*lane.queue, lane.taken);
      is_there &= lane.taken.size() >= lane.told.size();
    });
  }
  // A query waits for the device's own thread, which tells of what it has published.
  for (auto& link : links_) check_state(pair_of(link), link.is_broken);
  for_all([&](Lane& lane) { poll<DatagramCompletion>(*lane.queue, lane.taken); });
  for (std::size_t at = 0; at < 2; ++at) {
    for (auto& lane : ends_[at].lanes) compare(at, lane);
    check_wake_up(ends_[at]);
  }
  for_all([&](Lane& lane) {
    lane.told.clear();
    lane.taken.clear();
  });
  check_events();
}

/// Those of a queue pair come in order.
void ServiceRun::compare(std::size_t at, Lane& lane) {
  if (lane.taken.size() != lane.told.size())
    return complain(std::to_string(lane.taken.size()) + " completions came to end " +
                    std::to_string(at) + " instead of " + std::to_string(lane.told.size()) +
                    (&lane == ends_[at].lanes.data() ? " of sends" : " of receives"));
  std::array<DeviceTime, links> last;
  last.fill(began_);
  auto told = lane.told;
  for (auto const& one : lane.taken) {
    std::string const what = "request " + std::to_string(one.id) + " of end " + std::to_string(at);
    auto const found =
        std::ranges::find_if(told, [&](Told const& some) { return some.id == one.id; });
    if (found == told.end()) return complain(what + " completes, and was not to, or twice");
    if (std::any_of(told.begin(), found,
                    [&](Told const& other) { return other.link == found->link; }))
      return complain(what + " completes before one that was posted earlier");
    compare_one(one, *found, what);
    if (one.success() != nullptr && clock_) check_time(one, last[found->link], what);
    if (one.success() != nullptr && found->sender) check_header(ends_[at], one, *found);
    told.erase(found);
  }
}

/// The global route header is of IPv6's form, from and to the one address of this host. Source:
/// InfiniBand Architecture Specification vol. 1, 8.3.
void ServiceRun::check_header(End& end, TimedCompletion const& one, Told const& told) {
  Link& from = links_[*told.sender];
  if (one.sender.number != from.endpoint.queue_pair_number)
    complain("a datagram names another sender");
  if (!one.sender.has_header) complain("a datagram has no header");
  auto const header = must(end.own->bytes(told.room.offset, datagram_header_bytes));
  std::memcpy(end.own_bytes.data() + told.room.offset, header.data(), header.size());
  auto const at = [&](std::size_t i) { return std::to_integer<std::size_t>(header[i]); };
  auto const message = told.bytes - datagram_header_bytes;
  auto const payload = 24 + (told.immediate ? 4 : 0) + (message + 3) / 4 * 4;
  auto const& gid = from.endpoint.gid;
  if (at(0) >> 4 != 6 || (at(4) << 8 | at(5)) != payload || at(6) != 0x1b ||
      std::memcmp(header.data() + 8, gid.data(), gid.size()) != 0 ||
      std::memcmp(header.data() + 24, gid.data(), gid.size()) != 0)
    complain("the header of a datagram is of another one");
  if (!one_in(4)) return;
  auto back = must(std::get<DatagramQueuePair>(links_[told.link].pair)
                       .destination(one.sender, header, from.endpoint.queue_key));
  if (back.number() != from.endpoint.queue_pair_number)
    complain("an answer goes to another than the sender");
  ways_.push_back({told.sender, std::move(back)});
  if (ways_.size() > 16) ways_.pop_front();
}

void ServiceRun::check_wake_up(End& end) {
  if (!program_.is_wakeable) return;
  std::array<bool, 2> wakes{};
  for (std::size_t i = 0; i < wakes.size(); ++i)
    wakes[i] = std::ranges::any_of(
        end.lanes[i].told, [&](Told const& told) { return told.wakes(end.lanes[i].armed); });
  std::array<int, 2> events{};
  auto const is_owed = [&] { return (wakes[0] && events[0] == 0) || (wakes[1] && events[1] == 0); };
  // The device's own thread, which ends what was delayed, wakes after it has published that.
  while (auto const tag = must(end.channel->next(is_owed() ? within(2s) : within(0s))))
    if (*tag < events.size()) ++events[*tag];
  bool const is_broken = std::ranges::any_of(links_, [&](Link const& link) {
    return link.is_broken && &end == &ends_[static_cast<std::size_t>(&link - links_.data()) % 2];
  });
  for (std::size_t i = 0; i < events.size(); ++i) {
    Lane& lane = end.lanes[i];
    if (wakes[i] && events[i] == 0) complain("an armed queue does not wake");
    if (events[i] > 1) complain("an armed queue wakes twice");
    // One that breaks wakes, whatever it has to flush.
    if (events[i] == 1 && !wakes[i] && !(is_broken && lane.armed))
      complain("a queue wakes for what it is not armed for");
    if (events[i] == 1) lane.armed.reset();
  }
}

void ServiceRun::check_event(DeviceEvent const& event) {
  using Kind = DeviceEvent::Kind;
  auto const link = std::ranges::find_if(links_, [&](Link& one) {
    return event.queue_pair != 0 && pair_of(one).number().value() == event.queue_pair;
  });
  auto const end = std::ranges::find_if(
      ends_, [&](End const& one) { return one.shared && one.shared->native() == event.object; });
  bool is_due = false;
  if (event.kind == Kind::receives_low && end != ends_.end())
    is_due = std::exchange(end->is_low, false);
  else if (event.kind == Kind::last_receive && link != links_.end())
    is_due = std::exchange(link->has_last_receive, false);
  else if (event.kind == Kind::access_refused || event.kind == Kind::request_refused)
    is_due = is_reliable() && link != links_.end() && link->is_broken;
  if (!is_due) complain("an event came for nothing: " + std::string{name_of(event.kind)});
}

void ServiceRun::check_events() {
  auto const are_due = [&] {
    return std::ranges::any_of(ends_, &End::is_low) ||
           std::ranges::any_of(links_, &Link::has_last_receive);
  };
  // There is none for now while the device's own thread holds the lock of a queue pair.
  for (Deadline const deadline = within(2s);;) {
    while (auto const event = must(events_->poll())) check_event(*event);
    if (!are_due() || deadline.has_passed()) break;
  }
  for (auto& end : ends_)
    if (std::exchange(end.is_low, false)) complain("few receives are left, and no event says so");
  for (auto& link : links_)
    if (std::exchange(link.has_last_receive, false))
      complain("a queue pair has taken its last receive, and no event says so");
}

void ServiceRun::check() {
  for (std::size_t at = 0; at < 2; ++at) {
    End& end = ends_[at];
    auto const name = "end " + std::to_string(at);
    check_bytes(*end.own, end.own_bytes, name + " keeps");
    check_bytes(*end.shown, end.shown_bytes, name + " shows");
  }
  for (std::size_t link = 0; link < links && violation().empty(); ++link)
    if (links_[link].is_broken && one_in(2)) connect(link);
}

}  // namespace lend::test
