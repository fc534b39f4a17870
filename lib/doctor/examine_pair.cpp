// SPDX-License-Identifier: MIT OR Apache-2.0
// Both sides of an examination, from first to last.
#include <lend/base/stop.hpp>
#include <lend/doctor/examine_pair.hpp>

#include <doctor/host.hpp>
#include <doctor/pair_server.hpp>
#include <doctor/pair_sides.hpp>
#include <network/wire/talk.hpp>
#include <verbs/device/built_with.hpp>

#include <chrono>
#include <utility>

namespace lend {

namespace {

doctor::SideReport report_of(std::vector<Finding> findings, doctor::OpenPorts const& ports) {
  doctor::Host const host;
  return {.version = LEND_VERSION,
          .boot = host.read("/proc/sys/kernel/random/boot_id").value_or("unknown"),
          .cm_obstacle = ports.cm_obstacle(),
          .findings = std::move(findings),
          .ports = ports.ports()};
}

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  for (auto& finding : more) findings.push_back(std::move(finding));
}

/// What the listener learns of a peer and from it.
Result<std::vector<Finding>> learn_from(network::Conversation const& talk,
                                        doctor::SideReport const& ours,
                                        doctor::OpenPorts const& ports, Deadline deadline) {
  LEND_TRY(theirs, doctor::exchange_reports(talk, ours, false, deadline));
  std::vector<Finding> findings;
  doctor::compare_sides(ours, theirs, talk.address(), findings);
  LEND_TRY(of_pair, doctor::serve_trials(talk, ports, deadline));
  append(findings, std::move(of_pair));
  return findings;
}

}  // namespace

std::string doctor::text_of(std::chrono::nanoseconds time) {
  using namespace std::chrono_literals;
  if (time % 1min == 0ns) return std::to_string(time / 1min) + " min";
  if (time % 1s == 0ns) return std::to_string(time / 1s) + " s";
  return std::to_string(time / 1ms) + " ms";
}

Result<std::vector<Finding>> doctor::PairServer::serve(Deadline deadline) {
  LEND_TRY(ports, OpenPorts::open(by_cm_));
  // Before it examines, which may take longer than the peer waits for a listener.
  LEND_TRY(talk, listener_.accept(deadline));
  auto findings = lend::examine();
  auto const ours = report_of(findings, ports);
  auto of_pair = learn_from(talk, ours, ports, sooner(deadline, within(patience_)));
  if (!of_pair) {
    auto const& error = of_pair.error();
    if (error != Errc::timed_out || deadline.has_passed()) return error;
    auto const clause = "was not done after " + text_of(patience_);
    return Error{Errc::peer_lost, network::about_peer(talk.address(), clause)};
  }
  append(findings, std::move(of_pair).value());
  return findings;
}

struct ExaminationListener::State {
  doctor::PairServer server;
};

Result<std::vector<Finding>> examine_with(std::string_view address, Deadline deadline,
                                          ExchangeOptions const& options,
                                          PairConnector const* by_cm) {
  LEND_TRY(ports, doctor::OpenPorts::open(by_cm));
  auto findings = examine();
  auto const listens_by = sooner(deadline, within(std::chrono::seconds{10}));
  LEND_TRY(talk, network::Conversation::with_listener(address, listens_by, options));
  auto const ours = report_of(findings, ports);
  LEND_TRY(theirs, doctor::exchange_reports(talk, ours, true, deadline));
  doctor::Trials trials{talk, ports, deadline};
  LEND_TRY(of_pair, doctor::examine_pairs(trials, ours, theirs, talk.address()));
  auto end = doctor::words_of(of_pair);
  end.insert(end.begin(), "end");
  // A peer that is gone by now does not make them untrue.
  (void)talk.say(end, deadline);
  append(findings, std::move(of_pair));
  return findings;
}

ExaminationListener::ExaminationListener(std::unique_ptr<State> state) noexcept
    : state_{std::move(state)} {}
ExaminationListener::ExaminationListener(ExaminationListener&&) noexcept = default;
ExaminationListener& ExaminationListener::operator=(ExaminationListener&&) noexcept = default;
ExaminationListener::~ExaminationListener() = default;

Result<ExaminationListener> ExaminationListener::open(std::string_view address,
                                                      ExchangeOptions const& options,
                                                      PairConnector const* by_cm) {
  LEND_TRY(listener, network::ConversationListener::open(address, options));
  return ExaminationListener{std::make_unique<State>(
      State{doctor::PairServer{std::move(listener), doctor::patience_with_peer, by_cm}})};
}

std::string const& ExaminationListener::address() const noexcept {
  if (!state_) stop("an ExaminationListener was used after it had been moved from");
  return state_->server.address();
}

Result<std::vector<Finding>> ExaminationListener::serve(Deadline deadline) {
  if (!state_) return Error{Errc::stale_handle, "this ExaminationListener was moved from"};
  return state_->server.serve(deadline);
}

}  // namespace lend
