// SPDX-License-Identifier: MIT OR Apache-2.0
// Registering memory. Any thread.
#include <lend/verbs/protection_domain.hpp>
#include <verbs/handles.hpp>
#include <verbs/limits.hpp>
#include <verbs/region_state.hpp>
#include <verbs/verb_error.hpp>

#include <memory>
#include <optional>

namespace lend {

namespace {

/// Remote write without local write is refused. Source: ibv_reg_mr(3).
int access_flags(std::optional<RemoteAccess> exposed) noexcept {
  int flags = IBV_ACCESS_LOCAL_WRITE;
  if (!exposed) return flags;
  auto const bits = static_cast<unsigned>(*exposed);
  if ((bits & static_cast<unsigned>(RemoteAccess::read)) != 0) flags |= IBV_ACCESS_REMOTE_READ;
  if ((bits & static_cast<unsigned>(RemoteAccess::write)) != 0) flags |= IBV_ACCESS_REMOTE_WRITE;
  return flags;
}

Result<void> check_length(ContextHandle const& context, std::size_t length) {
  auto const limit = context.limits.region_bytes_max;
  if (length == 0)
    return Error{Errc::invalid_argument, "a region of 0 bytes; " + context.name +
                                             " registers 1 to " + std::to_string(limit)};
  if (length > limit)
    return Error{Errc::invalid_argument, "a region of " + std::to_string(length) + " bytes; " +
                                             context.name + " registers at most " +
                                             std::to_string(limit)};
  return success();
}

/// The region of bytes that `storage` owns, or which are the caller's.
Result<RegionState*> make_region(std::shared_ptr<DomainHandle> const& domain, void* address,
                                 std::size_t length, Storage storage,
                                 std::optional<RemoteAccess> exposed) {
  LEND_TRY(registration, register_bytes(*domain, address, length, exposed));
  return new RegionState{domain, std::move(storage), std::move(registration), exposed.has_value()};
}

Result<RegionState*> allocate_bytes(std::shared_ptr<DomainHandle> const& domain, std::size_t length,
                                    std::optional<RemoteAccess> exposed) {
  ContextHandle const& context = *domain->context;
  LEND_TRYV(check_length(context, length));
  errno = 0;
  void* const address = context.provider().allocate(context.raw.get(), length);
  int const error = errno;
  if (address == nullptr)
    return verb_error(context.provider(), "allocating " + std::to_string(length) + " bytes", error,
                      "Allocate less, or free memory.");
  return make_region(domain, address, length, Storage{context, address, length}, exposed);
}

Result<RegionState*> view_bytes(std::shared_ptr<DomainHandle> const& domain,
                                std::span<std::byte> memory, std::optional<RemoteAccess> exposed) {
  LEND_TRYV(check_length(*domain->context, memory.size()));
  return make_region(domain, memory.data(), memory.size(), Storage{}, exposed);
}

}  // namespace

Result<Registration> register_bytes(DomainHandle const& domain, void* address, std::size_t length,
                                    std::optional<RemoteAccess> exposed) {
  Provider const& provider = domain.provider();
  errno = 0;
  Registration registration{
      provider, provider.reg_mr(domain.raw.get(), address, length, access_flags(exposed))};
  int const error = errno;
  if (!registration) return registration_error(*domain.context, length, error);
  return registration;
}

Result<MemoryRegion> ProtectionDomain::allocate(std::size_t length) const {
  LEND_TRY(state, allocate_bytes(handle_, length, std::nullopt));
  return MemoryRegion{state};
}

Result<MemoryRegion> ProtectionDomain::register_memory(std::span<std::byte> memory) const {
  LEND_TRY(state, view_bytes(handle_, memory, std::nullopt));
  return MemoryRegion{state};
}

Result<MemoryRegion> ProtectionDomain::unsafe_allocate_exposed(std::size_t length,
                                                               RemoteAccess access) const {
  LEND_TRY(state, allocate_bytes(handle_, length, access));
  return MemoryRegion{state};
}

Result<MemoryRegion> ProtectionDomain::unsafe_register_exposed(std::span<std::byte> memory,
                                                               RemoteAccess access) const {
  LEND_TRY(state, view_bytes(handle_, memory, access));
  return MemoryRegion{state};
}

Context ProtectionDomain::context() const noexcept {
  return Context{handle_->context};
}

ibv_pd* ProtectionDomain::native() const noexcept {
  return handle_->raw.get();
}

}  // namespace lend
