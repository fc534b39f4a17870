// SPDX-License-Identifier: MIT OR Apache-2.0
// What a host was asked and answered, and the same as text. One thread.
#pragma once

#include <lend/base/result.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lend::doctor {

/// None: there is no such thing, or it could not be read.
using Answer = std::optional<std::string>;
/// By question, "file /proc/self/limits".
using Answers = std::map<std::string, Answer, std::less<>>;

/// Notes the answers of a host, or gives such answers in its place.
class Record {
 public:
  Record() = default;
  explicit Record(Answers given) : answers_{std::move(given)}, stands_in_{true} {}

  /// What `ask` returns, which is noted; or what was given.
  [[nodiscard]] Answer answer(std::string const& question, std::function<Answer()> const& ask);
  /// The first question since the last call that nothing was given for; empty: there was none.
  [[nodiscard]] std::string take_lacking() { return std::exchange(lacking_, {}); }

  [[nodiscard]] Answers const& answers() const noexcept { return answers_; }
  /// How many answers were not noted, because of a bound on their bytes.
  [[nodiscard]] std::size_t left_out() const noexcept { return left_out_; }

 private:
  Answers answers_{};
  bool stands_in_ = false;
  std::string lacking_{};
  std::size_t bytes_ = 0, left_out_ = 0;
};

/// Replaces the addresses of ports by others of their kind, each by the same wherever it occurs,
/// and leaves the unused entries of their tables out.
void hide_addresses(Answers& answers);

/// Lines of ASCII: a question, or "no " and a question, and below it "| " and each line of the
/// answer. Control characters and others are written as "\x1b".
[[nodiscard]] std::string text_of(Answers const& answers);
/// The reverse; leaves empty lines and those that begin with '#' out.
/// Errors:  invalid_argument  it is no such text; the message names the line.
[[nodiscard]] Result<Answers> answers_of(std::string_view text);

}  // namespace lend::doctor
