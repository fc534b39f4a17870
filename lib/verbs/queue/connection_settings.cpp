// SPDX-License-Identifier: MIT OR Apache-2.0
// Options of connections become what is in force, and its text. Any thread.
#include <lend/verbs/context.hpp>
#include <verbs/device/gid_table.hpp>
#include <verbs/device/port.hpp>
#include <verbs/queue/connection_settings.hpp>
#include <verbs/queue/queue_pair_options.hpp>
#include <verbs/queue/queue_pair_states.hpp>

#include <array>
#include <cstdio>
#include <string>
#include <utility>

namespace lend {

namespace verbs {

namespace {

/// What `result` has, whose error names the variable that asked for it.
template <class T>
Result<T> asked_by(Origin from, char const* variable, Result<T> result) {
  if (from != Origin::variable || result.has_value()) return result;
  return Error{result.error().code(), std::string{variable} + ": " + result.error().message()};
}

std::string text_of_class(std::uint8_t value) {
  auto const number = std::to_string(value);
  if (value == 0) return number;
  return number + " (DSCP " + std::to_string(value >> 2) + ", ECN " + std::to_string(value & 3) +
         ')';
}

std::string text_of_gid(std::uint32_t index, GidType type, Gid const& gid) {
  if (gid == Gid{}) return "none";
  std::string text = lend::text_of(gid) + " (index " + std::to_string(index) + ", ";
  return (text += lend::name_of(type)) += ')';
}

/// Of a connection that has begun, or is only thought of.
std::vector<Setting> settings_in(ConnectionPlan const& plan, Service service) {
  auto const& from = plan.terms.from;
  std::vector<Setting> settings;
  auto const add = [&](char const* name, std::string value, Origin origin, char const* variable) {
    settings.push_back({name, std::move(value), std::string{name_of(origin, variable)}});
  };
  add("gid", text_of_gid(plan.gid.index, plan.gid.type, plan.gid.gid), from.gid, "LEND_GID");
  add("mtu_bytes", std::to_string(plan.mtu_bytes), from.mtu_bytes, "LEND_MTU");
  add("service_level", std::to_string(plan.terms.service_level), from.service_level,
      "LEND_SERVICE_LEVEL");
  add("traffic_class", text_of_class(plan.terms.traffic_class), from.traffic_class,
      "LEND_TRAFFIC_CLASS");
  add("partition_key", plan.terms.partition_key ? text_of_key(*plan.terms.partition_key) : "first",
      from.partition_key, "LEND_PARTITION_KEY");
  if (service != Service::reliable_connection) return settings;
  add("ack_timeout", text_of(ack_timeout_unit * (1ll << plan.times.ack_timeout)), from.ack_timeout,
      "LEND_ACK_TIMEOUT");
  add("ack_retries", std::to_string(plan.times.ack_retries), from.ack_retries, "LEND_ACK_RETRIES");
  return settings;
}

}  // namespace

std::string_view name_of(Origin from, std::string_view variable) noexcept {
  switch (from) {
    case Origin::usual: return "default";
    case Origin::program: return "program";
    case Origin::variable: return variable;
    case Origin::peer: return "peer";
  }
  return "unknown";
}

std::string text_of(std::chrono::nanoseconds time) {
  constexpr std::array<std::pair<double, char const*>, 3> units{
      {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}}};
  auto const count = static_cast<double>(time.count());
  auto const* unit = units.begin();
  while (unit->first > count && unit + 1 != units.end()) ++unit;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g %s", count / unit->first, unit->second);
  return text.data();
}

Result<ConnectionPlan> plan_of(ContextHandle const& context, QueuePairOptions const& options,
                               Service service) {
  LEND_TRY(made, chosen(options.connection, service));
  auto const& [wishes, from] = made;
  LEND_TRY(times, times_of(options, wishes));
  LEND_TRY(port, usable_port(context));  // its LID and MTU may have changed since it was opened
  LEND_TRY(mtu_bytes, asked_by(from.mtu_bytes, "LEND_MTU", mtu_of(context, port, wishes)));
  LEND_TRY(terms, terms_of(context, options, wishes));
  terms.from = from;
  if (wishes.partition_key) {
    LEND_TRY(index, asked_by(from.partition_key, "LEND_PARTITION_KEY",
                             partition_index_of(context, port, *wishes.partition_key)));
    terms.partition_index = index;
  }
  LEND_TRY(gid, asked_by(from.gid, "LEND_GID", choose_gid(context, wishes.gid)));
  return ConnectionPlan{port, mtu_bytes, times, terms, gid};
}

std::vector<Setting> settings_of(QueuePairHandle const& queue_pair) {
  Endpoint const& local = queue_pair.local;
  ConnectionPlan plan{.mtu_bytes = local.mtu_bytes,
                      .times = queue_pair.times,
                      .terms = queue_pair.terms,
                      .gid = {queue_pair.gid_index, local.gid_type, local.gid}};
  // The peer of a queue pair that is not connected has none yet.
  if (auto const theirs = queue_pair.peer.mtu_bytes; theirs != 0 && theirs < plan.mtu_bytes) {
    plan.mtu_bytes = theirs;
    plan.terms.from.mtu_bytes = Origin::peer;
  }
  return settings_in(plan, local.service);
}

}  // namespace verbs

Result<std::vector<Setting>> Context::settings(ConnectionOptions const& options) const {
  LEND_TRY(plan, verbs::plan_of(*handle_, {.connection = options}, Service::reliable_connection));
  return verbs::settings_in(plan, Service::reliable_connection);
}

}  // namespace lend
