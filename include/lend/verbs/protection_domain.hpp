// SPDX-License-Identifier: MIT OR Apache-2.0
// One protection domain: registers memory. Any thread.
#pragma once

#include <lend/base/allocation.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/memory_region.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>

struct ibv_pd;

namespace lend {

struct DomainHandle;

/// Bytes that may not be written, which no loan for writing could respect.
template <class Bytes>
concept OnlyConstantBytes = std::convertible_to<Bytes, std::span<std::byte const>> &&
    !std::convertible_to<Bytes, std::span<std::byte>>;

/// An array or vector of bytes, not a view of them: they end with it.
template <class Bytes>
concept OwnsItsBytes = std::convertible_to<Bytes&, std::span<std::byte>> &&
    !std::ranges::enable_borrowed_range<std::remove_cv_t<Bytes>>;

/// Registers memory and groups queue pairs. Cheap to copy; freed with its last copy and the last
/// region or queue pair made from it.
class ProtectionDomain {
 public:
  explicit ProtectionDomain(std::shared_ptr<DomainHandle> handle) noexcept
      : handle_{std::move(handle)} {}
  // A move copies: what was moved from works on.
  ProtectionDomain(ProtectionDomain const&) = default;
  ProtectionDomain& operator=(ProtectionDomain const&) = default;

  /// Allocates and registers zeroed bytes, for local access only. The region owns them.
  ///
  /// Shape:   1 byte or more; rounded up to whole pages inside, the region has `length`.
  /// Errors:  invalid_argument  length is 0 or above the device's limit.
  ///          exhausted         no memory, reserved pages, regions, or lockable memory; the message
  ///                            has the limits, what is taken, and how to raise them.
  ///          unsupported       the machine has no such pages, or they are switched off.
  ///          not_found         no such NUMA node; the message has those there are.
  ///          denied            a sandbox forbids choosing a node.
  /// Source:  ibv_reg_mr(3); getrlimit(2), RLIMIT_MEMLOCK; mmap(2), MAP_HUGETLB; mbind(2).
  [[nodiscard]] Result<MemoryRegion> allocate(std::size_t length,
                                              AllocationOptions const& options = {}) const;

  /// Registers the caller's bytes, for local access only. The region views them: it must go before
  /// they do, and a region destroyed on loan stops the process.
  ///
  /// Bytes may be registered several times, as with two domains for two devices. Each region has a
  /// ledger of its own, which knows nothing of the others' loans: that none of them writes what
  /// another one lends is the caller's to see to. The same holds of a view of another region's
  /// bytes(); pieces (chunks(), split_at()) share their region's ledger.
  /// Errors:  as allocate(), and
  ///          invalid_argument  some of it is not this process's memory, or may not be written. The
  ///                            soft device does not look: an access will fail or SIGSEGV.
  /// Source:  ibv_reg_mr(3).
  [[nodiscard]] Result<MemoryRegion> register_memory(
      std::span<std::byte> memory LEND_LIFETIMEBOUND) const;
  /// Says the same of an array or vector, so that clang warns of a local one.
  template <OwnsItsBytes Bytes>
  [[nodiscard]] Result<MemoryRegion> register_memory(Bytes& memory LEND_LIFETIMEBOUND) const {
    return register_memory(std::span<std::byte>{memory});
  }
  template <OnlyConstantBytes Bytes>
  Result<MemoryRegion> register_memory(Bytes&& memory) const = delete;

  /// As allocate(), and a peer that learns remote() may access all of it until the region ends.
  /// MemoryRegion::unsafe_expose() is for less: some of the bytes, for some time.
  ///
  /// The caller owes: no access of its own to bytes a peer may be writing, or protocol enough to
  /// tell when it is not. The ledger cannot see the peer.
  /// Errors:  as allocate(), and invalid_argument for an access that is none of RemoteAccess's
  ///          three, unsupported where the device cannot reach such memory.
  [[nodiscard]] Result<MemoryRegion> unsafe_allocate_exposed(
      std::size_t length, RemoteAccess access, AllocationOptions const& options = {}) const;
  /// As register_memory(), exposed; owes what unsafe_allocate_exposed() says.
  [[nodiscard]] Result<MemoryRegion> unsafe_register_exposed(
      std::span<std::byte> memory LEND_LIFETIMEBOUND, RemoteAccess access) const;
  template <OwnsItsBytes Bytes>
  [[nodiscard]] Result<MemoryRegion> unsafe_register_exposed(Bytes& memory LEND_LIFETIMEBOUND,
                                                             RemoteAccess access) const {
    return unsafe_register_exposed(std::span<std::byte>{memory}, access);
  }

  [[nodiscard]] Context context() const noexcept;
  [[nodiscard]] ibv_pd* native() const noexcept;

 private:
  friend class PreparedQueuePair;
  std::shared_ptr<DomainHandle> handle_;
};

}  // namespace lend
