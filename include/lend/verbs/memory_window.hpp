// SPDX-License-Identifier: MIT OR Apache-2.0
// A memory window of type 2: a key that opens bytes to one peer. One thread at a time.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <cstdint>
#include <memory>

struct ibv_mw;

namespace lend {

class ProtectionDomain;
namespace verbs {
struct WindowHandle;
}

/// Opens bytes of a region to the peer of one queue pair, from a request that binds it until one
/// that invalidates it, here or by the peer: QueuePairOf::unsafe_post_bind(),
/// unsafe_post_invalidate() and Send::returning(). For peers of a Channel use
/// PollingScope::post_lend(), which keeps the account of the bytes.
///
/// Making one costs a call of the device's driver, binding it a request. Of its key only 8 bits
/// change from bind to bind: a dead key is that of its window again after 255 binds.
///
/// Source:  ibv_alloc_mw(3); InfiniBand Architecture Specification vol. 1, 10.6.7.2.
class LEND_EXPORT MemoryWindow {
 public:
  /// A window that is not bound.
  /// Errors:  unsupported    the device has none: capabilities().windows.
  ///          exhausted      the device has no more: memory_windows_max.
  ///          system_failed  the device refused.
  [[nodiscard]] static Result<MemoryWindow> create(ProtectionDomain const& domain);
  MemoryWindow(MemoryWindow&&) noexcept;
  MemoryWindow& operator=(MemoryWindow&&) noexcept;
  /// Ends the peer's access, if it is bound.
  ~MemoryWindow();

  /// The same now, with its error.
  /// Errors:  system_failed  the device kept it: the peer may access the bytes until the queue pair
  ///                         is destroyed.
  /// Source:  ibv_dealloc_mw(3).
  [[nodiscard]] Result<void> destroy() && noexcept;

  /// That of the latest bind. 0 after a move.
  [[nodiscard]] std::uint32_t key() const noexcept;
  /// Null after a move.
  [[nodiscard]] ibv_mw* native() const noexcept;

 private:
  friend class AnyQueuePair;
  explicit MemoryWindow(std::unique_ptr<verbs::WindowHandle> handle) noexcept;
  std::unique_ptr<verbs::WindowHandle> handle_;
};

}  // namespace lend
