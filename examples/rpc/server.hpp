// SPDX-License-Identifier: MIT OR Apache-2.0
// The side that answers: each request when its work is done, not when its turn comes. One thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/transport/any.hpp>

/// Until the client has finished.
[[nodiscard]] lend::Result<void> serve(lend::AnyTransport transport);
