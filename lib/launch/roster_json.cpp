// SPDX-License-Identifier: MIT OR Apache-2.0
// A roster's JSON by nlohmann's events: nothing but the entries is kept, keys that are doubled are
// seen, and no text throws. Any thread.
#include <launch/roster_text.hpp>

#include <base/printable.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace lend::launch {

namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 5> keys{"rankid", "hostname", "port", "ibdev", "comment"};
enum Field : std::size_t { rankid, hostname, port, ibdev, comment, other };
constexpr std::size_t needed = 3;  // the first of them

/// Takes the events of a text. Each returns whether to go on.
class Reading {
 public:
  [[nodiscard]] Result<std::vector<RosterEntry>> result() && {
    if (wrong_) return *std::move(wrong_);
    if (!has_hosts_) return error("has no \"hosts\"");
    return std::move(entries_);
  }

  // ---- what nlohmann::json_sax asks for ----
  bool null() { return is_foreign() || refuse("null"); }
  bool boolean(bool) { return is_foreign() || refuse("a truth value"); }
  bool number_integer(Json::number_integer_t) {
    return is_foreign() || refuse("a negative number");
  }
  bool number_float(Json::number_float_t, std::string const&) {
    return is_foreign() || refuse("no whole number");
  }
  bool number_unsigned(Json::number_unsigned_t value) {
    if (is_foreign()) return true;
    if (level_ != Level::entry) return refuse("a number");
    if (key_ == rankid) return set(entry().rank, value);
    if (key_ == port) return set(entry().port, value);
    return refuse("a number");
  }
  bool string(std::string& value) {
    if (is_foreign()) return true;
    if (level_ != Level::entry) return refuse("a text");
    if (key_ == hostname) return take(entry().host, value);
    if (key_ == ibdev) return take(entry().device, value);
    if (key_ == comment) return take(entry().comment, value);
    return refuse("a text");
  }
  bool binary(Json::binary_t&) { return refuse("binary"); }

  bool start_object(std::size_t) {
    if (is_foreign()) return begin_foreign();
    if (level_ == Level::nothing) {
      level_ = Level::root;
    } else if (level_ == Level::hosts) {
      level_ = Level::entry;
      entries_.emplace_back();
      is_set_ = {};
    } else {
      return refuse("an object");
    }
    return true;
  }
  bool end_object() {
    if (depth_ > 0) return end_foreign();
    if (level_ == Level::root) return true;
    level_ = Level::hosts;
    for (std::size_t i = 0; i < needed; ++i)
      if (!is_set_[i]) return stop(place() + " has no \"" + std::string{keys[i]} + "\"");
    return true;
  }
  bool start_array(std::size_t) {
    if (is_foreign()) return begin_foreign();
    if (level_ != Level::root) return refuse("an array");
    level_ = Level::hosts;
    return true;
  }
  bool end_array() {
    if (depth_ > 0) return end_foreign();
    level_ = Level::root;
    is_hosts_ = false;
    return true;
  }
  bool key(std::string& name) {
    if (depth_ > 0) return true;
    if (level_ == Level::root) {
      is_hosts_ = name == "hosts";
      if (is_hosts_ && std::exchange(has_hosts_, true)) return stop("has \"hosts\" twice");
      return true;
    }
    key_ = static_cast<Field>(std::ranges::find(keys, name) - keys.begin());
    if (key_ != other && std::exchange(is_set_[key_], true))
      return stop(place() + " has \"" + name + "\" twice");
    return true;
  }
  bool parse_error(std::size_t position, std::string const& /*token*/,
                   Json::exception const& /*error*/) {
    bad_at_ = position;
    return false;
  }

  /// Where the text is no JSON: bytes from its start.
  [[nodiscard]] std::optional<std::size_t> bad_at() const noexcept { return bad_at_; }
  static Error error(std::string const& why) {
    return {Errc::invalid_argument, "the roster " + why};
  }

 private:
  enum class Level { nothing, root, hosts, entry };

  /// Whether what comes is the value of a key that does not matter, or inside one.
  [[nodiscard]] bool is_foreign() const noexcept {
    return depth_ > 0 || (level_ == Level::root && !is_hosts_) ||
           (level_ == Level::entry && key_ == other);
  }
  bool begin_foreign() {
    ++depth_;
    return true;
  }
  bool end_foreign() {
    --depth_;
    return true;
  }
  [[nodiscard]] RosterEntry& entry() noexcept { return entries_.back(); }
  [[nodiscard]] std::string place() const {
    return "has hosts[" + std::to_string(entries_.size() - 1) + "], which";
  }
  template <class T>
  bool set(T& member, std::uint64_t value) {
    if (value > std::numeric_limits<T>::max())
      return refuse(std::to_string(value) + ", more than " +
                    std::to_string(std::numeric_limits<T>::max()));
    member = static_cast<T>(value);
    return true;
  }
  static bool take(std::string& member, std::string& value) {
    member = std::move(value);
    return true;
  }
  /// A value that does not belong where it stands.
  bool refuse(std::string const& what) {
    switch (level_) {
      case Level::nothing: return stop("is " + what + ", not an object");
      case Level::root: return stop("has \"hosts\" that are " + what + ", not an array");
      case Level::hosts: return stop("has a host that is " + what + ", not an object");
      default: return stop(place() + " has \"" + std::string{keys[key_]} + "\" that is " + what);
    }
  }
  bool stop(std::string const& why) {
    wrong_ = error(why);
    return false;
  }

  Level level_ = Level::nothing;
  Field key_ = other;
  bool has_hosts_ = false, is_hosts_ = false;
  std::size_t depth_ = 0;  // inside a value that does not matter
  std::array<bool, keys.size()> is_set_{};
  std::vector<RosterEntry> entries_{};
  std::optional<Error> wrong_{};
  std::optional<std::size_t> bad_at_{};
};

Error no_json(std::string_view text, std::size_t position) {
  auto const before = text.substr(0, position == 0 ? 0 : position - 1);
  auto const line = std::ranges::count(before, '\n') + 1;
  auto const column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  return Reading::error("is no JSON at line " + std::to_string(line) + ", column " +
                        std::to_string(column));
}

}  // namespace

Result<std::vector<RosterEntry>> roster_entries_in(std::string_view json) {
  Reading reading;
  Json::sax_parse(json, &reading);
  if (reading.bad_at()) return no_json(json, *reading.bad_at());
  return std::move(reading).result();
}

}  // namespace lend::launch
