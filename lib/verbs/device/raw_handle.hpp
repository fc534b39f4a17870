// SPDX-License-Identifier: MIT OR Apache-2.0
// The one owner of a raw verbs object. Any thread.
#pragma once

#include <verbs/device/forking.hpp>
#include <verbs/device/provider.hpp>

#include <utility>

namespace lend::verbs {

/// One raw object and the table's entry that destroys it.
///
/// An object whose destruction fails (a removed card returns EIO) stays with the kernel, which
/// frees it when the process ends; the process cannot do more. In a forked child nothing is
/// destroyed: the object is the parent's.
template <class Raw, int (*Provider::*end)(Raw*)>
class RawHandle {
 public:
  RawHandle(Provider const& provider, Raw* raw) noexcept : provider_{&provider}, raw_{raw} {}
  RawHandle(RawHandle&& other) noexcept
      : provider_{other.provider_},
        raw_{std::exchange(other.raw_, nullptr)},
        origin_{other.origin_} {}
  RawHandle& operator=(RawHandle&&) = delete;
  ~RawHandle() { static_cast<void>(destroy()); }

  /// Destroys the object now. False if that failed; it is not retried.
  [[nodiscard]] bool destroy() noexcept { return try_destroy() == 0; }
  /// The same with the verb's return value, if not 0.
  [[nodiscard]] int try_destroy() noexcept {
    Raw* const raw = std::exchange(raw_, nullptr);
    return raw == nullptr ? 0 : (provider().*end)(raw);
  }

  /// In a forked child one whose every call is refused.
  [[nodiscard]] Provider const& provider() const noexcept {
    return is_inherited() ? inherited_provider() : *provider_;
  }
  [[nodiscard]] bool is_inherited() const noexcept { return origin_.is_inherited(); }
  [[nodiscard]] Raw* get() const noexcept { return raw_; }
  [[nodiscard]] explicit operator bool() const noexcept { return raw_ != nullptr; }

 private:
  Provider const* provider_;
  Raw* raw_;
  Inheritance origin_{};
};

}  // namespace lend::verbs
