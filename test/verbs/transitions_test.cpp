// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: lend's table of transitions, by which it says what a change lacks, is the device's. Method:
// the device is asked through native() for each transition between two states, and for changes
// without a state: as the table has them, without each attribute that is required, and with each
// other one. What it decides otherwise is listed here, and nothing else may differ. No queue pair
// of SoftRoCE comes to SQE; soft/transition_test.cpp tests what leads from there.
// Source: ibv_modify_qp(3); Linux drivers/infiniband/core/verbs.c, ib_modify_qp_is_ok(), and
// drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_chk_attr().
#include "verbs/verbs_ends.hpp"

#include <soft/device/provider.hpp>
#include <verbs/device/provider.hpp>
#include <verbs/queue/transitions.hpp>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>
#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr ibv_qp_state begins[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                   IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};
constexpr ibv_qp_state ends[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                 IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};

/// What is asked of a queue pair in `from`.
struct Question {
  ibv_qp_state from;
  ibv_qp_state to;
  int mask;  // with IBV_QP_STATE, unless the change is to leave the state out
};

/// The table's verdict.
bool is_taken(Question const& asked, ibv_qp_type type) {
  auto const masks = verbs::masks_of(asked.from, asked.to, type);
  int const given = asked.mask & ~IBV_QP_STATE;
  return masks && (masks->required & ~given) == 0 &&
         (given & ~(masks->required | masks->optional)) == 0;
}

/// For each transition, and for changes without a state: all attributes that it requires, one of
/// them less, one of the others more.
std::vector<Question> questions_from(ibv_qp_state from, ibv_qp_type type) {
  std::vector<Question> questions;
  auto const ask = [&](ibv_qp_state to, int state) {
    auto const masks = verbs::masks_of(from, to, type);
    int const required = masks ? masks->required : 0;
    questions.push_back({from, to, state | required});
    for (int bit = IBV_QP_CUR_STATE; bit <= IBV_QP_RATE_LIMIT; bit <<= 1)
      questions.push_back({from, to, state | (required ^ bit)});
  };
  for (auto const to : ends) ask(to, IBV_QP_STATE);
  ask(from, 0);
  return questions;
}

/// "RC RTR to RTS TIMEOUT SQ_PSN"; without a state: "RC RTR TIMEOUT SQ_PSN"
std::string text_of(Question const& asked, char const* service) {
  std::string text = std::string{service} + ' ' + verbs::name_of(asked.from);
  if ((asked.mask & IBV_QP_STATE) != 0) text += std::string{" to "} + verbs::name_of(asked.to);
  for (int left = asked.mask & ~IBV_QP_STATE; left != 0; left = verbs::without_first(left))
    text += std::string{' '} + verbs::first_name_in(left);
  return text;
}

/// A queue pair of service S, which is its own peer.
template <IsService S>
class Asked : VerbsPlace {
 public:
  explicit Asked(ibv_qp_type type) : type_{type} {}

  /// The questions that the device answers otherwise than the table.
  std::set<std::string> differences(char const* service) {
    std::set<std::string> found;
    for (auto const from : begins) {
      bring_to(from);
      for (auto const& asked : questions_from(from, type_)) {
        INFO(text_of(asked, service));
        bool const is_done = modify(asked.to, asked.mask) == 0;
        if (is_done != is_taken(asked, type_)) found.insert(text_of(asked, service));
        CHECK(state() == (is_done ? asked.to : from));
        if (is_done) bring_to(from);
      }
    }
    return found;
  }

 private:
  /// 0 or an errno.
  int modify(ibv_qp_state to, int mask) {
    ibv_qp_attr attributes{};
    attributes.qp_state = to;
    attributes.cur_qp_state = state();
    attributes.port_num = attributes.alt_port_num = context.port().number;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    attributes.qkey = 0x1ed;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.timeout = attributes.alt_timeout = 14;
    attributes.retry_cnt = attributes.rnr_retry = 7;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1;
    attributes.min_rnr_timer = 12;
    attributes.dest_qp_num = own_.queue_pair_number.value();
    attributes.ah_attr.port_num = context.port().number;
    attributes.ah_attr.dlid = own_.lid;
    if (own_.has_gid()) {
      attributes.ah_attr.is_global = 1;
      attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(must(context.gids())[0].index);
      attributes.ah_attr.grh.hop_limit = 1;
      std::memcpy(attributes.ah_attr.grh.dgid.raw, own_.gid.data(), own_.gid.size());
    }
    attributes.alt_ah_attr = attributes.ah_attr;
    attributes.cap = capacity_;
    int const result = provider_.modify_qp(queue_pair_.native(), &attributes, mask);
    return result == -1 ? errno : result;
  }

  ibv_qp_attr query() {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    REQUIRE(provider_.query_qp(queue_pair_.native(), &attributes, IBV_QP_STATE | IBV_QP_CAP,
                               &made) == 0);
    capacity_ = made.cap;
    return attributes;
  }
  ibv_qp_state state() { return query().qp_state; }

  /// By the attributes that each transition requires. A queue pair in SQD has drained, before it
  /// is asked and before it leaves.
  void bring_to(ibv_qp_state state) {
    drain();
    constexpr ibv_qp_state way[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    REQUIRE(modify(IBV_QPS_RESET, IBV_QP_STATE) == 0);
    if (state == IBV_QPS_RESET) return;
    for (std::size_t step = 1; step < std::size(way); ++step) {
      int const required = verbs::masks_of(way[step - 1], way[step], type_)->required;
      REQUIRE(modify(way[step], IBV_QP_STATE | required) == 0);
      if (state == way[step]) return;
    }
    REQUIRE(modify(state, IBV_QP_STATE) == 0);
    drain();
  }
  void drain() {
    for (Deadline const limit = within(10s); query().sq_draining != 0;)
      REQUIRE_FALSE(limit.has_passed());
  }

  QueuePairOf<S> made(Endpoint& endpoint) {
    auto prepared = must(PreparedQueuePairOf<S>::create(domain, queue, {}));
    endpoint = prepared.endpoint();
    return must(std::move(prepared).unsafe_unconnected());
  }

  verbs::Provider const& provider_ =
      context.kind() == DeviceKind::soft ? soft::provider() : verbs::rdma_core_provider();
  ibv_qp_type type_;
  Endpoint own_{};
  QueuePairOf<S> queue_pair_ = made(own_);
  ibv_qp_cap capacity_{};
};

/// What the soft device and SoftRoCE refuse, though the table has it: they have no alternate paths.
/// Source: Linux drivers/infiniband/core/verbs.c, _ib_modify_qp().
std::set<std::string> const without_alternate_paths{
    "RC INIT to RTR AV PATH_MTU RQ_PSN MIN_RNR_TIMER MAX_DEST_RD_ATOMIC DEST_QPN ALT_PATH",
    "RC RTR to RTS TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC SQ_PSN ALT_PATH",
    "RC RTS ALT_PATH",
    "RC RTS to RTS ALT_PATH",
    "RC SQD ALT_PATH",
    "RC SQD to RTS ALT_PATH",
    "RC SQD to SQD ALT_PATH",
    "UC INIT to RTR AV PATH_MTU RQ_PSN DEST_QPN ALT_PATH",
    "UC RTR to RTS SQ_PSN ALT_PATH",
    "UC RTS ALT_PATH",
    "UC RTS to RTS ALT_PATH",
    "UC SQD ALT_PATH",
    "UC SQD to RTS ALT_PATH",
    "UC SQD to SQD ALT_PATH"};

/// What SoftRoCE of 6.12 takes, though the table has it not: it looks at the attributes of a change
/// only if that has a state. That of 6.1 always does.
/// Source: Linux drivers/infiniband/sw/rxe/rxe_qp.c, __qp_chk_state() and rxe_qp_from_attr().
std::set<std::string> taken_without_state(char const* service, ibv_qp_type type) {
  constexpr int known = (IBV_QP_DEST_QPN << 1) - 1;
  int const refused =
      IBV_QP_STATE | IBV_QP_ALT_PATH | ~known | (type == IBV_QPT_UD ? int{IBV_QP_ACCESS_FLAGS} : 0);
  std::set<std::string> texts;
  for (auto const from : begins)
    for (auto const& asked : questions_from(from, type))
      if ((asked.mask & refused) == 0 && !is_taken(asked, type))
        texts.insert(text_of(asked, service));
  return texts;
}

/// Where SoftRoCE differs. To a change of the path the kernel adds the port, which no unreliable
/// connection takes. Source: Linux drivers/infiniband/core/uverbs_cmd.c, modify_qp().
std::set<std::string> listed_of_soft_roce(bool looks_without_state) {
  auto listed = without_alternate_paths;
  listed.insert("UC SQD to SQD AV");
  if (looks_without_state) {
    listed.insert("UC SQD AV");
    return listed;
  }
  listed.merge(taken_without_state("RC", IBV_QPT_RC));
  listed.merge(taken_without_state("UC", IBV_QPT_UC));
  listed.merge(taken_without_state("UD", IBV_QPT_UD));
  return listed;
}

std::vector<std::string> only_in(std::set<std::string> const& some,
                                 std::set<std::string> const& others) {
  std::vector<std::string> texts;
  std::ranges::set_difference(some, others, std::back_inserter(texts));
  return texts;
}

}  // namespace

TEST_CASE("the table of transitions is the device's, but for what is listed", "[verbs]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto found = Asked<Rc>{IBV_QPT_RC}.differences("RC");
  if (context.capabilities().unreliable) found.merge(Asked<Uc>{IBV_QPT_UC}.differences("UC"));
  if (context.capabilities().datagrams) found.merge(Asked<Ud>{IBV_QPT_UD}.differences("UD"));

  auto const listed = context.kind() == DeviceKind::soft
                          ? without_alternate_paths
                          : listed_of_soft_roce(found.count("RC RESET SQ_PSN") == 0);
  CHECK(only_in(found, listed) == std::vector<std::string>{});
  CHECK(only_in(listed, found) == std::vector<std::string>{});
}
