// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives that are posted ahead of the messages for them. One thread.
#pragma once

#include <lend/channel/pending_work.hpp>
#include <tools/loops/end.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lend::tools {

template <class Poster>
class ReceivesAhead {
 public:
  ReceivesAhead(Poster& poster, End& end, Load const& load)
      : poster_{poster},
        end_{end},
        load_{load},
        expected_(std::min<std::uint64_t>(load.receives_ahead(), load.count)) {}

  [[nodiscard]] std::uint64_t count() const noexcept { return expected_.size(); }
  /// Posts the first ones.
  [[nodiscard]] Result<void> post() {
    for (std::uint64_t i = 0; i < count(); ++i) {
      LEND_TRYV(expect(i));
    }
    return success();
  }
  /// Waits for message `i`, and posts the next receive, if the load has one more.
  [[nodiscard]] Result<void> take(std::uint64_t i) {
    LEND_TRYV(expected_[i % count()]->wait());
    if (i + count() < load_.count) return expect(i + count());
    return success();
  }

 private:
  [[nodiscard]] Result<void> expect(std::uint64_t i) {
    LEND_TRY(arrival, poster_.receive(end_.memory.scatter(load_.lane(i), load_.bytes)));
    expected_[i % count()] = std::move(arrival);
    return success();
  }

  Poster& poster_;
  End& end_;
  Load const& load_;
  std::vector<std::optional<PendingWork>> expected_;
};

}  // namespace lend::tools
