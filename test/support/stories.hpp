// SPDX-License-Identifier: MIT OR Apache-2.0
// What a failure says, compared with the texts of stories.txt. One thread.
#pragma once

#include <lend/base/error.hpp>

#include <string>

namespace lend::test {

/// The text, a line for each label; queue pairs' numbers, lines, times and addresses, which no test
/// can know, in words.
std::string story_of(std::string text);
inline std::string story_of(Error const& error) {
  return story_of(error.describe());
}

/// Checks that `text` is the text that stories.txt has under `name`. While the environment has
/// LEND_TEST_STORIES, a path, it is written there instead: test/retell.
void check_story(std::string const& name, std::string const& text);
inline void check_story(std::string const& name, Error const& error) {
  check_story(name, story_of(error));
}

}  // namespace lend::test
