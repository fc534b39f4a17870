// SPDX-License-Identifier: MIT OR Apache-2.0
// Routes a call to the soft device, or to the next library with that function. Any thread.
#pragma once

#include <soft/device/device.hpp>
#include <soft/device/provider.hpp>
#include <soft/objects/context.hpp>

#include <infiniband/verbs.h>

#include <dlfcn.h>

#include <cerrno>
#include <type_traits>

namespace lend::preload {

[[nodiscard]] inline bool is_soft(ibv_device const* device) noexcept {
  return device == soft::soft_device();
}
[[nodiscard]] inline bool is_soft(ibv_context const* context) noexcept {
  return is_soft(context->device);
}

/// The function of that name in the libraries after this one, or null. Source: dlsym(3).
template <class Function>
[[nodiscard]] Function* next(char const* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// The result of a call without an implementation: null, an errno, or nothing.
template <class Result>
Result refusal() noexcept {
  errno = EOPNOTSUPP;
  if constexpr (std::is_pointer_v<Result>) {
    return nullptr;
  } else if constexpr (!std::is_void_v<Result>) {
    return static_cast<Result>(EOPNOTSUPP);
  }
}

/// Calls `ours` for an object of the soft device, otherwise the next library's function `name`;
/// either may be null.
template <class Object, class Function, class... Arguments>
auto route(Object const* owner, Function* ours, char const* name, Arguments... arguments) {
  auto* const chosen = is_soft(owner) ? ours : next<Function>(name);
  return chosen != nullptr ? chosen(arguments...)
                           : refusal<std::invoke_result_t<Function, Arguments...>>();
}

/// The same for calls that the soft device does not support.
template <class Function, class... Arguments>
auto route_only_others(ibv_context const* owner, Function*, char const* name,
                       Arguments... arguments) {
  return route(owner, static_cast<Function*>(nullptr), name, arguments...);
}

}  // namespace lend::preload
