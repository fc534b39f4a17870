// SPDX-License-Identifier: MIT OR Apache-2.0
// How long a stream of one operation takes, as perftest and ucx_perftest measure it: from the first
// post to the last completion at the end that posts, with as much under way as the queues hold. As
// there, all messages leave from the same bytes and writes go to the same bytes; what arrives by
// receive or read needs bytes of its own while it is under way. One thread.
#pragma once

#include <tools/loops/end.hpp>

#include <chrono>

namespace lend::tools {

/// Both ends call it with the same load. 0 at the far end.
/// Errors:  those of the channel.
[[nodiscard]] Result<std::chrono::duration<double>> measure_stream(End& end, Load const& load);

}  // namespace lend::tools
