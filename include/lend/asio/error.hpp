// SPDX-License-Identifier: MIT OR Apache-2.0
// lend's errors as Boost.System's. Any thread.
#pragma once

#include <lend/base/error.hpp>

#include <boost/asio/error.hpp>
#include <boost/system/error_code.hpp>

#include <string>

namespace lend::asio {

namespace implementation {

// Boost's category has no virtual destructor, on purpose: categories are never destroyed.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
class Category final : public boost::system::error_category {
 public:
  [[nodiscard]] char const* name() const noexcept override { return "lend"; }
  [[nodiscard]] std::string message(int value) const override {
    return std::string{name_of(static_cast<Errc>(value))};
  }
};
#pragma GCC diagnostic pop

}  // namespace implementation

/// Of codes that are an Errc.
[[nodiscard]] inline boost::system::error_category const& category() noexcept {
  static implementation::Category const category;
  return category;
}

/// The code by which Asio's programs know this error, else one of category(). The text is lost: the
/// stream keeps the whole error as last_error().
///
///   timed_out  error::timed_out      cancelled  error::operation_aborted
///   finished   error::broken_pipe    peer_lost  error::connection_reset
[[nodiscard]] inline boost::system::error_code code_of(Error const& error) noexcept {
  switch (error.code()) {
    case Errc::timed_out: return boost::asio::error::timed_out;
    case Errc::cancelled: return boost::asio::error::operation_aborted;
    case Errc::finished: return boost::asio::error::broken_pipe;
    case Errc::peer_lost: return boost::asio::error::connection_reset;
    default: return {static_cast<int>(error.code()), category()};
  }
}

}  // namespace lend::asio
