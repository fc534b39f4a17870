// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens inside scopes of datagrams: posts, batches, handles and destinations. One thread.
#include <algorithm>
#include <utility>

#include "soft/programs/datagram_run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

namespace {

Deadline deadline_of(std::uint32_t number, Cancellation const& cancelled) {
  if (number % 8 == 0) return within(10s).unless(cancelled);
  return within(std::chrono::microseconds{number / 8 % 4 * 60});
}

ByteRange message_range(Step const& step, bool is_room) {
  std::size_t const offset = step.numbers[4] % (512 - 64);
  if (is_room) return {offset, datagram_header_bytes + 1 + step.numbers[5] / 8 % 24};
  return {offset, step.numbers[5] / 8 % 9 == 0 ? 0 : 1 + step.numbers[5] / 128 % 16};
}

Send send_of(GatherElement element, Step const& step) {
  Send work{element};
  if (step.numbers[5] % 4 == 0) work.immediate = step.numbers[5];
  return work;
}

}  // namespace

DatagramRun::Way const* DatagramRun::chosen_way(std::size_t from, std::uint32_t number) {
  std::vector<Way const*> ways;
  for (auto const& way : ways_)
    if (way.from == from) ways.push_back(&way);
  return ways.empty() ? nullptr : ways[number % ways.size()];
}

void DatagramRun::note(std::size_t scope, bool is_room, std::size_t region, ByteRange bytes,
                       bool held) {
  auto const& work = spy_.works().back();
  if (work.queue_pair != ends_[scopes_[scope].end].number || work.is_receive != is_room)
    complain("another request was posted than was asked for");
  posts_.push_back({.end = scopes_[scope].end,
                    .scope = scope,
                    .is_room = is_room,
                    .region = region,
                    .bytes = bytes,
                    .id = work.id,
                    .accepted = spy_.works().size() - 1,
                    .held = held});
}

void DatagramRun::check_refusal(Error const& error, Before const& before, std::size_t scope,
                                bool is_room, std::size_t region, ByteRange bytes, bool waits) {
  auto const end = scopes_[scope].end;
  bool const is_over = scopes_[scope].has_ended || ends_[end].is_gone;
  bool const is_so = [&] {
    switch (error.code()) {
      case Errc::stale_handle: return is_over;
      case Errc::channel_broken: return is_broken(end);
      case Errc::already_borrowed: return meets_a_loan(region, bytes, is_room);
      case Errc::queue_full: return !before.had_room;
      case Errc::timed_out:
      case Errc::cancelled: return waits && !before.had_room;
      case Errc::system_failed: return spy_.polls_failed > before.polls_failed;
      default: return false;
    }
  }();
  if (!is_so) complain("a post was refused for no reason that there is: " + error.message());
  if (spy_.works().size() != before.accepted)
    complain("a post was refused, and was posted all the same");
}

void DatagramRun::post(Step const& step) {
  auto const chosen = chosen_scope(step);
  if (!chosen) return;
  auto const scope = *chosen;
  auto const end = scopes_[scope].end;
  bool const is_room = step.numbers[2] % 2 == 0;
  bool const waits = step.numbers[1] % 2 == 0;
  auto const region = step.numbers[3] % 2;
  auto const* const way = chosen_way(end, step.numbers[3] / 2);
  if (!regions_[region] || (!is_room && way == nullptr) || scopes_[scope].has_ended) return;
  auto const bytes = message_range(step, is_room);
  auto const state = before(end, is_room);
  bool const meets = meets_a_loan(region, bytes, is_room);
  auto const deadline = deadline_of(step.numbers[1] / 2, cancelled_);
  auto& datagrams = *scopes_[scope].scope;
  auto const keep = [&](auto result) {
    tell(std::string{waits ? "post " : "try to post "} + (is_room ? "a room" : "a datagram") +
         " in scope " + std::to_string(scope) + ": " + words_of(result));
    if (!result.has_value()) {
      check_refusal(result.error(), state, scope, is_room, region, bytes, waits);
      if (state.had_room && !state.was_broken && !ends_[end].is_gone && !meets)
        complain("a post was refused though nothing is in its way");
      return;
    }
    // One that found no room has polled.
    if (state.was_broken || ends_[end].is_gone || meets_a_loan(region, bytes, is_room))
      complain("a post was accepted that could not be");
    if (spy_.works().size() != state.accepted + 1)
      return complain("a post was answered with a handle and was not posted once");
    note(scope, is_room, region, bytes, true);
    handles_.push_back({std::move(result).value(), posts_.size() - 1, {}});
  };
  if (is_room) {
    auto const room = must(DatagramRoom::in(regions_[region]->scatter(bytes.offset, bytes.length)));
    return keep(waits ? datagrams.post_receive(room, deadline) : datagrams.try_post_receive(room));
  }
  auto const work = send_of(regions_[region]->gather(bytes.offset, bytes.length), step);
  keep(waits ? datagrams.post_send(work, way->to, deadline)
             : datagrams.try_post_send(work, way->to));
}

/// Of sends alone. Its destinations go before it is posted.
void DatagramRun::batch(Step const& step) {
  auto const chosen = chosen_scope(step);
  if (!chosen || scopes_[*chosen].has_ended) return;
  auto const scope = *chosen;
  auto const end = scopes_[scope].end;
  struct Item {
    std::size_t region;
    ByteRange bytes;
    PendingWork work;
    bool is_posted = false;
  };
  std::list<Item> items;
  auto at = spy_.works().size();
  auto const note_new = [&] {
    for (; at < spy_.works().size(); ++at) {
      auto const item = std::ranges::find(items, false, &Item::is_posted);
      // A recall may post rooms again meanwhile.
      if (spy_.works()[at].is_receive) continue;
      if (item == items.end()) return complain("a batch posted what nobody added");
      if (spy_.works()[at].id != item->work.id())
        complain("a batch posted in another order than was added");
      item->is_posted = true;
      posts_.push_back({.end = end,
                        .scope = scope,
                        .region = item->region,
                        .bytes = item->bytes,
                        .id = item->work.id(),
                        .accepted = at});
      handles_.push_back({std::move(item->work), posts_.size() - 1, {}});
    }
  };
  bool const is_dropped = step.numbers[1] % 8 == 0;
  try {
    auto batch = scopes_[scope].scope->batch();
    for (std::uint32_t i = 0; i < 1 + step.numbers[1] / 8 % 6; ++i) {
      Step one = step;
      for (auto& number : one.numbers) number = (number * (2 * i + 1) + i * 7919) % (1u << 16);
      auto const region = one.numbers[3] % 2;
      auto const* const way = chosen_way(end, one.numbers[3] / 2);
      if (!regions_[region] || way == nullptr) continue;
      auto const bytes = message_range(one, false);
      std::optional<Destination> brief{way->to};
      auto const polls_failed = spy_.polls_failed;
      auto added =
          batch.add_send(send_of(regions_[region]->gather(bytes.offset, bytes.length), one), *brief,
                         deadline_of(one.numbers[1] / 2, cancelled_));
      tell("  add: " + words_of(added));
      note_new();
      if (added.has_value()) {
        items.push_back({region, bytes, std::move(added).value()});
        continue;
      }
      auto const& error = added.error();
      bool const is_so = error == Errc::stale_handle       ? ends_[end].is_gone
                         : error == Errc::channel_broken   ? is_broken(end)
                         : error == Errc::already_borrowed ? meets_a_loan(region, bytes, false)
                         : error == Errc::system_failed    ? spy_.polls_failed > polls_failed
                                                           : error != Errc::invalid_argument;
      if (!is_so) complain("a datagram was not added for no reason: " + error.message());
    }
    if (is_dropped) throw Left{};
    auto const posted = batch.post(within(10s));
    note_new();
    tell("  post the batch: " + words_of(posted));
    bool const is_all = std::ranges::find(items, false, &Item::is_posted) == items.end();
    if (posted.has_value() && !is_all && !is_broken(end))
      complain("a batch was posted, and the device has not all of it");
    if (!posted.has_value() && !is_broken(end) && !ends_[end].is_gone &&
        posted.error() != Errc::system_failed)
      complain("a batch was not posted for no reason: " + posted.error().message());
  } catch (Left const&) {
    tell("  the batch is left by an exception");
  }
  note_new();
  for (auto& item : items)
    if (!item.is_posted && item.work.poll().has_value())
      complain("a handle has no failure of work that is not posted");
}

void DatagramRun::block(Step const& step) {
  auto const end = step.numbers[0] % ends_.size();
  bool const is_room = step.numbers[2] % 2 == 0;
  auto const region = step.numbers[3] % 2;
  auto const* const way = chosen_way(end, step.numbers[3] / 2);
  if (ends_[end].is_gone || !regions_[region] || (!is_room && way == nullptr)) return;
  auto const bytes = message_range(step, is_room);
  auto const state = before(end, is_room);
  auto& channel = *ends_[end].channel;
  auto const deadline = deadline_of(step.numbers[1], cancelled_);
  auto const scope = scopes_.size();
  scopes_.push_back({end, nullptr});  // that of the call
  auto const others = rooms_of_others(scope);
  auto const answer = [&]() -> Answer {
    if (is_room) {
      auto const element = regions_[region]->scatter(bytes.offset, bytes.length);
      return in_words(channel.receive(must(DatagramRoom::in(element)), deadline));
    }
    auto const work = send_of(regions_[region]->gather(bytes.offset, bytes.length), step);
    auto const sent = channel.send(work, way->to, deadline);
    if (!sent.has_value()) return sent.error();
    return std::optional{told(WorkSuccess{Operation::send, bytes.length, {}, {}})};
  }();
  tell(std::string{is_room ? "receive" : "send"} + " on end " + std::to_string(end) + ": " +
       words_of(answer));
  auto const posted = std::find_if(
      spy_.works().begin() + static_cast<std::ptrdiff_t>(state.accepted), spy_.works().end(),
      [&](Accepted const& work) {
        return work.queue_pair == ends_[end].number && work.is_receive == is_room &&
               std::ranges::none_of(
                   posts_, [&](Post const& post) { return post.end == end && post.id == work.id; });
      });
  if (posted == spy_.works().end()) {
    if (answer.has_value()) return complain("a call succeeded and posted nothing");
    bool const is_so = answer.error() == Errc::already_borrowed
                           ? meets_a_loan(region, bytes, is_room)
                       : answer.error() == Errc::channel_broken ? is_broken(end)
                       : answer.error() == Errc::system_failed
                           ? spy_.polls_failed > state.polls_failed
                           : answer.error() != Errc::invalid_argument && !state.had_room;
    if (!is_so) complain("a call was refused for no reason: " + answer.error().message());
    return;
  }
  posts_.push_back({.end = end,
                    .scope = scope,
                    .is_room = is_room,
                    .region = region,
                    .bytes = bytes,
                    .id = posted->id,
                    .accepted = static_cast<std::size_t>(posted - spy_.works().begin()),
                    .held = false,
                    .told = true,
                    .is_stale = true});
  scopes_[scope].has_ended = true;
  Post& own = posts_.back();
  if (is_in_progress(own)) return complain("a call returned with its work in progress");
  if (!is_broken(end)) note_recall(scope, others);
  if (answer.has_value() != device_side(own).has_succeeded())
    return complain("a call does not say how its work ended");
  if (answer.has_value()) {
    if (*answer.value() != expected_of(own)) complain("a call has the success of other work");
    return;
  }
  auto const& error = answer.error();
  bool const by_time = is_room && (error == Errc::timed_out || error == Errc::cancelled);
  bool const by_queue = error == Errc::system_failed && spy_.polls_failed > state.polls_failed;
  if (!by_time && !by_queue && !is_broken(end))
    complain("a call failed, and its channel works: " + error.message());
}

std::string DatagramRun::expected_of(Post& post) {
  Accepted const& work = device_side(post);
  if (!post.is_room) return told(WorkSuccess{Operation::send, post.bytes.length, {}, {}});
  ReceivedDatagram datagram;
  datagram.message = {nullptr, {post.bytes.offset + datagram_header_bytes, work.content.size()}};
  datagram.immediate = work.immediate;
  datagram.sender.number = QueuePairNumber::truncated(work.source);
  datagram.sender.has_header = work.has_header;
  datagram.header = work.header;
  return told(datagram);
}

void DatagramRun::ask(Step const& step, bool waits) {
  if (handles_.empty()) return;
  auto const at = chosen_of(handles_, step.numbers[0]);
  auto const polls_failed = spy_.polls_failed;
  auto const deadline = deadline_of(step.numbers[1], cancelled_);
  auto const answer = std::visit(
      [&](auto& work) { return waits ? in_words(work.wait(deadline)) : in_words(work.poll()); },
      at->work);
  tell(std::string{waits ? "wait for" : "poll"} + " work " + std::to_string(at->post) + ": " +
       words_of(answer));
  Post& post = posts_[at->post];
  bool const is_stale = ends_[post.end].is_gone || post.is_stale;
  if (!is_result(answer, device_side(post), at->told, is_stale, waits, polls_failed)) return;
  post.told = true;
  if (answer.has_value() && *answer.value() != expected_of(post))
    complain("a handle has the success of other work: " + *answer.value() + " instead of " +
             expected_of(post));
}

void DatagramRun::drop(Step const& step) {
  if (handles_.empty()) return;
  auto const at = chosen_of(handles_, step.numbers[0]);
  tell("drop work " + std::to_string(at->post));
  posts_[at->post].held = false;
  handles_.erase(at);
}

/// One destination goes, whatever is under way to it, and one comes.
void DatagramRun::renew_destination(Step const& step) {
  auto const from = step.numbers[0] % ends_.size();
  auto const to = step.numbers[1] % ends_.size();
  if (!ways_.empty() && step.numbers[2] % 2 == 0) {
    ways_.erase(chosen_of(ways_, step.numbers[3]));
    tell("a destination goes");
  }
  if (ends_[from].is_gone || ends_[to].is_gone || ways_.size() > 12) return;
  auto destination = ends_[from].channel->destination(ends_[to].channel->address());
  if (destination.has_value()) {
    ways_.push_back({from, std::move(destination).value()});
    tell("a destination comes");
  } else if (!is_broken(from)) {
    complain("there is no destination, for no reason: " + destination.error().message());
  }
}

}  // namespace lend::test
