// SPDX-License-Identifier: MIT OR Apache-2.0
// Stops the process with a sentence. Any thread; allocates nothing.
#include <lend/base/stop.hpp>

#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>

namespace lend {

void stop(std::string_view sentence) noexcept {
  auto const piece = [](std::string_view text) {
    return iovec{const_cast<char*>(text.data()), text.size()};
  };
  iovec const line[] = {piece("lend: "), piece(sentence), piece("\n")};
  // One call, so that two threads' sentences do not mix. Nothing is left to do if it fails.
  [[maybe_unused]] auto const written = ::writev(STDERR_FILENO, line, 3);
  std::abort();
}

}  // namespace lend
