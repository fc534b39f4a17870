// SPDX-License-Identifier: MIT OR Apache-2.0
// Compares what both sides said of themselves.
#include <doctor/pair_sides.hpp>

#include <algorithm>
#include <array>

namespace lend::doctor {

namespace {

constexpr std::string_view page_of_doctor = "doctor";
constexpr std::string_view page_of_devices = "devices";

constexpr auto ids_of_pairs = std::to_array<PairId>({
    {"peer.versions", page_of_doctor},
    {"peer.findings", page_of_doctor},
    {"pair.kind", page_of_devices},
    {"pair.mtu", page_of_doctor},
    {"pair.gid", page_of_devices},
    {"pair.bytes", page_of_doctor},
    {"pair.device", page_of_doctor},
    {"pair.path", page_of_doctor},
    {"pair.lost", page_of_doctor},
    {"pair.use", page_of_doctor},
});

std::string text_of(std::vector<PairPort> const& ports) {
  std::string text;
  for (auto const& port : ports)
    (text += text.empty() ? "" : ", ") +=
        port.name() + " (" + port.kind + ", " + port.link_layer + ')';
  return text.empty() ? "no port" : text;
}

/// All addresses of one form, the best of both first; on InfiniBand none is one, too.
Candidate candidate_of(PairPort const& ours, PairPort const& theirs) {
  Candidate candidate{&ours, &theirs};
  for (auto const& one : ours.addresses)
    for (auto const& other : theirs.addresses)
      if (one.type == other.type) candidate.addresses.emplace_back(&one, &other);
  if (ours.addresses.empty() && theirs.addresses.empty() && !ours.is_iwarp())
    candidate.addresses.emplace_back(nullptr, nullptr);
  return candidate;
}

}  // namespace

std::span<PairId const> pair_ids() noexcept {
  return ids_of_pairs;
}

Notes pair_notes(std::string_view id, std::vector<Finding>& findings) {
  auto const* const found = std::ranges::find(ids_of_pairs, id, &PairId::id);
  return Notes{found->id, found->page, findings};
}

std::string text_of(PairPort::Address const* address) {
  if (address == nullptr) return "no address";
  if (address->type.starts_with("IP")) return address->text;
  return "GID " + std::to_string(address->index) + " (" + address->text + ", " + address->type +
         ')';
}

void compare_sides(SideReport const& ours, SideReport const& theirs, std::string const& peer,
                   std::vector<Finding>& findings) {
  auto const versions = "lend " + ours.version + " here, " + theirs.version + " at the peer";
  if (ours.version == theirs.version)
    pair_notes("peer.versions", findings).ok(peer, versions);
  else
    pair_notes("peer.versions", findings)
        .warn(peer, versions, "programs of different versions may refuse each other",
              "install the same version on both hosts");
  std::size_t bad = 0;
  for (auto finding : theirs.findings) {
    if (finding.level != FindingLevel::fail && finding.level != FindingLevel::warn) continue;
    findings.push_back(of_peer(std::move(finding), "at the peer"));
    ++bad;
  }
  auto const seen = std::to_string(theirs.findings.size()) + " findings, " +
                    (bad == 0 ? "none bad" : std::to_string(bad) + " of them above");
  pair_notes("peer.findings", findings).ok(peer, seen);
}

std::vector<Candidate> candidates(SideReport const& ours, SideReport const& theirs,
                                  std::string const& peer, std::vector<Finding>& findings) {
  std::vector<Candidate> fitting;
  bool const is_one_host = ours.boot == theirs.boot;
  bool is_any_skipped = false;
  auto const obstacle = !ours.cm_obstacle.empty()     ? "this side has none: " + ours.cm_obstacle
                        : !theirs.cm_obstacle.empty() ? "the peer has none: " + theirs.cm_obstacle
                                                      : std::string{};
  for (auto const& here : ours.ports)
    for (auto const& there : theirs.ports) {
      bool const is_soft = here.kind == name_of(DeviceKind::soft);
      bool const fits = (there.kind == name_of(DeviceKind::soft)) == is_soft &&
                        here.link_layer == there.link_layer && (!is_soft || is_one_host);
      if (!fits) continue;
      if (!here.is_iwarp() || obstacle.empty()) {
        fitting.push_back(candidate_of(here, there));
        continue;
      }
      is_any_skipped = true;
      pair_notes("pair.kind", findings)
          .skip(candidate_of(here, there).name(),
                "only rdma_cm connects iWARP devices, and " + obstacle,
                "rping -s  (there; package rdmacm-utils)\nrping -c -a ADDRESS -v -C 10  (here)");
    }
  auto const seen = text_of(ours.ports) + " here; " + text_of(theirs.ports) + " at the peer";
  if (!fitting.empty() || is_any_skipped)
    pair_notes("pair.kind", findings).ok(peer, seen);
  else
    pair_notes("pair.kind", findings)
        .fail(peer, seen,
              "no two of them can be connected: that takes one link layer, and the soft device "
              "connects only to soft devices of the same host",
              "LEND_DEVICE=NAME on both sides  (devices of one kind)");
  return fitting;
}

void excuse_other_networks(std::vector<Candidate> const& pairs, std::vector<bool> const& passes,
                           std::vector<Finding>& findings) {
  auto const works = [&](PairPort const* Candidate::*side, PairPort const* port) {
    for (std::size_t i = 0; i < pairs.size(); ++i)
      if (passes[i] && pairs[i].*side == port) return true;
    return false;
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto const& pair = pairs[i];
    if (passes[i] || !works(&Candidate::ours, pair.ours) || !works(&Candidate::theirs, pair.theirs))
      continue;
    for (auto& finding : findings)
      if (finding.subject == pair.name() && finding.level == FindingLevel::fail) {
        finding.level = FindingLevel::warn;
        finding.why += "; both ports reach others, so they may be of two networks";
      }
  }
}

}  // namespace lend::doctor
