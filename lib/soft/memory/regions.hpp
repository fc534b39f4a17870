// SPDX-License-Identifier: MIT OR Apache-2.0
// Registered memory of one context: keys, bounds, permissions. Any thread.
#pragma once

#include <soft/memory/arenas.hpp>
#include <soft/segment/layout.hpp>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace lend::soft {

/// Two tables: the shared one that peers check keys against, and a private copy for this process's
/// own checks, which no peer can change. A key is index and generation. A stale key is not found:
/// an index is reused when all have been used, the one first that has been free longest. A key
/// comes back when its index was used 2^18 times: after 2^18 × (16,384 - n) registrations, where at
/// most n lived at once. Bytes that are shown keep their index, and use it each time.
class Regions {
 public:
  /// May throw std::bad_alloc.
  Regions(Segment& segment, Arenas const& arenas);

  /// 0, or errno with reason.
  [[nodiscard]] int add(std::uint32_t domain, std::uint64_t address, std::uint64_t length,
                        int access, std::uint32_t& key);
  /// An invalidated key of a region without bytes. 0, or errno with reason.
  [[nodiscard]] int reserve(std::uint32_t& key);
  /// Makes the key invalid. A process that still uses the memory holds a lock, for which the caller
  /// must wait.
  void invalidate(std::uint32_t key) noexcept;
  /// After that wait: the index may be used again.
  void recycle(std::uint32_t key) noexcept;

  /// Whether such a region is possible. 0, or errno with reason.
  [[nodiscard]] int check(std::uint64_t address, std::uint64_t length, int access) const noexcept;
  /// Whether `key` of `domain` covers these bytes with every right in `access`.
  [[nodiscard, gnu::always_inline]] inline bool permits(std::uint32_t key, std::uint32_t domain,
                                                        std::uint64_t address, std::uint64_t length,
                                                        unsigned access) const noexcept {
    // That of key 0 is of no domain.
    Entry const& entry = entries_[index_of_key(key)];
    // Acquire pairs with the release in write(). A dereg in between waits for the caller's lock.
    if (entry.key.load(std::memory_order_acquire) != key) return false;
    // What begins before the region wraps to more than its length, which itself does not wrap.
    return entry.domain == domain && (entry.access & access) == access && length <= entry.length &&
           address - entry.address <= entry.length - length;
  }
  /// The key that follows an invalidated one, of the same index.
  [[nodiscard]] std::uint32_t key_after(std::uint32_t key) noexcept;
  /// Assigns a new range, which check() allows, to an invalidated key that is not recycled.
  void renew(std::uint32_t key, std::uint32_t domain, std::uint64_t address, std::uint64_t length,
             int access) noexcept {
    write(key, domain, address, length, access);
  }
  /// The rights it was added with. The key must be valid.
  [[nodiscard]] int access_of(std::uint32_t key) const noexcept {
    return static_cast<int>(entries_[index_of_key(key)].access);
  }
  /// Whether a peer can reach it by mapping, without cross-memory attach.
  [[nodiscard]] bool is_mappable(std::uint32_t key) const noexcept;

  // Memory windows, in windows.cpp: entries whose domain is that of their queue pair, see
  // window_scope.hpp. The caller of bind(), unbind() and remove_window() holds rx of that queue
  // pair, so that no peer is at the bytes.

  struct Binding {
    std::uint32_t region;  // key
    std::uint32_t domain;  // number of the region's, which is the queue pair's
    std::uint32_t scope;
    unsigned access;
    std::uint64_t address;
    std::uint64_t length;
  };
  /// A window that is not bound. 0, or errno with reason.
  [[nodiscard]] int add_window(std::uint32_t& key);
  /// Binds it with a new `key` of its index. False: it is bound or has ended, or the region does
  /// not allow it.
  [[nodiscard]] bool bind(std::uint32_t key, Binding const& binding) noexcept;
  /// Ends the key's access. True, too, if the peer has ended it by a send, but false where `scope`
  /// did not bind it with this key last.
  [[nodiscard]] bool unbind(std::uint32_t key, std::uint32_t scope) noexcept;
  /// The window's index may be used again. False: it was bound since, so `scope` is another.
  [[nodiscard]] bool remove_window(std::uint32_t key, std::uint32_t scope) noexcept;
  /// The scope that bound the window last, or 0.
  [[nodiscard]] std::uint32_t scope_of(std::uint32_t key) noexcept;
  /// As permits(), of a key that is a window's of `scope`.
  [[nodiscard]] bool window_permits(std::uint32_t key, std::uint32_t scope, std::uint64_t address,
                                    std::uint64_t length, unsigned access) const noexcept;
  /// As invalidate(), unless a window is bound to the region: then false.
  [[nodiscard]] bool invalidate_unless_bound(std::uint32_t key) noexcept;

 private:
  struct Entry {
    std::atomic<std::uint32_t> key;
    std::uint32_t domain;
    unsigned access;
    std::uint32_t generation;       // of the latest key
    std::atomic<bool> is_mappable;  // also queried for stale keys
    std::uint32_t next_free;        // index, while it is free
    std::uint64_t address;
    std::uint64_t length;
    // Under mutex_.
    std::uint32_t bound_to;  // of a window the key of its region, once it was bound
    bool is_window;
  };
  /// An index that no key has, or 0. The caller holds mutex_.
  [[nodiscard]] std::uint32_t take_index() noexcept;
  [[nodiscard]] bool is_bound(std::uint32_t index) const noexcept;
  void write(std::uint32_t key, std::uint32_t domain, std::uint64_t address, std::uint64_t length,
             int access) noexcept;

  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };

  Segment& segment_;
  Arenas const& arenas_;
  std::mutex mutex_;
  std::unique_ptr<Entry[], Free> entries_;  // from calloc: untouched pages cost nothing
  std::uint32_t first_free_ = 0;  // of a queue through the entries, so that it needs no memory
  std::uint32_t last_free_ = 0;
  std::uint32_t free_count_ = 0;
  std::uint32_t used_ = 1;     // indexes below were used; 0 never is
  std::uint32_t windows_ = 0;  // under mutex_
};

}  // namespace lend::soft
