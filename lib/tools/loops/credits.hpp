// SPDX-License-Identifier: MIT OR Apache-2.0
// Credits of a stream of sends, for devices where no message waits for its receive: the receiving
// end counts half windows of posted receives in a byte that it writes to the sending end. A count
// that the sending end needs no more is not written, so that none is late. One thread.
#pragma once

#include <lend/base/error.hpp>

#include <tools/loops/comes.hpp>
#include <tools/loops/end.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace lend::tools {

/// At the end that sends.
class CreditsTaken {
 public:
  /// Before both ends meet.
  [[nodiscard]] static Result<CreditsTaken> begin(End& end, Load const& load) {
    LEND_TRY(count, end.exposed.mutable_bytes(0, 1));
    count[0] = std::byte{0};
    return CreditsTaken{count.front(), end, load};
  }
  /// Waits until message `i` has a receive.
  /// Errors:  timed_out  the peer gave no credit for 10 s.
  [[nodiscard]] Result<void> await(std::uint64_t i) {
    if (i < messages_) return success();
    auto given = seen_;
    auto const differs = [&](std::byte byte) {
      given = std::to_integer<std::uint8_t>(byte);
      return given != seen_;
    };
    if (!comes(*count_, yields_, differs))
      return Error{Errc::timed_out, "the peer has posted no receives for 10 s"};
    messages_ += std::uint64_t{together_} * static_cast<std::uint8_t>(given - seen_);
    seen_ = given;
    return success();
  }

 private:
  CreditsTaken(std::byte const& count, End const& end, Load const& load)
      : count_{&count},
        yields_{end.one_core},
        together_{load.receives_ahead() / 2},
        messages_{end.has_credits ? load.receives_ahead()
                                  : std::numeric_limits<std::uint64_t>::max()} {}

  std::byte const* count_;
  bool yields_;
  std::uint32_t together_;
  std::uint64_t messages_;  // that have a receive
  std::uint8_t seen_ = 0;
};

/// At the end that receives.
template <class Poster>
class CreditsGiven {
 public:
  CreditsGiven(Poster& poster, End& end, Load const& load)
      : poster_{poster}, end_{end}, load_{load} {}

  /// After the receives of one more half window were posted.
  [[nodiscard]] Result<void> give() {
    auto const known =
        load_.receives_ahead() + std::uint64_t{given_} * (load_.receives_ahead() / 2);
    if (!end_.has_credits || known >= load_.count) return success();
    if (written_) {
      LEND_TRYV(written_->wait());
    }
    LEND_TRY(count, end_.memory.mutable_bytes(0, 1));
    count[0] = static_cast<std::byte>(++given_);
    LEND_TRY(written, poster_.write({end_.memory.gather(0, 1), end_.remote.slice(0, 1)}));
    written_ = std::move(written);
    return poster_.post();
  }

 private:
  Poster& poster_;
  End& end_;
  Load const& load_;
  std::uint64_t given_ = 0;
  std::optional<PendingWork> written_{};
};

}  // namespace lend::tools
