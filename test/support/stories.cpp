// SPDX-License-Identifier: MIT OR Apache-2.0
#include "support/stories.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <utility>

#include "support/catch.hpp"

namespace lend::test {
namespace {

constexpr char const* compiled_in =
#include "support/stories.txt"
    ;
constexpr std::size_t columns = 98;

using Stories = std::map<std::string, std::string>;  // name and text

/// Of a text in which `# NAME` begins each. What begins with spaces is a line, the others go on.
Stories read(std::istream&& text) {
  Stories stories;
  std::string* story = nullptr;
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("# ", 0) == 0) {
      story = &stories[line.substr(2)];
    } else if (story != nullptr && !line.empty() && line != ")stories\"") {
      char const* const join = line[0] == ' ' ? "\n" : " ";
      *story += (story->empty() ? "" : join) + line;
    }
  }
  return stories;
}

std::string wrapped(std::string const& story) {
  std::string text;
  std::istringstream lines{story};
  for (std::string line; std::getline(lines, line);) {
    if (!text.empty()) text += '\n';
    std::size_t column = line[0] == ' ' ? 1 : 0;
    text.append(column, ' ');
    std::istringstream words{line};
    for (std::string word; words >> word; column += word.size()) {
      bool const full = column + word.size() >= columns;
      if (column > 0) text += full ? '\n' : ' ';
      column = full ? 0 : column + 1;
      text += word;
    }
  }
  return text;
}

/// The file as it is, with this story in it.
void write(std::string const& path, std::string const& name, std::string const& story) {
  static Stories written;
  auto const [place, is_new] = written.try_emplace(name, story);
  CHECK(place->second == story);  // told twice, it is told alike
  if (!is_new) return;
  std::ifstream in{path};
  REQUIRE(in);
  std::string const before{std::istreambuf_iterator<char>{in}, {}};
  auto const head = before.substr(0, before.find("R\"stories(") + 10);
  Stories stories = read(std::istringstream{before});
  stories[name] = story;
  std::ofstream out{path};
  out << head << '\n';
  for (auto const& [its_name, its_story] : stories)
    out << "# " << its_name << '\n' << wrapped(its_story) << "\n\n";
  out << ")stories\"\n";
}

}  // namespace

std::string story_of(std::string text) {
  for (auto const& [pattern, word] : {std::pair{R"(queue pair \d+)", "queue pair N"},
                                      {R"([^ (]*(_test\.cpp|\.hpp):\d+)", "HERE"},
                                      {R"([\d.]+ us before)", "N us before"},
                                      {R"(fe80:[0-9a-f:]+)", "ADDRESS"},
                                      {R"(127\.0\.0\.1:\d+)", "THERE"},
                                      {R"(\n  ([a-z]+:) +)", "\x1f$1 "},
                                      {R"(\s+)", " "},
                                      {R"(\x1f)", "\n  "},
                                      {R"( $)", ""}})
    text = std::regex_replace(text, std::regex{pattern}, word);
  return text;
}

void check_story(std::string const& name, std::string const& text) {
  INFO("the story of " << name);
  if (char const* const path = std::getenv("LEND_TEST_STORIES")) return write(path, name, text);
  static Stories const stories = read(std::istringstream{compiled_in});
  auto const story = stories.find(name);
  CHECK(text == (story == stories.end() ? "(no story of that name: test/retell)" : story->second));
}

}  // namespace lend::test
