// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: once warm, no posted collective takes anything from the heap. Method: this program's
// operator new counts while two ranks on one thread post and poll in turn.
#include "group/ranks.hpp"
#include "support/allocation_counter.hpp"

#include <array>

using namespace lend;
using namespace lend::test;

TEST_CASE("posted collectives of a warm group take nothing from the heap", "[group]") {
  if (connects_slowly()) return;
  std::vector<Context> devices;
  auto ranks = group_of(2, {}, &devices);
  std::array const domains{must(devices[0].allocate_protection_domain()),
                           must(devices[1].allocate_protection_domain())};
  std::array memory{must(domains[0].allocate(400'000)), must(domains[1].allocate(400'000))};
  auto const once = [&] {
    GroupScope one{ranks[0]}, other{ranks[1]};
    for (std::size_t i = 0; i < 3; ++i)
      for (auto const& [scope, rank] : {std::pair{&one, 0u}, std::pair{&other, 1u}})
        static_cast<void>(
            must(scope->post_allreduce(sum<double>, memory[rank].scatter(i * 8192, 8000))));
    for (auto const& [scope, rank] :
         {std::pair{&one, 0u}, std::pair{&other, 1u}}) {  // read, not sent
      static_cast<void>(
          must(scope->post_allreduce(sum<double>, memory[rank].scatter(32'768, 300'000))));
      static_cast<void>(must(scope->post_allgather(memory[rank].gather(340'000, 20'000),
                                                   memory[rank].scatter(360'000, 40'000))));
    }
    auto last = must(one.post_barrier());
    auto others_last = must(other.post_barrier());
    for (bool is_over = false; !is_over;) {
      bool const is_here = must(last.poll());
      is_over = must(others_last.poll()) && is_here;
    }
    must(one.finish());
    must(other.finish());
  };
  for (int i = 0; i < 50; ++i) once();
  auto const before = allocations();
  for (int i = 0; i < 500; ++i) once();
  CHECK(allocations() == before);
}
