// SPDX-License-Identifier: MIT OR Apache-2.0
#include <launch/pmix_functions.hpp>

#include <dlfcn.h>

#include <string>

namespace lend::launch {

static_assert(sizeof(PmixProcess) == 260 && offsetof(PmixProcess, rank) == 256);
static_assert(sizeof(PmixValue) == 32 && offsetof(PmixValue, data) == 8);
static_assert(offsetof(PmixInfo, directives) == 512 && offsetof(PmixInfo, value) == 520);

Result<PmixFunctions> PmixFunctions::load() {
  constexpr char const* name = "libpmix.so.2";
  auto const refused = [](char const* why) {
    return Error{Errc::unsupported, std::string{"the launcher speaks PMIx, and "} + name +
                                        " cannot be used (" + (why == nullptr ? "" : why) +
                                        "): install it (Debian: libpmix2), or set LEND_DESK"};
  };
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return refused(::dlerror());
  PmixFunctions functions;
  char const* missing = nullptr;
  auto const find = [&]<class Function>(Function*& function, char const* symbol) {
    function = reinterpret_cast<Function*>(::dlsym(library, symbol));
    if (function == nullptr) missing = symbol;
  };
  find(functions.init, "PMIx_Init");
  find(functions.finalize, "PMIx_Finalize");
  find(functions.put, "PMIx_Put");
  find(functions.commit, "PMIx_Commit");
  find(functions.fence_nb, "PMIx_Fence_nb");
  find(functions.get, "PMIx_Get");
  find(functions.get_nb, "PMIx_Get_nb");
  find(functions.error_string, "PMIx_Error_string");
  if (missing != nullptr) return refused(missing);
  return functions;
}

}  // namespace lend::launch
