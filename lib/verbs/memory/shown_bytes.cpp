// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time for each.
#include <verbs/device/verb_error.hpp>
#include <verbs/memory/shown_bytes.hpp>

#include <cerrno>
#include <cstdint>

namespace lend::verbs {

Result<std::optional<ShownBytes>> ShownBytes::create(ProtectionDomain const& domain) {
  auto const& provider = domain.handle_->provider();
  if (provider.reg_shown == nullptr) return std::optional<ShownBytes>{};
  errno = 0;
  Registration registration{provider, provider.reg_shown(domain.handle_->raw.get())};
  if (!registration) {
    auto const reason = errno;
    auto error = verb_error(provider, "registering bytes to be shown", reason);
    if (error == Errc::exhausted || reason == EOPNOTSUPP) return std::optional<ShownBytes>{};
    return error;
  }
  return std::optional{ShownBytes{domain.handle_, std::move(registration)}};
}

std::optional<RemoteRegion> ShownBytes::show(std::span<std::byte const> bytes) noexcept {
  auto* const shown = registration_.get();
  if (are_shown_ || registration_.provider().show(shown, bytes.data(), bytes.size()) != 0)
    return {};
  are_shown_ = true;
  return RemoteRegion{reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), shown->rkey,
                      RemoteAccess::read};
}

Result<void> ShownBytes::hide() noexcept {
  if (!are_shown_) return success();
  auto const& provider = registration_.provider();
  if (int const failure = provider.hide(registration_.get()); failure != 0)
    return verb_error(Errc::system_failed, provider, "the end of what peers read",
                      errno_of(failure));
  are_shown_ = false;
  return success();
}

}  // namespace lend::verbs
