// SPDX-License-Identifier: MIT OR Apache-2.0
// How collectives are named.
#include <group/schedule/collective.hpp>

namespace lend::group {

std::string_view name_of(Collective collective) noexcept {
  switch (collective) {
    case Collective::barrier: return "barrier";
    case Collective::broadcast: return "broadcast";
    case Collective::gather: return "gather";
    case Collective::scatter: return "scatter";
    case Collective::allgather: return "allgather";
    case Collective::all_to_all: return "all_to_all";
    case Collective::reduce: return "reduce";
    case Collective::allreduce: return "allreduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::scan: return "scan";
    case Collective::exscan: return "exscan";
    case Collective::gatherv: return "gatherv";
    case Collective::scatterv: return "scatterv";
    case Collective::allgatherv: return "allgatherv";
    case Collective::all_to_allv: return "all_to_allv";
  }
  return "unknown call";
}

std::string text_of(Collective collective, std::uint64_t bytes) {
  std::string text{name_of(collective)};
  bool const has_length = collective != Collective::barrier && !is_uneven(collective);
  return has_length ? text + " of " + std::to_string(bytes) + " bytes" : text;
}

}  // namespace lend::group
