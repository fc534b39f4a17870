// SPDX-License-Identifier: MIT OR Apache-2.0
// What libibverbs' exported functions find behind a context of the soft device: a table of entries
// that all refuse with EOPNOTSUPP, where there would be none. One thread, while a device is opened.
#pragma once

#include <infiniband/verbs.h>

namespace lend::soft {

/// Lends `context` the table that libibverbs makes for a driver without functions. Null where this
/// libibverbs is not one whose private interface is known: then those functions crash. Give it to
/// free_refusals() after the context's last call.
/// Source: rdma-core libibverbs/device.c, verbs_init_context(); dummy_ops.c; libibverbs.map.in.
[[nodiscard]] void* add_refusals(verbs_context& context) noexcept;
void free_refusals(void*) noexcept;

}  // namespace lend::soft
