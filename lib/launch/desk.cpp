// SPDX-License-Identifier: MIT OR Apache-2.0
// The desk as programs see it.
#include <lend/launch/desk.hpp>

#include <launch/desk_state.hpp>

#include <lend/base/stop.hpp>

#include <array>
#include <chrono>
#include <cstring>
#include <utility>

namespace lend {

Desk::Desk(std::unique_ptr<launch::DeskState> state) noexcept : state_{std::move(state)} {}
Desk::Desk(Desk&&) noexcept = default;
Desk& Desk::operator=(Desk&&) noexcept = default;
Desk::~Desk() = default;

launch::DeskState& Desk::state() const noexcept {
  if (!state_) stop("a Desk was used after it had been moved from");
  return *state_;
}

Result<Desk> Desk::open(std::string_view address, DeskOptions options) {
  auto made = network::Secret::of(options.secret);
  ::explicit_bzero(options.secret.data(), options.secret.size());
  LEND_TRY(secret, std::move(made));
  LEND_TRY(state, launch::DeskState::open(address, std::move(options.group), std::move(secret),
                                          within(std::chrono::seconds{0})));
  return Desk{std::move(state)};
}

std::string const& Desk::address() const noexcept {
  return state().address();
}

Result<void> Desk::serve(std::uint32_t size, Deadline deadline) {
  LEND_TRYV(begin(size, deadline));
  for (;;) {
    LEND_TRY(met, poll());
    if (met) return success();
    std::array<pollfd, 1> polled{pollfd{descriptor(), POLLIN, 0}};
    auto const waited = network::wait_for(polled, deadline);
    if (waited) continue;  // poll() says what a passed deadline means
    state_->end(network::StatusCode::failed, "sat when the desk failed");
    return waited.error();
  }
}

Result<void> Desk::begin(std::uint32_t size, Deadline deadline) {
  return state().begin(size, deadline);
}

int Desk::descriptor() const noexcept {
  return state().descriptor();
}

Result<bool> Desk::poll() {
  return state().poll();
}

}  // namespace lend
