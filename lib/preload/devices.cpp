// SPDX-License-Identifier: MIT OR Apache-2.0
// Devices: the list, opening one, its queries. Any thread.
#include "patience.hpp"
#include "route.hpp"

#include <soft/device/answers.hpp>

#include <new>

// The header has it as a macro too.
#undef ibv_query_port

using namespace lend;
using namespace lend::preload;

/// The other devices, then the soft one. The entry before the returned list is the next library's
/// list, which holds the references and is freed together with it.
ibv_device** ibv_get_device_list(int* count) {
  using Call = decltype(ibv_get_device_list);
  int others = 0;
  ibv_device** theirs = nullptr;
  // Without RDMA in the kernel it is null with ENOSYS; here that is an empty list.
  if (auto* const call = next<Call>(__func__); call != nullptr) theirs = call(&others);
  if (theirs == nullptr) others = 0;
  auto const all = static_cast<std::size_t>(others) + 1;
  auto** const list = new (std::nothrow) ibv_device*[1 + all + 1];
  if (list == nullptr) {
    if (theirs != nullptr) next<decltype(ibv_free_device_list)>("ibv_free_device_list")(theirs);
    errno = ENOMEM;
    return nullptr;
  }
  list[0] = reinterpret_cast<ibv_device*>(theirs);
  for (int i = 0; i < others; ++i) list[1 + i] = theirs[i];
  list[all] = soft::soft_device();
  list[all + 1] = nullptr;
  if (count != nullptr) *count = static_cast<int>(all);
  return list + 1;
}

void ibv_free_device_list(ibv_device** given) {
  auto** const list = given - 1;
  if (auto** const theirs = reinterpret_cast<ibv_device**>(list[0]); theirs != nullptr)
    next<decltype(ibv_free_device_list)>(__func__)(theirs);
  delete[] list;
}

char const* ibv_get_device_name(ibv_device* device) {
  return device->name;  // Source: rdma-core libibverbs/device.c: so for every device
}

int ibv_get_device_index(ibv_device* device) {
  return route(device, soft::provider().get_device_index, __func__, device);
}

__be64 ibv_get_device_guid(ibv_device* device) {
  return route(
      device, +[](ibv_device*) -> __be64 { return soft::device_guid(); }, __func__, device);
}

ibv_context* ibv_open_device(ibv_device* device) {
  auto* const context = route(device, soft::provider().open_device, __func__, device);
  if (context == nullptr || !is_soft(context)) return context;
  poll_patiently(*context);
  // A card continues to send while its program does not poll. Nothing waits yet, so this cannot
  // fail.
  auto& opened = soft::Context::of(context);
  static_cast<void>(opened.timer_thread.sleeper_came(opened));
  return context;
}

int ibv_close_device(ibv_context* context) {
  constexpr auto ours = +[](ibv_context* opened) {
    // Programs leave objects behind (perftest does). A kernel frees them; here they stay until the
    // process ends, but answer no peer. Source: ibv_close_device(3), "does not release all the
    // resources"; Linux drivers/infiniband/core/uverbs_main.c, ib_uverbs_close().
    auto const error = soft::provider().close_device(opened);
    return error == EBUSY ? soft::break_all(opened) : error;
  };
  return route(context, ours, __func__, context);
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  return route(context, soft::provider().query_device, __func__, context, attributes);
}

int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  return route(context, soft::query_port_compat, __func__, context, port, attributes);
}

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  return route(context, soft::provider().query_gid, __func__, context, port, index, gid);
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_size) {
  return route(context, soft::query_gid_entry, __func__, context, port, index, entry, flags,
               entry_size);
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t entries_max,
                             std::uint32_t flags, std::size_t entry_size) {
  return route(context, soft::query_gid_table, __func__, context, entries, entries_max, flags,
               entry_size);
}

// In no public header, but ibv_devinfo and pyverbs call it. Source: rdma-core libibverbs/driver.h.
extern "C" int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index,
                                  unsigned* type);
int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, unsigned* type) {
  return route(context, soft::query_gid_sysfs_type, __func__, context, port, index, type);
}

int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* key) {
  return route(context, soft::query_pkey, __func__, context, port, index, key);
}

int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 key) {
  return route(context, soft::get_pkey_index, __func__, context, port, key);
}
