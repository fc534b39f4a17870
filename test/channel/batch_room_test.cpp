// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a batch without room holds nobody up but those who ask for its own work. Method: one entry
// for receives, which is taken, and work in two batches.
#include <optional>
#include <thread>
#include <utility>

#include "channel/pieces.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

ChannelOptions one_receive() {
  ChannelOptions options;
  options.queue_pair.send_depth = 4;
  options.queue_pair.receive_depth = 1;
  return options;
}

/// Long on any machine; only a test that fails waits for it.
constexpr auto patience = 20s;

}  // namespace

TEST_CASE("who waits for the work of one batch does not wait for the room of another",
          "[channel]") {
  auto ends = two_ends(one_receive());
  auto memory = must(ends.domain.allocate(4 * piece));
  PollingScope peer{ends.b};
  auto const theirs = must(peer.post_receive(memory.scatter(3 * piece, piece)));
  PollingScope scope{ends.a};
  auto taken = must(scope.post_receive(memory.scatter(0, piece)));
  auto older = scope.batch();
  auto newer = scope.batch();
  auto const [asking, full] = GENERATE(std::pair{0, 1}, std::pair{1, 0});
  Batch* const batches[] = {&older, &newer};
  CAPTURE(asking);
  auto const late = must(batches[full]->add_receive(memory.scatter(piece, piece)));
  auto question = must(batches[asking]->add_send(memory.gather(2 * piece, piece)));

  auto const deadline = within(patience);
  must(question.wait(deadline));

  CHECK_FALSE(deadline.has_passed());
  CHECK(batches[full]->size() == 1);
  static_cast<void>(must(peer.post_send(memory.gather(2 * piece, piece))));
  must(taken.wait(deadline));
  must(batches[full]->post(deadline));
  static_cast<void>(must(peer.post_send(memory.gather(2 * piece, piece))));
  must(scope.finish());
  must(peer.finish());
}

TEST_CASE("a wait whose deadline has passed looks once at what it posted", "[channel]") {
  ChannelOptions options;
  options.wait = Wait::event;  // others look more often
  Pieces it{1, options};
  if (it.ends.context.kind() != DeviceKind::soft) {
    skip(it.ends.context, "may be at work when its post returns");
    return;
  }
  PollingScope scope{it.ends.a};
  auto batch = scope.batch();
  auto work = must(batch.add_write(it.write(0)));

  must(work.wait(within(0s)));

  must(scope.finish());
}

TEST_CASE("a batch that waits for room holds back no other of its scope, whoever posts it",
          "[channel]") {
  auto ends = two_ends(one_receive());
  if (lacks(ends.context, &DeviceCapabilities::waits_for_receives)) return;
  auto memory = must(ends.domain.allocate(5 * piece));
  std::optional<Error> wrong;
  auto const answer = [&]() -> Result<void> {
    LEND_TRYV(ends.b.receive(memory.scatter(3 * piece, piece), within(patience)));
    LEND_TRYV(ends.b.send(memory.gather(4 * piece, piece), within(patience)));
    LEND_TRYV(ends.b.send(memory.gather(4 * piece, piece), within(patience)));
    return success();
  };
  std::thread answering{[&] {
    if (auto answered = answer(); !answered.has_value()) wrong = answered.error();
  }};
  enum class By { finish, post, end };
  auto const by = GENERATE(By::finish, By::post, By::end);
  bool const is_question_first = GENERATE(true, false);
  CAPTURE(static_cast<int>(by), is_question_first);
  Result<void> ended = success();
  {
    PollingScope scope{ends.a};
    scope.drain_within(patience);
    static_cast<void>(must(scope.post_receive(memory.scatter(0, piece))));
    {
      auto older = scope.batch();
      auto newer = scope.batch();
      auto& asking = is_question_first ? older : newer;
      auto& full = is_question_first ? newer : older;
      static_cast<void>(must(asking.add_send(memory.gather(2 * piece, piece))));
      static_cast<void>(must(full.add_receive(memory.scatter(piece, piece))));

      if (by == By::finish) ended = scope.finish();
      if (by == By::post) ended = full.post(within(patience));
    }
    if (by != By::finish && ended.has_value()) ended = scope.finish();
  }
  answering.join();

  must(ended);
  if (wrong) FAIL(wrong->message());
}

TEST_CASE("where batches hold the slots, who finds none free is told", "[channel]") {
  ChannelOptions options;
  options.queue_pair.send_depth = 1;
  options.queue_pair.receive_depth = 1;
  auto ends = two_ends(options);
  auto memory = must(ends.domain.allocate(7 * piece));
  PollingScope peer{ends.b};
  PollingScope scope{ends.a};
  auto one = scope.batch();
  auto other = scope.batch();
  std::size_t at = 0;
  for (auto* batch : {&one, &other}) {
    static_cast<void>(must(batch->add_send(memory.gather(at++ * piece, piece))));
    static_cast<void>(must(batch->add_receive(memory.scatter(at++ * piece, piece))));
  }

  auto const error = error_of(scope.post_send(memory.gather(4 * piece, piece), within(10ms)));

  CHECK(error == Errc::queue_full);
  CHECK_THAT(error.message(), Catch::Contains("handles and batches: post the batches"));
  for (auto* batch : {&one, &other}) {
    auto message = must(peer.post_receive(memory.scatter(5 * piece, piece)));
    must(batch->post(within(patience)));
    must(message.wait(within(patience)));
    auto answer = must(peer.post_send(memory.gather(6 * piece, piece)));
    must(answer.wait(within(patience)));
  }
}
