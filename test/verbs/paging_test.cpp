// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a region is on demand only where the device has that, and advice says what was asked; other
// devices refuse both with their name. Method: the fake provider, and the soft device.
#include "support/two_ends.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair_options.hpp>

#include <sys/mman.h>

#include <array>
#include <vector>

using namespace lend;
using namespace lend::test;

namespace {

ProtectionDomain domain_of(bool has_paging_on_demand) {
  Fake::get().reset();
  Fake::get().device.has_paging_on_demand = has_paging_on_demand;
  return must(must(open_fake()).allocate_protection_domain());
}

/// Of a domain of a device that has it.
struct OnDemand {
  std::array<std::byte, 64> bytes{};
  ProtectionDomain domain = domain_of(true);
  MemoryRegion region = must(domain.register_memory(bytes, Paging::on_demand));
};

}  // namespace

TEST_CASE("a region is registered on demand where the device has that, else refused", "[verbs]") {
  {
    OnDemand made;
    CHECK(made.domain.context().capabilities().paging_on_demand);
    CHECK((Fake::get().accesses.back() & IBV_ACCESS_ON_DEMAND) != 0);
    auto const pinned = must(made.domain.register_memory(made.bytes));
    CHECK((Fake::get().accesses.back() & IBV_ACCESS_ON_DEMAND) == 0);
  }
  std::array<std::byte, 64> bytes{};
  auto const domain = domain_of(false);
  CHECK_FALSE(domain.context().capabilities().paging_on_demand);
  auto const refused = error_of(domain.register_memory(bytes, Paging::on_demand));
  CHECK(refused == Errc::unsupported);
  CHECK(refused.message().find("has no paging on demand") != std::string::npos);
  CHECK(Fake::get().live("region") == 0);
}

TEST_CASE("advice names its bytes, and says whether to wait", "[verbs]") {
  OnDemand made;
  auto const& region = made.region;
  std::array const two{region.gather(0, 8), region.gather(32, 16)};

  must(made.domain.advise(Advice::prefetch_to_write, two, AdviseUntil::done));
  must(made.domain.advise(Advice::prefetch_present, region.gather()));
  must(made.domain.advise(Advice::prefetch, region.gather()));

  auto const& advised = Fake::get().advised;
  REQUIRE(advised.size() == 3);
  CHECK(advised[0].advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
  CHECK(advised[0].flags == IBV_ADVISE_MR_FLAG_FLUSH);
  REQUIRE(advised[0].elements.size() == 2);
  CHECK(advised[0].elements[1].addr == reinterpret_cast<std::uintptr_t>(made.bytes.data() + 32));
  CHECK(advised[0].elements[1].length == 16);
  CHECK(advised[0].elements[1].lkey == region.local_key());
  CHECK(advised[1].advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT);
  CHECK(advised[1].flags == 0);
  CHECK(advised[2].advice == IBV_ADVISE_MR_ADVICE_PREFETCH);
}

TEST_CASE("advice that makes no sense is refused before the device is asked", "[verbs]") {
  OnDemand made;
  auto const& [bytes, domain, region] = made;
  auto const other = must(domain.context().allocate_protection_domain());

  CHECK(error_of(domain.advise(Advice::prefetch, std::span<GatherElement const>{})) ==
        Errc::invalid_argument);
  std::vector<GatherElement> const many(elements_max + 1, region.gather(0, 1));
  CHECK(error_of(domain.advise(Advice::prefetch, many)) == Errc::invalid_argument);
  CHECK(error_of(domain.advise(Advice::prefetch, region.gather(60, 8))) == Errc::invalid_argument);
  auto const foreign = error_of(other.advise(Advice::prefetch, region.gather()));
  CHECK(foreign == Errc::invalid_argument);
  CHECK(foreign.message().find("another protection domain") != std::string::npos);
  CHECK(Fake::get().advised.empty());
}

TEST_CASE("advice on 4 GiB and more at once is refused, and given by chunks", "[verbs]") {
  constexpr std::size_t length = std::size_t{1} << 32;
  void* const mapped =
      ::mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  {
    Fake::get().reset();
    Fake::get().device.has_paging_on_demand = true;
    Fake::get().device.region_bytes_max = 2 * length;
    auto const domain = must(must(open_fake()).allocate_protection_domain());
    auto const region =
        must(domain.register_memory({static_cast<std::byte*>(mapped), length}, Paging::on_demand));

    auto const refused = error_of(domain.advise(Advice::prefetch, region.gather()));
    CHECK(refused == Errc::invalid_argument);
    CHECK(refused.message().find("less than 4 GiB") != std::string::npos);
    CHECK(Fake::get().advised.empty());
    must(domain.advise(Advice::prefetch, region.gather(0, length - 1)));
    CHECK(Fake::get().advised.at(0).elements.at(0).length == UINT32_MAX);
  }
  REQUIRE(::munmap(mapped, length) == 0);
}

TEST_CASE("a device that takes no advice says so, and another refusal names the call", "[verbs]") {
  OnDemand made;
  Fake::get().fail_after(0, GENERATE(EOPNOTSUPP, EINVAL));

  auto const error = error_of(made.domain.advise(Advice::prefetch, made.region.gather()));

  bool const has_none = Fake::get().fail_errno == EOPNOTSUPP;
  CHECK(error == (has_none ? Errc::unsupported : Errc::system_failed));
  CHECK(error.message().find("ibv_advise_mr") != std::string::npos);
}

TEST_CASE("the soft device has both, and refuses advice on a region that is not on demand",
          "[verbs]") {
  auto const context = open_test_device();
  if (context.kind() != DeviceKind::soft) return;
  auto const domain = must(context.allocate_protection_domain());
  auto const memory = must(domain.allocate(4096));
  std::array<std::byte, 64> bytes{};
  CHECK(context.capabilities().paging_on_demand);
  auto const region = must(domain.register_memory(bytes, Paging::on_demand));

  must(domain.advise(Advice::prefetch_to_write, region.gather(), AdviseUntil::done));
  auto const advice = error_of(domain.advise(Advice::prefetch, memory.gather()));
  CHECK(advice == Errc::system_failed);
  CHECK(advice.message().find("a region that was registered on demand") != std::string::npos);
}
