// SPDX-License-Identifier: MIT OR Apache-2.0
// Before main(): a test program without what it needs exits 77 and says why, so that nothing is
// counted as passed.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

char const* missing() {
  if (::access("/dev/infiniband/rdma_cm", R_OK | W_OK) != 0)
    return "no rdma_cm here: /dev/infiniband/rdma_cm cannot be opened";
  if (std::getenv("LEND_TEST_DEVICE") == nullptr || std::getenv("LEND_TEST_ADDRESS") == nullptr)
    return "LEND_TEST_DEVICE and LEND_TEST_ADDRESS do not name a device and its IP address";
  return nullptr;
}

[[maybe_unused]] bool const skipped = [] {
  char const* const reason = missing();
  if (reason == nullptr) return false;
  std::puts(reason);
  std::fflush(stdout);
  std::_Exit(77);
}();

}  // namespace
