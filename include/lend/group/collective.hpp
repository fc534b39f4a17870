// SPDX-License-Identifier: MIT OR Apache-2.0
// The collectives of a group. Values; any thread.
#pragma once

#include <lend/base/language.hpp>

#include <cstdint>

namespace lend::group {

/// By the name of Team's call.
enum class Collective : std::uint8_t {
  barrier,
  broadcast,
  gather,
  scatter,
  allgather,
  all_to_all,
  reduce,
  allreduce,
  reduce_scatter,
  scan,
  exscan,
  gatherv,
  scatterv,
  allgatherv,
  all_to_allv,
};

}  // namespace lend::group
