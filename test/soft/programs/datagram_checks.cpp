// SPDX-License-Identifier: MIT OR Apache-2.0
// What must be so between two steps of a program of datagrams. One thread.
#include <algorithm>

#include "soft/programs/datagram_run.hpp"
#include "soft/programs/model.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

DatagramRun::Before DatagramRun::before(std::size_t end, bool is_room) {
  return {.accepted = spy_.works().size(),
          .polls_failed = spy_.polls_failed,
          .flushes_refused = spy_.flushes_refused,
          .was_broken = is_broken(end),
          .had_room = has_room(end, is_room)};
}

/// A recall posts the rooms of other scopes again, by the same id.
Accepted& DatagramRun::device_side(Post& post) {
  auto& works = spy_.works();
  for (auto i = works.size(); i-- > post.accepted + 1;)
    if (works[i].id == post.id && works[i].queue_pair == ends_[post.end].number) {
      post.accepted = i;
      break;
    }
  return works[post.accepted];
}

bool DatagramRun::has_loans(Post& post) {
  return is_in_progress(post) && !device_side(post).is_copied;
}

bool DatagramRun::is_broken(std::size_t end) const {
  return !ends_[end].is_gone && ends_[end].channel->first_cause() != nullptr;
}

std::uint32_t DatagramRun::slots_taken(std::size_t end) {
  return static_cast<std::uint32_t>(std::ranges::count_if(posts_, [&](Post& post) {
    return post.end == end && (is_in_progress(post) || (post.held && !post.told && !post.is_stale));
  }));
}

bool DatagramRun::has_room(std::size_t end, bool is_room) {
  auto const outstanding = std::ranges::count_if(posts_, [&](Post& post) {
    return post.end == end && post.is_room == is_room && is_in_progress(post);
  });
  auto const depth = is_room ? program_.receive_depth : program_.send_depth;
  return outstanding < depth && slots_taken(end) < program_.slots();
}

bool DatagramRun::meets_a_loan(std::size_t region, ByteRange bytes, bool exclusively) {
  return std::ranges::any_of(posts_, [&](Post& post) {
    return post.region == region && has_loans(post) && (exclusively || post.is_room) &&
           overlap(post.bytes, bytes);
  });
}

std::vector<std::size_t> DatagramRun::rooms_of_others(std::size_t scope) {
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < posts_.size(); ++i)
    if (posts_[i].end == scopes_[scope].end && posts_[i].scope != scope && posts_[i].is_room &&
        is_in_progress(posts_[i]))
      others.push_back(i);
  return others;
}

void DatagramRun::note_recall(std::size_t scope, std::vector<std::size_t> const& others) {
  for (auto& post : posts_) {
    if (post.scope != scope || !post.is_room) continue;
    if (is_in_progress(post)) complain("a room is posted still after its recall");
    if (device_side(post).has_failed()) post.is_stale = true;
  }
  if (ends_[scopes_[scope].end].is_gone || is_broken(scopes_[scope].end)) return;
  for (auto const index : others) {
    Post& other = posts_[index];
    if (!is_in_progress(other) && !device_side(other).has_succeeded())
      complain("a recall has lost a room of another scope");
  }
}

bool DatagramRun::note_end(std::size_t scope, std::vector<std::size_t> const& others) {
  auto const end = scopes_[scope].end;
  scopes_[scope].has_ended = true;
  scopes_[scope].scope = nullptr;
  for (auto& post : posts_)
    if (post.scope == scope && is_in_progress(post)) complain("work outlives its scope");
  if (!ends_[end].is_gone && !is_broken(end)) note_recall(scope, others);
  bool const has_failed = std::ranges::any_of(posts_, [&](Post& post) {
    return post.scope == scope && !post.told && !post.is_stale && device_side(post).has_failed();
  });
  for (auto& post : posts_)
    if (post.scope == scope) post.is_stale = true;
  return has_failed;
}

void DatagramRun::note_finish(std::size_t scope, std::vector<std::size_t> const& others,
                              Result<void> const& result, Before const& before) {
  auto const end = scopes_[scope].end;
  bool const has_failed = note_end(scope, others);
  if (result.has_value()) {
    if (has_failed) complain("a scope whose work failed ended well");
    if (ends_[end].is_gone) complain("a scope ended well although its channel is gone");
    return;
  }
  auto const& error = result.error();
  bool const by_end = error == Errc::stale_handle && ends_[end].is_gone;
  bool const by_work = error == Errc::work_failed && has_failed;
  bool const by_queue =
      error == Errc::system_failed &&
      (spy_.polls_failed > before.polls_failed || spy_.flushes_refused > before.flushes_refused);
  if (!by_end && !by_work && !by_queue)
    complain("a scope failed for no reason that there is: " + error.message());
}

void DatagramRun::check() {
  for (std::size_t index = 0; index < regions_.size(); ++index) {
    if (!regions_[index]) continue;
    auto const loans = static_cast<std::size_t>(std::ranges::count_if(
        posts_, [&](Post& post) { return post.region == index && has_loans(post); }));
    if (regions_[index]->loans() != loans)
      complain("a region has " + std::to_string(regions_[index]->loans()) + " loans where " +
               std::to_string(loans) + " pieces of it are in progress");
    for (auto const& post : posts_) {
      if (post.region != index || post.bytes.length == 0) continue;
      bool const may_write = !meets_a_loan(index, post.bytes, true);
      if (regions_[index]->mutable_bytes(post.bytes.offset, post.bytes.length).has_value() !=
          may_write)
        complain(may_write ? "bytes on no loan cannot be written" : "bytes are given back early");
    }
  }
  for (std::size_t end = 0; end < ends_.size(); ++end)
    if (!ends_[end].is_gone) check_cause(end);
}

void DatagramRun::check_cause(std::size_t index) {
  End& end = ends_[index];
  Error const* const cause = end.channel->first_cause();
  // What a recall flushes is no failure.
  auto const root = std::ranges::find_if(posts_, [&](Post& post) {
    auto const& work = device_side(post);
    return post.end == index && work.has_failed() && work.status != IBV_WC_WR_FLUSH_ERR;
  });
  if (cause == nullptr) {
    if (root != posts_.end()) complain("work has failed, and the channel knows of no cause");
    return;
  }
  bool const may_break = !program_.faults.empty() || spy_.polls_failed + spy_.flushes_refused > 0;
  if (!may_break) complain("a channel is broken, and nothing went wrong: " + cause->message());
  if (cause->work() != nullptr && *cause != Errc::device_event && root == posts_.end() &&
      cause->work()->status != WorkStatus::flushed)
    complain("the first cause is work that has not failed: " + cause->message());
  if (end.first_cause && *end.first_cause != cause->message() && !is_flush(*cause) &&
      is_lends_own(*cause))
    complain("the first cause has changed to " + cause->message());
  end.first_cause = cause->message();
}

}  // namespace lend::test
