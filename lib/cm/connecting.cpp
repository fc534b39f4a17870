// SPDX-License-Identifier: MIT OR Apache-2.0
// A connection being made, whichever side's; its beginnings are the sides'.
#include <cm/connecting_state.hpp>
#include <lend/cm/connecting.hpp>

#include <utility>

namespace lend {

CmConnecting::CmConnecting(std::unique_ptr<cm::ConnectingState> state) noexcept
    : state_{std::move(state)} {}
CmConnecting::CmConnecting(CmConnecting&&) noexcept = default;
CmConnecting& CmConnecting::operator=(CmConnecting&&) noexcept = default;
CmConnecting::~CmConnecting() = default;

int CmConnecting::descriptor() const noexcept {
  return state_ ? state_->descriptor() : -1;
}

Result<std::optional<CmConnection>> CmConnecting::advance() {
  auto state = std::move(state_);  // given back however this ends, except where it goes on
  if (state == nullptr)
    return Error{Errc::stale_handle,
                 "this CmConnecting was connected, failed or was moved from before"};
  LEND_TRY(connection, state->advance());
  if (!connection) state_ = std::move(state);
  return std::move(connection);
}

}  // namespace lend
