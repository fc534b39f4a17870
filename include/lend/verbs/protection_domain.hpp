// SPDX-License-Identifier: MIT OR Apache-2.0
// One protection domain: registers memory. Any thread.
#pragma once

#include <lend/base/allocation.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/device_region.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/typed_region.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>  // and std::ranges::enable_borrowed_range
#include <type_traits>
#include <utility>
#include <vector>

struct ibv_pd;

namespace lend {

namespace verbs {
struct DomainHandle;
class ShownBytes;
}  // namespace verbs

/// Read-only bytes, which cannot be lent for writing.
template <class Bytes>
concept OnlyConstantBytes = std::convertible_to<Bytes, std::span<std::byte const>> &&
    !std::convertible_to<Bytes, std::span<std::byte>>;

/// An array or vector that owns its bytes, not a view.
template <class Bytes>
concept OwnsItsBytes = std::convertible_to<Bytes&, std::span<std::byte>> &&
    !std::ranges::enable_borrowed_range<std::remove_cv_t<Bytes>>;

/// What an array or vector of such values has.
template <class Values>
using ValueIn = std::remove_cvref_t<decltype(*std::data(std::declval<Values const&>()))>;

/// When the pages of a region are in memory.
///
/// A card may support `on_demand` only for some services and operations. Other work with such a
/// region fails with a local protection error.
/// Source:  ibv_query_device_ex(3), struct ibv_odp_caps, per_transport_caps.
enum class Paging : std::uint8_t {
  pinned,     ///< from registration to its end
  on_demand,  ///< while the device uses them: capabilities().paging_on_demand
};

/// What the device should do with pages of on-demand regions.
/// Source:  ibv_advise_mr(3).
enum class Advice : std::uint8_t {
  prefetch,           ///< for reading
  prefetch_to_write,  ///< for writing
  prefetch_present,   ///< those that are in memory already
};
/// When the call that gives an Advice returns.
enum class AdviseUntil : std::uint8_t { begun, done };

/// Registers memory and groups queue pairs. Cheap to copy; freed after its last copy and the last
/// region or queue pair made from it.
class LEND_EXPORT ProtectionDomain {
 public:
  explicit ProtectionDomain(std::shared_ptr<verbs::DomainHandle> handle) noexcept
      : handle_{std::move(handle)} {}
  // A move copies: the moved-from object remains usable.
  ProtectionDomain(ProtectionDomain const&) = default;
  ProtectionDomain& operator=(ProtectionDomain const&) = default;

  /// Allocates and registers zeroed bytes, for local access only. The region owns them.
  ///
  /// Shape:   1 byte or more. The storage is rounded up to whole pages; the region has `length`.
  /// Errors:  invalid_argument  length is 0 or above the device's limit.
  ///          exhausted         no memory, reserved pages, regions, or lockable memory; the message
  ///                            has the limits, their use, and how to raise them.
  ///          unsupported       the machine has no such pages, or they are disabled.
  ///          not_found         no such NUMA node; the message lists those that exist.
  ///          denied            a sandbox forbids choosing a node.
  /// Source:  ibv_reg_mr(3); getrlimit(2), RLIMIT_MEMLOCK; mmap(2), MAP_HUGETLB; mbind(2).
  [[nodiscard]] Result<MemoryRegion> allocate(std::size_t length,
                                              AllocationOptions const& options = {}) const;

  /// The same for `count` values of type T, which are all zero bytes.
  /// Errors:  as above, and
  ///          invalid_argument  so many bytes have no size.
  template <class T>
  requires IsPlainValue<T>
  [[nodiscard]] Result<TypedRegion<T>> allocate(std::size_t count,
                                                AllocationOptions const& options = {}) const {
    if (count > SIZE_MAX / sizeof(T))
      return Error{Errc::invalid_argument, "more values than an address space holds"};
    LEND_TRY(region, allocate(count * sizeof(T), options));
    return TypedRegion<T>::of(std::move(region));
  }
  /// The same, with a copy of `values`, of which there must be at least one.
  template <class Values>
  requires IsPlainValue<ValueIn<Values>>
  [[nodiscard]] Result<TypedRegion<ValueIn<Values>>> allocate_copy(
      Values const& values, AllocationOptions const& options = {}) const {
    auto const source = std::as_bytes(std::span{values});
    LEND_TRY(region, allocate(source.size(), options));
    LEND_TRY(bytes, region.mutable_bytes());
    std::memcpy(bytes.data(), source.data(), source.size());
    return TypedRegion<ValueIn<Values>>::of(std::move(region));
  }

  /// Registers the caller's bytes, for local access only. The region views them: it must end before
  /// they do, and destroying it on loan stops the process.
  ///
  /// The caller owes: bytes that are registered several times, for instance on two devices, are
  /// lent for writing through one region at a time. Each region has a ledger of its own, which does
  /// not know the others' loans. The same holds for a view of another region's bytes(); pieces
  /// (chunks(), split_at()) share their region's ledger.
  /// Errors:  as allocate(), and
  ///          invalid_argument  some of it is not this process's memory, or not writable. The soft
  ///                            device does not check: an access fails later, or raises SIGSEGV.
  ///          unsupported       Paging::on_demand, and the device has none.
  /// Source:  ibv_reg_mr(3), IBV_ACCESS_ON_DEMAND.
  [[nodiscard]] Result<MemoryRegion> register_memory(std::span<std::byte> memory LEND_LIFETIMEBOUND,
                                                     Paging paging = Paging::pinned) const;
  /// The same for an array or vector, so that clang warns about a local one.
  template <OwnsItsBytes Bytes>
  [[nodiscard]] Result<MemoryRegion> register_memory(Bytes& memory LEND_LIFETIMEBOUND,
                                                     Paging paging = Paging::pinned) const {
    return register_memory(std::span<std::byte>{memory}, paging);
  }
  template <OnlyConstantBytes Bytes>
  Result<MemoryRegion> register_memory(Bytes&& memory,
                                       Paging paging = Paging::pinned) const = delete;

  /// Registers a vector's values, for local access only, and takes the vector over: it lives on
  /// until its last loan ends. After an error `values` is as before.
  /// Errors:  as register_memory().
  template <class T>
  requires IsPlainValue<ValueIn<std::vector<T>>>
  [[nodiscard]] Result<TypedRegion<T>> register_owned(std::vector<T>&& values) const {
    LEND_TRY(region, register_memory(std::as_writable_bytes(std::span{values})));
    region.take_over(new std::vector<T>(std::move(values)),
                     [](void* vector) noexcept { delete static_cast<std::vector<T>*>(vector); });
    return TypedRegion<T>::of(std::move(region));
  }

  /// Registers `length` bytes from `offset` of the dmabuf `descriptor`, for local access only. The
  /// descriptor may be closed afterwards.
  ///
  /// Errors:  as allocate(), and
  ///          invalid_argument  the descriptor is no dmabuf, or has fewer bytes.
  ///          unsupported       the device registers none.
  /// Source:  ibv_reg_dmabuf_mr(3).
  [[nodiscard]] Result<DeviceRegion> register_dmabuf(int descriptor, std::uint64_t offset,
                                                     std::size_t length) const;
  /// The same, exposed. The caller owes what unsafe_allocate_exposed() says.
  [[nodiscard]] Result<DeviceRegion> unsafe_register_dmabuf_exposed(int descriptor,
                                                                    std::uint64_t offset,
                                                                    std::size_t length,
                                                                    RemoteAccess access) const;

  /// Tells the device which bytes of regions of this domain work will need soon. It may ignore
  /// that. Lends nothing: work may hold the bytes.
  ///
  /// Shape:   1 to elements_max elements, each below 4 GiB: cut a larger one by chunks().
  /// Errors:  invalid_argument  no elements or too many, an element out of bounds, too large, or of
  ///                            another domain.
  ///          unsupported       the device takes no advice.
  ///          system_failed     the device refused, for instance because the region is pinned.
  /// Source:  ibv_advise_mr(3).
  [[nodiscard]] Result<void> advise(Advice advice, std::span<GatherElement const> elements,
                                    AdviseUntil until = AdviseUntil::begun) const;
  [[nodiscard]] Result<void> advise(Advice advice, GatherElement element,
                                    AdviseUntil until = AdviseUntil::begun) const {
    return advise(advice, std::span{&element, 1}, until);
  }

  /// As allocate(), and a peer that knows remote() may access the whole region until it ends.
  /// MemoryRegion::unsafe_expose() exposes some of the bytes for some time.
  ///
  /// The caller owes: no access to bytes that a peer may be writing; a protocol between both
  /// programs must say when it is not. The ledger cannot see the peer.
  /// Errors:  as allocate(), and
  ///          invalid_argument  an unknown RemoteAccess.
  ///          unsupported       the device cannot expose such memory.
  [[nodiscard]] Result<MemoryRegion> unsafe_allocate_exposed(
      std::size_t length, RemoteAccess access, AllocationOptions const& options = {}) const;
  /// As register_memory(), exposed. The caller owes what unsafe_allocate_exposed() says.
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
  friend struct verbs::ApartMemory;
  friend class verbs::ShownBytes;
  friend class AnyPreparedQueuePair;
  friend class MemoryWindow;
  friend class ReceiveQueue;
  std::shared_ptr<verbs::DomainHandle> handle_;
};

}  // namespace lend
