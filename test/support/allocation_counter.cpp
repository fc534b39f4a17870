// SPDX-License-Identifier: MIT OR Apache-2.0
// Built on malloc and free, so that sanitizers still watch the blocks themselves.
#include "support/allocation_counter.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> count{0};

void* take(std::size_t bytes) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);  // a statistic, orders nothing
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* take_aligned(std::size_t bytes, std::align_val_t alignment) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);  // as above
  auto const unit = std::size_t(alignment);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}

void* or_throw(void* block) {
  if (block == nullptr) throw std::bad_alloc{};
  return block;
}

}  // namespace

std::uint64_t lend::test::allocations() noexcept {
  return count.load(std::memory_order_relaxed);  // as above
}

void* operator new(std::size_t bytes) {
  return or_throw(take(bytes));
}
void* operator new[](std::size_t bytes) {
  return or_throw(take(bytes));
}
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
  return take(bytes);
}
void* operator new[](std::size_t bytes, std::nothrow_t const&) noexcept {
  return take(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return or_throw(take_aligned(bytes, alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return or_throw(take_aligned(bytes, alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, std::nothrow_t const&) noexcept {
  return take_aligned(bytes, alignment);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     std::nothrow_t const&) noexcept {
  return take_aligned(bytes, alignment);
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete[](void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}
void operator delete[](void* block, std::size_t) noexcept {
  std::free(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
  std::free(block);
}
void operator delete[](void* block, std::align_val_t) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  std::free(block);
}
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept {
  std::free(block);
}
