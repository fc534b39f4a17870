// SPDX-License-Identifier: MIT OR Apache-2.0
// Options of connections by environment variables: what the program left out. As getenv(3) where
// threads are concerned.
#include <base/environment.hpp>
#include <base/printable.hpp>
#include <base/variables.hpp>
#include <verbs/device/gid_table.hpp>
#include <verbs/device/port.hpp>
#include <verbs/queue/adoption.hpp>
#include <verbs/queue/connection_settings.hpp>
#include <verbs/queue/queue_pair_states.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

namespace lend::verbs {

namespace {

using std::chrono::nanoseconds;

/// A whole number of digits to `base` alone.
std::optional<std::uint64_t> number_of(std::string_view text, int base = 10) noexcept {
  std::uint64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <std::uint64_t Least, std::uint64_t Most>
std::optional<std::uint64_t> number_within(std::string_view text) noexcept {
  auto const value = number_of(text);
  return value && *value >= Least && *value <= Most ? value : std::nullopt;
}

template <class T, std::uint64_t Most>
std::optional<T> parse_number(std::string_view text) noexcept {
  static_assert(Most <= std::numeric_limits<T>::max());
  auto const value = number_within<0, Most>(text);
  if (!value) return std::nullopt;
  return static_cast<T>(*value);
}

std::optional<GidChoice> parse_gid(std::string_view text) {
  constexpr std::string_view by_index = "index:";
  if (text.starts_with(by_index)) {
    auto const index = number_within<0, UINT8_MAX>(text.substr(by_index.size()));
    if (!index) return std::nullopt;
    return GidChoice{.index = static_cast<std::uint32_t>(*index)};
  }
  std::string whole{text};
  if (network_of_text(whole)) return GidChoice{.network = std::move(whole)};
  if (gid_of_text(whole)) return GidChoice{.address = std::move(whole)};
  return std::nullopt;
}

std::optional<std::uint32_t> parse_mtu(std::string_view text) noexcept {
  auto const bytes = number_within<0, UINT32_MAX>(text);
  if (!bytes || !mtu_of(static_cast<std::uint32_t>(*bytes))) return std::nullopt;
  return static_cast<std::uint32_t>(*bytes);
}

std::optional<std::uint16_t> parse_key(std::string_view text) noexcept {
  if (!text.starts_with("0x")) return std::nullopt;
  auto const key = number_of(text.substr(2), 16);
  if (!key || *key == 0 || *key > UINT16_MAX) return std::nullopt;
  return static_cast<std::uint16_t>(*key);
}

std::optional<nanoseconds> parse_time(std::string_view text) noexcept {
  struct Unit {
    std::string_view name;
    std::uint64_t nanoseconds;
  };
  constexpr auto units = std::to_array<Unit>({{"us", 1'000},
                                              {"ms", 1'000'000},
                                              {"s", 1'000'000'000},
                                              {"m", 60'000'000'000},
                                              {"h", 3'600'000'000'000}});
  auto const digits = std::min(text.find_first_not_of("0123456789"), text.size());
  auto const count = number_of(text.substr(0, digits));
  auto const unit = std::ranges::find(units, text.substr(digits), &Unit::name);
  if (!count || unit == units.end() || *count > std::uint64_t{INT64_MAX} / unit->nanoseconds)
    return std::nullopt;
  return nanoseconds{static_cast<std::int64_t>(*count * unit->nanoseconds)};
}

std::optional<nanoseconds> parse_ack_timeout(std::string_view text) noexcept {
  auto const time = parse_time(text);
  if (!time || *time < std::chrono::microseconds{1} || *time > std::chrono::hours{2})
    return std::nullopt;
  return time;
}

std::optional<nanoseconds> parse_keep_alive(std::string_view text) noexcept {
  if (text == "0") return nanoseconds{0};
  auto const time = parse_time(text);
  if (!time || *time < std::chrono::milliseconds{1} || *time > std::chrono::hours{1})
    return std::nullopt;
  return time;
}

Error bad_value(std::string_view name, std::string_view text) {
  std::string message{name};
  ((message += " is \"") += base::shown(text)) += "\"; it must be ";
  return Error{Errc::invalid_argument, message += base::values_of(name)};
}

template <class T>
using Parse = std::optional<T> (*)(std::string_view);

/// The variables of connections: each with its name and the meaning of its text.
constexpr char gid_variable[] = "LEND_GID";
constexpr char mtu_variable[] = "LEND_MTU";
constexpr char level_variable[] = "LEND_SERVICE_LEVEL";
constexpr char class_variable[] = "LEND_TRAFFIC_CLASS";
constexpr char key_variable[] = "LEND_PARTITION_KEY";
constexpr char timeout_variable[] = "LEND_ACK_TIMEOUT";
constexpr char retries_variable[] = "LEND_ACK_RETRIES";
constexpr char keep_alive_variable[] = "LEND_KEEP_ALIVE";
constexpr Parse<std::uint8_t> parse_level = parse_number<std::uint8_t, service_level_largest>;
constexpr Parse<std::uint8_t> parse_class = parse_number<std::uint8_t, UINT8_MAX>;
constexpr Parse<std::uint8_t> parse_retries = parse_number<std::uint8_t, retries_largest>;

/// Nothing: the variable is not set.
template <class T>
Result<std::optional<T>> value_of(char const* name, Parse<T> parse) {
  LEND_TRY(text, base::text_of_variable(name));
  if (text.empty()) return std::optional<T>{};
  auto value = parse(text);
  if (!value) return bad_value(name, text);
  return value;
}

template <class T>
Result<void> complete(std::optional<T>& option, Origin& from, char const* name, Parse<T> parse) {
  if (option) {
    from = Origin::program;
    return success();
  }
  LEND_TRY(value, value_of(name, parse));
  if (!value) return success();
  option = value;
  from = Origin::variable;
  return success();
}

Error useless(char const* option, Service service) {
  return Error{Errc::invalid_argument, std::string{option} + " is set, for which " +
                                           std::string{lend::name_of(service)} +
                                           " has no use: leave it out"};
}

}  // namespace

Result<ChosenOptions> chosen(ConnectionOptions const& own, Service service) {
  ChosenOptions chosen{own, {}};
  auto& [options, from] = chosen;
  if (options.gid != GidChoice{}) {
    from.gid = Origin::program;
  } else {
    LEND_TRY(gid, value_of(gid_variable, Parse<GidChoice>{parse_gid}));
    if (gid) options.gid = std::move(*gid), from.gid = Origin::variable;
  }
  LEND_TRYV(complete(options.service_level, from.service_level, level_variable, parse_level));
  LEND_TRYV(complete(options.traffic_class, from.traffic_class, class_variable, parse_class));
  LEND_TRYV(
      complete<std::uint16_t>(options.partition_key, from.partition_key, key_variable, parse_key));
  if (service != Service::datagram)
    LEND_TRYV(complete<std::uint32_t>(options.mtu_bytes, from.mtu_bytes, mtu_variable, parse_mtu));
  else if (options.mtu_bytes)
    return useless("mtu_bytes", service);
  if (service == Service::reliable_connection) {
    LEND_TRYV(complete<nanoseconds>(options.ack_timeout, from.ack_timeout, timeout_variable,
                                    parse_ack_timeout));
    LEND_TRYV(complete(options.ack_retries, from.ack_retries, retries_variable, parse_retries));
  } else if (options.ack_timeout || options.ack_retries) {
    return useless(options.ack_timeout ? "ack_timeout" : "ack_retries", service);
  }
  return chosen;
}

Result<ChosenKeepAlive> chosen_keep_alive(std::optional<nanoseconds> own, nanoseconds usual) {
  ChosenKeepAlive chosen;
  LEND_TRYV(complete<nanoseconds>(own, chosen.from, keep_alive_variable, parse_keep_alive));
  chosen.interval = own.value_or(usual);
  return chosen;
}

Result<void> check_variable(std::string_view name, std::string_view text) {
  auto const fits = [&](auto parse) -> Result<void> {
    if (!parse(text)) return bad_value(name, text);
    return success();
  };
  if (name == gid_variable) return fits(parse_gid);
  if (name == mtu_variable) return fits(parse_mtu);
  if (name == level_variable) return fits(parse_level);
  if (name == class_variable) return fits(parse_class);
  if (name == key_variable) return fits(parse_key);
  if (name == timeout_variable) return fits(parse_ack_timeout);
  if (name == retries_variable) return fits(parse_retries);
  if (name == keep_alive_variable) return fits(parse_keep_alive);
  auto const is_switch = [](std::string_view word) { return word == "0" || word == "1"; };
  if (name == "LEND_DESK_SERVED") return fits(is_switch);
  if (name == "LEND_METRICS")
    return fits([is_switch](std::string_view word) {
      return is_switch(word) || word.find('/') != word.npos;
    });
  if (name == "LEND_SOFT_CMA") return fits([](std::string_view when) { return when == "never"; });
  return success();
}

}  // namespace lend::verbs
