// SPDX-License-Identifier: MIT OR Apache-2.0
// What the steps of a program did, and what was wrong first. One thread.
#pragma once

#include <lend/base/result.hpp>

#include <cstddef>
#include <string>
#include <utility>

namespace lend::test {

/// How a call ended, for the story: "ok", or the name of its error.
template <class T>
std::string words_of(Result<T> const& result) {
  return result.has_value() ? "ok" : std::string{name_of(result.error().code())};
}

class Story {
 public:
  /// `depth`: in how many scopes.
  void tell(std::string line, std::size_t depth) {
    text_ += std::string(2 * depth + 2, ' ') + std::move(line) + '\n';
  }
  /// The first one counts.
  void complain(std::string text) {
    if (violation_.empty()) violation_ = std::move(text);
  }
  /// What each step did, a line each.
  [[nodiscard]] std::string const& text() const noexcept { return text_; }
  /// The first thing that is wrong, or empty.
  [[nodiscard]] std::string const& violation() const noexcept { return violation_; }

 private:
  std::string text_{};
  std::string violation_{};
};

}  // namespace lend::test
