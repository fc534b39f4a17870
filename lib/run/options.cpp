// SPDX-License-Identifier: MIT OR Apache-2.0
// The command line of lend-run.
#include <run/options.hpp>

#include <charconv>
#include <string>
#include <system_error>

namespace lend::run {

namespace {

Error wrong(std::string reason) {
  return {Errc::invalid_argument, std::move(reason)};
}

/// The number at the head of `text`, which keeps the rest. None: there is none.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

Result<std::uint32_t> ranks_in(std::string_view text) {
  auto rest = text;
  auto const ranks = take_number(rest);
  if (ranks && rest.empty() && *ranks > 0 && *ranks <= ranks_max) return *ranks;
  return wrong("-n takes 1 to " + std::to_string(ranks_max) + ", not \"" + std::string{text} +
               "\"");
}

Result<std::uint32_t> restarts_in(std::string_view text) {
  auto rest = text;
  auto const restarts = take_number(rest);
  if (restarts && rest.empty()) return *restarts;
  return wrong("--restarts takes a number, not \"" + std::string{text} + "\"");
}

Result<std::chrono::milliseconds> duration_in(std::string_view text) {
  using std::chrono::milliseconds;
  auto unit = text;
  auto const number = take_number(unit);
  if (number && *number > 0) {
    if (unit == "ms") return milliseconds{*number};
    if (unit == "s" || unit.empty()) return milliseconds{std::chrono::seconds{*number}};
    if (unit == "m") return milliseconds{std::chrono::minutes{*number}};
    if (unit == "h") return milliseconds{std::chrono::hours{*number}};
  }
  return wrong("--timeout takes a time such as 500ms, 30s, 5m or 1h, not \"" + std::string{text} +
               "\"");
}

}  // namespace

Result<Options> parse(std::span<char* const> arguments) {
  Options options;
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at][0] == '-') {
    std::string_view const option = arguments[at++];
    if (option == "--") break;
    if (option == "--help" || option == "-h") {
      options.help = true;
      return options;
    }
    if (option == "--pty") {
      options.pty = true;
      continue;
    }
    if (option != "-n" && option != "--restarts" && option != "--timeout")
      return wrong("unknown option " + std::string{option});
    if (at == arguments.size()) return wrong(std::string{option} + " lacks its value");
    std::string_view const value = arguments[at++];
    if (option == "-n") {
      LEND_TRY(ranks, ranks_in(value));
      options.ranks = ranks;
    } else if (option == "--restarts") {
      LEND_TRY(restarts, restarts_in(value));
      options.restarts = restarts;
    } else {
      LEND_TRY(timeout, duration_in(value));
      options.timeout = timeout;
    }
  }
  if (options.ranks == 0) return wrong("-n N is missing");
  if (at == arguments.size()) return wrong("PROGRAM is missing");
  options.program.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
  options.program.push_back(nullptr);
  return options;
}

}  // namespace lend::run
