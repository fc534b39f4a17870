// SPDX-License-Identifier: MIT OR Apache-2.0
// Asynchronous events, taken by a test that waits for none or for one that must come. One thread.
#pragma once

#include "soft/support.hpp"

#include <fcntl.h>
#include <poll.h>

#include <optional>

namespace lend::test {

/// The next event, if one is there, acknowledged.
inline std::optional<ibv_async_event> take_event(ibv_context* context) {
  REQUIRE(::fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
  pollfd wait{context->async_fd, POLLIN, 0};
  bool const is_readable = ::poll(&wait, 1, 0) == 1;
  ibv_async_event event{};
  errno = 0;
  auto const answer = ibv().get_async_event(context, &event);
  CHECK(is_readable == (answer == 0));
  if (answer == 0) {
    ibv().ack_async_event(&event);
    return event;
  }
  CHECK(errno == EAGAIN);
  return std::nullopt;
}

/// The next event, which must come: by a thread of the device's perhaps, behind the completion that
/// it is about.
inline std::optional<ibv_async_event> await_event(ibv_context* context) {
  pollfd wait{context->async_fd, POLLIN, 0};
  CHECK(::poll(&wait, 1, 10'000) == 1);  // ms; reached only if none comes
  return take_event(context);
}

}  // namespace lend::test
