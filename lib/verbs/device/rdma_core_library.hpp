// SPDX-License-Identifier: MIT OR Apache-2.0
// The libraries of rdma-core, loaded while a program runs: it starts where they are absent.
//
// With the option rdma_core=load, rdma_core_functions.cpp here and in cm define the functions that
// lend calls under their own names, hidden, and find each by this class at its first call. None is
// of the data path: those are called through ibv_context::ops. Any thread.
#pragma once

#include <lend/base/export.hpp>

#include <dlfcn.h>
#include <link.h>

#include <cerrno>
#include <string>
#include <type_traits>

namespace lend::verbs {

class RdmaCoreLibrary {
 public:
  /// Stays loaded: devices that are open use it to the end of the process.
  explicit RdmaCoreLibrary(char const* name) noexcept
      : name_{name}, handle_{::dlopen(name, RTLD_NOW | RTLD_LOCAL)} {}

  /// The function of this version, or null. One of that name in a library before rdma-core, such as
  /// one of LD_PRELOAD, comes first, as it would if lend were linked with rdma-core; it mostly has
  /// no versions.
  /// Source: dlsym(3), dladdr(3), dlinfo(3).
  [[nodiscard]] void* find(char const* function, char const* version) const noexcept {
    void* const first = ::dlsym(RTLD_DEFAULT, function);
    if (first != nullptr && map_of(first) != map()) return first;
    return handle_ != nullptr ? ::dlvsym(handle_, function, version) : nullptr;
  }

  /// Of its file; empty if it is not loaded.
  [[nodiscard]] char const* path() const noexcept {
    link_map const* const own = map();
    return own != nullptr ? own->l_name : "";
  }

  /// Why it is not loaded, as the dynamic linker says it; empty if it is.
  [[nodiscard]] std::string obstacle() const {
    if (handle_ != nullptr) return {};
    if (void* const now = ::dlopen(name_, RTLD_NOW | RTLD_LOCAL); now != nullptr) {
      ::dlclose(now);
      return std::string{name_} + ": it appeared after the program had looked for it";
    }
    char const* const why = ::dlerror();
    return why != nullptr ? why : name_;
  }

 private:
  [[nodiscard]] link_map* map() const noexcept {
    link_map* own = nullptr;
    if (handle_ != nullptr) ::dlinfo(handle_, RTLD_DI_LINKMAP, &own);
    return own;
  }

  [[nodiscard]] static link_map* map_of(void* function) noexcept {
    Dl_info info{};
    void* map = nullptr;
    return ::dladdr1(function, &info, &map, RTLD_DL_LINKMAP) != 0 ? static_cast<link_map*>(map)
                                                                  : nullptr;
  }

  char const* name_;
  void* handle_;
};

/// Calls a function of rdma-core. Where it is absent: null or ENOSYS, and errno.
template <auto function, class... Arguments>
auto call_loaded(RdmaCoreLibrary const& library, char const* name, char const* version,
                 Arguments... arguments) noexcept {
  using Function = decltype(function);
  using Returned = std::invoke_result_t<Function, Arguments...>;
  static auto const found = reinterpret_cast<Function>(library.find(name, version));
  if (found != nullptr) return found(arguments...);
  errno = ENOSYS;
  if constexpr (std::is_integral_v<Returned>)
    return Returned{ENOSYS};
  else
    return Returned();
}

/// Beside the functions that load; null where lend is linked with rdma-core, whose archives inside
/// a program have no file to be loaded.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] char const lend_loads_rdma_core;

/// Each is loaded at the first call. Where lend is linked with rdma-core they are there already.
[[nodiscard]] inline RdmaCoreLibrary const& libibverbs() noexcept {
  static RdmaCoreLibrary const library{"libibverbs.so.1"};
  return library;
}
[[nodiscard]] inline RdmaCoreLibrary const& librdmacm() noexcept {
  static RdmaCoreLibrary const library{"librdmacm.so.1"};
  return library;
}

/// Why no device of the kernel can be opened; empty if libibverbs is there.
[[nodiscard]] LEND_EXPORT std::string libibverbs_obstacle();

}  // namespace lend::verbs
