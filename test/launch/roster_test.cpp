// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a roster is a process for each rank, as its file says, or an error that says where the file
// is wrong. Method: texts, some of them damaged at random; linked again as where there is no JSON.
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <lend/launch/roster.hpp>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/seed.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::string_view two_hosts = R"({
  "hosts": [
    {"hostname": "node2", "port": 18515, "ibdev": "mlx5_1", "rankid": 1, "comment": "the second"},
    {"hostname": "node1", "port": 18516, "ibdev": "mlx5_0", "rankid": 0}
  ]
})";

/// Where lend was built without JSON, there is nothing to read.
bool lacks_rosters() {
  auto const roster = Roster::from_json(two_hosts);
  return !roster && roster.error() == Errc::unsupported;
}

std::string why(std::string_view text) {
  CAPTURE(text.substr(0, 200));
  auto const error = error_of(Roster::from_json(text));
  CHECK(error == Errc::invalid_argument);
  return error.message();
}
/// Of a roster with this one entry.
std::string why_entry(std::string const& entry) {
  return why(R"({"hosts": [)" + entry + "]}");
}

std::vector<RosterEntry> entries_of(std::vector<std::uint32_t> const& ranks) {
  std::vector<RosterEntry> entries;
  for (auto const rank : ranks) entries.push_back({.rank = rank, .host = "node", .port = 1});
  return entries;
}

}  // namespace

TEST_CASE("a roster gives each of its ranks a seat at rank 0's port", "[network]") {
  if (lacks_rosters()) return;
  auto const roster = must(Roster::from_json(two_hosts));
  REQUIRE(roster.size() == 2);
  CHECK(roster.entries()[0].device == "mlx5_0");
  CHECK(roster.entries()[1].host == "node2");
  CHECK(roster.entries()[1].port == 18515);
  CHECK(roster.entries()[1].comment == "the second");
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    auto const seat = must(roster.seat(rank));
    CHECK(seat.rank == rank);
    CHECK(seat.size == 2);
    CHECK(seat.desk == "node1:18516");
    CHECK(!seat.desk_is_served);
  }
  CHECK(error_of(roster.seat(2)) == Errc::invalid_argument);
  CHECK(must(must(roster.first(1)).seat(0)).size == 1);
  CHECK(error_of(roster.first(3)) == Errc::invalid_argument);
  CHECK(error_of(roster.first(0)) == Errc::invalid_argument);
}

TEST_CASE("a roster's keys come in any order, and others are ignored whatever they hold",
          "[network]") {
  if (lacks_rosters()) return;
  auto const roster = must(Roster::from_json(R"({
    "version": 1, "x": {"hosts": [[{"port": null}]], "hosts": 2},
    "hosts": [{"extra": [1, {"port": "no"}], "port": 65535, "more": {}, "rankid": 0,
               "hostname": "fe80::1"}],
    "after": [[], -1.5e3, true]})"));
  CHECK(roster.entries()[0].port == 65'535);
  CHECK(roster.entries()[0].device.empty());
  CHECK(must(roster.seat(0)).desk == "[fe80::1]:65535");
}

TEST_CASE("a roster that is wrong is refused, and the reason says where", "[network]") {
  if (lacks_rosters()) return;
  using Catch::Contains;
  CHECK_THAT(why(""), Contains("no JSON at line 1, column 1"));
  CHECK_THAT(why("{\n  \"hosts\": [}"), Contains("no JSON at line 2, column 13"));
  CHECK_THAT(why(std::string{two_hosts} + "{"), Contains("no JSON at line 6"));
  CHECK_THAT(why("[]"), Contains("is an array, not an object"));
  CHECK_THAT(why("3"), Contains("is a number, not an object"));
  CHECK_THAT(why("{}"), Contains("has no \"hosts\""));
  CHECK_THAT(why(R"({"hosts": 1})"), Contains("\"hosts\" that are a number, not an array"));
  CHECK_THAT(why(R"({"hosts": {}})"), Contains("\"hosts\" that are an object"));
  CHECK_THAT(why(R"({"hosts": [], "hosts": []})"), Contains("has \"hosts\" twice"));
  CHECK_THAT(why(R"({"hosts": []})"), Contains("has no process"));
  CHECK_THAT(why("null"), Contains("is null, not an object"));
  CHECK_THAT(why("true"), Contains("is a truth value, not an object"));
  CHECK_THAT(why(R"("hosts")"), Contains("is a text, not an object"));
  CHECK_THAT(why("-1"), Contains("is a negative number, not an object"));
  CHECK_THAT(why("0.5"), Contains("is no whole number, not an object"));
  CHECK_THAT(why(R"({"hosts": null})"), Contains("\"hosts\" that are null, not an array"));
  CHECK_THAT(why(R"({"hosts": [7]})"), Contains("a host that is a number, not an object"));
  CHECK_THAT(why(R"({"hosts": ["a"]})"), Contains("a host that is a text, not an object"));
  CHECK_THAT(why(R"({"hosts": [[]]})"), Contains("a host that is an array, not an object"));

  CHECK_THAT(why_entry(R"({"hostname": "a", "port": 1})"),
             Contains("hosts[0], which has no \"rankid\""));
  CHECK_THAT(why_entry(R"({"rankid": 0, "port": 1})"), Contains("has no \"hostname\""));
  CHECK_THAT(why_entry(R"({"rankid": 0, "hostname": "a"})"), Contains("has no \"port\""));
  CHECK_THAT(why_entry(R"({"rankid": 0, "rankid": 0, "hostname": "a", "port": 1})"),
             Contains("has \"rankid\" twice"));
  CHECK_THAT(why_entry(R"({"rankid": -1, "hostname": "a", "port": 1})"),
             Contains("\"rankid\" that is a negative number"));
  CHECK_THAT(why_entry(R"({"rankid": 0.5, "hostname": "a", "port": 1})"),
             Contains("\"rankid\" that is no whole number"));
  CHECK_THAT(why_entry(R"({"rankid": 4294967296, "hostname": "a", "port": 1})"),
             Contains("4294967296, more than 4294967295"));
  CHECK_THAT(why_entry(R"({"rankid": 0, "hostname": "a", "port": 65536})"),
             Contains("\"port\" that is 65536, more than 65535"));
  CHECK_THAT(why_entry(R"({"rankid": 0, "hostname": "a", "port": "1"})"),
             Contains("\"port\" that is a text"));
  CHECK_THAT(why_entry(R"({"rankid": 0, "hostname": null, "port": 1})"),
             Contains("\"hostname\" that is null"));
  CHECK_THAT(why_entry(R"({"rankid": 0, "hostname": ["a"], "port": 1})"),
             Contains("\"hostname\" that is an array"));
  CHECK_THAT(why_entry(R"({"rankid": 0, "hostname": "a", "port": 1, "ibdev": true})"),
             Contains("\"ibdev\" that is a truth value"));
  CHECK_THAT(why_entry(R"({"rankid": {}, "hostname": "a", "port": 1})"),
             Contains("\"rankid\" that is an object"));
  CHECK_THAT(why_entry(R"({"rankid": 0, "hostname": 7, "port": 1})"),
             Contains("\"hostname\" that is a number"));
  CHECK_THAT(why_entry(R"({"rankid": 0, "hostname": "a", "port": 1, "comment": -1})"),
             Contains("\"comment\" that is a negative number"));
  for (std::string const key : {"hostname", "port", "ibdev", "comment"}) {
    auto const value = key == "port" ? "1" : "\"a\"";
    auto const twice = "\"" + key + "\": " + value + ", \"" + key + "\": " + value;
    CHECK_THAT(why_entry("{\"rankid\": 0, " + twice + "}"), Contains("has \"" + key + "\" twice"));
  }
  CHECK_THAT(why(R"({"hosts": [{"rankid": 0, "hostname": "a", "port": 1}, {"rankid": 1}]})"),
             Contains("hosts[1], which has no \"hostname\""));
  CHECK_THAT(why_entry(R"({"rankid": 0, "hostname": "", "port": 1})"),
             Contains("rank 0 without a host"));
  CHECK_THAT(why_entry(R"({"rankid": 0, "hostname": "a b\n", "port": 1})"),
             Contains("\"a b?\", which is no name of a host"));
  CHECK_THAT(why_entry(R"({"rankid": 0, "hostname": "a", "port": 0})"), Contains("at port 0"));
}

TEST_CASE("where lend was built without JSON, a roster is made of its entries only", "[network]") {
  if (!lacks_rosters()) return;
  auto const error = error_of(Roster::from_json("no JSON either"));
  CHECK(error == Errc::unsupported);
  CHECK_THAT(error.message(), Catch::Contains("nlohmann's JSON") &&
                                  Catch::Contains("-Drosters=enabled") &&
                                  Catch::Contains("Roster::of()"));
  CHECK_THAT(error_of(Roster::from_file("/proc/self/comm")).message(),
             Catch::StartsWith("/proc/self/comm: this lend was built without"));
  CHECK(must(must(Roster::of(entries_of({1, 0}))).seat(1)).desk == "node:1");
}

TEST_CASE("a host is a name that can be resolved", "[network]") {
  auto const refused = [](std::string host) {
    auto const error = error_of(Roster::of({{.rank = 0, .host = std::move(host), .port = 1}}));
    CHECK(error == Errc::invalid_argument);
    return error.message();
  };
  CHECK(Roster::of({{.rank = 0, .host = std::string(255, 'a'), .port = 1}}).has_value());
  CHECK_THAT(refused(std::string(256, 'a')), Catch::Contains("which is no name of a host"));
  CHECK_THAT(refused("a\x7f"), Catch::Contains("which is no name of a host"));
  CHECK_THAT(refused("a\tb"), Catch::Contains("\"a?b\""));
  CHECK_THAT(refused(""), Catch::Contains("rank 0 without a host"));
  CHECK_THAT(error_of(Roster::of({{.rank = 0, .host = "a"}})).message(),
             Catch::Contains("at port 0, which the other ranks cannot know"));
}

TEST_CASE("a roster has each rank from 0 once", "[network]") {
  auto const sorted = must(Roster::of(entries_of({2, 0, 1})));
  CHECK(sorted.entries()[2].rank == 2);
  auto const refused = [](std::vector<std::uint32_t> const& ranks) {
    auto const error = error_of(Roster::of(entries_of(ranks)));
    CHECK(error == Errc::invalid_argument);
    return error.message();
  };
  CHECK_THAT(refused({}), Catch::Contains("has no process"));
  CHECK_THAT(refused({1, 2}), Catch::Contains("has no rank 0, but rank 1"));
  CHECK_THAT(refused({0, 1, 3}), Catch::Contains("has no rank 2, but rank 3"));
  CHECK_THAT(refused({0, 1, 1, 2}), Catch::Contains("has rank 1 twice"));
  CHECK_THAT(refused({0, 0}), Catch::Contains("has rank 0 twice"));
  CHECK_THAT(refused({0, 4'294'967'295}), Catch::Contains("has no rank 1"));
  std::vector<std::uint32_t> many(65'537);
  CHECK_THAT(refused(many), Catch::Contains("has 65537 processes"));
}

TEST_CASE("a roster's text is bounded, and what it nests costs no stack", "[network]") {
  std::string long_one = "{\"hosts\": [" + std::string(17u << 20, ' ') + "]}";
  auto const error = error_of(Roster::from_json(long_one));
  CHECK(error == Errc::invalid_argument);
  CHECK_THAT(error.message(), Catch::Contains("16777216 are the most"));
  if (lacks_rosters()) return;
  CHECK_THAT(why("{\"x\": " + std::string(1u << 20, '[')), Catch::Contains("no JSON"));
  std::string nested = "{\"x\": " + std::string(1u << 20, '[') + std::string(1u << 20, ']') + ", ";
  CHECK(must(Roster::from_json(nested + std::string{two_hosts.substr(1)})).size() == 2);
}

TEST_CASE("a damaged roster is a roster or an error", "[network]") {
  if (lacks_rosters()) return;
  for (auto const seed : seeds(300)) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    std::string text{two_hosts};
    for (int i = 0; i < 3; ++i) {
      auto const at = random() % text.size();
      if (random() % 2 == 0)
        text[at] = "{}[]\":,0-e\\\n"[random() % 12];
      else
        text.erase(at, random() % 8);
    }
    auto const roster = Roster::from_json(text);
    if (!roster)
      CHECK(roster.error() == Errc::invalid_argument);
    else
      CHECK(roster.value().entries()[0].rank == 0);
  }
}

TEST_CASE("a roster is read from a regular file", "[network]") {
  auto const path = std::filesystem::temp_directory_path() /
                    ("lend-roster-test-" + std::to_string(::getpid()) + ".json");
  CHECK(error_of(Roster::from_file(path.string())) == Errc::not_found);
  CHECK(error_of(Roster::from_file("/")) == Errc::invalid_argument);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(error_of(Roster::from_file(path.string())) == Errc::invalid_argument);  // and does not wait
  std::filesystem::remove(path);
  if (lacks_rosters()) return;
  std::ofstream{path} << two_hosts;
  CHECK(must(Roster::from_file(path.string())).size() == 2);
  std::ofstream{path} << "{}";
  CHECK_THAT(error_of(Roster::from_file(path.string())).message(),
             Catch::Contains("lend-roster-test") && Catch::Contains("has no \"hosts\""));
  std::filesystem::resize_file(path, 17u << 20);
  CHECK_THAT(error_of(Roster::from_file(path.string())).message(),
             Catch::Contains("16777216 are the most"));
  std::ofstream{path} << std::string(50'000, ' ') << two_hosts;
  CHECK(must(Roster::from_file(path.string())).size() == 2);
  std::filesystem::remove(path);
}

TEST_CASE("a roster is read to its end, also from a file that says that it is empty", "[network]") {
  if (lacks_rosters()) return;
  std::string const name = R"({"hosts": []})";  // as long as the name of a thread may be
  char before[16] = {};
  REQUIRE(::prctl(PR_GET_NAME, before) == 0);
  REQUIRE(::prctl(PR_SET_NAME, name.c_str()) == 0);
  REQUIRE(std::filesystem::file_size("/proc/thread-self/comm") == 0);
  auto const error = error_of(Roster::from_file("/proc/thread-self/comm"));
  static_cast<void>(::prctl(PR_SET_NAME, before));
  CHECK_THAT(error.message(), Catch::Contains("has no process"));
}
