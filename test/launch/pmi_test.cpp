// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: by PMI-1 all ranks learn where rank 0 is, and a launcher that is silent, gone or none is an
// error. Method: dialogues as text, over socket pairs, and at random; the launcher is the test.
#include <fcntl.h>
#include <launch/pmi_meeting.hpp>

#include <array>
#include <optional>
#include <random>
#include <thread>

#include "launch/ranks_at_desk.hpp"
#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;

namespace {

using launch::MeetingPlace;
using launch::PmiDialogue;
using launch::PmiLine;
using launch::PmiMeeting;

constexpr std::string_view one_host = "cmd=get_result rc=0 msg=success value=(vector,(0,1,1))";

/// As Hydra 4.0 answers.
std::string answer_to(std::string_view question, std::string_view mapping = one_host) {
  if (question.starts_with("cmd=init ")) return "cmd=response_to_init pmi_version=1 rc=0";
  if (question == "cmd=get_maxes") return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=200";
  if (question == "cmd=get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_7_0_host";
  if (question.ends_with("key=PMI_process_mapping")) return std::string{mapping};
  if (question.starts_with("cmd=put ")) return "cmd=put_result rc=0 msg=success";
  if (question == "cmd=barrier_in") return "cmd=barrier_out";
  if (question.starts_with("cmd=get ")) return "cmd=get_result rc=0 value=node1:4000,5ec2e7";
  return "cmd=finalize_ack";
}

/// Asks and takes answers until it is over or wants a place. What it asked.
std::vector<std::string> converse(PmiDialogue& dialogue, std::string_view mapping = one_host) {
  std::vector<std::string> asked;
  while (!dialogue.is_over() && !dialogue.wants_place()) {
    asked.push_back(dialogue.question());
    must(dialogue.take(answer_to(asked.back(), mapping)));
  }
  return asked;
}

bool is_one_host(std::string_view mapping) {
  PmiDialogue dialogue{0};
  converse(dialogue, "cmd=get_result " + std::string{mapping});
  REQUIRE(dialogue.wants_place());
  return dialogue.is_one_host();
}

/// What a rank that is not 0 says of `wrong` in place of its answer to a line that begins so.
Error error_after(std::string_view question, std::string_view wrong) {
  PmiDialogue dialogue{1};
  while (!dialogue.question().starts_with(question))
    must(dialogue.take(answer_to(dialogue.question())));
  return error_of(dialogue.take(wrong));
}

/// A launcher's end of the socket of one rank.
class PmiServer {
 public:
  PmiServer() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    own_ = base::UniqueFd{ends[0]};
    rank_ = base::UniqueFd{ends[1]};
  }
  [[nodiscard]] int descriptor() const { return rank_.get(); }
  void say(std::string_view text) const {
    REQUIRE(::send(own_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }
  /// Empty: the rank hung up.
  [[nodiscard]] std::string next_question() const {
    std::string line;
    for (char c = 0; ::recv(own_.get(), &c, 1, 0) == 1 && c != '\n';) line += c;
    return line;
  }
  void hang_up() { own_ = base::UniqueFd{}; }

 private:
  base::UniqueFd own_, rank_;
};

/// Whether a program that knows nothing of this port gets it.
bool is_free(std::string_view address) {
  auto const port = must(network::candidates_at(address, false)).front().port();
  auto any = must(network::resolve({"0.0.0.0", port})).front();
  base::UniqueFd const own{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  return ::bind(own.get(), any.native(), any.length) == 0;
}

Seat seat_by_pmi(std::uint32_t rank, std::uint32_t size = 2) {
  return {.rank = rank, .size = size, .desk = launch::pmi_desk(0)};
}

/// What find() says where the launcher has said `text`, and hangs up if it `ends`.
Error error_where(std::string_view text, bool ends = true, Deadline deadline = within(patience)) {
  PmiServer launcher;
  launcher.say(text);
  if (ends) launcher.hang_up();
  PmiMeeting meeting{launcher.descriptor(), 1};
  auto const error = error_of(meeting.find(seat_by_pmi(1), deadline));
  CHECK_THAT(error.message(), Catch::Contains("PMI_FD"));
  return error;
}

}  // namespace

TEST_CASE("a line of PMI is a command and values, and anything else is refused", "[network]") {
  auto const line = must(PmiLine::parse("cmd=get_result  rc=0 msg=so it is value=a=b,c valuer=x "));
  CHECK(line.command() == "get_result");
  CHECK(line.value("value") == "a=b,c");
  CHECK(line.value("rc") == "0");
  CHECK(line.value("msg") == "so");
  CHECK(line.value("val").empty());
  CHECK(line.is_success());
  CHECK(must(PmiLine::parse("cmd=barrier_out")).is_success());
  CHECK_FALSE(must(PmiLine::parse("cmd=get_result rc=-1")).is_success());

  for (std::string const bad :
       {"", " ", "rc=0 cmd=maxes", "    37cmd=fullinit;", "cmd", "cmd=\x01", "cmd=m\xc3\xa4xes"}) {
    INFO(bad);
    CHECK(error_of(PmiLine::parse(bad)) == Errc::incompatible_peer);
  }
  CHECK_THAT(error_of(PmiLine::parse("cmd=" + std::string(4093, 'x'))).message(),
             Catch::Contains("more than 4096 bytes"));
}

TEST_CASE("rank 0 says where it is before the barrier, and the others ask after it", "[network]") {
  PmiDialogue first{0};
  CHECK(converse(first) == std::vector<std::string>{"cmd=init pmi_version=1 pmi_subversion=1",
                                                    "cmd=get_maxes", "cmd=get_my_kvsname",
                                                    "cmd=get kvsname=kvs_7_0_host "
                                                    "key=PMI_process_mapping"});
  CHECK(first.job() == "kvs_7_0_host");
  CHECK(error_of(first.offer({std::string(201, 'n'), ""})) == Errc::exhausted);
  must(first.offer({"node1:4000", "5ec2e7"}));
  CHECK(converse(first) == std::vector<std::string>{"cmd=put kvsname=kvs_7_0_host key=lend-desk "
                                                    "value=node1:4000,5ec2e7",
                                                    "cmd=barrier_in", "cmd=finalize"});
  CHECK(first.is_over());

  PmiDialogue other{1};
  auto const asked = converse(other);
  REQUIRE(asked.size() == 6);
  CHECK(asked[3] == "cmd=barrier_in");
  CHECK(asked[4] == "cmd=get kvsname=kvs_7_0_host key=lend-desk");
  CHECK(asked[5] == "cmd=finalize");
  CHECK(other.place().desk == "node1:4000");
  CHECK(other.place().secret == "5ec2e7");
}

TEST_CASE("ranks are on one host only where the launcher's mapping says so", "[network]") {
  CHECK(is_one_host("rc=0 value=(vector,(0,1,1))"));
  CHECK(is_one_host("rc=0 value=(vector,(0,1,16))"));
  CHECK(is_one_host("rc=0 value=(vector,(0,1,2),(0,1,3))"));
  for (auto const* const other :
       {"rc=0 value=(vector,(0,2,1))", "rc=0 value=(vector,(0,1,2),(1,1,2))", "rc=-1",
        "rc=-1 value=(vector,(0,1,1))", "rc=0 value=(vector)", "rc=0 value=(vector,(0,1,",
        "rc=0 value=(vector,(0,1,1),)", "rc=0 value=unknown", "rc=0"})
    CHECK_FALSE(is_one_host(other));
}

TEST_CASE("an answer that is none, or refuses, says what was asked", "[network]") {
  CHECK_THAT(
      error_after("cmd=init", "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0").message(),
      Catch::Contains("speaks PMI 2, not 1"));
  auto const refused = error_after("cmd=init", "cmd=response_to_init rc=-1");
  CHECK(refused == Errc::denied);
  CHECK_THAT(refused.message(), Catch::Contains("cmd=response_to_init rc=-1"));
  CHECK_THAT(error_after("cmd=get_maxes", "cmd=maxes vallen_max=many").message(),
             Catch::Contains("no limit of values"));
  CHECK_THAT(error_after("cmd=get_my_kvsname", "cmd=my_kvsname rc=0").message(),
             Catch::Contains("no name for the job"));
  CHECK_THAT(error_after("cmd=barrier_in", "cmd=get_result rc=0 value=x").message(),
             Catch::Contains("answered \"cmd=barrier_in\" by \"cmd=get_result"));
  CHECK(error_after("cmd=get kvsname", "cmd=get_result rc=1") == Errc::denied);
  CHECK_THAT(error_after("cmd=get kvsname", "cmd=get_result rc=0").message(),
             Catch::Contains("does not know where rank 0 is"));
}

TEST_CASE("no error of a dialogue shows the group's secret", "[network]") {
  PmiDialogue first{0};
  converse(first);
  must(first.offer({"n:4000", "5ec2e7"}));
  for (Error const& error :
       {error_of(first.take("cmd=put_result rc=-1 msg=n:4000,5ec2e7")),
        error_of(first.take("cmd=barrier_out")), error_of(first.take("put n:4000,5ec2e7")),
        error_after("cmd=get kvsname", "cmd=get_result rc=-1 value=n:4000,5ec2e7"),
        error_after("cmd=get kvsname", "cmd=get_result rc=0\t value=n:4000,5ec2e7"),
        error_after("cmd=get kvsname", "cmd=got rc=0 value=n:4000,5ec2e7")}) {
    CAPTURE(error.message());
    CHECK(error.message().find("5ec") == std::string::npos);
  }
}

TEST_CASE("random answers end a dialogue or an error does", "[network]") {
  std::vector<std::string> const questions{"cmd=init ",   "cmd=get_maxes",  "cmd=get_my_kvsname",
                                           "cmd=put ",    "cmd=barrier_in", "cmd=get ",
                                           "cmd=finalize"};
  for (auto const seed : seeds(3000)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    PmiDialogue dialogue{static_cast<std::uint32_t>(random() % 2)};
    bool has_failed = false;
    for (int answers = 0; !has_failed && !dialogue.is_over(); ++answers) {
      REQUIRE(answers < 10);
      if (dialogue.wants_place()) {
        has_failed = dialogue.offer({std::string(random() % 260, 'n'), ""}).has_error();
        continue;
      }
      auto answer = answer_to(random() % 8 == 0 ? questions[random() % questions.size()]
                                                : dialogue.question());
      for (auto changes = random() % 4; changes > 1 && !answer.empty(); --changes) {
        auto const at = random() % answer.size();
        if (random() % 3 == 0)
          answer.resize(at);
        else
          answer[at] = static_cast<char>(random() % 3 == 0 ? ' ' : random() % 256);
      }
      has_failed = dialogue.take(answer).has_error();
    }
    CHECK((has_failed || !dialogue.place().desk.empty()));
  }
}

TEST_CASE("ranks find each other by their launcher, over a name or a port", "[network]") {
  bool const knows_hosts = GENERATE(true, false);
  CAPTURE(knows_hosts);
  std::string_view const mapping = knows_hosts ? one_host : "cmd=get_result rc=1";
  constexpr std::uint32_t size = 3;
  std::array<PmiServer, size> ends;
  std::jthread const launcher{[&ends, mapping] {
    std::string place;
    auto const serve = [&](PmiServer const& end, std::string_view last) {
      for (std::string line = end.next_question(); !line.empty(); line = end.next_question()) {
        if (line.starts_with("cmd=put ")) place = line.substr(line.find("value="));
        bool const asks_place = line.ends_with("key=lend-desk");
        if (line != "cmd=barrier_in" || last != line)
          end.say((asks_place ? "cmd=get_result rc=0 " + place : answer_to(line, mapping)) + "\n");
        if (line == last) return;
      }
    };
    for (auto const& end : ends) serve(end, "cmd=barrier_in");
    for (auto const& end : ends) end.say("cmd=barrier_out\n");
    for (auto const& end : ends) serve(end, "cmd=finalize");
  }};
  std::array<std::optional<Result<Seat>>, size> found, again;
  bool is_reserved = false, can_listen = false;
  {
    std::vector<std::jthread> ranks;
    for (std::uint32_t rank = 0; rank < size; ++rank)
      ranks.emplace_back([&, rank] {
        PmiMeeting meeting{ends[rank].descriptor(), rank};
        auto const seat = seat_by_pmi(rank, size);
        found[rank].emplace(meeting.find(seat, within(patience)));
        again[rank].emplace(meeting.find(seat, within(0s)));
        if (rank != 0 || !again[0]->has_value()) return;
        auto const& desk = again[0]->assume_value().desk;
        is_reserved = knows_hosts || !is_free(desk);
        can_listen = Desk::open(desk).has_value();
      });
  }
  CHECK(is_reserved);
  CHECK(can_listen);
  for (std::uint32_t rank = 0; rank < size; ++rank)
    CHECK(must(*found[rank]).desk == must(*again[rank]).desk);
  auto const first = must(*found[0]), other = must(*found[1]);
  CHECK(first.group == "kvs_7_0_host");
  CHECK(must(*found[2]).desk == other.desk);
  CHECK(other.secret == first.secret);
  if (knows_hosts) {
    CHECK(other.desk == "unix:@lend-" + std::to_string(::geteuid()) + "-kvs_7_0_host");
    CHECK(first.desk == other.desk);
    CHECK(first.secret.empty());
  } else {
    CHECK_THAT(first.desk, Catch::StartsWith("[::]:"));
    CHECK_THAT(other.desk, Catch::EndsWith(first.desk.substr(first.desk.rfind(':'))));
    CHECK(first.secret.size() == (has_secrets() ? 64 : 0));
  }
}

TEST_CASE("a launcher that is gone, talks nonsense or too much is an error that stays",
          "[network]") {
  auto const closed = error_where("");
  CHECK(closed == Errc::peer_lost);
  CHECK_THAT(closed.message(), Catch::Contains("another program of this task"));
  CHECK(error_where("cmd=response_to_init pmi_version=1 rc=0\ncmd=max") == Errc::peer_lost);
  CHECK(error_where("HTTP/1.1 400 Bad Request\r\n\r\n", false) == Errc::incompatible_peer);
  CHECK(error_where(std::string(5000, 'x'), false) == Errc::incompatible_peer);
  CHECK(error_where({"\0\0\n", 3}, false) == Errc::incompatible_peer);

  base::UniqueFd const file{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  PmiMeeting over_file{file.get(), 1};
  CHECK(error_of(over_file.find(seat_by_pmi(1), within(patience))) == Errc::system_failed);

  PmiServer launcher;
  launcher.say("hello\n");
  PmiMeeting meeting{launcher.descriptor(), 1};
  auto const error = error_of(meeting.find(seat_by_pmi(1), within(patience)));
  launcher.say(
      "cmd=response_to_init pmi_version=1 rc=0\ncmd=maxes vallen_max=99\ncmd=my_kvsname "
      "kvsname=job\ncmd=barrier_out\ncmd=get_result value=unix:@there\ncmd=finalize_ack\n");
  CHECK(error_of(meeting.find(seat_by_pmi(1), within(patience))).message() == error.message());
}

TEST_CASE("a dialogue that timed out goes on where it was", "[network]") {
  PmiServer launcher;
  PmiMeeting meeting{launcher.descriptor(), 1};
  auto const silent = error_of(meeting.find(seat_by_pmi(1), within(10ms)));
  CHECK(silent == Errc::timed_out);
  CHECK_THAT(silent.message(), Catch::Contains("did not answer \"cmd=init"));
  launcher.say("cmd=response_to_init pmi_version=1 rc=0\ncmd=maxes vallen_max=99\ncmd=my_kvs");
  CHECK(error_of(meeting.find(seat_by_pmi(1), within(10ms))) == Errc::timed_out);
  launcher.say("name kvsname=job\n");
  CHECK_THAT(error_of(meeting.find(seat_by_pmi(1), within(10ms))).message(),
             Catch::Contains("barrier_in"));
  launcher.say("cmd=barrier_out\ncmd=get_result value=unix:@there\ncmd=finalize_ack\n");
  CHECK(must(meeting.find(seat_by_pmi(1), within(patience))).desk == "unix:@there");

  std::string all;
  for (int lines = 0; lines < 6; ++lines) all += launcher.next_question() + "\n";
  CHECK(all ==
        "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=get_my_kvsname\n"
        "cmd=barrier_in\ncmd=get kvsname=job key=lend-desk\ncmd=finalize\n");
}

TEST_CASE("a seat of a launcher needs a descriptor, and no other process serves its desk",
          "[network]") {
  CHECK(launch::pmi_descriptor("pmi:fd=7") == 7);
  for (auto const* const other : {"pmi:7", "pmi:fd=", "pmi:fd=-1", "pmi:fd=7x", "unix:@pmi:fd=7"})
    CHECK_FALSE(launch::pmi_descriptor(other));
  Seat seat{.rank = 1, .size = 2, .desk = "pmi:fd=9", .desk_is_served = true};
  CHECK_THAT(error_of(sit(seat)).message(), Catch::Contains("no other process can serve it"));
  seat.desk = "pmix:";
  CHECK_THAT(error_of(sit(seat)).message(), Catch::Contains("no other process can serve it"));
  seat.desk = "pmi:fd=x";
  CHECK(error_of(sit(seat)) == Errc::invalid_argument);
}
