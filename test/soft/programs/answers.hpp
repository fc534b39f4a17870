// SPDX-License-Identifier: MIT OR Apache-2.0
// What handles answer, in words, to compare. Values; one thread.
#pragma once

#include <lend/channel/datagram_channel.hpp>
#include <lend/lend.hpp>

#include <optional>
#include <string>

namespace lend::test {

[[nodiscard]] std::string told(WorkSuccess const& success);
[[nodiscard]] std::string told(ReceivedDatagram const& datagram);

/// Nothing yet, what a success tells, or an error.
using Answer = Result<std::optional<std::string>>;

template <class Success>
[[nodiscard]] Answer in_words(Result<std::optional<Success>> const& answer) {
  if (!answer.has_value()) return answer.error();
  if (!answer.value()) return std::optional<std::string>{};
  return std::optional{told(*answer.value())};
}
template <class Success>
[[nodiscard]] Answer in_words(Result<Success> const& answer) {
  if (!answer.has_value()) return answer.error();
  return std::optional{told(answer.value())};
}

}  // namespace lend::test
