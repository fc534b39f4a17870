// SPDX-License-Identifier: MIT OR Apache-2.0
// The only file that is compiled again for each commit.
#include <command/commit.hpp>
#include <command/version.hpp>
#include <verbs/device/built_with.hpp>

#include <array>
#include <utility>

namespace lend::command {

std::string version_of(std::string_view program) {
  constexpr std::string_view commit = LEND_COMMIT;
  constexpr auto features =
      std::to_array<std::pair<bool, std::string_view>>({{LEND_BUILT_WITH_CM != 0, "rdma_cm"},
                                                        {LEND_BUILT_WITH_SECRET != 0, "secrets"},
                                                        {LEND_BUILT_WITH_ROSTERS != 0, "rosters"},
                                                        {LEND_BUILT_WITH_OBSERVE != 0, "observing"},
                                                        {LEND_BUILT_WITH_USDT != 0, "probes"}});
  auto text = std::string{program} + " " LEND_VERSION;
  if (!commit.empty()) ((text += " (") += commit) += ')';
  std::string_view separator = ", with ";
  for (auto const& [is_there, name] : features) {
    if (!is_there) continue;
    (text += separator) += name;
    separator = ", ";
  }
  return text;
}

}  // namespace lend::command
