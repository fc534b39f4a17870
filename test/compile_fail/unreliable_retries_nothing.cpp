// error: could not convert|does not refer to any|has no.*member named
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>
#include <lend/verbs/queue_pair.hpp>

#ifdef MUST_COMPILE
using Options = lend::OptionsOf<lend::Rc>;
#else
using Options = lend::OptionsOf<lend::Uc>;
#endif

Options rule() {
  return {.receiver_not_ready_retries = std::uint8_t{4}};
}
