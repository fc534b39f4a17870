// SPDX-License-Identifier: MIT OR Apache-2.0
// Before main(): without a device that libibverbs knows, the program exits 77 and says why.
#include <cstdio>
#include <cstdlib>

#include "peer_ends.hpp"

namespace {

[[maybe_unused]] bool const asked = [] {
  char const* const device = std::getenv("LEND_TEST_DEVICE");
  std::string const name = device == nullptr ? "soft0" : device;
  // The peer looks; lend's own soft device is known to libibverbs only where it is preloaded.
  std::string const command = lend::test::beside_this_program("verbs_peer") + " '" + name + "'";
  int const status = std::system(command.c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  std::fflush(stdout);
  std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}();

}  // namespace
