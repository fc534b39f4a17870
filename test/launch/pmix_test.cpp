// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: by PMIx all ranks learn where rank 0 is; what PMIx refuses is an error that stays, and what
// takes too long goes on in the next call. Method: functions of the test in place of PMIx's.
// ../examples/launchers_test.py asks a real one.
#include <launch/asking.hpp>
#include <launch/pmix_meeting.hpp>

#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "launch/ranks_at_desk.hpp"

using namespace lend;
using namespace lend::test;

namespace {

using launch::PmixFunctions;
using launch::PmixInfo;
using launch::PmixMeeting;
using launch::PmixProcess;
using launch::PmixValue;

/// A job of one rank after the other, whose calls fail as told, and are answered at once if told.
struct Server {
  std::uint32_t rank = 0, size = 2, local_size = 2;
  std::string published{};
  std::map<std::string, int> statuses{};
  std::vector<std::string> asked{};
  bool answers_at_once = true;
  std::function<void()> answer{};
};
Server server;

int status_of(std::string const& call) {
  server.asked.push_back(call);
  return server.statuses[call];
}

void answer_by(std::function<void()> answer) {
  server.answer = std::move(answer);
  if (server.answers_at_once) std::jthread{server.answer}.join();
}

PmixFunctions functions() {
  PmixFunctions made;
  made.init = [](PmixProcess* own, PmixInfo const*, std::size_t) {
    std::strcpy(own->job.data(), "job.7");
    own->rank = server.rank;
    return status_of("init");
  };
  made.finalize = [](PmixInfo const*, std::size_t) { return status_of("finalize"); };
  made.put = [](std::uint8_t scope, char const* key, PmixValue* value) {
    CHECK(scope == launch::pmix_for_all);
    CHECK(key == launch::desk_key);
    server.published = value->data.string;
    return status_of("put");
  };
  made.commit = [] { return status_of("commit"); };
  made.fence_nb = [](PmixProcess const* all, std::size_t, PmixInfo const* info, std::size_t count,
                     PmixFunctions::CallBack call_back, void* data) {
    CHECK(std::string{all->job.data()} == "job.7");
    CHECK(all->rank == launch::pmix_all_ranks);
    CHECK((count == 1 && info->value.data.flag));
    int const status = status_of("fence");
    if (status == 0) answer_by([=] { call_back(server.statuses["fence answered"], data); });
    return status;
  };
  made.get = [](PmixProcess const* of, char const* key, PmixInfo const*, std::size_t,
                PmixValue** value) {
    CHECK(of->rank == launch::pmix_all_ranks);
    if (int const status = status_of(key); status != 0) return status;
    // SAFETY: who asked frees it.
    *value = static_cast<PmixValue*>(std::calloc(1, sizeof(PmixValue)));
    (*value)->type = launch::pmix_uint32;
    (*value)->data.number = std::string{key} == "pmix.job.size" ? server.size : server.local_size;
    return 0;
  };
  made.get_nb = [](PmixProcess const* of, char const*, PmixInfo const*, std::size_t,
                   PmixFunctions::ValueCallBack call_back, void* data) {
    CHECK(of->rank == 0);
    int const status = status_of("get");
    if (status == 0)
      answer_by([=] {
        PmixValue value{.type = launch::pmix_string};
        value.data.string = server.published.data();
        call_back(server.statuses["get answered"], &value, data);
      });
    return status;
  };
  made.error_string = [](int) { return "WHY"; };
  return made;
}

Seat seat_by_pmix(std::uint32_t rank) {
  server.rank = rank;
  return {.rank = rank, .size = 2, .desk = std::string{launch::pmix_desk}};
}

using Calls = std::vector<std::string>;

}  // namespace

TEST_CASE("rank 0 publishes where it is before all meet, and the others ask after it",
          "[network]") {
  server = {};
  server.local_size = GENERATE(1u, 2u);
  bool const is_one_host = server.local_size == 2;
  CAPTURE(is_one_host);
  PmixMeeting first{functions()}, other{functions()};

  auto const own = must(first.find(seat_by_pmix(0), within(patience)));
  CHECK(server.asked == Calls{"init", "pmix.local.size", "put", "commit", "fence", "finalize"});
  server.asked.clear();
  auto const theirs = must(other.find(seat_by_pmix(1), within(patience)));
  CHECK(server.asked == Calls{"init", "fence", "get", "finalize"});
  CHECK(must(other.find(seat_by_pmix(1), within(0s))).desk == theirs.desk);
  CHECK(server.asked.size() == 4);

  CHECK(own.group == "job.7");
  CHECK(theirs.secret == own.secret);
  if (is_one_host) {
    CHECK(theirs.desk == "unix:@lend-" + std::to_string(::geteuid()) + "-job.7");
    CHECK(own.desk == theirs.desk);
    CHECK(own.secret.empty());
  } else {
    CHECK_THAT(own.desk, Catch::StartsWith("[::]:"));
    CHECK_THAT(theirs.desk, Catch::EndsWith(own.desk.substr(own.desk.rfind(':'))));
    CHECK(own.secret.size() == (has_secrets() ? 64 : 0));
  }
}

TEST_CASE("what PMIx did not answer in time goes on in the next call", "[network]") {
  server = {};
  server.answers_at_once = false;
  server.published = "node1:4000,5ec2e7";
  PmixMeeting meeting{functions()};
  auto const silent = error_of(meeting.find(seat_by_pmix(1), within(1ms)));
  CHECK(silent == Errc::timed_out);
  CHECK_THAT(silent.message(), Catch::Contains("PMIx_Fence_nb") && Catch::Contains("start all"));
  CHECK(error_of(meeting.find(seat_by_pmix(1), within(0s))) == Errc::timed_out);
  server.answer();
  CHECK_THAT(error_of(meeting.find(seat_by_pmix(1), within(1ms))).message(),
             Catch::Contains("PMIx_Get_nb"));
  std::jthread{server.answer}.join();
  auto const seat = must(meeting.find(seat_by_pmix(1), within(patience)));
  CHECK(seat.desk == "node1:4000");
  CHECK(seat.secret == "5ec2e7");
  CHECK(server.asked == Calls{"init", "fence", "get", "finalize"});
}

TEST_CASE("what PMIx refuses is named, stays, and ends before the meeting does", "[network]") {
  for (auto const& [call, says] : std::vector<std::pair<std::string, std::string>>{
           {"init", "PMIx_Init"},
           {"pmix.local.size", "PMIx_Get of pmix.local.size"},
           {"put", "PMIx_Put"},
           {"commit", "PMIx_Commit"},
           {"fence", "PMIx_Fence_nb"},
           {"fence answered", "PMIx_Fence_nb"},
           {"get", "PMIx_Get_nb of rank 0's lend-desk"},
           {"get answered", "PMIx_Get_nb of rank 0's lend-desk"}}) {
    CAPTURE(call);
    server = {};
    server.statuses[call] = -7;
    auto const seat = seat_by_pmix(call.starts_with("get") ? 1 : 0);
    {
      PmixMeeting meeting{functions()};
      auto const error = error_of(meeting.find(seat, within(patience)));
      CHECK(error == Errc::system_failed);
      CHECK_THAT(error.message(),
                 Catch::Contains(says + " failed: WHY (-7)") && Catch::Contains("set LEND_DESK"));
      CHECK(error_of(meeting.find(seat, within(patience))).message() == error.message());
    }
    CHECK((server.asked.back() == "finalize") == (call != "init"));
  }
  server = {};
  server.statuses["init"] = launch::pmix_unreachable;
  PmixMeeting lost{functions()};
  CHECK(error_of(lost.size()) == Errc::peer_lost);
  server = {};
  PmixMeeting nowhere{functions()};
  CHECK_THAT(error_of(nowhere.find(seat_by_pmix(1), within(patience))).message(),
             Catch::Contains("does not know where rank 0 is"));
  CHECK(server.asked.back() == "get");
}

TEST_CASE("a job's size is asked once, and alone ends as a whole meeting does", "[network]") {
  server = {};
  server.size = 5;
  PmixMeeting meeting{functions()};
  CHECK(must(meeting.size()) == 5);
  meeting.end();
  CHECK(must(meeting.size()) == 5);
  meeting.end();
  CHECK(server.asked == Calls{"init", "pmix.job.size", "finalize"});
}
