// SPDX-License-Identifier: MIT OR Apache-2.0
// Pseudoterminals by /dev/ptmx. Any thread.
#include <run/terminal.hpp>

#include <fcntl.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace lend::run {

Result<Ends> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error::from_errno("pipe2", errno);
  Ends made{base::UniqueFd{ends[0]}, base::UniqueFd{ends[1]}};
  if (!made.reading || !made.writing) return Error::from_errno("fcntl of a pipe", errno);
  return made;
}

Result<Ends> make_terminal(winsize const& size) {
  Ends made{base::UniqueFd{::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)}, {}};
  if (!made.reading) return Error::from_errno("posix_openpt", errno);
  if (::unlockpt(made.reading.get()) != 0) return Error::from_errno("unlockpt", errno);
  // Without its path, which another mount of devpts may hide. Source: ioctl_tty(2), TIOCGPTPEER.
  made.writing =
      base::UniqueFd{::ioctl(made.reading.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)};
  if (!made.writing) return Error::from_errno("ioctl TIOCGPTPEER", errno);
  termios settings{};
  if (::tcgetattr(made.writing.get(), &settings) != 0) return Error::from_errno("tcgetattr", errno);
  ::cfmakeraw(&settings);
  if (::tcsetattr(made.writing.get(), TCSANOW, &settings) != 0)
    return Error::from_errno("tcsetattr", errno);
  ::ioctl(made.reading.get(), TIOCSWINSZ, &size);
  return made;
}

winsize own_window_size() noexcept {
  winsize size{};
  for (int const own : {STDOUT_FILENO, STDERR_FILENO, STDIN_FILENO})
    if (::ioctl(own, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size;
  return {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
}

}  // namespace lend::run
