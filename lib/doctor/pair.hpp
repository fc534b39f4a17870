// SPDX-License-Identifier: MIT OR Apache-2.0
// What two sides say to each other while they are examined. One thread.
//
//   client                                listener
//   doctor, protocol, version, boot, obstacle to rdma_cm
//                                    →←   the same
//   findings                         →←   findings
//   ports                            →←   ports
//   try PORT CARD                    →
//                                    ←    yes CARD, or no REASON
//   On iWARP:                        ←    yes CARD TCP-PORT; then both sides connect by rdma_cm
//                                    ←    did
//   step …                           →
//                                    ←    go                        where the client acts
//   did                              →
//                                    ←    saw
//                                    ←    did                       where the listener acts
//   loop PORT                        →
//                                    ←    did                       of a connection to itself
//   end, findings of both            →
//
// `did` and `saw` are followed by the error, if there was one. The client's message is the first of
// a connection: iWARP takes no other. Source: RFC 5044, 7.1.
#pragma once

#include <doctor/trial.hpp>
#include <network/exchange/conversation.hpp>

#include <lend/doctor/examine.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lend::doctor {

/// What one side says before anything is tried.
struct SideReport {
  std::string version{};
  std::string boot{};         ///< the same for all processes of a running kernel
  std::string cm_obstacle{};  ///< why this side tries no iWARP; empty: it does, or has none
  std::vector<Finding> findings{};
  std::vector<PairPort> ports{};
};

struct PairId {
  std::string_view id, page;
};
/// The findings on two sides.
[[nodiscard]] std::span<PairId const> pair_ids() noexcept;

/// Findings as words: the last 256 of them and 1 KiB of each text, and of these what one message
/// of the conversation takes.
[[nodiscard]] Words words_of(std::vector<Finding> const& findings);
/// Their texts are ASCII that a terminal may show. One of a later version keeps its text, and has
/// the id of `peer.findings`.
/// Errors:  incompatible_peer  that are none, or more than 256.
[[nodiscard]] Result<std::vector<Finding>> findings_in(std::span<std::string const> words);
/// What follows "end": the findings on two sides, marked as the peer's. Others are left out.
/// Errors:  incompatible_peer  those of findings_in(), and  the last is not `pair.use`.
[[nodiscard]] Result<std::vector<Finding>> end_in(std::span<std::string const> words);
/// A finding that the peer worded: `whose` before its subject, and each line of `mend` says so.
[[nodiscard]] Finding of_peer(Finding finding, std::string_view whose);

/// Tells `ours` and learns the other side's.
[[nodiscard]] Result<SideReport> exchange_reports(network::Conversation const& talk,
                                                  SideReport const& ours, bool speaks_first,
                                                  Deadline deadline);

/// The listening side: does what the client asks for, until it ends; what the client found.
[[nodiscard]] Result<std::vector<Finding>> serve_trials(network::Conversation const& talk,
                                                        OpenPorts const& ports, Deadline deadline);

/// What became of one connection.
struct TrialResult {
  bool has_passed = false;
  std::size_t messages = 0, bytes = 0;
};

/// The client's side of the trials.
class Trials {
 public:
  static constexpr std::string_view connecting = "connecting";

  Trials(network::Conversation const& talk, OpenPorts const& ports, Deadline deadline) noexcept
      : talk_{talk}, ports_{ports}, deadline_{deadline} {}

  /// Forgets the failures of the ports tried before.
  void begin() noexcept { first_failure_.clear(); }
  /// Connects both ports and moves bytes.
  /// Errors:  those of the conversation.
  [[nodiscard]] Result<TrialResult> between(Way const& ours, Way const& theirs);
  /// A write of this side's port to itself; the error.
  [[nodiscard]] Result<void> alone(Way const& ours);
  /// The same at the peer. Empty: it passed.
  [[nodiscard]] Result<std::string> alone_at_peer(Way const& theirs);
  /// What was tried last: "connecting", "send of 4097 bytes by the peer".
  [[nodiscard]] std::string const& at() const noexcept { return at_; }
  /// What failed first since begin(), and how: "connecting: …". Empty: nothing but the
  /// conversation.
  [[nodiscard]] std::string const& first_failure() const noexcept { return first_failure_; }

 private:
  void note(std::string const& error);
  /// Whether both ends are connected now.
  [[nodiscard]] Result<bool> connect(TrialEnd& end, Way const& ours, Way const& theirs);
  [[nodiscard]] Result<bool> connect_by_cm(TrialEnd& end, Way const& ours, Way const& theirs,
                                           Words const& reply);
  [[nodiscard]] Result<std::string> run(TrialEnd& end, Step const& step);

  network::Conversation const& talk_;
  OpenPorts const& ports_;
  Deadline deadline_;
  std::uint64_t seed_ = 0;
  std::string at_{}, first_failure_{};
};

/// What the client says of both. If the peer is lost, that is a finding, and the last but one.
/// Errors:  those of the conversation, but for peer_lost.
[[nodiscard]] Result<std::vector<Finding>> examine_pairs(Trials& trials, SideReport const& ours,
                                                         SideReport const& theirs,
                                                         std::string const& peer);

}  // namespace lend::doctor
