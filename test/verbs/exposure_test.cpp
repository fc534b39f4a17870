// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an exposure is a registration of its own, which ends before the bytes do.
// Method: the fake provider, which counts.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/exposure.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

using namespace lend;
using namespace lend::test;

namespace {

static_assert(!std::is_copy_constructible_v<Exposure> && !std::is_copy_assignable_v<Exposure>);
static_assert(std::is_nothrow_move_constructible_v<Exposure>);

ProtectionDomain exposing_domain() {
  Fake::get().reset();
  return open_fake().value().allocate_protection_domain().value();
}

std::size_t registrations() {
  return Fake::get().live("region");
}

}  // namespace

TEST_CASE("an exposure has exactly the bytes asked for, and the region stays local", "[verbs]") {
  auto const domain = exposing_domain();
  auto memory = domain.allocate(100).value();

  // SAFETY: no peer is told, here and below.
  auto piece = memory.unsafe_expose(10, 20, RemoteAccess::read_write).value();
  auto whole = memory.unsafe_expose(RemoteAccess::read).value();
  CHECK(piece.native() != nullptr);
  CHECK(piece.native() != whole.native());

  auto const* const first = memory.bytes().value().data();
  CHECK(piece.remote().address() == reinterpret_cast<std::uintptr_t>(first) + 10);
  CHECK(piece.remote().size() == 20);
  CHECK(whole.remote().size() == 100);
  CHECK(memory.remote().error() == Errc::unsupported);
  CHECK(registrations() == 3);
}

TEST_CASE("an exposure ends with its guard, or before by finish()", "[verbs]") {
  auto const domain = exposing_domain();
  auto memory = domain.allocate(100).value();
  {
    auto const guard = memory.unsafe_expose(RemoteAccess::write).value();
    CHECK(memory.loans() == 1);
    CHECK(memory.mutable_bytes().has_value());
  }
  CHECK(registrations() == 1);

  auto exposure = memory.unsafe_expose(RemoteAccess::write).value();
  auto other = memory.unsafe_expose(0, 8, RemoteAccess::write).value();
  other = std::move(exposure);  // what it held before ends now, not with `exposure`
  CHECK(registrations() == 2);
  CHECK(exposure.remote().size() == 0);
  auto moved = std::move(other);
  CHECK(other.remote().size() == 0);
  CHECK(moved.remote().size() == 100);
  CHECK(memory.loans() == 1);
  CHECK(moved.finish().has_value());
  CHECK(registrations() == 1);
  CHECK(moved.remote().size() == 0);
  CHECK(moved.finish().has_value());
  CHECK(memory.loans() == 0);
  CHECK(Fake::get().violations.empty());
}

TEST_CASE("an owned region that ends while it is exposed stays until the exposure ends",
          "[verbs]") {
  auto const domain = exposing_domain();
  std::optional memory{domain.allocate(100).value()};
  std::optional first{memory->unsafe_expose(RemoteAccess::write).value()};
  std::optional second{memory->unsafe_expose(RemoteAccess::read).value()};

  memory.reset();
  first.reset();
  CHECK(registrations() == 2);
  CHECK(Fake::get().live("storage") == 1);
  second.reset();

  CHECK(registrations() == 0);
  CHECK(Fake::get().live("storage") == 0);
  CHECK(Fake::get().violations.empty());
}

TEST_CASE("bytes whose key the device keeps are never given back", "[verbs]") {
  auto const domain = exposing_domain();
  std::array<std::byte, 64> bytes{};
  bool const owned = GENERATE(true, false);
  CAPTURE(owned);
  {
    auto memory = owned ? domain.allocate(100).value() : domain.register_memory(bytes).value();
    auto exposure = memory.unsafe_expose(RemoteAccess::write).value();
    Fake::get().fail_destruction = Fake::get().destructions + 1;

    auto const finished = exposure.finish();

    REQUIRE(finished.has_error());
    CHECK(finished.error() == Errc::system_failed);
    CHECK(finished.error().os_error() == EIO);
    CHECK(finished.error().message().find("end its connection") != std::string::npos);
  }
  CHECK(Fake::get().live("storage") == (owned ? 1 : 0));
}

TEST_CASE("what cannot be exposed is an error and leaves nothing", "[verbs]") {
  auto const domain = exposing_domain();
  auto memory = domain.allocate(100).value();

  for (auto const& range : {ByteRange{0, 101}, ByteRange{101, 0}, ByteRange{SIZE_MAX, 2},
                            ByteRange{2, SIZE_MAX}, ByteRange{5, 0}})
    CHECK(memory.unsafe_expose(range.offset, range.length, RemoteAccess::read).error() ==
          Errc::invalid_argument);
  Fake::get().fail_after(0, ENOMEM);
  CHECK(memory.unsafe_expose(RemoteAccess::read).error() == Errc::exhausted);
  CHECK(registrations() == 1);
  CHECK(memory.loans() == 0);

  auto const taken = std::move(memory);
  CHECK(memory.unsafe_expose(RemoteAccess::read).error() == Errc::invalid_argument);
}

TEST_CASE("an access of none of the kinds that there are exposes nothing", "[verbs]") {
  auto const domain = exposing_domain();
  auto memory = domain.allocate(100).value();
  std::array<std::byte, 64> bytes{};
  auto const value = GENERATE(0, 8, 15, 255);
  auto const access = static_cast<RemoteAccess>(value);

  std::vector<Error> errors;
  errors.push_back(memory.unsafe_expose(access).error());
  errors.push_back(domain.unsafe_allocate_exposed(100, access).error());
  errors.push_back(domain.unsafe_register_exposed(bytes, access).error());

  for (auto const& error : errors) {
    CHECK(error == Errc::invalid_argument);
    CHECK(error.message() ==
          "a remote access of " + std::to_string(value) + "; it must be of read, write and atomic");
  }
  CHECK(registrations() == 1);
  CHECK(memory.loans() == 0);
  CHECK(Fake::get().live("storage") == 1);
}

TEST_CASE("the ledger goes on watching a region that is exposed", "[verbs]") {
  auto const domain = exposing_domain();
  auto memory = domain.allocate(100).value();
  auto const exposure = memory.unsafe_expose(RemoteAccess::write).value();

  auto const refused = memory.unsafe_disable_ledger();

  REQUIRE(refused.has_error());
  CHECK(refused.error() == Errc::already_borrowed);
  CHECK(refused.error().message().find("exposed to a peer") != std::string::npos);
}
