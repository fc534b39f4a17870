// SPDX-License-Identifier: MIT OR Apache-2.0
// Reading the files of a host.
#include <base/environment.hpp>
#include <base/own_directory.hpp>
#include <base/standard_reserved.hpp>
#include <base/unique_fd.hpp>
#include <base/variables.hpp>
#include <doctor/host.hpp>
#include <verbs/queue/connection_settings.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lend::doctor {

namespace {

constexpr std::size_t file_bytes_max = 64 * 1024;
constexpr std::size_t routes_bytes_max = 1024 * 1024;  // 8,192 routes
constexpr std::size_t folder_names_max = 16'384;       // more than any kernel has devices

std::optional<std::string> text_in(std::string const& path,
                                   std::size_t bytes_max = file_bytes_max) {
  base::UniqueFd const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file) return std::nullopt;
  std::string text;
  char buffer[4096];
  while (text.size() < bytes_max) {
    auto const got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  text.erase(text.find_last_not_of(white) + 1);
  return text;
}

std::vector<std::string> names_in(std::string const& folder) {
  std::vector<std::string> names;
  base::StandardReserved const reserved;
  DIR* const opened = ::opendir(folder.c_str());
  if (opened == nullptr) return names;
  while (dirent const* const entry = ::readdir(opened)) {
    if (names.size() == folder_names_max) break;
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(opened);
  std::ranges::sort(names);
  return names;
}

std::string joined(std::vector<std::string> const& lines) {
  std::string text;
  for (auto const& line : lines) (text += text.empty() ? "" : "\n") += line;
  return text;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    auto const line = text.substr(0, text.find('\n'));
    lines.emplace_back(line);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return lines;
}

/// A network that an interface reaches without a gateway. Its numbers have one order of bytes.
struct OwnNetwork {
  std::string name{};  ///< of the interface
  std::uint64_t prefix = 0, mask = 0;

  [[nodiscard]] bool overlaps(OwnNetwork const& other) const noexcept {
    return ((prefix ^ other.prefix) & mask & other.mask) == 0;
  }
};

/// Those of /proc/net/route. A route to one host is no network, nor is the default route.
std::vector<OwnNetwork> networks_of(std::string_view table) {
  constexpr std::size_t name = 0, prefix = 1, gateway = 2, mask = 7;
  constexpr std::uint64_t one_host = 0xffff'ffff;
  std::vector<OwnNetwork> networks;
  for (auto& line : lines_of(table)) {
    std::ranges::replace(line, '\t', '\n');
    auto const fields = lines_of(line);
    if (fields.size() <= mask || number_of(fields[gateway], 16) != 0) continue;
    OwnNetwork const network{fields[name], number_of(fields[prefix], 16).value_or(0),
                             number_of(fields[mask], 16).value_or(0)};
    if (network.mask != 0 && network.mask != one_host) networks.push_back(network);
  }
  return networks;
}

// An answer that is an error has one line, which begins so.
constexpr std::string_view error_head = "error: ";

Error error_of(Answer const& answer) {
  return {Errc::system_failed,
          answer ? field_of(*answer, error_head).value_or("") : "the capture does not say"};
}

std::string defect_of(std::string const& name) {
  if (!base::is_variable(name)) return "lend has no such variable";
  auto const value = base::variable(name.c_str());
  if (value.is_refused) return base::refused_because;
  if (value.text.empty()) return {};
  auto const checked = verbs::check_variable(name, value.text);
  if (!checked.has_value()) return checked.error().message();
  bool const is_directory = value.text.find('/') != value.text.npos;
  if (name == "LEND_METRICS" && is_directory)
    return base::defect_of_own_directory(std::string{value.text}, "metrics", true);
  if (name == "LEND_RECORD")
    return base::defect_of_own_directory(std::string{value.text}, "recordings", false);
  return {};
}

std::string question_of(DeviceChoice const& choice) {
  if (!choice.name.empty()) return "device " + choice.name;
  return choice.kind == DeviceChoice::Kind::soft ? "soft device" : "default device";
}

std::string text_of(Result<Context> const& opened) {
  if (opened.has_error()) return std::string{error_head} + opened.error().message();
  auto const& context = opened.value();
  auto const can = context.capabilities();
  return "name " + context.name() + "\nkind " + std::string{name_of(context.kind())} + "\nport " +
         std::to_string(context.port().number) + "\nendpoints " + (can.endpoints ? "yes" : "no") +
         "\nrdma_cm " + (can.rdma_cm ? "yes" : "no");
}

}  // namespace

Answer Host::answer(std::string const& question, std::function<Answer()> const& ask) const {
  return record ? record->answer(question, ask) : ask();
}

std::optional<std::string> Host::read(std::string const& path) const {
  return answer("file " + path, [&] { return text_in(root + path); });
}

std::optional<std::string> Host::read_again(std::string const& path) const {
  return answer("later file " + path, [&] { return text_in(root + path); });
}

bool Host::waits() const {
  return answer("time",
                [&] {
                  if (pause) pause();
                  return pause ? Answer{"passed"} : Answer{};
                })
      .has_value();
}

std::vector<std::string> Host::entries(std::string const& folder) const {
  return lines_of(answer("folder " + folder, [&]() -> Answer {
                    auto const names = names_in(root + folder);
                    return names.empty() ? Answer{} : joined(names);
                  }).value_or(""));
}

bool Host::exists(std::string const& path) const {
  return answer("path " + path,
                [&] { return ::access((root + path).c_str(), F_OK) == 0 ? Answer{""} : Answer{}; })
      .has_value();
}

int Host::error_of_opening(std::string const& path) const {
  auto const text = answer("opening " + path, [&]() -> Answer {
    base::UniqueFd const file{::open((root + path).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)};
    auto const error = file ? 0 : errno;
    return std::to_string(error) + ' ' + std::strerror(error);
  });
  constexpr std::uint64_t errno_max = 4095;  // Source: Linux include/linux/err.h, MAX_ERRNO
  return static_cast<int>(std::min(number_of(text.value_or("")).value_or(ENOENT), errno_max));
}

std::optional<std::string> Host::variable(std::string const& name) const {
  return answer("variable " + name, [&] {
    auto const value = base::variable(name.c_str()).text;
    return value.empty() ? Answer{} : Answer{value};
  });
}

std::vector<Host::OwnVariable> Host::own_variables() const {
  auto const lines = lines_of(answer("own variables", []() -> Answer {
                                std::vector<std::string> said;
                                for (auto const& name : base::names_of_variables("LEND_"))
                                  if (name.find("TEST_") != 5)  // those are of lend's own tests
                                    said.push_back(name + ' ' + defect_of(name));
                                if (said.empty()) return std::nullopt;
                                std::ranges::sort(said);
                                return joined(said);
                              }).value_or(""));
  std::vector<OwnVariable> variables;
  for (std::string_view const line : lines) {
    auto const space = std::min(line.find(' '), line.size());
    variables.push_back({std::string{line.substr(0, space)},
                         std::string{line.substr(std::min(space + 1, line.size()))}});
  }
  return variables;
}

std::optional<std::vector<std::string>> Host::driver_classes(std::string const& file) const {
  auto const text = answer("classes " + file, [&]() -> Answer {
    auto const said = text_in(root + file);
    if (!said) return std::nullopt;
    std::vector<std::string> classes;
    for (auto const& line : lines_of(*said))  // "src_ip=10.0.0.1,dst_ip=10.0.0.0/8,tclass=26"
      classes.push_back(line.substr(line.rfind(',') + 1));
    return joined(classes);
  });
  if (!text) return std::nullopt;
  return lines_of(*text);
}

std::optional<std::vector<std::string>> Host::interfaces_beside(
    std::string const& interface) const {
  auto const text = answer("networks " + interface, [&]() -> Answer {
    auto const table = text_in(root + "/proc/self/net/route", routes_bytes_max);
    if (!table) return std::nullopt;
    auto const networks = networks_of(*table);
    std::vector<std::string> beside;
    auto const add = [&](std::string const& name) {
      if (std::ranges::count(beside, name) == 0) beside.push_back(name);
    };
    for (auto const& own : networks) {
      if (own.name != interface) continue;
      add(interface);
      for (auto const& other : networks)
        if (own.overlaps(other)) add(other.name);
    }
    return joined(beside);
  });
  if (!text) return std::nullopt;
  return lines_of(*text);
}

Result<std::vector<std::string>> Host::device_names() const {
  auto const text = answer("devices", [&]() -> Answer {
    if (devices.has_error()) return std::string{error_head} + devices.error().message();
    std::vector<std::string> names;
    for (auto const& device : devices.value()) names.push_back(device.name());
    return joined(names);
  });
  if (!text || text->starts_with(error_head)) return error_of(text);
  return lines_of(*text);
}

Result<Opened> Host::opened(DeviceChoice const& choice) const {
  auto const text = answer(question_of(choice), [&] { return text_of(open(choice)); });
  if (!text || text->starts_with(error_head)) return error_of(text);
  auto const field = [&](std::string_view name) { return field_of(*text, name).value_or(""); };
  Opened opened{field("name "), DeviceKind::card, field("port "), field("endpoints ") == "yes",
                field("rdma_cm ") == "yes"};
  for (auto const kind : {DeviceKind::soft, DeviceKind::software_rdma})
    if (field("kind ") == name_of(kind)) opened.kind = kind;
  return opened;
}

std::string Host::obstacle_of_libibverbs() const {
  return answer("obstacle of libibverbs", [&] { return libibverbs_obstacle; }).value_or("");
}

std::optional<ForkSafety> Host::fork_safety() const {
  auto const text = answer("fork safety", [&] {
    return forks ? Answer{std::to_string(static_cast<unsigned>(*forks))} : Answer{};
  });
  auto const value = number_of(text.value_or(""));
  if (!value || *value > static_cast<unsigned>(ForkSafety::by_kernel)) return std::nullopt;
  return static_cast<ForkSafety>(*value);
}

bool Host::needs_global_route(std::string const& device, std::uint8_t port) const {
  auto const ask = [&]() -> Answer {
    if (devices.has_error()) return std::nullopt;
    for (auto const& one : devices.value()) {
      if (one.name() != device) continue;
      auto const opened = one.open(port);
      if (opened.has_value() && opened.value().port().needs_global_route) return "needed";
    }
    return std::nullopt;
  };
  return answer("global routes " + device + '/' + std::to_string(port), ask).has_value();
}

}  // namespace lend::doctor
