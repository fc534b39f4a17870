// SPDX-License-Identifier: MIT OR Apache-2.0
// Holding what a program was told against what the spy has seen. One program at a time, one thread.
#include "soft/programs/model.hpp"

#include <algorithm>
#include <array>

#include "soft/programs/program_run.hpp"

namespace lend::test {

namespace {

/// Failed work; of a pool's receive there is no post.
struct Failed {
  Accepted const* work = nullptr;
  Posted const* post = nullptr;
};

bool tells_of(Error const& error, Failed const& failed) noexcept {
  if (failed.post != nullptr) return tells_of(error, *failed.post, *failed.work);
  return error == Errc::work_failed && error.work() != nullptr &&
         error.work()->operation == Operation::receive &&
         error.work()->queue_pair_number == failed.work->queue_pair &&
         error.work()->status == static_cast<WorkStatus>(failed.work->status);
}

}  // namespace

std::uint32_t Model::slots_taken(std::size_t end) noexcept {
  return static_cast<std::uint32_t>(std::ranges::count_if(posts, [&](Posted const& post) {
    return post.end == end && (is_in_progress(post) || (post.held && !post.told && !post.retired));
  }));
}

bool Model::is_hoarded(std::size_t end) noexcept {
  return slots_taken(end) == program_.slots() &&
         std::ranges::none_of(posts, [&](Posted const& post) {
           return post.end == end && is_in_progress(post) && !post.held;
         });
}

bool Model::has_room(std::size_t end, Operation operation) noexcept {
  bool const receives = operation == Operation::receive;
  auto const outstanding = std::ranges::count_if(posts, [&](Posted const& post) {
    return post.end == end && is_in_progress(post) &&
           (post.operation == Operation::receive) == receives;
  });
  auto const depth = receives ? program_.receive_depth : program_.send_depth;
  return outstanding < depth && slots_taken(end) < program_.slots();
}

bool Model::has_work_in_progress(std::size_t scope) noexcept {
  return std::ranges::any_of(
      posts, [&](Posted const& post) { return post.scope == scope && is_in_progress(post); });
}

bool Model::has_receives_in_progress(std::size_t scope) noexcept {
  return std::ranges::any_of(posts, [&](Posted const& post) {
    return post.scope == scope && post.operation == Operation::receive && is_in_progress(post);
  });
}

bool Model::meets_a_loan(std::vector<Range> const& ranges, bool exclusively) noexcept {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    auto const meets = [&](Range const& other, bool other_is_exclusive) {
      return (exclusively || other_is_exclusive) && other.region == ranges[i].region &&
             overlap(other.bytes, ranges[i].bytes);
    };
    for (std::size_t j = 0; j < i; ++j)
      if (meets(ranges[j], exclusively)) return true;
    for (auto const& post : posts) {
      if (!has_loans(post)) continue;
      for (auto const& range : post.ranges)
        if (meets(range, writes_here(post.operation))) return true;
    }
    if (!pool) continue;
    for (auto const& loan : pool->loans())
      if (meets({region_of_pool, loan.bytes}, loan.is_exclusive)) return true;
  }
  return false;
}

bool Model::is_lent_by_work(Range const& range) noexcept {
  return std::ranges::any_of(posts, [&](Posted const& post) {
    return has_loans(post) && std::ranges::any_of(post.ranges, [&](Range const& other) {
             return other.region == range.region && overlap(other.bytes, range.bytes);
           });
  });
}

void Model::check() {
  check_loans();
  for (std::size_t end = 0; end < ends.size(); ++end) {
    if (ends[end].is_gone) continue;
    check_first_cause(end);
    check_failures_without_scope(end);
    if (story_.violation().empty() && spy_.violation().empty()) check_metrics(end);
  }
}

void Model::check_metrics(std::size_t end) {
  ChannelMetrics const* const metrics = ends[end].channel->metrics();
  if (metrics == nullptr) return;
  std::array<std::uint64_t, 5> posted{};
  std::array<std::uint64_t, 5> in_progress{};
  std::array<std::uint64_t, 5> failed{};
  for (auto const& post : posts) {
    if (post.end != end) continue;
    auto const at = static_cast<std::size_t>(post.operation);
    ++posted[at];
    if (is_in_progress(post)) ++in_progress[at];
    if (device_side(post).has_failed()) ++failed[at];
  }
  // Messages of a pool count as received, without a latency.
  auto const pooled =
      static_cast<std::uint64_t>(std::ranges::count_if(spy_.pooled(), [&](Accepted const& work) {
        return work.queue_pair == ends[end].queue_pair && !work.has_failed();
      }));
  posted[static_cast<std::size_t>(Operation::receive)] += pooled;
  for (std::size_t at = 0; at < posted.size(); ++at) {
    OperationMetrics const& counted = metrics->operations[at];
    auto const ended = counted.completed + counted.failed + counted.flushed;
    if (counted.posted == posted[at] && counted.posted == ended + in_progress[at] &&
        counted.failed + counted.flushed == failed[at] &&
        counted.latency.count() +
                (at == static_cast<std::size_t>(Operation::receive) ? pooled : 0) ==
            counted.completed)
      continue;
    complain("of " + std::to_string(posted[at]) + ' ' +
             std::string{name_of(static_cast<Operation>(at))} + "s, of which " +
             std::to_string(in_progress[at]) + " are in progress and " +
             std::to_string(failed[at]) + " failed, the metrics count " +
             std::to_string(counted.posted) + " posted, " + std::to_string(counted.completed) +
             " completed, " + std::to_string(counted.failed) + " failed, " +
             std::to_string(counted.flushed) + " flushed");
  }
}

void Model::check_loans() {
  int registered = regions_beside;
  for (std::size_t index = 0; index < regions.size(); ++index) {
    std::size_t loans = 0;
    for (auto const& post : posts) {
      if (!has_loans(post)) continue;
      for (auto const& range : post.ranges) {
        if (range.region != index) continue;
        ++loans;
        if (regions[index]) check_bytes(*regions[index], index, range.bytes);
      }
    }
    if (pool && index == region_of_pool) {
      for (auto const& loan : pool->loans()) {
        ++loans;
        if (regions[index]) check_bytes(*regions[index], index, loan.bytes);
      }
    }
    if (regions[index] && regions[index]->loans() != loans)
      complain("a region has " + std::to_string(regions[index]->loans()) + " loans where " +
               std::to_string(loans) + " pieces of it are in progress");
    if (regions[index] || loans > 0) ++registered;
    // Somewhere else each time: most of it is on no loan.
    probe_ = (probe_ + 13) % (region_bytes - 7);
    if (regions[index]) check_bytes(*regions[index], index, {probe_, 7});
  }
  if (spy_.regions != registered)
    complain(std::to_string(spy_.regions) + " regions are registered, " +
             std::to_string(registered) + " are used");
}

void Model::check_bytes(MemoryRegion& region, std::size_t index, ByteRange bytes) {
  bool const may_read = !meets_a_loan({{index, bytes}}, false);
  bool const may_write = !meets_a_loan({{index, bytes}}, true);
  if (region.bytes(bytes.offset, bytes.length).has_value() != may_read)
    complain(may_read ? "bytes that nobody writes cannot be read" : "bytes are given back early");
  if (region.mutable_bytes(bytes.offset, bytes.length).has_value() != may_write)
    complain(may_write ? "bytes on no loan cannot be written" : "bytes are given back early");
}

void Model::check_first_cause(std::size_t index) {
  End& end = ends[index];
  Failed first;
  Failed root;
  auto const consider = [&](Accepted const& work, Posted const* post) {
    if (!work.has_failed()) return;
    auto const sooner_than = [&](Failed const& other) {
      return other.work == nullptr || work.seen_at < other.work->seen_at;
    };
    if (sooner_than(first)) first = {&work, post};
    bool const is_root = work.status != IBV_WC_WR_FLUSH_ERR;
    if (is_root && sooner_than(root)) root = {&work, post};
  };
  for (auto const& post : posts)
    if (post.end == index) consider(device_side(post), &post);
  for (auto const& work : spy_.pooled())
    if (work.queue_pair == end.queue_pair) consider(work, nullptr);
  Error const* const cause = end.channel->first_cause();
  if (cause == nullptr) {
    if (first.work != nullptr) complain("work has failed, and the channel knows of no cause");
    return;
  }
  if (is_lends_own(*cause) && root.work != nullptr)
    complain("the first cause is lend's own, and work has failed by itself");
  bool const is_event = *cause == Errc::device_event;
  if (is_event && !spy_.has_reported(end.queue_pair))
    complain("the first cause is an event that the device did not report: " + cause->message());
  if (cause->work() != nullptr && !is_event) {
    Failed const& expected = root.work != nullptr ? root : first;
    if (expected.work == nullptr)
      complain("the first cause is work that has not failed");
    else if (expected.work->state == Accepted::State::completed && !tells_of(*cause, expected))
      complain("the first cause is another than the first failure seen: " + cause->message());
  }
  // A flush says nothing of the reason, nor does lend's for one that comes later, such as an event,
  // or work that ends after a set has begun the abort; any other cause stays.
  bool const may_change = end.first_cause && !is_lends_own(*cause) &&
                          (is_flush(*end.first_cause) ||
                           ((is_event || program_.is_in_set) && is_lends_own(*end.first_cause)));
  if (end.first_cause && !may_change && end.first_cause->message() != cause->message())
    complain("the first cause has changed to " + cause->message());
  end.first_cause = *cause;
}

void Model::check_failures_without_scope(std::size_t index) {
  std::vector<Posted*> failures;
  for (auto& post : posts)
    if (post.end == index && !post.lends && !post.held && !post.told &&
        device_side(post).has_failed())
      failures.push_back(&post);
  check_told(ends[index].channel->last_failures(), failures, std::nullopt);
}

}  // namespace lend::test
