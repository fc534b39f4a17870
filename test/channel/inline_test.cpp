// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: bytes that are copied by the post are the program's at once, in every layer, and are
// refused only against what the device writes. Method: writes, which wait for no receive.
#include "channel/pieces.hpp"
#include "support/two_ends.hpp"

#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t copied = 2 * piece;

ChannelOptions with_copies() {
  ChannelOptions options;
  options.queue_pair.inline_bytes = copied;
  return options;
}

/// Overwrites what was posted, and sees what arrived.
void check_copied(Pieces& it, PendingWork work) {
  CHECK(it.here.loans() == 0);
  put(it.here, 0, "gone....");
  CHECK(must(work.wait(within(10s))).bytes == piece);
  it.settle();
  CHECK(it.arrived(0) == word(0));
}

}  // namespace

TEST_CASE("what is copied by its post is the program's at once", "[channel]") {
  Pieces it{4, with_copies()};
  PollingScope scope{it.ends.a};

  SECTION("alone") {
    check_copied(it, must(scope.post_write(it.write(0))));
  }
  SECTION("beside bytes that the device writes") {
    PollingScope receiving{it.ends.b};
    static_cast<void>(must(receiving.post_receive(it.here.scatter(3 * piece, piece))));
    auto work = must(scope.post_write(it.write(0)));
    CHECK(it.here.loans() == 1);
    must(it.ends.a.send(it.from(1)));
    must(receiving.finish());
    check_copied(it, std::move(work));
  }
  SECTION("of several elements") {
    Write const write{{it.here.gather(0, 3), it.here.gather(3, piece - 3)}, it.slice(0)};
    check_copied(it, must(scope.post_write(write)));
  }
  SECTION("with an immediate") {
    if (lacks(it.ends.context, &DeviceCapabilities::immediates)) return;
    PollingScope receiving{it.ends.b};
    static_cast<void>(must(receiving.post_receive(Receive::only_immediate())));
    check_copied(it, must(scope.post_write(it.write(0).with_immediate(7))));
    must(receiving.finish());
  }
  SECTION("in a process with a second thread") {
    std::thread{[] {}}.join();
    check_copied(it, must(scope.post_write(it.write(0))));
  }
  SECTION("of a region without a ledger") {
    // SAFETY: this test looks after its bytes.
    must(it.here.unsafe_disable_ledger());
    check_copied(it, must(scope.post_write(it.write(0))));
  }
  must(scope.finish());
}

TEST_CASE("what a batch copies is the program's as soon as it is added", "[channel]") {
  Pieces it{2, with_copies()};
  PollingScope scope{it.ends.a};
  auto batch = scope.batch();
  std::vector<PendingWork> works;
  auto const bytes = std::size_t{GENERATE(1u, 7u, 8u, 11u, 16u)};
  auto const elsewhere = it.remote.slice(0, bytes);

  SECTION("alone") {
    works.push_back(must(batch.add_write({it.here.gather(0, bytes), elsewhere})));
  }
  SECTION("without a handle") {
    must(batch.add_write({it.here.gather(0, bytes), elsewhere}, no_handle));
  }
  SECTION("behind as many as one completion ends") {
    for (std::uint32_t i = 0; i < it.ends.a.send_depth() / 4; ++i)
      works.push_back(must(batch.add_write({it.here.gather(0, bytes), elsewhere})));
  }
  SECTION("of several elements") {
    if (bytes == 1) return;
    Write const write{{it.here.gather(0, 1), it.here.gather(1, bytes - 1)}, elsewhere};
    works.push_back(must(batch.add_write(write)));
  }
  SECTION("in a process with a second thread") {
    std::thread{[] {}}.join();
    works.push_back(must(batch.add_write({it.here.gather(0, bytes), elsewhere})));
  }
  SECTION("of a region without a ledger") {
    // SAFETY: this test looks after its bytes.
    must(it.here.unsafe_disable_ledger());
    works.push_back(must(batch.add_write({it.here.gather(0, bytes), elsewhere})));
  }
  CHECK(it.here.loans() == 0);
  put(it.here, 0, std::string(2 * piece, '-'));
  must(batch.post());
  for (auto& work : works) CHECK(must(work.wait(within(10s))).bytes == bytes);
  must(scope.finish());
  it.settle();
  CHECK(text_at(it.there, 0, bytes) == (word(0) + word(1)).substr(0, bytes));
}

TEST_CASE("a batch keeps more than 48 bytes on loan until it is posted, also where the post copies",
          "[channel]") {
  ChannelOptions options;
  options.queue_pair.inline_bytes = 64;
  Pieces it{16, options};
  PollingScope scope{it.ends.a};
  auto batch = scope.batch();
  std::size_t const bytes = 48 + 1;

  SECTION("in one element") {
    must(batch.add_write({it.here.gather(0, bytes), it.remote.slice(0, bytes)}, no_handle));
    CHECK(it.here.loans() == 1);
  }
  SECTION("in two, behind some that are copied as they are added") {
    must(batch.add_write({it.here.gather(0, 6 * piece), it.remote.slice(0, 6 * piece)}, no_handle));
    CHECK(it.here.loans() == 0);
    must(batch.add_write({{it.here.gather(0, piece), it.here.gather(piece, bytes - piece)},
                          it.remote.slice(0, bytes)},
                         no_handle));
    CHECK(it.here.loans() == 2);
  }
  CHECK(error_of(it.here.mutable_bytes(0, piece)) == Errc::already_borrowed);
  must(batch.post());
  CHECK(it.here.loans() == 0);
  put(it.here, 0, "gone....");
  must(scope.finish());
  it.settle();
  for (std::size_t i = 0; i < 6; ++i) CHECK(it.arrived(i) == word(i));
}

TEST_CASE("a region may end while what was copied of it is under way", "[channel]") {
  Pieces it{1, with_copies()};
  PollingScope scope{it.ends.a};
  std::vector<std::byte> bytes(piece, std::byte{'x'});
  {
    auto viewed = must(it.ends.domain.register_memory(bytes));
    static_cast<void>(must(scope.post_write({viewed.gather(0, piece), it.slice(0)})));
  }
  must(scope.finish());
  it.settle();
  CHECK(it.arrived(0) == std::string(piece, 'x'));
}

TEST_CASE("longer work than is copied stays on loan until its completion", "[channel]") {
  Pieces it{4, with_copies()};
  PollingScope scope{it.ends.a};

  auto most = must(scope.post_write({it.here.gather(0, copied), it.remote.slice(0, copied)}));
  CHECK(it.here.loans() == 0);
  auto more =
      must(scope.post_write({it.here.gather(0, copied + 1), it.remote.slice(0, copied + 1)}));
  CHECK(it.here.loans() == 1);
  must(most.wait(within(10s)));
  must(more.wait(within(10s)));
  CHECK(it.here.loans() == 0);
  must(scope.finish());
}

TEST_CASE("bytes that the device writes are not copied, nor sent", "[channel]") {
  Pieces it{4, with_copies()};
  PollingScope receiving{it.ends.b};
  static_cast<void>(must(receiving.post_receive(it.here.scatter(0, piece))));
  PollingScope scope{it.ends.a};

  auto const line = __LINE__ + 1;
  auto const error = error_of(scope.post_write(it.write(0)));
  CHECK(error == Errc::already_borrowed);
  CHECK(error.message().find(":" + std::to_string(line)) != std::string::npos);
  CHECK(error_of(it.ends.a.write(it.write(0))) == Errc::already_borrowed);
  CHECK(error_of(scope.batch().add_write(it.write(0))) == Errc::already_borrowed);
  CHECK(it.here.loans() == 1);

  must(it.ends.a.write(it.write(1)));
  must(it.ends.a.send(it.from(2)));
  must(receiving.finish());
  must(scope.finish());
}

TEST_CASE("work that was copied and fails names the line that posted it", "[channel]") {
  Pieces it{2, with_copies()};
  if (!it.ends.context.capabilities().acknowledges) return;
  RemoteSlice const elsewhere{it.slice(0)};
  { auto const ended = std::move(it.there); }
  PollingScope scope{it.ends.a};
  std::function<void()> const post[] = {
      [&] {
        static_cast<void>(must(scope.post_write({it.from(0), elsewhere})));
      },
      [&] {
        static_cast<void>(
            must(scope.post_write({{it.here.gather(0, 3), it.here.gather(3, 5)}, elsewhere})));
      }};
  SECTION("of one element") {
    post[0]();
  }
  SECTION("of several") {
    post[1]();
  }
  SECTION("in a batch") {
    auto batch = scope.batch();
    must(batch.add_write({it.from(0), elsewhere}, no_handle));
    must(batch.post());
  }
  CHECK(it.here.loans() == 0);
  auto const error = error_of(scope.finish());
  REQUIRE(error.work() != nullptr);
  CHECK(std::string{error.work()->posted_at.file}.find("inline_test.cpp") != std::string::npos);
  CHECK(error.work()->posted_at.line > 0);
}

TEST_CASE("a channel that was asked for no inline bytes has as many as its device takes, to 64",
          "[channel]") {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto const granted = [&](ChannelOptions options) {
    auto const [a, b] = connected_as_asked(domain, options, options);
    CHECK(a.inline_bytes() == b.inline_bytes());
    auto const told = "; sends of up to " + std::to_string(a.inline_bytes()) + " bytes are copied";
    CHECK((a.describe().find(told) != std::string::npos) == (a.inline_bytes() != 0));
    return a.inline_bytes();
  };
  CHECK(granted({}) <= inline_bytes_unasked);
  if (context.kind() == DeviceKind::soft) CHECK(granted({}) == inline_bytes_unasked);
  CHECK(granted(without_copies()) == 0);
  CHECK(granted(with_copies()) == copied);
}
