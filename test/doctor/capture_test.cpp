// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a capture, examined anywhere, gives the findings of its process, and has no addresses.
// Method: trees of hosts, captured and examined without them; texts that are damaged.
#include <sys/stat.h>

#include <algorithm>
#include <random>

#include "doctor/tree.hpp"
#include "support/device_environment.hpp"
#include "support/seed.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// A host with a card, whose program leaves the choice of device open.
struct CapturedHost {
  CapturedHost() {
    Fake::get().reset();
    tree.add_card();
    tree.add_process();
  }
  std::string port = "/sys/class/infiniband/fake0/ports/1";
  DeviceEnvironment environment{nullptr};
  Tree tree{};
};

std::string replaced(std::string text, std::string const& what, std::string const& by) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

/// One text a finding, where the tree is no matter, nor the address that replaces the card's.
std::vector<std::string> texts_of(std::vector<Finding> const& findings, Tree const& tree) {
  std::vector<std::string> texts;
  for (auto const& finding : findings)
    texts.push_back(
        replaced(replaced(text_of(finding), tree.root(), ""), "10.77.0.1", "198.18.0.2"));
  return texts;
}

/// Captures the host, and examines the text in a process to which all of it is strange.
std::vector<Finding> examined_elsewhere(Tree const& tree, std::string const& text) {
  DeviceEnvironment const other{"none"};
  Fake::get().reset({.devices = 0});
  auto const findings = must(examine_captured(text));
  INFO(text);
  CHECK_FALSE(has(text, "0a4d:0001"));
  CHECK(text.find("10.77") == text.npos);
  CHECK(text.find(tree.root() + "/sys") == text.npos);
  return findings;
}

std::string refusal_of_capture(std::string const& text) {
  auto const examined = examine_captured(text);
  return examined.has_error() ? examined.error().message() : "none";
}

constexpr char const* capture_head = "lend doctor, capture 1\n";

}  // namespace

TEST_CASE("a capture examined elsewhere gives the findings of its process", "[doctor]") {
  CapturedHost const host;
  auto const& tree = host.tree;
  FakeDevice device;

  SECTION("a good card") {}
  SECTION("a port that is down, and fails to open") {
    tree.write(host.port + "/state", "1: DOWN");
    device.ports = {IBV_PORT_DOWN};
  }
  SECTION("no device file, in a container") {
    tree.remove("/dev/infiniband");
    tree.write("/.dockerenv", "");
    device.open_errno = ENOENT;
  }
  SECTION("little may be locked, and a cgroup has no device") {
    tree.add_process("65536", "64");
    tree.write("/proc/self/cgroup", "0::/a");
    tree.write("/sys/fs/cgroup/cgroup.controllers", "rdma");
    tree.write("/sys/fs/cgroup/a/rdma.max", "fake0 hca_handle=0 hca_object=max");
  }
  SECTION("an iWARP card") {
    device.transport = IBV_TRANSPORT_IWARP;
    tree.write("/sys/class/infiniband/fake0/node_type", "4: RNIC");
  }
  SECTION("an empty tree") {
    for (auto const* folder : {"/sys", "/proc", "/dev"}) tree.remove(folder);
  }
  Fake::get().reset(device);
  auto const live = doctor::examine(tree.host());
  auto const captured = doctor::capture(tree.host());

  CHECK(texts_of(captured.findings, tree) == texts_of(live, tree));
  CHECK(texts_of(examined_elsewhere(tree, captured.text), tree) == texts_of(live, tree));
  // As a mailer may send it.
  CHECK(texts_of(must(examine_captured(replaced(captured.text, "\n", "\r\n"))), tree) ==
        texts_of(live, tree));
}

TEST_CASE("what counters did in between, fork() and subnets are captured", "[doctor]") {
  CapturedHost const host;
  host.tree.write(host.port + "/link_layer", "InfiniBand");
  host.tree.write(host.port + "/lid", "0x3");
  FakeDevice device;
  device.link_layer = IBV_LINK_LAYER_INFINIBAND;
  device.lid = 3;
  device.port_flags = IBV_QPF_GRH_REQUIRED;
  Fake::get().reset(device);
  auto asked = host.tree.host();
  asked.forks = doctor::ForkSafety::none;
  asked.pause = [&] { host.tree.write(host.port + "/counters/symbol_error", "9"); };
  auto const captured = doctor::capture(asked);

  auto const found = [&](std::string_view id) {
    return std::ranges::find(captured.findings, id, &Finding::id)->seen;
  };
  CHECK(found("counters") == "grew in 250 ms: symbol_error 9 (+2)");
  CHECK(has(found("fork"), "Linux does not copy"));
  CHECK(found("route") == "LID 3, and its subnet requires global routes");
  CHECK(texts_of(examined_elsewhere(host.tree, captured.text), host.tree) ==
        texts_of(captured.findings, host.tree));
}

TEST_CASE("errors of a host are captured as their messages", "[doctor]") {
  CapturedHost const host;
  Error const error{Errc::system_failed, "none is \x1b listed"};
  doctor::Host const without{.root = host.tree.root(),
                             .devices = error,
                             .open = [&](DeviceChoice const&) -> Result<Context> { return error; },
                             .libibverbs_obstacle = "no such file"};

  auto const captured = doctor::capture(without);

  CHECK(texts_of(examined_elsewhere(host.tree, captured.text), host.tree) ==
        texts_of(captured.findings, host.tree));
  CHECK(has(text_of(captured.findings.back()), "on no device"));
  CHECK(has(captured.text, "error: none is ? listed"));
}

TEST_CASE("addresses of a capture are others of their kind, and unused ones are left out",
          "[doctor]") {
  CapturedHost const host;
  auto const table = host.port + "/gids/";
  host.tree.write(table + "3", "2a00:1450:4001:0829:0000:0000:0000:200e");
  host.tree.write(table + "4", "0000:0000:0000:0000:0000:ffff:0a4d:0001");
  host.tree.write(table + "5", "no address of 10.77.0.1");

  auto const answers =
      must(doctor::answers_of(replaced(doctor::capture(host.tree.host()).text, capture_head, "")));

  auto const address = [&](char const* index) {
    return answers.at("file " + table + index).value_or("none");
  };
  CHECK(address("0") == "fe80:0000:0000:0000:0000:0000:0000:0001");
  CHECK(address("1") == "0000:0000:0000:0000:0000:ffff:c612:0002");
  CHECK(address("3") == "2001:0db8:0000:0000:0000:0000:0000:0003");
  CHECK(address("4") == address("1"));
  CHECK(address("5") == "no address");
  CHECK_FALSE(answers.contains("file " + table + "2"));
  CHECK(answers.at("folder " + host.port + "/gids") == "0\n1\n3\n4\n5");
}

TEST_CASE("a check is skipped where a capture lacks an answer to it, and no other one",
          "[doctor]") {
  CapturedHost const host;
  auto const text = doctor::capture(host.tree.host()).text;
  auto const answers = must(doctor::answers_of(replaced(text, capture_head, "")));
  auto const all = must(examine_captured(text));

  for (auto const& [question, answer] : answers) {
    if (question.starts_with("found ")) continue;
    INFO(question);
    auto fewer = answers;
    fewer.erase(question);
    auto const findings = must(examine_captured(capture_head + doctor::text_of(fewer)));
    std::size_t skips = 0;
    for (auto const& finding : findings) {
      if (finding.why == "it has no answer to: " + question)
        ++skips;
      else
        CHECK(std::ranges::count(all, text_of(finding), [](auto& one) { return text_of(one); }) >=
              1);
    }
    CHECK(skips >= 1);
  }
}

TEST_CASE("a file that is large, binary, a pipe, or links to itself stops no capture", "[doctor]") {
  CapturedHost const host;
  auto const device = std::string{"/sys/class/infiniband/fake0/"};
  auto const path = [&](std::string const& name) { return host.tree.root() + device + name; };
  host.tree.remove(device + "fw_ver");
  host.tree.remove(device + "node_type");
  std::filesystem::create_symlink("fw_ver", path("fw_ver"));
  REQUIRE(::mkfifo(path("node_type").c_str(), 0600) == 0);
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  host.tree.write(host.port + "/state", bytes);
  host.tree.write(host.port + "/rate", std::string(10'000'000, '9'));

  auto const captured = doctor::capture(host.tree.host());

  CHECK(captured.text.size() < 200'000);
  CHECK(captured.text.find_first_not_of("\n !\"#$%&'()*+,-./0123456789:;<=>?@"
                                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
                                        "abcdefghijklmnopqrstuvwxyz{|}~") == std::string::npos);
  CHECK(texts_of(must(examine_captured(captured.text)), host.tree) ==
        texts_of(captured.findings, host.tree));
}

TEST_CASE("a capture is bounded, and skips checks of what it left out", "[doctor]") {
  CapturedHost const host;
  for (int port = 2; port < 90; ++port)
    host.tree.write("/sys/class/infiniband/fake0/ports/" + std::to_string(port) + "/rate",
                    std::string(65'536, '9'));

  auto const captured = doctor::capture(host.tree.host());

  CHECK(captured.text.size() < 5 * 1024 * 1024);
  CHECK(has(captured.text.substr(0, 400), "answers were left out"));
  auto const findings = must(examine_captured(captured.text));
  CHECK(std::ranges::any_of(findings, [](Finding const& one) {
    return one.id == "port" && one.level == skipped && has(one.why, "no answer to: file /sys");
  }));
}

TEST_CASE("what is no capture is refused, with its line", "[doctor]") {
  CHECK(has(refusal_of_capture(""), "does not begin as one"));
  CHECK(has(refusal_of_capture("lend doctor, capture 2\n"), "later version"));
  CHECK(has(refusal_of_capture(std::string(9'000'000, 'x')), "too long"));
  std::string const begin{capture_head};
  CHECK(has(refusal_of_capture(begin + "# x\n| y\n"), "line 3 answers no question: | y"));
  CHECK(has(refusal_of_capture(begin + "no file x\n| y\n"), "line 3 answers no question"));
  CHECK(has(refusal_of_capture(begin + "file x\nfile x\n"), "line 3 asks for the second time"));
  CHECK(has(refusal_of_capture(begin + "file \\x1\x1b\n"), "line 2 has a backslash"));
  CHECK(refusal_of_capture(begin + "file \\x1\x1b\n").find('\x1b') == std::string::npos);
  CHECK(refusal_of_capture(begin) == "none");
}

TEST_CASE("answers and their text are one to one, and a damaged text is refused or examined",
          "[doctor]") {
  for (auto const seed : seeds(300)) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    auto const below = [&](std::uint64_t bound) { return random() % bound; };
    doctor::Answers answers;
    for (auto count = below(9); count > 0; --count) {
      std::string question = "file /", answer;
      for (auto length = below(9); length > 0; --length) question += static_cast<char>(below(256));
      for (auto length = below(40); length > 0; --length)
        answer += below(4) == 0 ? '\n' : static_cast<char>(below(256));
      answer += below(2) == 0 ? "" : "x";  // the text at an end is without white space
      answer.erase(answer.find_last_not_of('\n') + 1);
      answers[question] = below(4) == 0 ? doctor::Answer{} : doctor::Answer{answer};
    }
    auto text = doctor::text_of(answers);
    CHECK(must(doctor::answers_of(text)) == answers);
    for (auto count = below(4); count > 0 && !text.empty(); --count)
      text[below(text.size())] = static_cast<char>(below(256));
    auto const damaged = examine_captured(capture_head + text.substr(0, below(text.size() + 1)));
    CHECK((damaged.has_value() || damaged.error() == Errc::invalid_argument));
  }
}
