// SPDX-License-Identifier: MIT OR Apache-2.0
// The one soft device of this host: its list, opening and closing it. Any thread.
#pragma once

#include <infiniband/verbs.h>

namespace lend::soft {

/// The device list holds one device.
[[nodiscard]] ibv_device* soft_device() noexcept;

[[nodiscard]] ibv_device** get_device_list(int* count) noexcept;
void free_device_list(ibv_device** list) noexcept;
[[nodiscard]] ibv_context* open_device(ibv_device*) noexcept;
int close_device(ibv_context*) noexcept;

}  // namespace lend::soft
