// SPDX-License-Identifier: MIT OR Apache-2.0
// Copying through mappings, and by cross-memory attach where there is none.
#include <soft/memory/copy.hpp>

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <base/copy_bytes.hpp>
#include <base/poison.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#if defined(__x86_64__) || defined(__i386__)
#include <emmintrin.h>
#endif

namespace lend::soft {
namespace {

using Vector [[gnu::vector_size(16)]] = long long;
static_assert(sizeof(Vector) == 2 * word_bytes);

/// Orders the body before the tail, whatever stores memcpy used (non-temporal, string moves).
void fence_stores() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

// Beyond, memcpy, whose stores may pass the caches by; but AddressSanitizer has its own.
constexpr std::size_t by_blocks_max = base::can_poison ? SIZE_MAX : 64u << 10;

/// Whole aligned words, ascending; the last one in a store of its own.
[[gnu::no_sanitize_address]] inline void copy_words(std::byte* target, std::byte const* source,
                                                    std::size_t length) noexcept {
  for (; length > sizeof(Vector); length -= sizeof(Vector)) {
    Vector two;
    std::memcpy(&two, source, sizeof two);
    std::memcpy(target, &two, sizeof two);
    target += sizeof two;
    source += sizeof two;
  }
  for (; length > 0; length -= word_bytes, target += word_bytes, source += word_bytes)
    copy_as<std::uint64_t>(target, source);
}

/// At most a word, in the largest aligned stores, ascending.
[[gnu::no_sanitize_address]] void copy_small(std::byte* target, std::byte const* source,
                                             std::size_t length) noexcept {
  while (length > 0) {
    auto const place = reinterpret_cast<std::uintptr_t>(target);
    std::size_t step = 1;
    if (length >= 8 && place % 8 == 0) {
      copy_as<std::uint64_t>(target, source);
      step = 8;
    } else if (length >= 4 && place % 4 == 0) {
      copy_as<std::uint32_t>(target, source);
      step = 4;
    } else if (length >= 2 && place % 2 == 0) {
      copy_as<std::uint16_t>(target, source);
      step = 2;
    } else {
      copy_as<std::uint8_t>(target, source);
    }
    target += step;
    source += step;
    length -= step;
  }
}

/// The system call without a wrapper, whose arguments AddressSanitizer would look at.
long move_across(Direction direction, iovec const* ours, std::size_t our_count, iovec const* theirs,
                 std::size_t their_count, int thread) noexcept {
  return ::syscall(direction == Direction::to_peer ? SYS_process_vm_writev : SYS_process_vm_readv,
                   thread, ours, our_count, theirs, their_count, 0UL);
}

/// Whether our bytes from `offset` on, where a copy stopped, can be read, or written: for a page at
/// most, found by moving them within this process. Source: process_vm_readv(2) tells how far it
/// came, and not whose memory ended it.
[[gnu::noinline]] bool are_there(Direction direction, iovec const* ours, std::size_t count,
                                 std::size_t offset) noexcept {
  std::byte bytes[page]{};
  iovec rest[extents_max];
  std::size_t used = 0;
  std::size_t length = 0;
  for (std::size_t i = 0; i < count && length < page; ++i) {
    auto const skipped = std::min(offset, ours[i].iov_len);
    auto const part = std::min(ours[i].iov_len - skipped, page - length);
    offset -= skipped;
    if (part == 0) continue;
    rest[used++] = {static_cast<std::byte*>(ours[i].iov_base) + skipped, part};
    length += part;
  }
  iovec const there{bytes, length};
  // By this thread: the main one may have ended.
  auto const moved = move_across(direction, rest, used, &there, 1, ::gettid());
  return moved >= 0 && static_cast<std::size_t>(moved) == length;
}

Copied attach(Direction direction, iovec const* ours, std::size_t our_count, iovec const* theirs,
              std::size_t their_count, std::size_t length, int thread) noexcept {
  auto const moved = move_across(direction, ours, our_count, theirs, their_count, thread);
  // A message is below the 2 GiB that one call moves, so a short count is a fault.
  if (moved >= 0 && static_cast<std::size_t>(moved) == length) return Copied::all;
  if (moved < 0 && errno != EFAULT) return errno == ESRCH ? Copied::gone : Copied::fault;
  auto const done = moved < 0 ? 0 : static_cast<std::size_t>(moved);
  return are_there(direction, ours, our_count, done) ? Copied::fault : Copied::our_fault;
}

std::size_t fill(iovec* vectors, Extents const& extents, std::size_t length) noexcept {
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < extents.count && length > 0; ++i) {
    auto const& extent = extents.items[i];
    auto const part = std::min(extent.length, length);
    void* const start = extent.mapped != nullptr ? static_cast<void*>(extent.mapped)
                                                 : reinterpret_cast<void*>(extent.address);
    vectors[count++] = {start, part};
    length -= part;
  }
  return count;
}

bool none_mapped(Extents const& extents) noexcept {
  for (std::uint32_t i = 0; i < extents.count; ++i)
    if (extents.items[i].mapped != nullptr) return false;
  return true;
}

[[gnu::noinline, gnu::no_sanitize_address]] void copy_any(std::byte* target,
                                                          std::byte const* source,
                                                          std::size_t length) noexcept {
  if (length == 0) return;
  auto const end = reinterpret_cast<std::uintptr_t>(target) + length;
  auto const tail = std::min(length, (end - 1) % word_bytes + 1);
  auto body = length - tail;
  if (body > 0) {
    auto const place = reinterpret_cast<std::uintptr_t>(target);
    auto const head = std::min(body, (word_bytes - place % word_bytes) % word_bytes);
    if (head > 0) copy_small(target, source, head);
    target += head;
    source += head;
    body -= head;
    if (body <= by_blocks_max || base::are_string_moves_slow(target, source)) {
      auto const blocks = body / base::copied_block * base::copied_block;
      base::copy_blocks(target, source, blocks);
      target += blocks;
      source += blocks;
      body -= blocks;
      copy_words(target, source, body);
      target += body;
      source += body;
    } else {
      std::memcpy(target, source, body);
      fence_stores();
      target += body;
      source += body;
    }
  }
  if (tail == word_bytes) return copy_as<std::uint64_t>(target, source);
  copy_small(target, source, tail);
}

}  // namespace

[[gnu::no_sanitize_address]] void copy_bytes_in_order(std::byte* target, std::byte const* source,
                                                      std::size_t length) noexcept {
  // Most short messages: without the rest's registers.
  if ((reinterpret_cast<std::uintptr_t>(target) | length) % word_bytes == 0 &&
      length <= base::copied_block)
    return copy_words(target, source, length);
  copy_any(target, source, length);
}

// Source: measured on AMD family 25, for a ring of 256 KiB: twice as fast between CPUs that share a
// cache, and five times between others. Not measured: other families of AMD, which take this way,
// and CPUs of others, which do not.
[[gnu::no_sanitize_address]] void copy_past_caches(std::byte* target, std::byte const* source,
                                                   std::size_t length) noexcept {
#if defined(__x86_64__)
  auto const is_aligned = reinterpret_cast<std::uintptr_t>(target) % sizeof(Vector) == 0;
  if (is_aligned && __builtin_cpu_is("amd")) {
    for (; length > base::copied_block; length -= base::copied_block) {
      Vector four[base::copied_block / sizeof(Vector)];
      std::memcpy(four, source, sizeof four);
      for (auto const& one : four) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(target), one);
        target += sizeof one;
      }
      source += sizeof four;
    }
    fence_stores();
  }
#endif
  copy_in_order(target, source, length);
}

[[gnu::no_sanitize_address]] void copy_few_others(std::byte* target, std::byte const* source,
                                                  std::size_t length) noexcept {
  for (; length >= word_bytes; length -= word_bytes) {
    std::memcpy(target, source, word_bytes);
    target += word_bytes;
    source += word_bytes;
  }
  for (; length > 0; --length) *target++ = *source++;
}

Copied transfer_pieces(Direction direction, Extents const& ours, Extents const& theirs,
                       std::size_t length, int thread) noexcept {
  if (length == 0) return Copied::all;
  if (!theirs.all_mapped && none_mapped(theirs)) {
    iovec our_vectors[extents_max];
    iovec their_vectors[extents_max];
    auto const our_count = fill(our_vectors, ours, length);
    auto const their_count = fill(their_vectors, theirs, length);
    return attach(direction, our_vectors, our_count, their_vectors, their_count, length, thread);
  }
  std::uint32_t our_index = 0;
  std::uint32_t their_index = 0;
  std::size_t our_offset = 0;
  std::size_t their_offset = 0;
  while (length > 0) {
    auto const& our = ours.items[our_index];
    auto const& their = theirs.items[their_index];
    auto const part = std::min({our.length - our_offset, their.length - their_offset, length});
    if (part > 0) {
      auto* const here = our.mapped + our_offset;
      if (their.mapped != nullptr) {
        auto* const there = their.mapped + their_offset;
        if (direction == Direction::to_peer)
          copy_in_order(there, here, part);
        else
          copy_in_order(here, there, part);
      } else {
        iovec const near{here, part};
        iovec const far{reinterpret_cast<void*>(their.address + their_offset), part};
        auto const copied = attach(direction, &near, 1, &far, 1, part, thread);
        if (copied != Copied::all) return copied;
      }
    }
    length -= part;
    our_offset += part;
    their_offset += part;
    if (our_offset == our.length) ++our_index, our_offset = 0;
    if (their_offset == their.length) ++their_index, their_offset = 0;
  }
  return Copied::all;
}

}  // namespace lend::soft
