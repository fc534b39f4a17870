// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: pages that were preferred fall back in order and are named; those asked for never do.
// Method: a fake device that refuses some.
#include <base/paging.hpp>

#include <lend/verbs/context.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <cerrno>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t huge = std::size_t{2} << 20;

ProtectionDomain domain_refusing(std::set<Pages> pages, int refusal = ENOMEM) {
  Fake::get().reset();
  Fake::get().refused_pages = std::move(pages);
  Fake::get().refusal_errno = refusal;
  return open_fake().value().allocate_protection_domain().value();
}

std::vector<Pages> const& asked() {
  return Fake::get().pages_asked;
}

}  // namespace

TEST_CASE("preferred huge pages are the first that there are, and the region says which",
          "[verbs]") {
  constexpr AllocationOptions preferring{.pages = Pages::prefer_huge};
  {
    auto const memory = domain_refusing({}).allocate(huge, preferring);
    CHECK(memory.value().pages() == Pages::huge_2m);
  }
  {
    auto const memory = domain_refusing({Pages::huge_2m}).allocate(huge, preferring);
    CHECK(memory.value().pages() == Pages::transparent);
  }
  {
    auto const memory =
        domain_refusing({Pages::huge_2m, Pages::transparent}).allocate(huge, preferring);
    CHECK(memory.value().pages() == Pages::normal);
    CHECK(asked() == std::vector{Pages::huge_2m, Pages::transparent, Pages::normal});
  }
  {
    auto const memory = domain_refusing({}).allocate(huge - 1, preferring);
    CHECK(memory.value().pages() == Pages::normal);
    CHECK(asked() == std::vector{Pages::normal});
  }
  CHECK(domain_refusing({Pages::huge_2m, Pages::transparent, Pages::normal})
            .allocate(huge, preferring)
            .error() == Errc::exhausted);
}

TEST_CASE("pages that were asked for are given or refused, never replaced", "[verbs]") {
  for (auto const pages : {Pages::normal, Pages::transparent, Pages::huge_2m, Pages::huge_1g}) {
    CAPTURE(name_of(pages));
    {
      auto const memory = domain_refusing({}).allocate(huge, {.pages = pages});
      CHECK(memory.value().pages() == pages);
    }
    CHECK(domain_refusing({pages}).allocate(huge, {.pages = pages}).has_error());
    CHECK(asked() == std::vector{pages});
  }
}

TEST_CASE("each refusal of pages or of a node has its remedy", "[verbs]") {
  struct Row {
    AllocationOptions options;
    int refusal;
    Errc code;
    std::string_view words;
  };
  for (auto const& [options, refusal, code, words] : {
           Row{{.pages = Pages::huge_2m}, ENOMEM, Errc::exhausted, "sysctl vm.nr_hugepages"},
           Row{{.pages = Pages::huge_1g}, ENOMEM, Errc::exhausted, "hugepages-1048576kB"},
           Row{{.pages = Pages::huge_2m, .node = 0}, ENOMEM, Errc::exhausted, "free on node 0"},
           Row{{.pages = Pages::huge_1g}, EOPNOTSUPP, Errc::unsupported, "no pages of 1 GiB"},
           Row{{.pages = Pages::transparent}, EOPNOTSUPP, Errc::unsupported, "write \"madvise\""},
           Row{{.node = 77}, EINVAL, Errc::not_found, "NUMA node 77 does not exist"},
           Row{{.node = 0}, EPERM, Errc::denied, "CAP_SYS_NICE"},
           Row{{.node = 0}, ENOSYS, Errc::unsupported, "has no NUMA support"},
           Row{{}, ENOMEM, Errc::exhausted, "Allocate less"},
       }) {
    auto const error = domain_refusing({options.pages}, refusal).allocate(huge, options).error();
    INFO(error.message());
    CHECK(error == code);
    CHECK(error.message().find(words) != std::string::npos);
  }
}

TEST_CASE("lengths are rounded up to whole pages, and beyond the address space to nothing",
          "[verbs]") {
  CHECK(base::whole_pages(1, Pages::normal) == 4096);
  CHECK(base::whole_pages(4096, Pages::transparent) == 4096);
  CHECK(base::whole_pages(1, Pages::huge_2m) == huge);
  CHECK(base::whole_pages(huge + 1, Pages::huge_2m) == 2 * huge);
  CHECK(base::whole_pages((std::size_t{5} << 30) + 1, Pages::huge_1g) == std::size_t{6} << 30);
  CHECK(base::whole_pages(SIZE_MAX, Pages::huge_1g) == 0);
}
