// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the stories that need no planned fault are told on every device. Method: as story_test.cpp,
// on the test device, but for what a device chooses for itself: the vendor code; the state, of
// which SoftiWARP of kernel 6.1 knows nothing; of some failures the status, one of several.
#include <algorithm>
#include <initializer_list>
#include <regex>
#include <sstream>
#include <string>
#include <utility>

#include "support/stories.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t depth = 8;

/// The error's text. What a device chooses is replaced by words: states and vendor codes, and,
/// of work that failed, the status and what to do about it.
std::string told(Error const& error) {
  auto text = story_of(error);
  for (Error const* cause = &error; cause != nullptr; cause = cause->cause()) {
    WorkFailure const* failure = cause->work();
    if (failure == nullptr) continue;
    std::ostringstream status;
    status << name_of(failure->status) << " (status " << static_cast<unsigned>(failure->status)
           << ", vendor code 0x" << std::hex << failure->vendor_code << ", class "
           << name_of(class_of(failure->status)) << ')';
    for (auto const& [part, word] :
         {std::pair{status.str(), "STATUS"},
          {"lend explain " + std::string{name_of(failure->status)}, "lend explain STATUS"},
          {std::string{remedy_for(failure->status, failure->operation)}, "REMEDY"}})
      if (auto const at = text.find(part); at != std::string::npos)
        text.replace(at, part.size(), word);
  }
  for (auto const& [pattern, word] :
       {std::pair{R"(( \([a-z_]+\))? toward queue pair N( at [0-9a-zA-Z:.]*[0-9a-zA-Z])?)",
                  " toward the peer"},
        {R"(peer at [0-9a-zA-Z:.]+)", "peer at THERE"}})
    text = std::regex_replace(text, std::regex{pattern}, word);
  return text;
}

/// That work failed of itself, with one of these.
void check_status(Error const& error, std::initializer_list<WorkStatus> allowed) {
  REQUIRE(error.work() != nullptr);
  CHECK(std::find(allowed.begin(), allowed.end(), error.work()->status) != allowed.end());
}

void check_told(std::string const& name, Error const& error) {
  check_story("any device: " + name, told(error));
}

struct Story {
  static ChannelOptions options() {
    auto options = options_with_depth(depth);
    options.queue_pair.connection.ack_timeout = 50ms;
    options.queue_pair.connection.ack_retries = 1;
    options.queue_pair.receiver_not_ready_retries = 1;
    return options;
  }

  TwoEnds ends = two_ends(options());
  MemoryRegion memory = must(ends.domain.allocate(4096));
};

}  // namespace

TEST_CASE("a refused write, and a call after it, tell their stories on any device", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  if (lacks(ends.context, &DeviceCapabilities::acknowledges)) return;
  auto const error = error_of(ends.a.write({memory.gather(0, 8), nobody(8)}));
  check_status(error, {WorkStatus::remote_access});
  check_told("a refused write", error);
  check_told("a send after a refused write", error_of(ends.a.send(memory.gather(0, 8))));
}

TEST_CASE("a message longer than its receive is told on any device", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope scope{ends.b};
  auto receive = must(scope.post_receive(memory.scatter(64, 4)));
  auto const sent = ends.a.send(memory.gather(0, 8), within(10s));
  // Which it is on SoftRoCE depends on the kernel: test/guest/README.md.
  auto const error = error_of(receive.wait(within(10s)));
  check_status(error, {WorkStatus::local_length, WorkStatus::local_queue_pair_operation,
                       WorkStatus::remote_invalid_request});
  check_told("a receive shorter than its message", error);
  if (!ends.context.capabilities().acknowledges) return;  // the sender is told nothing
  auto const of_sender = error_of(sent);
  check_status(of_sender, {WorkStatus::remote_invalid_request, WorkStatus::remote_operation});
  check_told("a send longer than its receive", of_sender);
}

TEST_CASE("a peer without a receive tells its story on any device that waits", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  if (lacks(ends.context, &DeviceCapabilities::waits_for_receives)) return;
  auto const error = error_of(ends.a.send(memory.gather(0, 1)));
  check_status(error, {WorkStatus::receiver_not_ready_exceeded});
  check_told("a send without a receive", error);
}

TEST_CASE("a peer that is gone tells its story on any device", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  if (!ends.context.capabilities().endpoints) {  // rdma_cm tells
    PollingScope scope{ends.a};
    auto receive = must(scope.post_receive(memory.scatter(0, 8)));
    { auto const gone = std::move(ends.b); }
    auto const lost = error_of(receive.wait(within(10s)));
    check_told("by rdma_cm, a peer that is gone", lost);
    return;
  }
  { auto const gone = std::move(ends.b); }
  auto const error = error_of(ends.a.send(memory.gather(0, 1)));
  check_status(error, {WorkStatus::retry_exceeded});
  check_told("a send to a peer that is gone", error);
}

TEST_CASE("a deadline tells its story on any device", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  SECTION("of a blocking call") {
    check_told("a blocking receive past its deadline",
               error_of(ends.a.receive(memory.scatter(0, 64), within(1ms))));
    check_told("a blocking receive past its deadline", *ends.a.first_cause());
  }
  SECTION("of a wait, and of a drain") {
    PollingScope scope{ends.a};
    scope.drain_within(1ms);
    auto receive = must(scope.post_receive(memory.scatter(0, 4)));
    check_told("a wait past its deadline", error_of(receive.wait(within(0s))));
    check_told("a drain past its deadline", error_of(scope.finish()));
  }
  SECTION("of a wait for room") {
    PollingScope scope{ends.a};
    scope.drain_within(0s);
    for (std::size_t i = 0; i < depth; ++i)
      static_cast<void>(must(scope.post_receive(memory.scatter(8 * i, 8))));
    check_told("no room", error_of(scope.try_post_receive(memory.scatter(1024, 4))));
    check_told("a wait for room past its deadline",
               error_of(scope.post_receive(memory.scatter(1024, 4), within(1ms))));
  }
}

TEST_CASE("what was cancelled, and what a channel leaves that is gone, is told on any device",
          "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope scope{ends.a};
  auto receive = must(scope.post_receive(memory.scatter(0, 4)));
  Cancellation stopping;
  stopping.cancel();
  check_told("a wait cancelled", error_of(receive.wait(Deadline::never().unless(stopping))));
  { auto const gone = std::move(ends.a); }
  check_told("work of a channel that is gone", error_of(receive.wait()));
  check_told("a scope whose channel is gone", error_of(scope.finish()));
}

TEST_CASE("a manual scope that was left half asked is told on any device", "[channel]") {
  Story story;
  auto& ends = story.ends;
  auto& memory = story.memory;
  PollingScope receiving{ends.b};
  static_cast<void>(must(receiving.post_receive(memory.scatter(8, 8))));
  check_told("a manual scope with unpolled work",
             error_of(ends.a.manual_scope([&](PollingScope& scope) -> Result<void> {
               LEND_TRYV(scope.post_send(memory.gather(0, 8)));
               return success();
             })));
  must(receiving.finish());
}

TEST_CASE("what is refused before it is posted tells its story on any device", "[channel]") {
  Story story;
  auto& [ends, memory] = story;
  PollingScope scope{ends.b};
  scope.drain_within(0s);
  static_cast<void>(must(scope.post_receive(memory.scatter(64, 4))));
  check_told("a receive into bytes on loan", error_of(scope.post_receive(memory.scatter(64, 8))));
  check_told("a receive out of bounds", error_of(scope.post_receive(memory.scatter(64, 5000))));
}
