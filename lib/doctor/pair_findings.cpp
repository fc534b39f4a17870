// SPDX-License-Identifier: MIT OR Apache-2.0
// The client tries ports, and narrows down what keeps bytes from passing.
#include <lend/base/deadline.hpp>

#include <doctor/pair_sides.hpp>
#include <network/exchange/conversation.hpp>
#include <verbs/device/gid_table.hpp>

#include <algorithm>

namespace lend::doctor {

namespace {

constexpr std::size_t address_pairs_max = 8;  // that are tried

class PairExamination {
 public:
  PairExamination(Trials& trials, std::vector<Finding>& findings)
      : trials_{trials}, findings_{findings} {}

  Result<bool> examine(Candidate const& pair) {
    if (pair.ours->mtu_bytes != pair.theirs->mtu_bytes && !pair.is_iwarp())
      notes("pair.mtu")
          .warn(pair.name(),
                std::to_string(pair.ours->mtu_bytes) + " bytes here, " +
                    std::to_string(pair.theirs->mtu_bytes) + " at the peer",
                "packets take the smaller one, if every switch carries that",
                "sudo ip link set dev INTERFACE mtu 4200  (on the lesser side)");
    if (pair.addresses.empty()) {
      notes("pair.gid")
          .fail(pair.name(),
                text_of(first(*pair.ours)) + " here, " + text_of(first(*pair.theirs)) +
                    " at the peer",
                "ends with addresses of different forms cannot be connected",
                "sudo ip addr add ADDRESS/24 dev INTERFACE  (on the side that lacks the form)");
      return false;
    }
    trials_.begin();
    auto const patience_of_peer = within(network::answer_patience);
    LEND_TRY(result, between(pair, 0, pair.mtu()));
    auto const seen = std::to_string(result.messages) +
                      " messages by send, write and read, both "
                      "ways, " +
                      std::to_string(result.bytes) + " bytes, came unchanged; " +
                      (pair.is_iwarp() ? std::string{"connected by rdma_cm, "}
                                       : "packets of " + std::to_string(pair.mtu()) + " bytes, ") +
                      text_of(pair.addresses[0].first) + " to " + text_of(pair.addresses[0].second);
    if (result.has_passed) {
      notes("pair.bytes").ok(pair.name(), seen);
      return true;
    }
    if (pair.is_iwarp() && patience_of_peer.has_passed()) {
      // SoftiWARP asks by TCP inside rdma_connect(), for as long as TCP tries, and the peer's
      // doctor has given up by now. Source: Linux drivers/infiniband/sw/siw/siw_cm.c.
      unreachable(pair, trials_.first_failure(), "the kernel finds no way");
      return false;
    }
    return narrow(pair);
  }

 private:
  [[nodiscard]] Notes notes(std::string_view id) { return pair_notes(id, findings_); }
  [[nodiscard]] static PairPort::Address const* first(PairPort const& port) {
    return port.addresses.empty() ? nullptr : &port.addresses.front();
  }
  [[nodiscard]] static Way way_of(PairPort const& port, PairPort::Address const* address,
                                  std::uint32_t mtu) {
    Way way{.device = port.device, .number = port.number, .mtu_bytes = mtu};
    if (address == nullptr) return way;
    if (port.is_iwarp())
      way.host = address->text;
    else
      way.gid_index = address->index;
    return way;
  }
  Result<TrialResult> between(Candidate const& pair, std::size_t which, std::uint32_t mtu) {
    auto const& [ours, theirs] = pair.addresses[which];
    return trials_.between(way_of(*pair.ours, ours, mtu), way_of(*pair.theirs, theirs, mtu));
  }

  /// What else passes says why the first did not. Whether anything does.
  Result<bool> narrow(Candidate const& pair) {
    auto const what = trials_.first_failure();
    LEND_TRY(again, between(pair, 0, pair.mtu()));
    if (again.has_passed) {
      notes("pair.bytes")
          .warn(pair.name(), "passed the second time; the first time " + what,
                "packets are lost at times: see the counters of port and switch",
                "ethtool -S INTERFACE; lossless RoCE takes PFC or ECN");
      return true;
    }
    LEND_TRY(by_size, smaller_passes(pair, what));
    if (by_size) return true;
    LEND_TRY(by_address, other_address_passes(pair, what));
    if (by_address) return true;
    LEND_TRYV(blame(pair, what));
    return false;
  }

  Result<bool> smaller_passes(Candidate const& pair, std::string const& what) {
    for (std::uint32_t const mtu : {1024u, 256u}) {
      if (mtu >= pair.mtu() || pair.is_iwarp()) continue;  // TCP cuts iWARP's
      LEND_TRY(result, between(pair, 0, mtu));
      if (!result.has_passed) continue;
      notes("pair.mtu")
          .fail(pair.name(),
                "packets of " + std::to_string(mtu) + " bytes pass, of " +
                    std::to_string(pair.mtu()) + " not: " + what,
                "an interface or switch between both drops packets of that size",
                "raise the MTU of all of them to " + std::to_string(pair.mtu() + 104) +
                    ", or mtu(" + std::to_string(mtu) + ") of the channel's builder");
      return true;
    }
    return false;
  }

  Result<bool> other_address_passes(Candidate const& pair, std::string const& what) {
    auto const tried = std::min(pair.addresses.size(), address_pairs_max);
    for (std::size_t i = 1; i < tried; ++i) {
      LEND_TRY(result, between(pair, i, pair.mtu()));
      if (!result.has_passed) continue;
      auto const& [ours, theirs] = pair.addresses[i];
      notes("pair.gid")
          .fail(pair.name(),
                text_of(ours) + " to " + text_of(theirs) + " passes, " +
                    text_of(pair.addresses[0].first) + " to " + text_of(pair.addresses[0].second) +
                    " not: " + what,
                "programs take the first ones, between which there is no route",
                pair.is_iwarp() ? "cm_connect() to " + theirs->text +
                                      ", with the CmOptions::source " + ours->text
                                : "gid_index(" + std::to_string(ours->index) +
                                      ") of the builder here, gid_index(" +
                                      std::to_string(theirs->index) + ") at the peer");
      return true;
    }
    return false;
  }

  Result<void> blame(Candidate const& pair, std::string const& what) {
    auto const& [ours, theirs] = pair.addresses[0];
    if (auto const alone = trials_.alone(way_of(*pair.ours, ours, pair.mtu())); !alone) {
      device_fails(pair.ours->name(), alone.error().message());
      return success();
    }
    LEND_TRY(error, trials_.alone_at_peer(way_of(*pair.theirs, theirs, pair.mtu())));
    if (!error.empty()) {
      device_fails("at the peer, " + pair.theirs->name(), error);
      return success();
    }
    bool const has_routes = pair.is_iwarp() || (ours != nullptr && ours->type.starts_with("RoCE"));
    if (has_routes && what.starts_with(Trials::connecting)) {
      unreachable(pair, what, "each device reaches itself, and the kernel finds no way");
      return success();
    }
    notes("pair.path")
        .fail(pair.name(), what,
              "TCP passes and each device reaches itself, so the way between them does not carry "
              "its packets",
              mend_of_path(*pair.ours, ours));
    return success();
  }

  void unreachable(Candidate const& pair, std::string const& what, std::string const& so_far) {
    auto const& [ours, theirs] = pair.addresses[0];
    notes("pair.path")
        .fail(pair.name(), what,
              so_far + " to the other one's address: no route goes to that network, " +
                  (pair.is_iwarp() ? "nothing answers there, or a firewall drops TCP to it"
                                   : "or nothing answers there"),
              mend_of_route(*ours, *theirs));
  }

  void device_fails(std::string const& port, std::string const& error) {
    notes("pair.device")
        .fail(port, error, "the port does not even reach itself",
              "dmesg, and lend doctor on that host");
  }

  /// The address in a command; what a peer calls one, and is none, is not.
  [[nodiscard]] static std::string in_command(PairPort::Address const& address) {
    auto const gid = verbs::gid_of_text(address.text);
    return gid ? lend::text_of(*gid) : "ADDRESS";
  }

  [[nodiscard]] static std::string mend_of_route(PairPort::Address const& ours,
                                                 PairPort::Address const& theirs) {
    auto const here = in_command(ours), there = in_command(theirs);
    return "ip route get " + there + " from " + here + "  (here)\nip route get " + here + " from " +
           there + "  (at the peer)\nsudo ip route add NETWORK via GATEWAY dev INTERFACE, or " +
           "addresses of one subnet";
  }

  [[nodiscard]] static std::string mend_of_path(PairPort const& port,
                                                PairPort::Address const* address) {
    if (port.kind == name_of(DeviceKind::soft))
      return "the same LEND_SOFT_DIRECTORY, user and /dev/shm on both sides";
    if (port.is_iwarp()) return "one MTU on all interfaces and switches between both";
    if (address == nullptr || address->type == name_of(GidType::infiniband))
      return "the subnet manager's routes and partitions";
    if (address->type == name_of(GidType::roce_v2))
      return "open UDP 4791 in the firewalls of both hosts and between them";
    return "RoCE v1 stays within one Ethernet network: the same VLAN on both sides";
  }

  Trials& trials_;
  std::vector<Finding>& findings_;
};

}  // namespace

Result<std::vector<Finding>> examine_pairs(Trials& trials, SideReport const& ours,
                                           SideReport const& theirs, std::string const& peer) {
  std::vector<Finding> findings;
  compare_sides(ours, theirs, peer, findings);
  PairExamination examination{trials, findings};
  std::string works;
  auto const pairs = candidates(ours, theirs, peer, findings);
  std::vector<bool> passes(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto const passed = examination.examine(pairs[i]);
    if (!passed) {
      auto const& error = passed.error();
      if (error != Errc::peer_lost) return error;
      auto const& first = trials.first_failure();
      pair_notes("pair.lost", findings)
          .fail(peer,
                pairs[i].name() + ", " + trials.at() + ": " + error.message() +
                    (first.empty() ? "" : "; first failed, " + first),
                "the doctor there was killed or stopped, or its host is gone; what follows was not "
                "tried",
                "lend doctor --listen  (there, again; dmesg there may say what ended it)");
      break;
    }
    passes[i] = passed.value();
    if (passes[i]) (works += works.empty() ? "" : ", ") += pairs[i].name();
  }
  excuse_other_networks(pairs, passes, findings);
  auto notes = pair_notes("pair.use", findings);
  if (pairs.empty() && std::ranges::count(findings, FindingLevel::skipped, &Finding::level) != 0)
    notes.skip("this pair can use", "nothing was tried; see the findings above");
  else if (works.empty())
    notes.fail("this pair can use", "nothing", "no two ports passed; see the findings above");
  else
    notes.ok("this pair can use", works);
  return findings;
}

}  // namespace lend::doctor
