// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: ranks find out that they make different calls. Method: the signatures of all collectives
// with some roots, lengths and operations.
#include <group/values/call.hpp>

#include <map>
#include <tuple>

#include "support/catch.hpp"

using namespace lend;
using namespace lend::group;

TEST_CASE("calls that differ have different signatures", "[group]") {
  std::map<std::uint32_t, std::tuple<int, std::uint32_t, std::size_t, std::size_t, int>> seen;
  constexpr std::string_view names[] = {"sum", "max", "min", "mins"};
  for (int collective = 0; collective < 9; ++collective)
    for (std::uint32_t root = 0; root < 8; ++root)
      for (std::size_t bytes = 0; bytes < 24; ++bytes)
        for (std::size_t const element : {1u, 4u, 8u})
          for (int name = 0; name < 4; ++name) {
            Call call{.collective = static_cast<Collective>(collective), .root = root};
            call.block_bytes = bytes;
            call.op.element_bytes = element;
            call.op.name = names[name];
            auto const [it, is_new] =
                seen.try_emplace(call.signature(), collective, root, bytes, element, name);
            CAPTURE(collective, root, bytes, element, name, it->second);
            REQUIRE(is_new);
          }
}
