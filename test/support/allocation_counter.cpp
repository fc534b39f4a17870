// SPDX-License-Identifier: MIT OR Apache-2.0
// Built on malloc and free, so that sanitizers still watch the blocks themselves.
#include "support/allocation_counter.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> count{0};
std::atomic<std::int64_t> held{0};

struct Limit {
  bool is_set = false;
  bool was_met = false;
  std::uint64_t left = 0;
};
thread_local constinit Limit limit{};

/// Counts one; false when there is none to be had.
bool admit() noexcept {
  if (limit.is_set && limit.left == 0) {
    limit.was_met = true;
    return false;
  }
  if (limit.is_set) --limit.left;
  count.fetch_add(1, std::memory_order_relaxed);  // a statistic, orders nothing
  held.fetch_add(1, std::memory_order_relaxed);   // as above
  return true;
}

void* take(std::size_t bytes) noexcept {
  return admit() ? std::malloc(bytes == 0 ? 1 : bytes) : nullptr;
}

void give_back(void* block) noexcept {
  if (block != nullptr) held.fetch_sub(1, std::memory_order_relaxed);  // as above
  std::free(block);
}

void* take_aligned(std::size_t bytes, std::align_val_t alignment) noexcept {
  if (!admit()) return nullptr;
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

std::int64_t lend::test::blocks_held() noexcept {
  return held.load(std::memory_order_relaxed);  // as above
}

lend::test::Famine::Famine(std::uint64_t allowed) noexcept {
  limit = {true, false, allowed};
}
lend::test::Famine::~Famine() {
  limit = {};
}
bool lend::test::Famine::was_felt() const noexcept {
  return limit.was_met;
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
  give_back(block);
}
void operator delete[](void* block) noexcept {
  give_back(block);
}
void operator delete(void* block, std::size_t) noexcept {
  give_back(block);
}
void operator delete[](void* block, std::size_t) noexcept {
  give_back(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
  give_back(block);
}
void operator delete[](void* block, std::align_val_t) noexcept {
  give_back(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  give_back(block);
}
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept {
  give_back(block);
}
