// SPDX-License-Identifier: MIT OR Apache-2.0
// Options of a queue pair: checked, and in the device's units. Any thread.
#include <verbs/device/limits.hpp>
#include <verbs/device/port.hpp>
#include <verbs/queue/queue_pair_options.hpp>
#include <verbs/queue/queue_pair_states.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace lend {

QueuePairOptions UnreliableOptions::complete() const {
  return {.send_depth = send_depth,
          .receive_depth = receive_depth,
          .elements = elements,
          .receive_elements = receive_elements,
          .inline_bytes = inline_bytes,
          .connection = connection,
          .remote_access = remote_writes ? RemoteAccess::write : RemoteAccess{}};
}

QueuePairOptions DatagramOptions::complete() const {
  return {.send_depth = send_depth,
          .receive_depth = receive_depth,
          .elements = elements,
          .receive_elements = receive_elements,
          .inline_bytes = inline_bytes,
          .connection = connection};
}

}  // namespace lend

namespace lend::verbs {

namespace {

Error option_error(std::string_view option, std::string const& value, std::string const& limit) {
  return Error{Errc::invalid_argument,
               std::string{option} + " is " + value + "; it must be " + limit};
}

Result<void> check_elements(ContextHandle const& context, std::string_view option,
                            std::uint32_t elements) {
  if (elements > elements_max)
    return option_error(option, std::to_string(elements),
                        "1 to " + std::to_string(elements_max) + ", lend's own elements_max");
  auto const largest = context.limits.elements_max;
  if (elements == 0 || std::cmp_greater(elements, largest))
    return beyond_limit(option, elements, static_cast<std::uint64_t>(largest), "elements_max",
                        context.name);
  return success();
}

/// Reads that are wished for, of which the device has at most `largest`.
Result<std::uint8_t> reads_of(ContextHandle const& context, std::string_view option,
                              std::optional<std::uint8_t> wished, std::int32_t largest,
                              std::string_view limit) {
  auto const most = static_cast<std::uint8_t>(std::clamp(largest, 0, UINT8_MAX));
  if (!wished) return std::min<std::uint8_t>(most, reads_unasked);
  if (*wished == 0 || *wished > most)
    return beyond_limit(option, *wished, most, limit, context.name);
  return *wished;
}

/// Keys with the same lower 15 bits name one partition. Source: InfiniBand Architecture
/// Specification vol. 1, 10.9.3, partition key matching.
constexpr std::uint16_t partition_bits = 0x7fff;
/// A key of no partition. Source: the same, 10.9.1.1.
constexpr std::uint16_t no_partition = 0;

}  // namespace

std::string text_of_key(std::uint16_t key) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%x", unsigned{key});
  return text;
}

Result<std::uint16_t> partition_index_of(ContextHandle const& context, PortInfo const& port,
                                         std::uint16_t wished) {
  std::string there;
  std::optional<std::uint16_t> of_limited_member;
  for (int index = 0; index < port.partition_key_count; ++index) {
    LEND_TRY(key, partition_key(context, index));
    if ((key & partition_bits) == no_partition) continue;
    if ((key & partition_bits) == (wished & partition_bits)) {
      auto const found = static_cast<std::uint16_t>(index);
      // Limited members may not talk to each other.
      if ((key & ~partition_bits) != 0) return found;
      if (!of_limited_member) of_limited_member = found;
    }
    there += (there.empty() ? "" : ", ") + text_of_key(key);
  }
  if (of_limited_member) return *of_limited_member;
  return Error{Errc::not_found, "partition_key " + text_of_key(wished) + " is none of port " +
                                    std::to_string(port.number) + " of " + context.name +
                                    ", which has " + (there.empty() ? "none" : there)};
}

Result<ConnectionTimes> times_of(QueuePairOptions const& options, ConnectionOptions const& wishes) {
  auto const nanoseconds = [](std::chrono::nanoseconds time) {
    return std::to_string(time.count()) + " ns";
  };
  auto const wished = wishes.ack_timeout.value_or(ack_timeout_unasked);
  auto const ack_timeout = ack_timeout_code(wished);
  if (!ack_timeout)
    return option_error("ack_timeout", nanoseconds(wished),
                        "1 ns to " + nanoseconds(ack_timeout_max));
  auto const ack_retries = wishes.ack_retries.value_or(ack_retries_unasked);
  if (ack_retries > retries_largest)
    return option_error("ack_retries", std::to_string(ack_retries), "0 to 7");
  auto const retries = options.receiver_not_ready_retries.value_or(receiver_not_ready_without_end);
  if (options.receiver_not_ready_retries && retries >= receiver_not_ready_without_end)
    return option_error("receiver_not_ready_retries", std::to_string(retries),
                        "0 to 6, or nothing for unlimited");
  auto const delay = receiver_not_ready_delay_code(options.receiver_not_ready_delay);
  if (!delay)
    return option_error("receiver_not_ready_delay", nanoseconds(options.receiver_not_ready_delay),
                        "0 ns to " + nanoseconds(receiver_not_ready_delays[0]));
  return ConnectionTimes{*ack_timeout, ack_retries, retries, *delay};
}

Result<void> check_counts(ContextHandle const& context, QueuePairOptions const& options,
                          bool has_own_receives) {
  auto const& limits = context.limits;
  for (auto const& [option, depth] :
       {std::pair{"send_depth", options.send_depth},
        std::pair{"receive_depth", has_own_receives ? options.receive_depth : 1}})
    if (depth == 0 || std::cmp_greater(depth, limits.work_requests_max))
      return beyond_limit(option, depth, static_cast<std::uint64_t>(limits.work_requests_max),
                          "work_requests_max", context.name);
  auto const requests_max = static_cast<std::uint32_t>(limits.work_requests_max);
  if (options.probes > requests_max - options.send_depth)
    return beyond_limit("send_depth with the room of a keep-alive",
                        std::uint64_t{options.send_depth} + options.probes, requests_max,
                        "work_requests_max", context.name);
  LEND_TRYV(check_elements(context, "elements", options.elements));
  if (!has_own_receives || !options.receive_elements) return success();
  return check_elements(context, "receive_elements", *options.receive_elements);
}

Result<std::uint32_t> mtu_of(ContextHandle const& context, PortInfo const& port,
                             ConnectionOptions const& wishes) {
  if (!wishes.mtu_bytes) return port.active_mtu_bytes;
  auto const wished = *wishes.mtu_bytes;
  if (!mtu_of(wished))
    return option_error("mtu", std::to_string(wished), "256, 512, 1024, 2048 or 4096 bytes");
  if (wished > port.active_mtu_bytes)
    return option_error("mtu", std::to_string(wished),
                        "at most that of the port of " + context.name + ", " +
                            std::to_string(port.active_mtu_bytes));
  return wished;
}

Result<ConnectionTerms> terms_of(ContextHandle const& context, QueuePairOptions const& options,
                                 ConnectionOptions const& wishes) {
  auto const& limits = context.limits;
  LEND_TRY(in_flight, reads_of(context, "reads_in_flight", options.reads_in_flight,
                               limits.reads_in_flight_max, "reads_in_flight_max"));
  LEND_TRY(served, reads_of(context, "reads_served", options.reads_served, limits.reads_served_max,
                            "reads_served_max"));
  if (!permits(RemoteAccess::all, options.remote_access))
    return option_error("remote_access",
                        std::to_string(static_cast<unsigned>(options.remote_access)),
                        "of read, write and atomic, or nothing");
  auto const level = wishes.service_level.value_or(0);
  if (level > service_level_largest)
    return option_error("service_level", std::to_string(level), "0 to 15");
  ConnectionTerms terms{.reads = {in_flight, served},
                        .remote_access = flags_of(options.remote_access),
                        .service_level = level,
                        .traffic_class = wishes.traffic_class.value_or(0),
                        .partition_key = wishes.partition_key,
                        .has_gid_by_index = wishes.gid.index.has_value()};
  if (!context.has_atomics) terms.remote_access &= ~unsigned{IBV_ACCESS_REMOTE_ATOMIC};
  return terms;
}

}  // namespace lend::verbs
