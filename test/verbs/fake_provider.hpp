// SPDX-License-Identifier: MIT OR Apache-2.0
// A provider without a device: it counts what is made and ended, fails the call it is told to, and
// keeps what is posted. One at a time, one thread; others may end objects.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/device.hpp>
#include <verbs/device/provider.hpp>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lend::test {

using GidBytes = std::array<std::uint8_t, 16>;

/// What one of several devices is.
struct FakeKind {
  std::uint32_t vendor = 0x02c9;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
};

/// What the fake device says of itself.
struct FakeDevice {
  bool is_soft = false;
  int devices = 1;
  std::vector<ibv_port_state> ports{IBV_PORT_ACTIVE};
  std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  std::uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_4096;
  std::uint32_t message_bytes_max = 1u << 30;
  std::uint16_t subnet_manager_lid = 0;
  std::uint8_t active_width = 0;
  std::uint8_t active_speed = 0;
  std::uint8_t physical_state = 0;
  int kernel_index = -1;
  bool has_windows = false;
  std::vector<std::uint16_t> partition_keys{0xffff};
  std::uint64_t guid = 0;
  std::string firmware{};
  std::uint32_t network_interface = 0;     // of each GID
  std::vector<GidBytes> gids{ipv4_gid()};  // all 0xee: cannot be read
  std::vector<ibv_gid_type> gid_types{};   // by index; else what the link layer makes likely
  std::vector<GidBytes> gids_of_port_2{};  // where it has others
  std::uint8_t port_flags = 0;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  std::vector<FakeKind> kinds{};  // by index; else a card of that transport
  int reads_max = 128;
  int list_errno = 0;  // no list, with this errno
  int open_errno = 0;  // as above, of every device
  int queue_pairs_max = 64;
  int completion_queues_max = 64;
  int work_requests_max = 1024;
  int completions_max = 4096;      // of one queue
  int receive_queues_max = 64;     // shared ones
  int shared_receives_max = 1024;  // of one of them
  int domains_max = 64;
  int regions_max = 64;
  int limit_errno = ENOMEM;                     // of queues, domains and regions
  std::uint32_t inline_max = 1u << 16;          // EINVAL beyond, as of the next
  std::uint32_t queue_elements_max = 1u << 16;  // send depth times elements
  std::uint32_t inline_granted = 0;             // on top of what was asked for, as the next
  std::uint32_t elements_granted = 0;
  std::uint32_t send_depth_withheld = 0;
  int completions_withheld = 0;
  bool has_atomics = false;
  bool has_paging_on_demand = false;
  std::uint64_t timestamp_mask = 0;
  std::uint64_t clock_kilohertz = 0;
  std::uint64_t region_bytes_max = 1u << 30;
  bool has_channels = false;  // completion channels, without events
  std::uint32_t first_queue_pair = 0x1234;
  std::uint32_t queue_pair_step = 0;  // 0: each has the number of the first, as if that were gone

  static GidBytes ipv4_gid() { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}; }
  static GidBytes ipv6_gid() { return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1}; }
  static GidBytes unreadable_gid() {
    GidBytes gid{};
    gid.fill(0xee);
    return gid;
  }
};

/// One call of ibv_modify_qp.
struct Modified {
  ibv_qp_attr attributes{};
  int mask = 0;
};

/// One posted request, its elements copied.
struct Posted {
  ibv_send_wr request{};  // of a receive only wr_id and num_sge
  std::vector<ibv_sge> elements{};
  bool is_receive = false;
  std::uint32_t queue_pair = 0;  // its number; of a shared receive 0
};

/// The completion of `posted`, as the device makes it.
[[nodiscard]] ibv_wc completion_of(Posted const& posted, ibv_wc_status status = IBV_WC_SUCCESS,
                                   std::uint32_t received_bytes = 0);
/// Lets it be polled.
void complete(Posted const& posted, ibv_wc_status status = IBV_WC_SUCCESS,
              std::uint32_t received_bytes = 0);

/// What ibv_advise_mr was asked.
struct Advised {
  ibv_advise_mr_advice advice{};
  std::uint32_t flags = 0;
  std::vector<ibv_sge> elements{};
};

class Fake {
 public:
  static Fake& get();

  /// Everything as at the beginning; what is live is forgotten.
  void reset(FakeDevice device = {});
  /// From now on `succeeding` control calls succeed, and the next one fails.
  void fail_after(std::uint64_t succeeding, int error);

  FakeDevice device{};

  // Faults. The n-th control call, counted from 1, fails; 0: none does.
  int fail_call = 0;
  int fail_errno = 0;
  bool fails_with_minus_one = false;  // of calls that answer errno: -1, and errno set
  int fail_destruction = 0;           // the n-th, with EIO
  std::set<Pages> refused_pages{};    // by allocate(), with refusal_errno
  int refusal_errno = ENOMEM;
  char const* reason = nullptr;  // last_reason() of every failure
  int post_result = 0;
  int refuse_after = 0;  // requests that are still taken before post_result strikes
  bool refuses_once = false;
  int silent_after = INT_MAX;              // posts; then no bad_wr says where, and it has taken all
  int poll_result = 0;                     // if negative
  std::function<void()> at_error{};        // when a queue pair is put in that state
  std::function<void()> at_destruction{};  // when one is destroyed
  std::function<void()> at_empty_poll{};   // when there is nothing to poll
  std::optional<ibv_wc> always{};          // polled whenever there is nothing else
  ibv_values_ex clock{};                   // what the device's says

  /// Asynchronous events that have come and were not read.
  std::deque<ibv_async_event> events{};
  void raise(ibv_async_event event);
  std::function<void()> at_no_event{};  // when there is none to read

  // Counted.
  int acknowledged = 0;  // events
  int calls = 0;
  std::set<std::string> called{};
  std::string failed_call{};
  int made = 0;
  int destructions = 0;
  std::vector<Pages> pages_asked{};
  std::vector<std::string> violations{};  // ended twice, or before a child

  // The data path.
  std::uint32_t queue_pairs_made = 0;
  std::uint32_t last_to_post = 0;  // its number
  ibv_qp* last_queue_pair = nullptr;
  int last_opened = -1;  // the descriptor of its events
  int post_calls = 0;
  std::vector<Modified> modified{};
  std::uint8_t modified_port = 0;  // the last that was set, which queries report
  std::vector<int> accesses{};     // of regions
  std::vector<std::pair<int, std::uint64_t>> dmabufs{};  // descriptor, address in requests
  std::vector<Advised> advised{};
  std::vector<ibv_qp_type> types{};      // of queue pairs
  std::vector<ibv_ah_attr> addresses{};  // of address handles
  std::deque<Posted> posted{};
  std::deque<ibv_wc> completions{};
  std::deque<std::uint64_t> times{};  // of the next to be read; no more: 0
  int polls_not_ended = 0;            // of queues that are read field by field
  std::vector<int> polls{};           // entries asked for

  [[nodiscard]] std::size_t live() const;
  [[nodiscard]] std::size_t live(std::string const& kind) const;

  // For the table.
  bool fails(char const* call);
  /// Sets errno where `limit` of `kind` are live.
  [[nodiscard]] bool is_full(char const* kind, int limit) const;
  template <class T>
  T* make(T* object, char const* kind, std::vector<void const*> parents,
          std::shared_ptr<void const> owner = nullptr) {
    std::lock_guard const lock{mutex()};
    objects_[object] = {kind, std::move(parents), std::move(owner)};
    ++made;
    return object;
  }
  int end(void const* object);

 private:
  static std::mutex& mutex();  // of what is live
  struct Object {
    std::string kind;
    std::vector<void const*> parents;
    std::shared_ptr<void const> owner;  // frees what nobody could end, too
  };
  std::map<void const*, Object> objects_;
};

[[nodiscard]] inline Fake& fake() {
  return Fake::get();
}
[[nodiscard]] verbs::Provider const& fake_provider();
/// What its contexts post and poll by.
void fill_data_path(ibv_context_ops& ops);
/// Its extended calls.
void add_extended_calls(verbs::Provider& table);

/// The fake device, opened.
[[nodiscard]] Result<Context> open_fake();

}  // namespace lend::test
