// SPDX-License-Identifier: MIT OR Apache-2.0
// Datagrams on any device that has them, between two processes that spin: half of a round trip, or
// a stream, whose figure is the sender's, for nothing says what arrived. `raw` is verbs without
// lend on the same queue pairs.
// Usage: datagrams latency|rate DEVICE send raw|scoped|blocking|batch BYTES COUNT
//                  [--json] [--cores one|two|any]
#include "measurement.hpp"
#include "raw_end.hpp"

#include <lend/channel/datagram_channel.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string_view>
#include <tools/loops/rounds.hpp>
#include <type_traits>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;
using namespace std::chrono_literals;
using lend::bench::End;
using tools::Durations;
using tools::Stamps;
using Clock = std::chrono::steady_clock;

// Source: perftest src/perftest_parameters.h, DEF_INLINE_SEND_UD.
constexpr std::uint32_t inline_datagram = 188;
// For datagrams that a stream has lost.
constexpr auto patience = 5s;
constexpr std::uint64_t renewed_every = 64;  // the deadline, so that the clock is no part of it

/// One end's channel, and the way to the other's.
struct Place {
  End& end;
  Measurement const& asked;
  DatagramChannel channel;
  Destination there;
  Endpoint peer;

  [[nodiscard]] GatherElement message() const { return end.memory.gather(0, asked.bytes); }
  /// Where datagram number `i` comes.
  [[nodiscard]] ScatterElement lane(std::uint64_t i) const {
    auto const length = datagram_header_bytes + asked.bytes;
    return end.memory.scatter(tools::incoming + i % asked.receives_ahead() * length, length);
  }
};

/// Its address goes to the peer by the connected channel.
Result<Place> open_place(End& end, Measurement const& asked) {
  DatagramChannelOptions options;
  options.queue_pair.inline_bytes = inline_datagram;
  options.wait = asked.cores == "one" ? Wait::adaptive : Wait::spin;
  LEND_TRY(channel, open_channel(end.channel.protection_domain(), options));
  auto const ours = channel.address().encode();
  LEND_TRY(room, end.memory.mutable_bytes(0, ours.size()));
  std::ranges::copy(ours, room.begin());
  LEND_TRYV(
      end.channel.write({end.memory.gather(0, ours.size()), end.remote.slice(0, ours.size())}));
  LEND_TRYV(end.meet());
  LEND_TRY(theirs, end.exposed.bytes(0, ours.size()));
  LEND_TRY(peer, Endpoint::decode(theirs));
  LEND_TRY(there, channel.destination(peer));
  LEND_TRYV(end.meet());
  return Place{end, asked, std::move(channel), std::move(there), peer};
}

// ---- the ways: each posts rooms, takes datagram number `i`, and sends ----

class ByVerbs {
 public:
  explicit ByVerbs(Place& place)
      : place_{place},
        raw_{place.end,
             place.channel,
             {place.there.native(), place.there.number().value(), place.peer.queue_key}} {}

  Result<void> expect(std::uint64_t i) {
    auto const range = place_.lane(i).range;
    return done(raw_.receive(range.offset, range.length));
  }
  Result<void> take(std::uint64_t i) {
    if (i % renewed_every == 0) limit_ = within(patience);
    for (std::uint32_t looks = 1; arrived_ <= i; ++looks) {
      LEND_TRYV(look());
      if (looks % 1024 == 0 && limit_.has_passed()) return Error{Errc::timed_out, "none came"};
    }
    return success();
  }
  Result<void> send() {
    while (posted_ - sent_ >= place_.channel.send_depth()) {
      LEND_TRYV(look());
    }
    ++posted_;
    return done(raw_.send(0, place_.asked.bytes));
  }
  Result<void> post() { return success(); }
  Result<void> finish() {
    while (sent_ < posted_) {
      LEND_TRYV(look());
    }
    return success();
  }

 private:
  static Result<void> done(bool is_good) {
    if (is_good) return success();
    return Error{Errc::system_failed, "a raw post or poll failed"};
  }
  Result<void> look() {
    auto const seen = raw_.poll();
    arrived_ += seen.receives;
    sent_ += seen.others;
    return done(!seen.failed);
  }

  Place& place_;
  RawEnd raw_;
  Deadline limit_ = Deadline::never();
  std::uint64_t arrived_ = 0, posted_ = 0, sent_ = 0;
};

/// By a scope, and `is_blocking` for what it sends.
template <bool is_blocking>
class ByScope {
 public:
  explicit ByScope(Place& place)
      : place_{place}, scope_{place.channel}, expected_(place.asked.receives_ahead()) {}

  Result<void> expect(std::uint64_t i) {
    LEND_TRY(room, DatagramRoom::in(place_.lane(i)));
    LEND_TRY(pending, scope_.post_receive(room));
    expected_[i % expected_.size()] = std::move(pending);
    return success();
  }
  Result<void> take(std::uint64_t i) {
    if (i % renewed_every == 0) limit_ = within(patience);
    LEND_TRYV(expected_[i % expected_.size()]->wait(limit_));
    return success();
  }
  Result<void> send() {
    if (is_blocking) return place_.channel.send(place_.message(), place_.there);
    LEND_TRYV(scope_.post_send(place_.message(), place_.there));
    return success();
  }
  Result<void> post() { return success(); }
  Result<void> finish() { return scope_.finish(); }

 protected:
  Place& place_;
  DatagramScope scope_;

 private:
  Deadline limit_ = Deadline::never();
  std::vector<std::optional<PendingDatagram>> expected_;
};

class ByBatch : public ByScope<false> {
 public:
  explicit ByBatch(Place& place) : ByScope{place}, batch_{scope_.batch()} {}
  Result<void> send() { return batch_.add_send(place_.message(), place_.there, no_handle); }
  Result<void> post() { return batch_.post(); }
  Result<void> finish() {
    LEND_TRYV(post());
    return scope_.finish();
  }

 private:
  DatagramBatch batch_;
};

// ---- what is measured ----

template <class Way>
Result<void> expect_first(Way& way, Measurement const& asked) {
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(asked.count, asked.receives_ahead()); ++i) {
    LEND_TRYV(way.expect(i));
  }
  return success();
}
/// Takes datagram number `i`, and posts its room again, if so many more come.
template <class Way>
Result<void> take(Way& way, Measurement const& asked, std::uint64_t i) {
  LEND_TRYV(way.take(i));
  if (i + asked.receives_ahead() < asked.count) return way.expect(i + asked.receives_ahead());
  return success();
}

template <class Way>
Result<double> rounds(Place& place, Measurement const& asked) {
  Way way{place};
  LEND_TRYV(expect_first(way, asked));
  LEND_TRYV(place.end.meet());
  Stamps stamps{asked.count};
  for (std::uint64_t i = 0; i < asked.count; ++i) {
    if (place.end.near) {
      stamps.take();
      LEND_TRYV(way.send());
    }
    LEND_TRYV(take(way, asked, i));
    if (!place.end.near) {
      LEND_TRYV(way.send());
    }
  }
  stamps.take();
  LEND_TRYV(way.finish());
  // The middle half, as `latency` has it.
  Durations const all = stamps.durations(2);
  if (!place.end.near) return 0.0;
  auto const quarter = static_cast<std::ptrdiff_t>(all.size() / 4);
  return std::accumulate(all.begin() + quarter, all.end() - quarter, 0.0) /
         double(all.size() - all.size() / 4 * 2) / 1e3;
}

template <class Way>
Result<double> stream(Place& place, Measurement const& asked) {
  Way way{place};
  if (!place.end.near) {
    LEND_TRYV(expect_first(way, asked));
  }
  LEND_TRYV(place.end.meet());
  auto const started = Clock::now();
  auto const together = std::max(1u, asked.receives_ahead() / 8);  // as perftest -l 16
  for (std::uint64_t i = 0; i < asked.count; ++i) {
    if (!place.end.near) {
      auto const taken = take(way, asked, i);
      if (taken) continue;
      if (taken.error().code() != Errc::timed_out) return taken.error();
      std::fprintf(stderr, "%llu of %llu datagrams came\n", static_cast<unsigned long long>(i),
                   static_cast<unsigned long long>(asked.count));
      break;
    }
    LEND_TRYV(way.send());
    if ((i + 1) % together == 0) {
      LEND_TRYV(way.post());
    }
  }
  LEND_TRYV(way.finish());
  return std::chrono::duration<double, std::micro>{Clock::now() - started}.count() /
         double(asked.count);
}

template <bool is_stream>
Result<double> measure(Place& place, Measurement const& asked) {
  auto const by = [&]<class Way>(std::type_identity<Way>) {
    return is_stream ? stream<Way>(place, asked) : rounds<Way>(place, asked);
  };
  if (asked.via == "raw") return by(std::type_identity<ByVerbs>{});
  if (asked.via == "blocking") return by(std::type_identity<ByScope<true>>{});
  if (asked.via == "batch") return by(std::type_identity<ByBatch>{});
  return by(std::type_identity<ByScope<false>>{});
}

template <bool is_stream>
Result<void> run(Measurement const& asked) {
  double middle_us = 0;
  LEND_TRYV(
      asked.run(std::as_writable_bytes(std::span{&middle_us, 1}), [&](End& end) -> Result<void> {
        auto warm_up = asked;
        warm_up.count = asked.count / 10 + 1;
        for (auto const& load : {warm_up, asked}) {
          LEND_TRY(place, open_place(end, load));
          LEND_TRY(measured, measure<is_stream>(place, load));
          LEND_TRYV(end.meet());
          middle_us = measured;
        }
        return success();
      }));
  if (asked.json)
    std::printf("{%s, \"datagram_us\": %.4f}\n", asked.json_head().c_str(), middle_us);
  else
    std::printf("%.3f us\n", middle_us);
  return success();
}

}  // namespace

int main(int count, char** words) {
  std::span const all{words, static_cast<std::size_t>(count)};
  bool const is_stream = count > 1 && std::string_view{words[1]} == "rate";
  if (!is_stream && (count < 2 || std::string_view{words[1]} != "latency"))
    return std::fputs("datagrams latency|rate DEVICE send …\n", stderr), 2;
  return measure_by_command(all.subspan(1), is_stream ? "datagrams rate" : "datagrams latency",
                            {"raw", "scoped", "blocking", "batch"}, "COUNT",
                            is_stream ? run<true> : run<false>);
}
