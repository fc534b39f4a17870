// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes what was counted in the formats of metrics. Any thread.
#include <lend/base/work_failure.hpp>
#include <lend/observe/metrics.hpp>

#include <observe/registry.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace lend {

namespace {

using observe::Counts, observe::PoolPart, observe::Series, observe::Totals;

enum class Kind : std::uint8_t { gauge, counter, histogram };

struct Family {
  Kind kind;
  std::string_view name;
  std::string_view help;
  std::string_view unit{};
};

struct Label {
  std::string_view name;
  std::string_view value;
};
using Labels = std::initializer_list<Label>;

/// Families one after the other, each with its samples.
class MetricsText {
 public:
  explicit MetricsText(MetricsFormat format) : format_{format} {
    if (is_json()) text_ = R"({"schema": 1, "series": [)";
  }

  void begin(Family const& family) {
    family_ = family;
    if (is_json()) return;
    // In 0.0.4 a family of counters has the name of its samples.
    std::string name{family.name};
    if (format_ == MetricsFormat::prometheus && family.kind == Kind::counter) name += "_total";
    text_ += "# TYPE " + name + ' ' + std::string{kinds[static_cast<std::size_t>(family.kind)]};
    if (format_ == MetricsFormat::openmetrics && !family.unit.empty())
      text_ += "\n# UNIT " + name + ' ' + std::string{family.unit};
    text_ += "\n# HELP " + name + ' ' + std::string{family.help} + '\n';
  }
  template <class Value>
  void add(Labels labels, Value value) {
    add_as(family_.kind == Kind::counter ? "_total" : "", labels, value);
  }
  /// Of series with these labels, which have a name and an operation.
  void add_histogram(Label const& name, Label const& operation, Totals::OfOperation const& its) {
    // Source: OpenMetrics 1.0, "Considerations: Canonical Numbers".
    static constexpr std::array<std::string_view, observe::latency_bounds + 1> ends{
        "1e-06",    "4e-06",    "1.6e-05",  "6.4e-05",  "0.000256", "0.001024",
        "0.004096", "0.016384", "0.065536", "0.262144", "1.048576", "+Inf"};
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < ends.size(); ++i)
      add_as("_bucket", {name, operation, {"le", ends[i]}}, below += its.latencies[i]);
    add_as("_sum", {name, operation}, its.seconds);
    add_as("_count", {name, operation}, below);
  }
  [[nodiscard]] std::string end() && {
    if (is_json()) text_ += "]}\n";
    if (format_ == MetricsFormat::openmetrics) text_ += "# EOF\n";
    return std::move(text_);
  }

 private:
  static constexpr std::array<std::string_view, 3> kinds{"gauge", "counter", "histogram"};

  [[nodiscard]] bool is_json() const noexcept { return format_ == MetricsFormat::json; }

  template <class Value>
  void add_as(std::string_view ending, Labels labels, Value value) {
    std::array<char, 32> digits{};
    auto const end = std::to_chars(digits.begin(), digits.end(), value).ptr;
    std::string_view const number{digits.begin(), end};
    std::string_view separator{};
    if (is_json()) {
      text_ += has_samples_ ? ",\n{\"name\": \"" : "\n{\"name\": \"";
      (text_ += family_.name) += ending;
      text_ += R"(", "labels": {)";
    } else {
      (text_ += family_.name) += ending;
      if (labels.size() > 0) text_ += '{';
    }
    for (Label const& label : labels) {
      text_ += separator;
      add_label(label);
      separator = is_json() ? ", " : ",";
    }
    if (is_json())
      text_ += R"(}, "value": )";
    else
      text_ += labels.size() > 0 ? "} " : " ";
    (text_ += number) += is_json() ? "}" : "\n";
    has_samples_ = true;
  }
  /// Values are printable ASCII, in which all three formats escape the same two characters.
  void add_label(Label const& label) {
    if (is_json()) text_ += '"';
    text_ += label.name;
    text_ += is_json() ? "\": \"" : "=\"";
    for (char const each : label.value) {
      if (each == '"' || each == '\\') text_ += '\\';
      text_ += each;
    }
    text_ += '"';
  }

  MetricsFormat format_;
  Family family_{};
  bool has_samples_ = false;
  std::string text_{};
};

/// `visit(name, operation, its)` of those that were ever posted.
template <class Visit>
void for_each_operation(std::vector<Series> const& all, Visit visit) {
  for (auto const& [name, totals] : all)
    for (std::size_t i = 0; i < totals.operations.size(); ++i)
      if (totals.operations[i].posted != 0)
        visit(Label{"name", name}, Label{"operation", name_of(static_cast<Operation>(i))},
              totals.operations[i]);
}

void add_operations(MetricsText& text, std::vector<Series> const& all) {
  using Its = Totals::OfOperation;
  text.begin({Kind::counter, "lend_operations_posted", "Requests that a device took."});
  for_each_operation(all, [&](Label name, Label operation, Its const& its) {
    text.add({name, operation}, its.posted);
  });
  text.begin({Kind::counter, "lend_operations", "Requests that ended, by their result."});
  for_each_operation(all, [&](Label name, Label operation, Its const& its) {
    text.add({name, operation, {"result", "completed"}}, its.completed);
    text.add({name, operation, {"result", "failed"}}, its.failed);
    text.add({name, operation, {"result", "flushed"}}, its.flushed);
  });
  text.begin({Kind::counter, "lend_operation_bytes", "Bytes of completed requests.", "bytes"});
  for_each_operation(all, [&](Label name, Label operation, Its const& its) {
    text.add({name, operation}, its.bytes);
  });
  text.begin({Kind::histogram, "lend_operation_seconds",
              "From the post of a request until its completion was seen.", "seconds"});
  for_each_operation(all, [&](Label name, Label operation, Its const& its) {
    text.add_histogram(name, operation, its);
  });
}

void add_channels(MetricsText& text, std::vector<Series> const& all) {
  text.begin({Kind::gauge, "lend_channels", "Channels that count, by their state."});
  for (auto const& [name, totals] : all) {
    text.add({{"name", name}, {"state", "working"}}, totals.channels.working);
    text.add({{"name", name}, {"state", "broken"}}, totals.channels.broken);
  }
  text.begin({Kind::counter, "lend_channel_breaks", "Channels that broke."});
  for (auto const& [name, totals] : all) text.add({{"name", name}}, totals.channels.breaks);
  text.begin({Kind::counter, "lend_room_waits", "Posts that found no room and waited for it."});
  for (auto const& [name, totals] : all) text.add({{"name", name}}, totals.room_waits);
  text.begin({Kind::counter, "lend_peer_loans_begun", "Loans to peers."});
  for (auto const& [name, totals] : all) text.add({{"name", name}}, totals.peer_loans.lent);
  text.begin({Kind::counter, "lend_peer_loans", "Loans to peers that ended or were refused."});
  for (auto const& [name, totals] : all) {
    text.add({{"name", name}, {"result", "returned"}}, totals.peer_loans.returned);
    text.add({{"name", name}, {"result", "recalled"}}, totals.peer_loans.recalled);
    text.add({{"name", name}, {"result", "ended"}}, totals.peer_loans.ended);
    text.add({{"name", name}, {"result", "refused"}}, totals.peer_loans.refused);
  }
}

void add_tallies(MetricsText& text, observe::Tallies const& its) {
  text.begin({Kind::counter, "lend_transport_messages", "Messages of transports."});
  text.add({{"direction", "sent"}}, its.sent);
  text.add({{"direction", "received"}}, its.received);
  text.begin({Kind::counter, "lend_transport_bytes", "Bytes of these messages.", "bytes"});
  text.add({{"direction", "sent"}}, its.sent_bytes);
  text.add({{"direction", "received"}}, its.received_bytes);
  text.begin({Kind::counter, "lend_group_calls", "Calls of groups that ended."});
  for (std::size_t i = 0; i < its.calls.size(); ++i) {
    auto const& of_call = its.calls[i];
    if (of_call.succeeded + of_call.failed == 0) continue;
    text.add({{"call", observe::call_names[i]}, {"result", "succeeded"}}, of_call.succeeded);
    text.add({{"call", observe::call_names[i]}, {"result", "failed"}}, of_call.failed);
  }
  text.begin({Kind::counter, "lend_group_call_seconds",
              "From the begin of a call at a rank until it had succeeded there.", "seconds"});
  for (std::size_t i = 0; i < its.calls.size(); ++i)
    if (its.calls[i].succeeded != 0)
      text.add({{"call", observe::call_names[i]}}, double(its.calls[i].nanoseconds) * 1e-9);
  text.begin({Kind::counter, "lend_listener_clients", "Clients of listeners, by how they ended."});
  for (std::size_t i = 0; i < its.clients.size(); ++i)
    text.add({{"result", observe::client_ends[i]}}, its.clients[i]);
}

void add_pools(MetricsText& text, observe::Tallies const& its) {
  auto const of = [&its](PoolPart part) { return its.pools[static_cast<std::size_t>(part)]; };
  auto const add_part = [&](PoolPart part, std::string_view used, std::string_view free) {
    text.add({{"state", used}}, of(part).used);
    text.add({{"state", free}}, of(part).free);
  };
  text.begin({Kind::gauge, "lend_receive_pool_pieces", "Pieces that wait for messages, or not."});
  add_part(PoolPart::pieces, "held", "posted");
  text.begin({Kind::counter, "lend_receive_pool_messages", "Messages that came to pools."});
  text.add({}, its.pooled);
  text.begin({Kind::counter, "lend_receive_pool_empty", "Messages that took the last receive."});
  text.add({}, of(PoolPart::pieces).lacking);
  text.begin({Kind::gauge, "lend_message_pool_transports", "Transports that pools have room for."});
  add_part(PoolPart::transports, "used", "free");
  text.begin({Kind::counter, "lend_message_pool_refusals", "Transports that found no room."});
  text.add({}, of(PoolPart::transports).lacking);
  text.begin({Kind::gauge, "lend_message_pool_receives", "Receives beyond one a transport."});
  add_part(PoolPart::receives, "granted", "free");
  text.begin({Kind::gauge, "lend_message_pool_drafts", "Buffers to send from."});
  add_part(PoolPart::drafts, "used", "free");
  text.begin(
      {Kind::counter, "lend_message_pool_waits", "Senders that were granted none, or had none."});
  text.add({{"for", "receive"}}, of(PoolPart::receives).lacking);
  text.add({{"for", "draft"}}, of(PoolPart::drafts).lacking);
}

}  // namespace

std::string observe::text_of(Counts const& counts, MetricsFormat format) {
  MetricsText text{format};
  add_channels(text, counts.series);
  add_operations(text, counts.series);
  add_tallies(text, counts.tallies);
  add_pools(text, counts.tallies);
  return std::move(text).end();
}

std::string metrics_text(MetricsFormat format) {
  return observe::text_of(observe::Registry::of_this_process().counts(), format);
}

}  // namespace lend
