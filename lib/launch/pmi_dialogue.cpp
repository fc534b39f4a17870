// SPDX-License-Identifier: MIT OR Apache-2.0
// What is asked and what is made of the answers. One thread at a time.
#include <base/printable.hpp>
#include <launch/pmi_dialogue.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace lend::launch {

namespace {

/// Of a question or an answer, without the secret that may stand in it.
std::string shown(std::string_view text) {
  return base::shown(text.substr(0, text.find(secret_follows)));
}

Error foreign_launcher(std::string clause) {
  return {Errc::incompatible_peer, std::move(clause)};
}

std::string_view next_word(std::string_view& text) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  auto const word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

/// A mapping is "(vector,(FIRST,HOSTS,RANKS),…)": blocks that begin with host FIRST, and have RANKS
/// on each of HOSTS. They begin again where there are more ranks.
bool maps_to_one_host(std::string_view mapping) noexcept {
  constexpr std::string_view head = "(vector", block = ",(0,1,";
  if (!mapping.starts_with(head) || !mapping.ends_with(')')) return false;
  mapping = mapping.substr(head.size(), mapping.size() - head.size() - 1);
  if (mapping.empty()) return false;
  while (mapping.starts_with(block)) {
    auto const end = mapping.find(')');
    if (end == std::string_view::npos) return false;
    mapping.remove_prefix(end + 1);
  }
  return mapping.empty();
}

}  // namespace

Result<PmiLine> PmiLine::parse(std::string_view text) {
  auto const is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (text.size() > bytes_max) return foreign_launcher("sent a line of more than 4096 bytes");
  constexpr std::string_view head = "cmd=";
  PmiLine line;
  line.rest_ = text;
  auto const first = next_word(line.rest_);
  if (!first.starts_with(head) || !std::ranges::all_of(text, is_printable))
    return foreign_launcher("sent \"" + shown(text) + "\", which is no answer of PMI-1");
  line.command_ = first.substr(head.size());
  return line;
}

std::string_view PmiLine::value(std::string_view key) const noexcept {
  for (auto rest = rest_; !rest.empty();) {
    auto const word = next_word(rest);
    if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=')
      return word.substr(key.size() + 1);
  }
  return {};
}

bool PmiLine::is_success() const noexcept {
  auto const code = value("rc");
  return code.empty() || code == "0";
}

std::string PmiDialogue::question() const {
  switch (step_) {
    case Step::greet: return "cmd=init pmi_version=1 pmi_subversion=1";
    case Step::ask_limits: return "cmd=get_maxes";
    case Step::ask_job: return "cmd=get_my_kvsname";
    case Step::ask_hosts: return "cmd=get kvsname=" + job_ + " key=PMI_process_mapping";
    case Step::put:
      return "cmd=put kvsname=" + job_ + " key=" + std::string{desk_key} +
             " value=" + place_.to_value();
    case Step::barrier: return "cmd=barrier_in";
    case Step::get: return "cmd=get kvsname=" + job_ + " key=" + std::string{desk_key};
    case Step::finish: return "cmd=finalize";
    case Step::choose:
    case Step::over: break;
  }
  return {};
}

std::string_view PmiDialogue::wanted() const noexcept {
  switch (step_) {
    case Step::greet: return "response_to_init";
    case Step::ask_limits: return "maxes";
    case Step::ask_job: return "my_kvsname";
    case Step::ask_hosts:
    case Step::get: return "get_result";
    case Step::put: return "put_result";
    case Step::barrier: return "barrier_out";
    case Step::finish: return "finalize_ack";
    case Step::choose:
    case Step::over: break;
  }
  return {};
}

Result<void> PmiDialogue::take(std::string_view answer) {
  LEND_TRY(line, PmiLine::parse(answer));
  auto const asked = question();
  if (wanted().empty() || line.command() != wanted())
    return foreign_launcher("answered \"" + shown(asked) + "\" by \"" + shown(answer) + "\"");
  // Where the hosts are not known, the ranks meet at a port.
  if (!line.is_success() && step_ != Step::ask_hosts)
    return Error{Errc::denied, "refused \"" + shown(asked) + "\": \"" + shown(answer) + "\""};
  return apply(line);
}

Result<void> PmiDialogue::apply(PmiLine const& line) {
  switch (step_) {
    case Step::greet:
      if (line.value("pmi_version") != "1")
        return foreign_launcher("speaks PMI " + shown(line.value("pmi_version")) + ", not 1");
      step_ = Step::ask_limits;
      break;
    case Step::ask_limits: {
      auto const limit = line.value("vallen_max");
      auto const [end, error] =
          std::from_chars(limit.data(), limit.data() + limit.size(), value_bytes_max_);
      if (error != std::errc{} || end != limit.data() + limit.size())
        return foreign_launcher("has no limit of values: \"" + shown(limit) + "\"");
      step_ = Step::ask_job;
      break;
    }
    case Step::ask_job:
      job_ = line.value("kvsname");
      if (job_.empty()) return foreign_launcher("has no name for the job");
      step_ = rank_ == 0 ? Step::ask_hosts : Step::barrier;
      break;
    case Step::ask_hosts:
      is_one_host_ = line.is_success() && maps_to_one_host(line.value("value"));
      step_ = Step::choose;
      break;
    case Step::put: step_ = Step::barrier; break;
    case Step::barrier: step_ = rank_ == 0 ? Step::finish : Step::get; break;
    case Step::get:
      place_ = MeetingPlace::of_value(line.value("value"));
      if (place_.desk.empty()) return foreign_launcher("does not know where rank 0 is");
      step_ = Step::finish;
      break;
    case Step::finish: step_ = Step::over; break;
    case Step::choose:
    case Step::over: break;
  }
  return success();
}

Result<void> PmiDialogue::offer(MeetingPlace place) {
  auto const bytes = place.to_value().size();
  if (bytes > value_bytes_max_)
    return Error{Errc::exhausted, "takes values of " + std::to_string(value_bytes_max_) +
                                      " bytes, and where rank 0 is needs " + std::to_string(bytes)};
  place_ = std::move(place);
  step_ = Step::put;
  return success();
}

}  // namespace lend::launch
