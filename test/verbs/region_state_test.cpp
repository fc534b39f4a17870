// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: bytes on loan outlive their region's name, and the registration ends before the storage.
// Method: loans taken as the channel room takes them, on the fake provider, which counts.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/protection_domain.hpp>
#include <verbs/memory/loan_row.hpp>

#include <algorithm>
#include <optional>

using namespace lend;
using namespace lend::test;
using lend::base::is_poisoned;
using lend::base::Loan;
using lend::base::poison_granule;
using lend::verbs::end_loan;

namespace {

ProtectionDomain fresh_domain() {
  Fake::get().reset();
  return open_fake().value().allocate_protection_domain().value();
}

Result<void> lend_element(Loan& loan, ScatterElement const& element) {
  return verbs::begin_loan(loan, *element.region, element.range, base::LoanKind::exclusive,
                           Operation::receive, SourceLine::here());
}

}  // namespace

TEST_CASE("an owned region destroyed on loan is released with its last loan", "[verbs]") {
  auto const domain = fresh_domain();
  std::optional memory{domain.allocate(4096).value()};
  Loan first;
  Loan second;
  auto* const state = memory->scatter().region;
  REQUIRE(lend_element(first, memory->scatter(0, 64)).has_value());
  REQUIRE(lend_element(second, memory->scatter(64, 64)).has_value());
  CHECK(memory->loans() == 2);

  memory.reset();
  CHECK(Fake::get().live("region") == 1);
  CHECK(Fake::get().live("storage") == 1);
  end_loan(first, state);
  CHECK(Fake::get().live("region") == 1);
  end_loan(second, state);

  CHECK(Fake::get().live("region") == 0);
  CHECK(Fake::get().live("storage") == 0);
  CHECK(Fake::get().violations.empty());
}

TEST_CASE("a region on loan keeps its domain and device until the loan ends", "[verbs]") {
  std::optional domain{fresh_domain()};
  std::optional memory{domain->allocate(64).value()};
  auto* const state = memory->scatter().region;
  Loan loan;
  REQUIRE(lend_element(loan, memory->scatter()).has_value());

  memory.reset();
  domain.reset();
  CHECK(Fake::get().live("context") == 1);
  end_loan(loan, state);

  CHECK(Fake::get().live() == 0);
  CHECK(Fake::get().violations.empty());
}

TEST_CASE("a region not on loan is released at once, owned or viewed", "[verbs]") {
  auto const domain = fresh_domain();
  std::array<std::byte, 64> bytes{};
  {
    auto const owned = domain.allocate(64).value();
    auto const viewed = domain.register_memory(bytes).value();
    CHECK(Fake::get().live("region") == 2);
    CHECK(Fake::get().live("storage") == 1);
  }

  CHECK(Fake::get().live("region") == 0);
  CHECK(Fake::get().live("storage") == 0);
}

TEST_CASE("the bytes of a region cannot be touched against a loan", "[verbs]") {
  auto const domain = fresh_domain();
  auto memory = domain.allocate(100).value();
  Loan reading;
  Loan writing;
  auto const gather = memory.gather(0, 10);
  REQUIRE(verbs::begin_loan(reading, *gather.region, gather.range, base::LoanKind::shared,
                            Operation::send, SourceLine::here())
              .has_value());
  REQUIRE(lend_element(writing, memory.scatter(50, 10)).has_value());

  CHECK(memory.bytes(0, 50).has_value());
  CHECK(memory.mutable_bytes(0, 10).error() == Errc::already_borrowed);
  CHECK(memory.bytes(59, 1).error() == Errc::already_borrowed);
  CHECK(memory.bytes().error() == Errc::already_borrowed);
  CHECK(memory.mutable_bytes(10, 40).has_value());
  CHECK(memory.bytes(0, 101).error() == Errc::invalid_argument);
  end_loan(reading, gather.region);
  end_loan(writing, gather.region);
  CHECK(memory.mutable_bytes().has_value());
}

TEST_CASE("bytes that the device may write are poisoned while they are, no neighbour's ever",
          "[verbs]") {
  // Without AddressSanitizer nothing is, which is all there is to see.
  auto const domain = fresh_domain();
  auto memory = domain.allocate(4096).value();
  auto const* const bytes = memory.bytes().value().data();  // at the start of a page
  auto* const state = memory.scatter().region;
  for (std::size_t begin = 64; begin < 64 + 2 * poison_granule; ++begin)
    for (std::size_t length = 0; length < 3 * poison_granule; ++length) {
      CAPTURE(begin, length);
      Loan writing;
      Loan reading;
      REQUIRE(lend_element(writing, memory.scatter(begin, length)).has_value());
      auto const gather = memory.gather(begin + length, 16);
      REQUIRE(verbs::begin_loan(reading, *gather.region, gather.range, base::LoanKind::shared,
                                Operation::send, SourceLine::here())
                  .has_value());

      auto const granule_of = [](std::size_t at) { return at / poison_granule * poison_granule; };
      for (std::size_t at = 0; at < 256; ++at) {
        bool const is_inside =
            granule_of(at) >= begin && granule_of(at) + poison_granule <= begin + length;
        REQUIRE(is_poisoned(bytes + at) == (base::can_poison && is_inside));
      }
      end_loan(reading, state);
      end_loan(writing, state);
      REQUIRE(
          std::none_of(bytes, bytes + 256, [](auto const& byte) { return is_poisoned(&byte); }));
    }
}

TEST_CASE("neighbours on loan are poisoned and come back each by itself", "[verbs]") {
  auto const domain = fresh_domain();
  auto memory = domain.allocate(4096).value();
  auto const* const bytes = memory.bytes().value().data();
  auto* const state = memory.scatter().region;
  Loan first;
  Loan second;
  REQUIRE(lend_element(first, memory.scatter(0, 20)).has_value());
  REQUIRE(lend_element(second, memory.scatter(20, 20)).has_value());
  Loan refused;
  CHECK(lend_element(refused, memory.scatter(0, 64)).has_error());

  end_loan(first, state);
  CHECK_FALSE(is_poisoned(bytes + 8));
  CHECK_FALSE(is_poisoned(bytes + 20));
  CHECK(is_poisoned(bytes + 24) == base::can_poison);
  end_loan(second, state);
  CHECK_FALSE(is_poisoned(bytes + 24));
}

TEST_CASE("an unchecked region lends without a loan, and not while on loan", "[verbs]") {
  auto const domain = fresh_domain();
  auto memory = domain.allocate(100).value();
  auto* const state = memory.scatter().region;
  Loan loan;
  REQUIRE(lend_element(loan, memory.scatter()).has_value());
  CHECK(memory.unsafe_disable_ledger().error() == Errc::already_borrowed);
  end_loan(loan, state);

  REQUIRE(memory.unsafe_disable_ledger().has_value());
  REQUIRE(lend_element(loan, memory.scatter()).has_value());
  CHECK_FALSE(loan.on_loan());
  CHECK(memory.mutable_bytes().has_value());
}

TEST_CASE("a region is registered as asked: its exact bytes, and remote only when exposed",
          "[verbs]") {
  auto const domain = fresh_domain();
  auto const local = domain.allocate(100).value();
  auto const exposed = domain.unsafe_allocate_exposed(100, RemoteAccess::read).value();

  CHECK(local.remote().error() == Errc::unsupported);
  auto const remote = exposed.remote().value();
  CHECK(remote.size() == 100);
  CHECK(remote.address() == reinterpret_cast<std::uintptr_t>(exposed.bytes().value().data()));
}

TEST_CASE("a region's length is 1 to the device's limit", "[verbs]") {
  auto const domain = fresh_domain();
  auto const calls = Fake::get().calls;

  for (std::size_t length : {std::size_t{0}, (std::size_t{1} << 30) + 1, SIZE_MAX}) {
    CHECK(domain.allocate(length).error() == Errc::invalid_argument);
    CHECK(domain.unsafe_allocate_exposed(length, RemoteAccess::read).error() ==
          Errc::invalid_argument);
  }
  CHECK(domain.register_memory(std::span<std::byte>{}).error() == Errc::invalid_argument);
  CHECK(Fake::get().calls == calls);
}

TEST_CASE("a region moved from has no bytes and ends without effect", "[verbs]") {
  auto const domain = fresh_domain();
  auto memory = domain.allocate(100).value();
  auto taken = std::move(memory);

  CHECK(memory.size() == 0);
  CHECK(memory.loans() == 0);
  CHECK(memory.bytes(0, 1).error() == Errc::invalid_argument);
  CHECK(memory.mutable_bytes(0, 0).error() == Errc::invalid_argument);
  CHECK(memory.remote().has_error());
  CHECK(taken.size() == 100);
  memory = std::move(taken);
  CHECK(memory.size() == 100);
}
