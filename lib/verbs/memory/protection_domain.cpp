// SPDX-License-Identifier: MIT OR Apache-2.0
// Registering memory. Any thread.
#include <base/paging.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/device/limits.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/memory/apart_memory.hpp>
#include <verbs/memory/region_state.hpp>

#include <memory>
#include <optional>
#include <string>

namespace lend {

using verbs::ContextHandle;
using verbs::DomainHandle;
using verbs::RegionState;

namespace {

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

/// The region of bytes that `storage` or the caller owns.
Result<RegionState*> make_region(std::shared_ptr<DomainHandle> const& domain, void* address,
                                 std::size_t length, verbs::Storage storage,
                                 std::optional<RemoteAccess> exposed,
                                 Paging paging = Paging::pinned) {
  LEND_TRY(registration, verbs::register_bytes(*domain, address, length, exposed, paging));
  auto* const made = new RegionState{domain, std::move(storage), std::move(registration),
                                     exposed.value_or(RemoteAccess{})};
  made->takes_windows = verbs::takes_windows(*domain, paging);
  return made;
}

Result<void*> take_pages(ContextHandle const& context, std::size_t length,
                         AllocationOptions const& options) {
  auto const& provider = context.provider();
  errno = 0;
  if (void* const address = provider.allocate(context.raw.get(), length, options)) return address;
  int const error = errno;
  auto remedy = base::paging_remedy(length, options, provider.is_soft, error);
  if (remedy.empty()) remedy = "Allocate less, or free memory.";
  auto const call = "allocating " + std::to_string(length) + " bytes";
  return options.node && error == EINVAL
             ? verbs::verb_error(Errc::not_found, provider, call, error, remedy)
             : verbs::verb_error(provider, call, error, remedy);
}

Result<void*> take_pages_apart(ContextHandle const& context, std::size_t length) {
  auto const& provider = context.provider();
  errno = 0;
  if (void* const address = provider.allocate_apart(context.raw.get(), length)) return address;
  return verbs::verb_error(provider, "allocating " + std::to_string(length) + " bytes", errno,
                           "Allocate less, or free memory.");
}

/// Resolves prefer_huge: the first available kind of pages; those of 2 MiB for at least 2 MiB.
Result<void*> take_preferred(ContextHandle const& context, std::size_t length,
                             AllocationOptions& options) {
  for (auto const pages : {Pages::huge_2m, Pages::transparent}) {
    options.pages = pages;
    if (length < bytes_of(Pages::huge_2m)) break;
    if (auto taken = take_pages(context, length, options)) return taken;
  }
  options.pages = Pages::normal;
  return take_pages(context, length, options);
}

Result<RegionState*> allocate_bytes(std::shared_ptr<DomainHandle> const& domain, std::size_t length,
                                    std::optional<RemoteAccess> exposed,
                                    AllocationOptions options) {
  ContextHandle const& context = *domain->context;
  LEND_TRYV(check_length(context, length));
  LEND_TRY(address, options.pages == Pages::prefer_huge ? take_preferred(context, length, options)
                                                        : take_pages(context, length, options));
  return make_region(domain, address, length,
                     verbs::Storage{context, address, length, options.pages}, exposed);
}

Result<RegionState*> view_bytes(std::shared_ptr<DomainHandle> const& domain,
                                std::span<std::byte> memory, std::optional<RemoteAccess> exposed,
                                Paging paging = Paging::pinned) {
  LEND_TRYV(check_length(*domain->context, memory.size()));
  return make_region(domain, memory.data(), memory.size(), verbs::Storage{}, exposed, paging);
}

}  // namespace

int verbs::access_flags(std::optional<RemoteAccess> exposed, Paging paging) noexcept {
  auto const remote = flags_of(exposed.value_or(RemoteAccess{}));
  return static_cast<int>(IBV_ACCESS_LOCAL_WRITE | remote |
                          (paging == Paging::on_demand ? unsigned{IBV_ACCESS_ON_DEMAND} : 0u));
}

Result<void> verbs::check_exposure(DomainHandle const& domain,
                                   std::optional<RemoteAccess> exposed) {
  // None: of no use to a peer; others: of a later version.
  if (exposed && (*exposed == RemoteAccess{} || !permits(RemoteAccess::all, *exposed)))
    return Error{Errc::invalid_argument, "a remote access of " +
                                             std::to_string(static_cast<unsigned>(*exposed)) +
                                             "; it must be of read, write and atomic"};
  if (exposed && permits(*exposed, RemoteAccess::atomic) && !domain.context->has_atomics)
    return Error{Errc::unsupported, domain.context->name +
                                        " has no atomic operations (capabilities().atomics); "
                                        "expose the bytes for read and write"};
  return success();
}

Result<verbs::Registration> verbs::register_bytes(DomainHandle const& domain, void* address,
                                                  std::size_t length,
                                                  std::optional<RemoteAccess> exposed,
                                                  Paging paging) {
  if (paging == Paging::on_demand && !domain.context->has_paging_on_demand)
    return Error{Errc::unsupported, domain.context->name +
                                        " has no paging on demand "
                                        "(capabilities().paging_on_demand); register the bytes "
                                        "pinned"};
  LEND_TRYV(check_exposure(domain, exposed));
  verbs::Provider const& provider = domain.provider();
  errno = 0;
  int const bindable = takes_windows(domain, paging) ? int{IBV_ACCESS_MW_BIND} : 0;
  verbs::Registration registration{
      provider,
      provider.reg_mr(domain.raw.get(), address, length, access_flags(exposed, paging) | bindable)};
  int const error = errno;
  if (!registration) return verbs::registration_error(*domain.context, length, error);
  return registration;
}

Result<MemoryRegion> ProtectionDomain::allocate(std::size_t length,
                                                AllocationOptions const& options) const {
  LEND_TRY(state, allocate_bytes(handle_, length, std::nullopt, options));
  return MemoryRegion{state};
}

Result<MemoryRegion> ProtectionDomain::register_memory(std::span<std::byte> memory,
                                                       Paging paging) const {
  LEND_TRY(state, view_bytes(handle_, memory, std::nullopt, paging));
  return MemoryRegion{state};
}

Result<MemoryRegion> ProtectionDomain::unsafe_allocate_exposed(
    std::size_t length, RemoteAccess access, AllocationOptions const& options) const {
  LEND_TRY(state, allocate_bytes(handle_, length, access, options));
  return MemoryRegion{state};
}

Result<MemoryRegion> ProtectionDomain::unsafe_register_exposed(std::span<std::byte> memory,
                                                               RemoteAccess access) const {
  LEND_TRY(state, view_bytes(handle_, memory, access));
  return MemoryRegion{state};
}

Result<MemoryRegion> verbs::ApartMemory::allocate(ProtectionDomain const& domain,
                                                  std::size_t length,
                                                  std::optional<RemoteAccess> exposed) {
  ContextHandle const& context = *domain.handle_->context;
  LEND_TRYV(check_length(context, length));
  LEND_TRY(address, take_pages_apart(context, length));
  LEND_TRY(state, make_region(domain.handle_, address, length,
                              verbs::Storage{context, address, length, Pages::normal}, exposed));
  return MemoryRegion{state};
}

Context ProtectionDomain::context() const noexcept {
  return Context{handle_->context};
}

ibv_pd* ProtectionDomain::native() const noexcept {
  return handle_->raw.get();
}

}  // namespace lend
