// SPDX-License-Identifier: MIT OR Apache-2.0
// The streams of bandwidths.
#include <tools/loops/credits.hpp>
#include <tools/loops/posters.hpp>
#include <tools/loops/receives_ahead.hpp>
#include <tools/loops/stream.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace lend::tools {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::uint32_t unsafe_ahead = 64;

/// The end that only receives.
template <class Way>
Result<Seconds> take_messages(End& end, Load const& load) {
  Way poster{end.channel, load.via};
  auto const together = load.receives_ahead() / 2;  // of a batch
  ReceivesAhead receives{poster, end, load};
  CreditsGiven credits{poster, end, load};
  LEND_TRYV(receives.post());
  LEND_TRYV(poster.post());  // else messages came before their receives, as below
  LEND_TRYV(end.meet());
  for (std::uint64_t i = 0; i < load.count; ++i) {
    LEND_TRYV(receives.take(i));
    if ((i + 1) % together == 0 || i + receives.count() + 1 == load.count) {
      LEND_TRYV(poster.post());
    }
    if ((i + 1) % together == 0) {
      LEND_TRYV(credits.give());
    }
  }
  return Seconds{};
}

template <class Way>
Result<Seconds> post_messages(End& end, Load const& load) {
  LEND_TRY(credits, CreditsTaken::begin(end, load));
  LEND_TRYV(end.meet());
  auto const started = Clock::now();
  Way poster{end.channel, load.via};
  // Handles are asked in turn where nothing else does (unsafe), or where the bytes must be back.
  auto const ahead = load.operation == "read" ? load.receives_ahead() : unsafe_ahead;
  auto const together = load.receives_ahead() / 2;  // of a batch: more would find no receives
  bool const asks = load.operation == "read" || load.via == "unsafe";
  std::vector<std::optional<PendingWork>> under_way(asks ? ahead : 0);
  for (std::uint64_t i = 0; i < load.count; ++i) {
    auto const target = end.remote.slice(0, load.bytes);
    if (asks && under_way[i % ahead]) {
      LEND_TRYV(under_way[i % ahead]->wait());
    }
    if (load.operation == "send") {
      LEND_TRYV(credits.await(i));
    }
    auto posted = load.operation == "send" ? poster.send(end.memory.gather(0, load.bytes))
                  : load.operation == "write"
                      ? poster.write({end.memory.gather(0, load.bytes), target})
                      : poster.read({end.memory.scatter(load.lane(i), load.bytes), target});
    LEND_TRY(work, std::move(posted));
    if (asks) under_way[i % ahead] = std::move(work);
    if (load.operation == "send" && (i + 1) % together == 0) {
      LEND_TRYV(poster.post());
    }
  }
  for (auto& work : under_way) {
    if (!work) continue;
    LEND_TRYV(work->wait());
  }
  LEND_TRYV(poster.finish());
  return Seconds{Clock::now() - started};
}

}  // namespace

Result<Seconds> measure_stream(End& end, Load const& load) {
  bool const is_batch = load.via == "batch";
  if (end.near) return (is_batch ? post_messages<BatchPoster> : post_messages<Poster>)(end, load);
  if (load.operation == "send")
    return (is_batch ? take_messages<BatchPoster> : take_messages<Poster>)(end, load);
  LEND_TRYV(end.meet());
  return Seconds{};
}

}  // namespace lend::tools
