// SPDX-License-Identifier: MIT OR Apache-2.0
// The rounds of latencies.
#include <tools/loops/comes.hpp>
#include <tools/loops/posters.hpp>
#include <tools/loops/receives_ahead.hpp>
#include <tools/loops/rounds.hpp>

#include <algorithm>
#include <optional>

namespace lend::tools {

namespace {

// A receive is posted before the message that it is for, by `blocking` from a scope: were it posted
// only after the blocking send, the answer might come before it, and a card retries after a pause.
Result<Durations> send_rounds(End& end, Load const& load) {
  Poster poster{end.channel, load.via};
  ReceivesAhead receives{poster, end, load};
  LEND_TRYV(receives.post());
  LEND_TRYV(end.meet());
  Stamps stamps{load.count};
  std::optional<PendingWork> departure;
  auto const send = [&]() -> Result<void> {
    auto const bytes = end.memory.gather(0, load.bytes);
    if (load.via == "blocking") return end.channel.send(bytes);
    LEND_TRY(sent, poster.send(bytes));
    departure = std::move(sent);
    return success();
  };
  for (std::uint64_t i = 0; i < load.count; ++i) {
    if (end.near) {
      stamps.take();
      LEND_TRYV(send());
    }
    LEND_TRYV(receives.take(i));
    if (!end.near) {
      LEND_TRYV(send());
    }
  }
  if (end.near) stamps.take();
  if (departure) {
    LEND_TRYV(departure->wait());
  }
  LEND_TRYV(poster.finish());
  return end.near ? stamps.durations(2) : Durations{};
}

Result<Durations> write_rounds(End& end, Load const& load) {
  Poster poster{end.channel, load.via};
  auto const last = load.bytes - 1;
  LEND_TRY(ours, end.memory.mutable_bytes(last, 1));
  LEND_TRY(theirs, end.exposed.mutable_bytes(last, 1));
  // Before both ends meet, and so before the peer writes: an earlier measurement left a turn there.
  theirs[0] = std::byte{0};
  std::byte const& arrived = theirs.front();
  auto const write = [&](std::byte turn) -> Result<void> {
    ours[0] = turn;
    Write const work{end.memory.gather(0, load.bytes), end.remote.slice(0, load.bytes)};
    if (load.via == "blocking") return end.channel.write(work);
    LEND_TRY(written, poster.write(work));
    LEND_TRYV(written.wait());
    return success();
  };
  LEND_TRYV(end.meet());
  Stamps stamps{load.count};
  for (std::uint64_t i = 1; i <= load.count; ++i) {
    auto const turn = static_cast<std::byte>(1 + i % 255);  // never 0
    if (end.near) {
      stamps.take();
      LEND_TRYV(write(turn));
    }
    if (!comes(arrived, end.one_core, [turn](std::byte byte) { return byte == turn; }))
      return Error{Errc::timed_out, "the peer has written nothing for 10 s"};
    if (!end.near) {
      LEND_TRYV(write(turn));
    }
  }
  if (end.near) stamps.take();
  return end.near ? stamps.durations(2) : Durations{};
}

Result<Durations> read_rounds(End& end, Load const& load) {
  LEND_TRYV(end.meet());
  if (!end.near) return Durations{};
  Poster poster{end.channel, load.via};
  Stamps stamps{load.count};
  for (std::uint64_t i = 0; i < load.count; ++i) {
    stamps.take();
    Read const work{end.memory.scatter(0, load.bytes), end.remote.slice(0, load.bytes)};
    if (load.via == "blocking") {
      LEND_TRYV(end.channel.read(work));
      continue;
    }
    LEND_TRY(pending, poster.read(work));
    LEND_TRYV(pending.wait());
  }
  stamps.take();
  return stamps.durations(1);
}

}  // namespace

Durations Stamps::durations(double parts) const {
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  Durations rounds;
  for (std::size_t i = 1; i < begun_.size(); ++i)
    rounds.push_back(Nanoseconds{begun_[i] - begun_[i - 1]}.count() / parts);
  std::ranges::sort(rounds);
  return rounds;
}

Result<Durations> measure_rounds(End& end, Load const& load) {
  if (load.operation == "write") return write_rounds(end, load);
  if (load.operation == "read") return read_rounds(end, load);
  return send_rounds(end, load);
}

}  // namespace lend::tools
