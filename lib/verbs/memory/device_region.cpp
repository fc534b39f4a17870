// SPDX-License-Identifier: MIT OR Apache-2.0
// Registers memory of other devices. Any thread.
#include <lend/verbs/protection_domain.hpp>
#include <verbs/device/limits.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/memory/region_state.hpp>

#include <string>

namespace lend {

namespace {

Error refused(verbs::DomainHandle const& domain, int descriptor, std::size_t length,
              int errno_value) {
  auto const call = "ibv_reg_dmabuf_mr of descriptor " + std::to_string(descriptor);
  switch (errno_value) {
    case EOPNOTSUPP:
    case ENOSYS:
    case EPROTONOSUPPORT:
      return verbs::verb_error(Errc::unsupported, domain.provider(), call, errno_value,
                               domain.context->name + " registers no dmabuf.");
    case EINVAL:
    case EBADF:
      return verbs::verb_error(
          Errc::invalid_argument, domain.provider(), call, errno_value,
          "It is no dmabuf, or has fewer bytes than offset and length ask for.");
    default:
      return verbs::registration_error(*domain.context, length, errno_value, "ibv_reg_dmabuf_mr");
  }
}

Result<verbs::RegionState*> register_it(std::shared_ptr<verbs::DomainHandle> const& domain,
                                        int descriptor, std::uint64_t offset, std::size_t length,
                                        std::optional<RemoteAccess> exposed) {
  if (length == 0) return Error{Errc::invalid_argument, "a region of 0 bytes of a dmabuf"};
  LEND_TRYV(verbs::check_exposure(*domain, exposed));
  verbs::Provider const& provider = domain->provider();
  errno = 0;
  // Work requests name its bytes by their offset in the dmabuf, which libibverbs also puts into
  // ibv_mr::addr. Source: rdma-core libibverbs/verbs.c, ibv_reg_dmabuf_mr().
  verbs::Registration registration{
      provider, provider.reg_dmabuf_mr(domain->raw.get(), offset, length, offset, descriptor,
                                       verbs::access_flags(exposed, Paging::pinned))};
  int const error = errno;
  if (!registration) return refused(*domain, descriptor, length, error);
  return new verbs::RegionState{domain, verbs::Storage{}, std::move(registration),
                                exposed.value_or(RemoteAccess{}), verbs::BytesOf::device};
}

}  // namespace

Result<DeviceRegion> ProtectionDomain::register_dmabuf(int descriptor, std::uint64_t offset,
                                                       std::size_t length) const {
  LEND_TRY(state, register_it(handle_, descriptor, offset, length, std::nullopt));
  return DeviceRegion{MemoryRegion{state}};
}

Result<DeviceRegion> ProtectionDomain::unsafe_register_dmabuf_exposed(int descriptor,
                                                                      std::uint64_t offset,
                                                                      std::size_t length,
                                                                      RemoteAccess access) const {
  LEND_TRY(state, register_it(handle_, descriptor, offset, length, access));
  return DeviceRegion{MemoryRegion{state}};
}

}  // namespace lend
