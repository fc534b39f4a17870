// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: compare-and-swap and fetch-and-add change a word of the peer once and bring what it was, in
// every layer; their result is on loan meanwhile; what a device or a region does not allow is
// refused before anything is posted. Method: both ends in one process; devices without atomic
// operations check the refusals only.
#include "support/two_ends.hpp"

#include <lend/channel/unsafe.hpp>

#include <cstdint>

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t size = 64;

struct Stage {
  TwoEnds ends = two_ends();
  MemoryRegion results = must(ends.domain.allocate(size));
  MemoryRegion words = must(ends.domain.allocate(size));

  [[nodiscard]] bool has_atomics() const { return ends.context.capabilities().atomics; }
  [[nodiscard]] Exposure expose(RemoteAccess access) { return must(words.unsafe_expose(access)); }
  void set(std::uint64_t value) {
    *reinterpret_cast<std::uint64_t*>(must(words.mutable_bytes(8, 8)).data()) = value;
  }
  [[nodiscard]] std::uint64_t word() const { return at(words, 8); }
  [[nodiscard]] std::uint64_t result() const { return at(results, 16); }
  void check_refused(Result<PendingWork> const& answer, Errc code, std::string const& word) {
    auto const error = error_of(answer);
    CAPTURE(error.message());
    CHECK(error == code);
    CHECK(error.message().find(word) != std::string::npos);
    CHECK(results.mutable_bytes(0, size).has_value());  // nothing is on loan
  }

 private:
  static std::uint64_t at(MemoryRegion const& memory, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, must(memory.bytes(offset, sizeof value)).data(), sizeof value);
    return value;
  }
};

}  // namespace

TEST_CASE("an atomic operation changes the peer's word and brings what it was, in every layer") {
  Stage stage;
  if (!stage.has_atomics()) return skip(stage.ends.context, "this device has no atomic operations");
  auto const exposure = stage.expose(RemoteAccess::atomic);
  auto const word = exposure.remote().word(8);
  auto const layer = GENERATE(0, 1, 2, 3, 4);
  CAPTURE(layer);
  auto const run = [&](Atomic const& work) {
    auto& channel = stage.ends.a;
    if (layer == 0) return must(channel.atomic(work));
    if (layer == 1) return void(must(must(unsafe_post_atomic(channel, work)).wait()));
    must(channel.scope([&](PollingScope& scope) -> Result<void> {
      if (layer == 2) return must(must(scope.post_atomic(work)).wait()), success();
      if (layer == 3) return must(must(scope.try_post_atomic(work)).wait()), success();
      auto batch = scope.batch();
      auto const added = must(batch.add_atomic(work));
      return batch.post();
    }));
  };
  stage.set(40);

  run(Atomic::fetch_add(stage.results.scatter(16, 8), word, 2));
  CHECK(stage.result() == 40);
  CHECK(stage.word() == 42);

  run(Atomic::compare_swap(stage.results.scatter(16, 8), word, 41, 7));
  CHECK(stage.result() == 42);
  CHECK(stage.word() == 42);

  run(Atomic::compare_swap(stage.results.scatter(16, 8), word, 42, 7));
  CHECK(stage.result() == 42);
  CHECK(stage.word() == 7);
}

TEST_CASE("the result of an atomic operation is lent exclusively until it is there") {
  Stage stage;
  if (!stage.has_atomics()) return skip(stage.ends.context, "this device has no atomic operations");
  auto const exposure = stage.expose(RemoteAccess::atomic);
  must(stage.ends.a.scope([&](PollingScope& scope) -> Result<void> {
    auto work = must(scope.post_atomic(
        Atomic::fetch_add(stage.results.scatter(16, 8), exposure.remote().word(8), 1)));
    CHECK(error_of(scope.post_send(stage.results.gather(20, 4))) == Errc::already_borrowed);
    must(work.wait());
    CHECK(stage.results.mutable_bytes(16, 8).has_value());
    return success();
  }));
}

TEST_CASE("an atomic operation on what is no word, or with no room for a word, is refused") {
  Stage stage;
  if (!stage.has_atomics()) return skip(stage.ends.context, "this device has no atomic operations");
  auto const exposure = stage.expose(RemoteAccess::all);
  auto const remote = exposure.remote();
  must(stage.ends.a.scope([&](PollingScope& scope) -> Result<void> {
    auto const post = [&](ByteRange result, RemoteWord word) {
      return scope.post_atomic(
          Atomic::fetch_add(stage.results.scatter(result.offset, result.length), word, 1));
    };
    stage.check_refused(post({16, 8}, remote.word(4)), Errc::invalid_argument, "multiple of 8");
    stage.check_refused(post({16, 8}, remote.word(size)), Errc::invalid_argument, "out of bounds");
    stage.check_refused(post({16, 8}, remote.word(size - 4)), Errc::invalid_argument,
                        "out of bounds");
    stage.check_refused(post({16, 8}, {}), Errc::invalid_argument, "out of bounds");
    stage.check_refused(post({16, 4}, remote.word(8)), Errc::invalid_argument, "8 aligned bytes");
    stage.check_refused(post({16, 16}, remote.word(8)), Errc::invalid_argument, "8 aligned bytes");
    stage.check_refused(post({20, 8}, remote.word(8)), Errc::invalid_argument, "8 aligned bytes");
    stage.check_refused(post({16, 0}, remote.word(8)), Errc::invalid_argument, "8 aligned bytes");
    stage.check_refused(post({size, 8}, remote.word(8)), Errc::invalid_argument, "");
    CHECK(scope.outstanding() == 0);
    return success();
  }));
}

TEST_CASE("an access that the peer did not expose its bytes for is refused, nothing posted") {
  Stage stage;
  auto const to_read = stage.expose(RemoteAccess::read);
  auto const to_write = stage.expose(RemoteAccess::write);
  must(stage.ends.a.scope([&](PollingScope& scope) -> Result<void> {
    stage.check_refused(
        scope.post_write({stage.results.gather(0, 8), to_read.remote().slice(0, 8)}),
        Errc::invalid_argument, "for read only");
    stage.check_refused(
        scope.post_read({stage.results.scatter(0, 8), to_write.remote().slice(0, 8)}),
        Errc::invalid_argument, "for write only");
    if (stage.has_atomics())
      stage.check_refused(scope.post_atomic(Atomic::fetch_add(stage.results.scatter(0, 8),
                                                              to_write.remote().word(0), 1)),
                          Errc::invalid_argument, "for write only");
    CHECK(scope.outstanding() == 0);
    return success();
  }));
  must(stage.ends.a.write({stage.results.gather(0, 8), to_write.remote().slice(0, 8)}));
}

TEST_CASE("a device without atomic operations refuses them, and to expose bytes for them") {
  Stage stage;
  if (stage.has_atomics()) return skip(stage.ends.context, "this device has atomic operations");
  CHECK(error_of(stage.words.unsafe_expose(RemoteAccess::atomic)) == Errc::unsupported);
  CHECK(error_of(stage.ends.a.atomic(Atomic::fetch_add(stage.results.scatter(0, 8),
                                                       RemoteRegion{0x1000, 8, 1}.word(0), 1))) ==
        Errc::unsupported);
  CHECK(stage.results.mutable_bytes(0, size).has_value());
}
