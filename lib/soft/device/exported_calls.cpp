// SPDX-License-Identifier: MIT OR Apache-2.0
// Taking the table of refusals from libibverbs itself, so that its layout is that library's affair.
#include <soft/device/exported_calls.hpp>

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace lend::soft {

void* add_refusals(verbs_context& context) noexcept {
  using Make =
      void*(ibv_device*, int cmd_fd, std::size_t size, verbs_context* offset, std::uint32_t driver);
  // Looked up, not linked: it is for drivers. The version is that of rdma-core 34 to 44 at least.
  // Source: rdma-core CMakeLists.txt, IBVERBS_PABI_VERSION.
  auto* const make = reinterpret_cast<Make*>(
      ::dlvsym(RTLD_DEFAULT, "_verbs_init_and_alloc_context", "IBVERBS_PRIVATE_34"));
  if (make == nullptr) return nullptr;
  // An unused context without a device file. It counts itself in what follows ibv_device.
  // Its maker writes a verbs_context of its own size, which may be larger than the one known here.
  constexpr std::size_t room = sizeof(verbs_context) + 4096;
  auto* const donor =
      static_cast<verbs_context*>(make(context.context.device, -1, room, nullptr, 0));
  // Where the size differs its members lie elsewhere, and it is not freed: `priv` would be wrong.
  // Source: rdma-core libibverbs/device.c, verbs_init_context(), which sets `sz`.
  if (donor == nullptr || donor->sz != sizeof(verbs_context)) return nullptr;
  context.priv = donor->priv;
  return donor;
}

void free_refusals(void* donor) noexcept {
  if (donor == nullptr) return;
  std::free(static_cast<verbs_context*>(donor)->priv);
  std::free(donor);
}

}  // namespace lend::soft
