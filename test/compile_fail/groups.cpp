// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/group.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

extern lend::Group& group;
lend::Group next_group();

void scopes() {
  lend::GroupScope scope{group};
  static_cast<void>(scope.finish());
#ifdef CASE_group_scope_of_a_temporary
  // error: cannot bind non-const lvalue reference|expects an lvalue|no matching
  lend::GroupScope of_temporary{next_group()};
#endif
}

template <std::size_t Alignment>
struct Wide {
  struct alignas(Alignment) Element {
    float value;
  };
  static constexpr std::string_view name = "wide sum";
  void operator()(Element& into, Element const& from) const noexcept { into.value += from.value; }
};

void reductions(std::vector<double>& values, std::vector<Wide<64>::Element>& aligned) {
  static_cast<void>(group.allreduce(lend::sum<double>, values));
#ifdef CASE_reduction_needs_its_element
  // error: no matching (member )?function
  static_cast<void>(group.allreduce(lend::sum<float>, values));
#endif

  static_cast<void>(group.allreduce(Wide<64>{}, aligned));
#ifdef CASE_reduction_of_too_aligned_elements
  // error: IsReduction
  std::vector<Wide<128>::Element> too_aligned(8);
  static_cast<void>(group.allreduce(Wide<128>{}, too_aligned));
#endif
}

void elements(std::vector<std::string>& texts) {
  static_cast<void>(group.broadcast(0, texts.front()));
#ifdef CASE_group_sends_plain_values
  // error: no matching (member )?function
  static_cast<void>(group.broadcast(0, texts));
#endif
}

void registered(lend::MemoryRegion& own, lend::MemoryRegion& all, std::vector<std::byte>& row) {
  static_cast<void>(row.size());
  static_cast<void>(group.allgather(own.gather(), all.scatter()));
#ifdef CASE_collective_takes_registered_memory_whole
  // error: no matching (member )?function
  static_cast<void>(group.allgather(own.gather(), row));
#endif
}

lend::Result<void> tried(lend::PollingScope& scope, lend::Send const& work) {
  LEND_TRY(total, group.allreduce(lend::sum<double>, 1.5));
  if (total > 2) LEND_TRYV(group.barrier());
  static_cast<void>(scope.post_send(work));
#ifdef CASE_tried_values_are_not_dropped
  // error: LEND_TRYV\(\) would drop the value
  LEND_TRYV(group.allreduce(lend::sum<double>, 1.5));
  LEND_TRYV(scope.post_send(work));
#endif
  return group.barrier();
}
