// SPDX-License-Identifier: MIT OR Apache-2.0
// Batches without handles. One thread.
#include "price_together.hpp"

namespace lend::bench {

template bool repeat<Unheld, SendAlone>(std::span<LoopBack>, std::uint64_t);
template bool repeat<Unheld, ReceiveAlone>(std::span<LoopBack>, std::uint64_t);
template bool repeat<Unheld, WriteAlone>(std::span<LoopBack>, std::uint64_t);
template bool repeat<Unheld, ReadAlone>(std::span<LoopBack>, std::uint64_t);
template bool repeat<Unheld, AtomicAlone>(std::span<LoopBack>, std::uint64_t);
template bool repeat<Unheld, SendAndReceive>(std::span<LoopBack>, std::uint64_t);

}  // namespace lend::bench
