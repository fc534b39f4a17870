// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread's reason, in a buffer that needs no allocation.
#include <soft/platform/reason.hpp>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace lend::soft {
namespace {

constinit thread_local char text[400] = "";

}  // namespace

int fail(int errno_value) noexcept {
  text[0] = '\0';
  return errno = errno_value;
}

int fail(int errno_value, char const* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return errno = errno_value;
}

char const* last_reason() noexcept {
  return text[0] == '\0' ? nullptr : text;
}

}  // namespace lend::soft
