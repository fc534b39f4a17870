// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what `lend` reads and writes is right: its command line, JSON, and the page of failures.
// Method: values; names of lend compared with the page's headings.
#include <doctor/checks.hpp>
#include <tools/command_line.hpp>
#include <tools/json.hpp>
#include <tools/sections.hpp>

#include <lend/lend.hpp>

#include <array>

#include "support/catch.hpp"

using namespace lend;

namespace {

/// What `lend` with these words is asked to do.
Result<tools::CommandLine> parsed(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  auto line = tools::parse(pointers);
  if (line.has_value()) line.value().program = {};  // which ends with `words`
  return line;
}

std::string refusal_of(std::vector<std::string> words) {
  auto const line = parsed(std::move(words));
  return line.has_error() ? line.error().message() : "none";
}

}  // namespace

TEST_CASE("JSON escapes quotes and control bytes, and replaces what is no UTF-8", "[tools]") {
  using tools::json_of;
  CHECK(json_of("plain é €") == "\"plain é €\"");
  CHECK(json_of("a\"b\\c") == R"("a\"b\\c")");
  CHECK(json_of(std::string_view{"\0\n\x1b[\x7f", 5}) == R"("\u0000\u000a\u001b[\u007f")");
  CHECK(json_of("\xff|\xc3|\xed\xa0\x80") == R"("\ufffd|\ufffd|\ufffd\ufffd\ufffd")");
  CHECK(json_of("\xf0\x9f\x98\x80\xf4\x90\x80\x80") ==
        "\"\xf0\x9f\x98\x80"
        R"(\ufffd\ufffd\ufffd\ufffd")");
  std::array const findings{Finding{.id = "a", .level = FindingLevel::warn, .subject = "\n"}};
  CHECK(json_of(findings).find(R"({"id": "a", "level": "warn", "subject": "\u000a",)") !=
        std::string::npos);
}

TEST_CASE("a command line that is wrong is refused with the nearest word", "[tools]") {
  CHECK(parsed({"doctor", "--strict"}).value().strict);
  CHECK_FALSE(parsed({"doctor"}).value().json);
  CHECK(parsed({"run", "--faults", "drop@1", "--", "-x"}).value().faults == "drop@1");
  CHECK(parsed({"explain", "memlock"}).value().command == tools::Command::explain);
  CHECK(refusal_of({}) == "a command is missing");
  CHECK(refusal_of({"infos"}) == "unknown command infos; the nearest is info");
  CHECK(refusal_of({"doctor", "--jsn\x1b"}) ==
        "doctor has no option --jsn?; the nearest is --json");
  CHECK(refusal_of({"run", "--fault", "x"}) ==
        "run has no option --fault; the nearest is --faults");
  CHECK(refusal_of({"run", "--faults"}) == "--faults lacks its plan");
  CHECK(refusal_of({"run", "--"}) == "PROGRAM is missing");
  CHECK(refusal_of({"explain"}) == "explain takes one NAME");
  CHECK(refusal_of({"info", "soft0"}) == "info takes no soft0");
}

TEST_CASE("every code, status and finding has its section on the page of failures", "[tools]") {
  std::size_t names = 0;
  auto const check = [&](std::string_view name) {
    INFO(name);
    auto const section = tools::section_of(name);
    CHECK(section.has_value());
    CHECK_FALSE(section.value_or("").empty());
    ++names;
    return section.value_or("");
  };
  for (int code = 1; name_of(static_cast<Errc>(code)) != name_of(Errc{}); ++code)
    check(name_of(static_cast<Errc>(code)));
  for (int i = 0; name_of(static_cast<WorkStatus>(i)) != "unknown"; ++i) {
    auto const by_number = check(std::to_string(i));
    CHECK(by_number.data() == check(name_of(static_cast<WorkStatus>(i))).data());
    ++names;  // that of the verbs
  }
  for (auto const& one : doctor::checks()) check(one.id);
  CHECK(tools::section_names().size() == names);  // and the page has no others
  CHECK_FALSE(tools::section_of("nothing").has_value());
}
