// SPDX-License-Identifier: MIT OR Apache-2.0
// What the rest of lend sees of the soft device: one table.
#pragma once

#include <verbs/device/provider.hpp>

namespace lend::soft {

[[nodiscard]] verbs::Provider const& provider() noexcept;

}  // namespace lend::soft
