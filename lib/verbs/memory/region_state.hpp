// SPDX-License-Identifier: MIT OR Apache-2.0
// What a MemoryRegion and its elements point at. Lending and giving back: any thread.
#pragma once

#include <base/borrow.hpp>
#include <base/paging.hpp>
#include <lend/base/export.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <verbs/device/handles.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace lend::verbs {

/// Bytes from Provider::allocate(), or those of an object that was taken over.
class Storage {
 public:
  Storage() = default;  // a view: nothing to release
  Storage(ContextHandle const& context, void* address, std::size_t length, Pages pages) noexcept
      : context_{&context}, address_{address}, length_{length}, pages_{pages} {}
  Storage(Storage&& other) noexcept
      : context_{other.context_},
        address_{std::exchange(other.address_, nullptr)},
        length_{other.length_},
        pages_{other.pages_},
        destroy_{other.destroy_} {}
  Storage& operator=(Storage&&) = delete;
  ~Storage() {
    if (address_ == nullptr) return;
    if (destroy_ != nullptr)
      destroy_(address_);
    else
      context_->provider().release(context_->raw.get(), address_,
                                   base::whole_pages(length_, pages_));
  }

  /// Of a view: `destroy` ends the object that owns the bytes.
  void take_over(void* object, void (*destroy)(void*) noexcept) noexcept {
    address_ = object;
    destroy_ = destroy;
  }
  [[nodiscard]] bool is_owned() const noexcept { return address_ != nullptr; }
  [[nodiscard]] bool is_allocated() const noexcept { return is_owned() && destroy_ == nullptr; }
  [[nodiscard]] Pages pages() const noexcept { return pages_; }
  /// Leaks the bytes on purpose.
  void keep_for_ever() noexcept { address_ = nullptr; }

 private:
  ContextHandle const* context_ = nullptr;
  void* address_ = nullptr;
  std::size_t length_ = 0;
  Pages pages_ = Pages::normal;
  void (*destroy_)(void*) noexcept = nullptr;  // of an object that was taken over
};

using Registration = RawHandle<ibv_mr, &Provider::dereg_mr>;

/// Who can touch the bytes of a region.
enum class BytesOf : bool { host, device };

struct RegionState {
  base::BorrowLedger ledger{};

  // What each post reads; never changed.
  ibv_pd* protection_domain;  ///< null of device memory, which takes the general way of a post
  std::byte* address;         ///< as work requests name it
  std::size_t length;
  std::uint32_t local_key;
  std::uint32_t remote_key;
  bool is_owned;  ///< lives on until its last loan ends
  bool is_device_memory;
  bool takes_windows = false;  ///< its bytes can be lent to a peer
  RemoteAccess exposed_for;    ///< 0: not exposed
  /// For words only; the ledger counts each as a loan of no bytes. Publishes nothing: relaxed.
  std::atomic<std::uint32_t> exposures{0};

  // Order: the registration ends before the storage, and both before the domain they came from.
  std::shared_ptr<DomainHandle> domain;
  Storage storage;
  Registration registration;

  RegionState(std::shared_ptr<DomainHandle> parent, Storage bytes, Registration registered,
              RemoteAccess exposed, BytesOf bytes_of = BytesOf::host) noexcept
      : protection_domain{bytes_of == BytesOf::host ? parent->raw.get() : nullptr},
        address{static_cast<std::byte*>(registered.get()->addr)},
        length{registered.get()->length},
        local_key{registered.get()->lkey},
        remote_key{registered.get()->rkey},
        is_owned{bytes.is_owned() || bytes_of == BytesOf::device},
        is_device_memory{bytes_of == BytesOf::device},
        exposed_for{exposed},
        domain{std::move(parent)},
        storage{std::move(bytes)},
        registration{std::move(registered)} {}
  RegionState(RegionState const&) = delete;
  RegionState& operator=(RegionState const&) = delete;
  /// Stops the process if a peer is in the middle of writing to a view.
  ~RegionState();

  [[nodiscard]] bool contains(ByteRange range) const noexcept {
    return range.offset <= length && range.length <= length - range.offset;
  }
};

/// Describes bytes of `region`, below 4 GiB, to the device.
[[gnu::always_inline]] inline void fill_element(ibv_sge& entry, RegionState const& region,
                                                ByteRange range) noexcept {
  entry.addr = reinterpret_cast<std::uintptr_t>(region.address + range.offset);
  entry.length = static_cast<std::uint32_t>(range.length);
  entry.lkey = region.local_key;
}

/// Whether a region is registered so that windows can be bound to it: all that are pinned.
[[nodiscard]] inline bool takes_windows(DomainHandle const& domain, Paging paging) noexcept {
  return domain.context->has_windows && paging == Paging::pinned;
}

/// Registers `length` bytes at `address`, for local access or as `exposed`.
/// Errors:  as ProtectionDomain::allocate().
[[nodiscard]] Result<Registration> register_bytes(DomainHandle const& domain, void* address,
                                                  std::size_t length,
                                                  std::optional<RemoteAccess> exposed,
                                                  Paging paging = Paging::pinned);

/// Who may access `exposed` bytes is checked: none of an unknown kind, no atomic operations without
/// a device that has them.
[[nodiscard]] Result<void> check_exposure(DomainHandle const& domain,
                                          std::optional<RemoteAccess> exposed);
/// As IBV_ACCESS_…. Remote write without local write is refused. Source: ibv_reg_mr(3).
[[nodiscard]] int access_flags(std::optional<RemoteAccess> exposed, Paging paging) noexcept;

/// The error of an element of `list_size` that names no bytes of its region.
[[nodiscard]] LEND_EXPORT Error element_error(RegionState const* region, ByteRange range,
                                              std::size_t index, std::size_t list_size);

/// Where bytes are that could be touched as `kind` right now; `region` may be null.
/// Errors:  as MemoryRegion::bytes().
[[nodiscard]] LEND_EXPORT Result<std::byte*> touch(RegionState const* region, ByteRange range,
                                                   base::LoanKind kind) noexcept;

/// The same where few instructions find that. Null: touch() decides.
[[nodiscard]] inline std::byte* touch_at_once(RegionState const* region, ByteRange range,
                                              base::LoanKind kind) noexcept {
  bool const may = region != nullptr && !region->is_device_memory && region->contains(range) &&
                   region->ledger.allows_at_once(kind);
  return may ? region->address + range.offset : nullptr;
}

/// Exposes bytes that `region` contains, one or more.
/// Errors:  as MemoryRegion::unsafe_expose().
[[nodiscard]] Result<Exposure> expose(RegionState& region, ByteRange range, RemoteAccess access);

/// A region whose owner and loans are gone.
LEND_EXPORT void destroy_at_last(RegionState* region) noexcept;

}  // namespace lend::verbs
