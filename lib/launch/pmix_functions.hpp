// SPDX-License-Identifier: MIT OR Apache-2.0
// What a rank uses of PMIx, declared here: lend is built without PMIx's headers. Any thread.
//
// Source: PMIx Standard 4.1, of types and calls; OpenPMIx 4.2 include/pmix_common.h, of numbers and
//         the layout, which all that have the name libpmix.so.2 share.
#pragma once

#include <lend/base/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace lend::launch {

struct PmixProcess {
  std::array<char, 256> job{};
  std::uint32_t rank = 0;
};

struct PmixValue {
  std::uint16_t type = 0;
  union {
    bool flag;
    std::uint32_t number;
    char* string;
    std::array<std::uint64_t, 3> largest{};
  } data{};
};

struct PmixInfo {
  std::array<char, 512> key{};
  std::uint32_t directives = 0;
  PmixValue value{};
};

inline constexpr std::uint16_t pmix_bool = 1, pmix_string = 3, pmix_uint32 = 14;
inline constexpr std::uint32_t pmix_all_ranks = 0xffff'fffe;
inline constexpr std::uint8_t pmix_for_all = 3;  // PMIX_GLOBAL
inline constexpr int pmix_unreachable = -25, pmix_lost_connection = -61, pmix_done_at_once = -157;

/// By the names of PMIx. `call_back` comes from a thread of PMIx's, and only after success.
struct PmixFunctions {
  using CallBack = void (*)(int status, void* data);
  using ValueCallBack = void (*)(int status, PmixValue* value, void* data);

  int (*init)(PmixProcess* own, PmixInfo const* infos, std::size_t count) = nullptr;
  int (*finalize)(PmixInfo const* infos, std::size_t count) = nullptr;
  int (*put)(std::uint8_t scope, char const* key, PmixValue* value) = nullptr;
  int (*commit)() = nullptr;
  int (*fence_nb)(PmixProcess const* processes, std::size_t process_count, PmixInfo const* infos,
                  std::size_t count, CallBack call_back, void* data) = nullptr;
  int (*get)(PmixProcess const* process, char const* key, PmixInfo const* infos, std::size_t count,
             PmixValue** value) = nullptr;
  int (*get_nb)(PmixProcess const* process, char const* key, PmixInfo const* infos,
                std::size_t count, ValueCallBack call_back, void* data) = nullptr;
  char const* (*error_string)(int status) = nullptr;

  /// Those of libpmix.so.2, which stays loaded.
  /// Errors:  unsupported  it cannot be loaded, or lacks one.
  [[nodiscard]] static Result<PmixFunctions> load();
};

}  // namespace lend::launch
