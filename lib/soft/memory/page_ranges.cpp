// SPDX-License-Identifier: MIT OR Apache-2.0
// First fit, with neighbours joined on return. Map nodes wander between taken and free.
#include <soft/memory/page_ranges.hpp>

#include <iterator>
#include <utility>

namespace lend::soft {

PageRanges::PageRanges(std::size_t first, std::size_t end) {
  gaps_.emplace(first, end - first);
}

std::optional<std::size_t> PageRanges::take(std::size_t length) {
  auto const wanted = whole_pages(length);
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second < wanted) continue;
    auto const offset = gap->first;
    if (gap->second > wanted) {
      taken_.emplace(offset, wanted);  // The one line that may throw.
      auto node = gaps_.extract(gap);
      node.key() = offset + wanted;
      node.mapped() -= wanted;
      gaps_.insert(std::move(node));
    } else {
      taken_.insert(gaps_.extract(gap));
    }
    taken_bytes_ += wanted;
    return offset;
  }
  return std::nullopt;
}

void PageRanges::give_back(std::size_t offset) noexcept {
  auto node = taken_.extract(offset);
  if (node.empty()) return;
  taken_bytes_ -= node.mapped();
  auto const gap = gaps_.insert(std::move(node)).position;
  auto const after = std::next(gap);
  if (after != gaps_.end() && gap->first + gap->second == after->first) {
    gap->second += after->second;
    gaps_.erase(after);
  }
  if (gap == gaps_.begin()) return;
  auto const before = std::prev(gap);
  if (before->first + before->second == gap->first) {
    before->second += gap->second;
    gaps_.erase(gap);
  }
}

}  // namespace lend::soft
