// SPDX-License-Identifier: MIT OR Apache-2.0
// Both sides of an examination, as they speak.
#include <doctor/checks.hpp>
#include <doctor/pair.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

namespace lend::doctor {

namespace {

constexpr std::string_view protocol = "2";
/// For each side of a connection by rdma_cm.
constexpr std::chrono::seconds connect_patience{5};
constexpr std::size_t fields = 6;
constexpr std::size_t text_bytes_max = 1024;
constexpr std::size_t findings_max = 256;
constexpr std::size_t length_bytes_max = 5;  // before a word: "1024:"

Error unknown_request() {
  return {Errc::incompatible_peer,
          "the peer speaks another doctor's language; use the same lend on both sides"};
}

/// A peer's text, as any terminal may show it: control characters begin beyond ASCII, too.
std::string heard_text(std::string_view text) {
  std::string heard{text.substr(0, text_bytes_max)};
  constexpr std::string_view ellipsis = "…";  // which lend's own words have
  for (std::size_t at = 0; (at = heard.find(ellipsis, at)) != std::string::npos;)
    heard.replace(at, ellipsis.size(), "...");
  std::ranges::replace_if(
      heard, [](char c) { return c != '\n' && (c < ' ' || c > '~'); }, '?');
  return heard;
}

Words answer(std::string verb, Result<void> const& done) {
  Words words{std::move(verb)};
  if (!done) words.emplace_back(done.error().message().substr(0, text_bytes_max));
  return words;
}

/// The error after "did" or "saw", as the peer's; empty: there was none.
Result<std::string> outcome_in(Words const& words, std::string_view verb) {
  if (words.empty() || words.size() > 2 || words.front() != verb) return unknown_request();
  return words.size() == 2 ? "at the peer: " + heard_text(words.back()) : std::string{};
}

Words words_of(Step const& step) {
  return {"step", step.operation, std::to_string(step.bytes),
          step.client_acts ? "client" : "listener", std::to_string(step.seed)};
}

Result<Step> step_in(Words const& words) {
  constexpr auto operations = std::to_array<std::string_view>({"send", "write", "read"});
  if (words.size() != 5 || std::ranges::find(operations, words[1]) == operations.end())
    return unknown_request();
  LEND_TRY(bytes, number_from(words[2], Step::bytes_max));
  LEND_TRY(seed, number_from(words[4], UINT32_MAX));
  if (bytes == 0) return unknown_request();
  return Step{words[1], bytes, words[3] == "client", seed};
}

using Listener = PairConnector::Listener;

TrialEnd::Join accept_at(Listener& listener) {
  return [&](PreparedQueuePair queue_pair) {
    return listener.accept(std::move(queue_pair), within(connect_patience));
  };
}

TrialEnd::Join connect_to(PairConnector const& connector, Way const& ours, std::string const& host,
                          std::uint16_t port) {
  return [&, port](PreparedQueuePair queue_pair) {
    return connector.connect(host, port, ours.host, std::move(queue_pair),
                             within(connect_patience));
  };
}

/// Of two queue pairs: rdma_cm connects none to itself.
Result<void> write_to_itself_by_cm(OpenPorts const& ports, Way const& way) {
  LEND_TRY(connector, ports.by_cm());
  LEND_TRY(far, TrialEnd::prepare(ports, way));
  LEND_TRY(near, TrialEnd::prepare(ports, way));
  LEND_TRY(listener, connector->listen(way.host));
  auto const far_card = far.card(), near_card = near.card();
  std::future<Result<void>> accepting;
  try {
    accepting = std::async(std::launch::async,
                           [&] { return far.connect(near_card, accept_at(*listener)); });
  } catch (std::system_error const& error) {
    return Error{Errc::exhausted, std::string{"a thread: "} + error.what()};
  }
  auto const connected =
      near.connect(far_card, connect_to(*connector, way, way.host, listener->port()));
  auto const accepted = accepting.get();
  LEND_TRYV(connected);
  LEND_TRYV(accepted);
  Step const step{.operation = "write", .bytes = 1, .seed = 1};
  LEND_TRYV(far.expect(step));
  LEND_TRYV(near.act(step));
  return far.check(step);
}

Result<void> write_to_itself(OpenPorts const& ports, Way const& way) {
  if (!way.host.empty()) return write_to_itself_by_cm(ports, way);
  LEND_TRY(end, TrialEnd::prepare(ports, way));
  LEND_TRYV(end.connect(end.card()));
  Step const step{.operation = "write", .bytes = 1, .seed = 1};
  LEND_TRYV(end.expect(step));
  LEND_TRYV(end.act(step));
  return end.check(step);
}

/// The listening side's connection, and what it answers with it.
class Served {
 public:
  Served(network::Conversation const& talk, OpenPorts const& ports, Deadline deadline) noexcept
      : talk_{talk}, ports_{ports}, deadline_{deadline} {}

  Result<void> serve(Words const& words) {
    auto const& verb = words.front();
    if (verb == "try" && words.size() == 7) return begin(words);
    if (verb == "step" && end_) return step(words);
    if (verb != "loop") return unknown_request();
    LEND_TRY(way, Way::in(words, 1));
    return talk_.say(answer("did", write_to_itself(ports_, way)), deadline_);
  }

 private:
  Result<void> begin(Words const& words) {
    end_.reset();
    listener_.reset();
    auto const done = prepare(words);
    if (!done) return talk_.say(answer("no", done), deadline_);
    if (!listener_) return talk_.say({"yes", card_}, deadline_);
    LEND_TRYV(talk_.say({"yes", card_, std::to_string(listener_->port())}, deadline_));
    auto const accepted = end_->connect(words.back(), accept_at(*listener_));
    if (!accepted) end_.reset();
    return talk_.say(answer("did", accepted), deadline_);
  }

  /// Up to a connection, or to a listener for one.
  Result<void> prepare(Words const& words) {
    LEND_TRY(way, Way::in(words, 1));
    LEND_TRY(end, TrialEnd::prepare(ports_, way));
    card_ = end.card();
    if (way.host.empty()) {
      LEND_TRYV(end.connect(words.back()));
    } else {
      LEND_TRY(connector, ports_.by_cm());
      LEND_TRY(listener, connector->listen(way.host));
      listener_ = std::move(listener);
    }
    end_.emplace(std::move(end));
    return success();
  }

  Result<void> step(Words const& words) {
    LEND_TRY(step, step_in(words));
    if (!step.client_acts) return talk_.say(answer("did", end_->act(step)), deadline_);
    auto const expected = end_->expect(step);
    LEND_TRYV(talk_.say(answer("go", expected), deadline_));
    LEND_TRY(done, talk_.hear(deadline_));
    LEND_TRY(error, outcome_in(done, "did"));
    auto const seen = expected && error.empty() ? end_->check(step) : expected;
    return talk_.say(answer("saw", seen), deadline_);
  }

  network::Conversation const& talk_;
  OpenPorts const& ports_;
  Deadline deadline_;
  std::string card_{};
  std::optional<TrialEnd> end_{};
  std::unique_ptr<Listener> listener_{};
};

}  // namespace

Words words_of(std::vector<Finding> const& findings) {
  std::size_t bytes = 0;
  std::vector<Words> kept;  // from the last to the first
  for (auto one = findings.rbegin(); one != findings.rend() && kept.size() < findings_max; ++one) {
    Words words{std::string{one->id}, std::string{name_of(one->level)}};
    for (auto const* text : {&one->subject, &one->seen, &one->why, &one->mend})
      words.push_back(text->substr(0, text_bytes_max));
    for (auto const& word : words) bytes += word.size() + length_bytes_max;
    if (bytes > network::Conversation::message_bytes_max - text_bytes_max) break;
    kept.push_back(std::move(words));
  }
  Words all;
  for (auto words = kept.rbegin(); words != kept.rend(); ++words)
    for (auto& word : *words) all.push_back(std::move(word));
  return all;
}

Result<std::vector<Finding>> findings_in(std::span<std::string const> words) {
  if (words.size() % fields != 0 || words.size() / fields > findings_max) return unknown_request();
  std::vector<Finding> findings;
  for (; !words.empty(); words = words.subspan(fields)) {
    Finding finding{.subject = heard_text(words[2]),
                    .seen = heard_text(words[3]),
                    .why = heard_text(words[4]),
                    .mend = heard_text(words[5])};
    for (auto const& check : checks())
      if (check.id == words[0]) finding.id = check.id, finding.page = check.page;
    for (auto const& pair : pair_ids())
      if (pair.id == words[0]) finding.id = pair.id, finding.page = pair.page;
    if (finding.id.empty()) finding.id = "peer.findings";
    auto const is_its = [&](FindingLevel level) { return name_of(level) == words[1]; };
    constexpr auto levels = std::to_array(
        {FindingLevel::ok, FindingLevel::warn, FindingLevel::fail, FindingLevel::skipped});
    auto const* const level = std::ranges::find_if(levels, is_its);
    if (level == levels.end()) return unknown_request();
    finding.level = *level;
    findings.push_back(std::move(finding));
  }
  return findings;
}

Result<SideReport> exchange_reports(network::Conversation const& talk, SideReport const& ours,
                                    bool speaks_first, Deadline deadline) {
  std::array<Words, 3> const said{Words{"doctor", std::string{protocol}, ours.version, ours.boot,
                                        ours.cm_obstacle.substr(0, text_bytes_max)},
                                  words_of(ours.findings), words_of(ours.ports)};
  std::array<Words, 3> heard;
  for (std::size_t i = 0; i < said.size(); ++i) {
    if (speaks_first) {
      LEND_TRYV(talk.say(said[i], deadline));
    }
    LEND_TRY(words, talk.hear(deadline));
    heard[i] = std::move(words);
    if (!speaks_first) {
      LEND_TRYV(talk.say(said[i], deadline));
    }
  }
  auto const& head = heard[0];
  if (head.size() != 5 || head[0] != "doctor" || head[1] != protocol) return unknown_request();
  LEND_TRY(findings, findings_in(heard[1]));
  LEND_TRY(ports, ports_in(heard[2]));
  return SideReport{heard_text(head[2]), heard_text(head[3]), heard_text(head[4]),
                    std::move(findings), std::move(ports)};
}

Finding of_peer(Finding finding, std::string_view whose) {
  finding.subject.insert(0, std::string{whose} + ", ");
  if (finding.mend.empty()) return finding;
  // Of each line: a line is a command, to be read before it is run.
  constexpr std::string_view mark = "the peer says: ";
  for (auto at = finding.mend.find('\n'); at != finding.mend.npos;
       at = finding.mend.find('\n', at + 1))
    finding.mend.insert(at + 1, mark);
  finding.mend.insert(0, mark);
  return finding;
}

Result<std::vector<Finding>> end_in(std::span<std::string const> words) {
  LEND_TRY(all, findings_in(words));
  if (all.empty() || all.back().id != "pair.use") return unknown_request();
  std::vector<Finding> findings;
  for (auto& one : all)
    if (one.id.starts_with("pair."))
      findings.push_back(of_peer(std::move(one), "seen from the peer"));
  return findings;
}

Result<std::vector<Finding>> serve_trials(network::Conversation const& talk, OpenPorts const& ports,
                                          Deadline deadline) {
  Served served{talk, ports, deadline};
  for (;;) {
    LEND_TRY(words, talk.hear(deadline));
    if (words.empty()) return unknown_request();
    if (words.front() == "end") return end_in(std::span{words}.subspan(1));
    LEND_TRYV(served.serve(words));
  }
}

// ---- the client ----

void Trials::note(std::string const& error) {
  if (first_failure_.empty()) first_failure_ = at_ + ": " + error;
}

Result<std::string> Trials::run(TrialEnd& end, Step const& step) {
  if (!step.client_acts) {
    if (auto const ready = end.expect(step); !ready) return ready.error().message();
    LEND_TRYV(talk_.say(words_of(step), deadline_));
    LEND_TRY(done, talk_.hear(deadline_));
    LEND_TRY(error, outcome_in(done, "did"));
    if (!error.empty()) return error;
    auto const seen = end.check(step);
    return seen ? std::string{} : seen.error().message();
  }
  LEND_TRYV(talk_.say(words_of(step), deadline_));
  LEND_TRY(ready, talk_.hear(deadline_));
  LEND_TRY(obstacle, outcome_in(ready, "go"));
  auto const done =
      obstacle.empty() ? end.act(step) : Result<void>{Error{Errc::peer_lost, obstacle}};
  if (!done) note(done.error().message());  // before the conversation, which may fail for it
  LEND_TRYV(talk_.say(answer("did", done), deadline_));
  LEND_TRY(seen, talk_.hear(deadline_));
  LEND_TRY(error, outcome_in(seen, "saw"));
  return done ? error : done.error().message();
}

Result<bool> Trials::connect(TrialEnd& end, Way const& ours, Way const& theirs) {
  auto request = theirs.words();
  request.insert(request.begin(), "try");
  request.push_back(end.card());
  LEND_TRYV(talk_.say(request, deadline_));
  LEND_TRY(reply, talk_.hear(deadline_));
  if (reply.size() == 2 && reply[0] == "no") {
    note("at the peer: " + heard_text(reply[1]));
    return false;
  }
  bool const is_by_cm = !theirs.host.empty();
  if (reply.size() != (is_by_cm ? 3 : 2) || reply[0] != "yes") return unknown_request();
  if (is_by_cm) return connect_by_cm(end, ours, theirs, reply);
  auto const connected = end.connect(reply[1]);
  if (!connected) note(connected.error().message());
  return connected.has_value();
}

Result<bool> Trials::connect_by_cm(TrialEnd& end, Way const& ours, Way const& theirs,
                                   Words const& reply) {
  LEND_TRY(connector, ports_.by_cm());
  LEND_TRY(number, number_from(reply[2], std::numeric_limits<std::uint16_t>::max()));
  auto const port = static_cast<std::uint16_t>(number);
  auto const connected = end.connect(reply[1], connect_to(*connector, ours, theirs.host, port));
  if (!connected) note(connected.error().message());  // of both sides the one that asks knows more
  LEND_TRY(accepted, talk_.hear(deadline_));
  LEND_TRY(error, outcome_in(accepted, "did"));
  if (!error.empty()) note(error);
  return connected.has_value() && error.empty();
}

Result<TrialResult> Trials::between(Way const& ours, Way const& theirs) {
  at_ = connecting;
  TrialResult result;
  auto end = TrialEnd::prepare(ports_, ours);
  if (!end) {
    note(end.error().message());
    return result;
  }
  LEND_TRY(is_connected, connect(end.value(), ours, theirs));
  if (!is_connected) return result;
  std::size_t const mtu = ours.mtu_bytes;
  for (std::size_t const bytes : {std::size_t{1}, mtu - 1, mtu, mtu + 1, 2 * mtu, Step::bytes_max})
    for (auto const* const operation : {"send", "write", "read"})
      for (bool const client_acts : {true, false}) {
        Step const step{operation, bytes, client_acts, ++seed_};
        at_ = std::string{operation} + " of " + std::to_string(bytes) +
              (client_acts ? " bytes" : " bytes by the peer");
        LEND_TRY(error, run(end.value(), step));
        if (!error.empty()) {
          note(error);
          return result;
        }
        ++result.messages;
        result.bytes += bytes;
      }
  result.has_passed = true;
  return result;
}

Result<void> Trials::alone(Way const& ours) {
  return write_to_itself(ports_, ours);
}

Result<std::string> Trials::alone_at_peer(Way const& theirs) {
  at_ = "write of the peer to itself";
  auto request = theirs.words();
  request.insert(request.begin(), "loop");
  LEND_TRYV(talk_.say(request, deadline_));
  LEND_TRY(reply, talk_.hear(deadline_));
  return outcome_in(reply, "did");
}

}  // namespace lend::doctor
