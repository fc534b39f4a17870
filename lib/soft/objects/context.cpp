// SPDX-License-Identifier: MIT OR Apache-2.0
// The state of an open device, and its pages for rings.
#include <soft/objects/context.hpp>

#include <soft/platform/reason.hpp>

#include <endian.h>

#include <cerrno>

namespace lend::soft {

Context::Context(base::UniqueFd file, Mapping mapping, TimerThread::Retry* retry, Serve* served)
    : verbs_context{},
      refusals{nullptr, [](void*) noexcept {}},
      segment_file{std::move(file)},
      segment_mapping{std::move(mapping)},
      segment{*reinterpret_cast<Segment*>(segment_mapping.base())},
      arenas{segment},
      regions{segment, arenas},
      peers{segment, slot},
      rings{rings_offset, segment_bytes},
      timer_thread{retry},
      serve{served} {
  ::pthread_mutex_init(&context.mutex, nullptr);
}

ibv_gid Context::gid() const noexcept {
  ibv_gid own{};
  own.global.subnet_prefix = htobe64(0xfe80000000000000);
  own.global.interface_id = htobe64(guid);
  return own;
}

int Context::check_ours() const noexcept {
  if (is_ours()) return 0;
  return fail(ENODEV, "this device was opened before fork(): open it again in the child");
}

std::uint64_t Context::take_ring(std::size_t length) {
  if (auto const offset = rings.take(length)) return *offset;
  fail(ENOMEM, "the soft device's %zu MiB for queues are used up: ask for smaller depths",
       segment_bytes >> 20);
  return 0;
}

void Context::give_back_ring(std::uint64_t offset, std::size_t length) noexcept {
  // No sequence number of its last tenant may look valid to the next.
  clear_pages(segment_file.get(), reinterpret_cast<std::byte*>(&segment), offset,
              whole_pages(length));
  rings.give_back(offset);
}

}  // namespace lend::soft
