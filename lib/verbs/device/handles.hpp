// SPDX-License-Identifier: MIT OR Apache-2.0
// The raw verbs objects, one owner each; a child keeps its parent alive. Immutable once made,
// except where a member says so; any thread.
//
// Order: in each struct the parents are declared above the raw object, so that it is destroyed
// before its parents. In any other order verbs return EBUSY.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/error.hpp>
#include <lend/verbs/device.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/remote_region.hpp>
#include <verbs/device/connection_origins.hpp>
#include <verbs/device/event_reader.hpp>
#include <verbs/device/forking.hpp>
#include <verbs/device/provider.hpp>
#include <verbs/device/raw_handle.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lend::verbs {

struct ContextHandle {
  using Raw = RawHandle<ibv_context, &Provider::close_device>;

  Raw raw;
  ForkedDataPath forked_data_path;
  std::string name;
  DeviceKind device_kind;
  PortInfo port{};
  DeviceLimits limits{};
  DeviceAttributes attributes{};
  bool has_atomics = false;
  bool has_windows = false;     // of type 2B
  bool has_peer_loans = false;  // windows that hold a peer to what it was lent
  bool has_paging_on_demand = false;
  std::uint64_t timestamp_mask = 0;  // the bits of a time that count; 0: no timestamps
  EventReader events;

  ContextHandle(Raw opened, std::string its_name, DeviceKind its_kind) noexcept
      : raw{std::move(opened)},
        forked_data_path{*raw.get()},
        name{std::move(its_name)},
        device_kind{its_kind},
        events{*raw.get(), raw.provider()} {}

  [[nodiscard]] Provider const& provider() const noexcept { return raw.provider(); }
  [[nodiscard]] bool has_timestamps() const noexcept {
    return timestamp_mask != 0 && attributes.clock_kilohertz != 0;
  }
  [[nodiscard]] DeviceKind kind() const noexcept { return device_kind; }
  /// Whether only rdma_cm can connect its queue pairs.
  [[nodiscard]] bool is_iwarp() const noexcept {
    return raw.get()->device->transport_type == IBV_TRANSPORT_IWARP;
  }
};

/// As IBV_ACCESS_….
[[nodiscard]] inline unsigned flags_of(RemoteAccess access) noexcept {
  return (permits(access, RemoteAccess::read) ? unsigned{IBV_ACCESS_REMOTE_READ} : 0U) |
         (permits(access, RemoteAccess::write) ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0U) |
         (permits(access, RemoteAccess::atomic) ? unsigned{IBV_ACCESS_REMOTE_ATOMIC} : 0U);
}

struct DomainHandle {
  std::shared_ptr<ContextHandle> context;
  RawHandle<ibv_pd, &Provider::dealloc_pd> raw;

  [[nodiscard]] Provider const& provider() const noexcept { return raw.provider(); }
};

struct CompletionChannelHandle {
  std::shared_ptr<ContextHandle> context;
  RawHandle<ibv_comp_channel, &Provider::destroy_comp_channel> raw;
};

struct CompletionQueueHandle {
  std::shared_ptr<ContextHandle> context;
  std::shared_ptr<CompletionChannelHandle> channel;  // null: no events; ends after the queue
  bool shares_channel;                               // with other queues: a CompletionChannel
  RawHandle<ibv_cq, &Provider::destroy_cq> raw;
  ibv_cq_ex* timed;  // the same, where its completions have times; otherwise null
  EventMarks marks;
  std::uint32_t depth = 0;
  /// Entries that its queue pairs may fill. A count, publishing nothing: relaxed throughout.
  std::atomic<std::uint64_t> promised{0};

  CompletionQueueHandle(std::shared_ptr<ContextHandle> parent,
                        std::shared_ptr<CompletionChannelHandle> events, bool shares_events,
                        RawHandle<ibv_cq, &Provider::destroy_cq> queue, ibv_cq_ex* timed_queue,
                        std::uint32_t granted)
      : context{std::move(parent)},
        channel{std::move(events)},
        shares_channel{shares_events},
        raw{std::move(queue)},
        timed{timed_queue},
        marks{context->events, raw.get()},
        depth{granted} {}
};

/// Room for a queue pair's completions, released with it.
class CompletionShare {
 public:
  CompletionShare(std::shared_ptr<CompletionQueueHandle> queue, std::uint64_t entries) noexcept
      : queue_{std::move(queue)}, entries_{entries} {
    queue_->promised.fetch_add(entries_, std::memory_order_relaxed);
  }
  CompletionShare(CompletionShare&&) noexcept = default;
  CompletionShare& operator=(CompletionShare&&) = delete;
  ~CompletionShare() {
    if (queue_) queue_->promised.fetch_sub(entries_, std::memory_order_relaxed);
  }

  [[nodiscard]] CompletionQueueHandle const& queue() const noexcept { return *queue_; }
  [[nodiscard]] std::uint64_t entries() const noexcept { return entries_; }
  [[nodiscard]] bool fits() const noexcept {
    return queue_->promised.load(std::memory_order_relaxed) <= queue_->depth;
  }

 private:
  std::shared_ptr<CompletionQueueHandle> queue_;
  std::uint64_t entries_;
};

/// Attributes that connect() applies, in the units of ibv_qp_attr.
struct ConnectionTimes {
  std::uint8_t ack_timeout = 0;                 ///< 4.096 µs · 2^n
  std::uint8_t ack_retries = 0;                 ///< 0 to 7
  std::uint8_t receiver_not_ready_retries = 0;  ///< 0 to 6; 7: unlimited
  std::uint8_t receiver_not_ready_delay = 0;    ///< index of the table in queue_pair_states.hpp
};

/// Reads and atomic operations of one queue pair at a time: as asked for, and once it is connected,
/// as far as both ends allow.
struct ReadLimits {
  std::uint8_t as_initiator = 0;  ///< outstanding from it
  std::uint8_t as_target = 0;     ///< served by it
};

/// Where a connection goes and what it permits, beyond the peer's address.
struct ConnectionTerms {
  ReadLimits reads{};
  unsigned remote_access = 0;  ///< IBV_ACCESS_…
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  std::uint16_t partition_index = 0;
  std::optional<std::uint16_t> partition_key{};  ///< that of the index, if one was wished for
  bool has_gid_by_index = false;
  ConnectionOrigins from{};
};

/// Who may post the first message of a connection. On iWARP the side that connected does: before
/// its first frame has come, the other sends nothing.
/// Source: RFC 5044, 7.1.2 (MPA startup frames).
enum class FirstSender : std::uint8_t { either, own, peer };

/// A connection that another room made. Its destructor ends it.
class ConnectionKeeper {
 public:
  ConnectionKeeper() = default;
  ConnectionKeeper(ConnectionKeeper const&) = delete;
  ConnectionKeeper& operator=(ConnectionKeeper const&) = delete;
  virtual ~ConnectionKeeper() = default;
  /// Why the connection has ended, if that is reported before `deadline`.
  [[nodiscard]] virtual std::optional<Error> lost(Deadline deadline) noexcept = 0;
  /// Readable once lost() has something to find. It is the keeper's.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
};

/// What became of a queue pair whose handle is gone. Written by the thread that ends it, which may
/// be one of rdma_cm's: release, paired with an acquire.
using DestroyedFlag = std::atomic<bool>;

/// What each post reads, of a queue pair or a shared receive queue.
struct RequestQueue {
  std::shared_ptr<DomainHandle> domain;
  ibv_pd* protection_domain = domain->raw.get();
  std::uint64_t message_bytes_max = 0;
  std::uint32_t elements = 0;          ///< asked for, at most elements_max
  std::uint32_t receive_elements = 0;  ///< the same of a receive
  bool has_atomics = domain->context->has_atomics;
  bool has_windows = domain->context->has_windows;
  /// Sends and reads complete in the order of their posts. On iWARP siw completes a send before a
  /// read that was posted ahead of it. Source: sw/siw/siw_qp_tx.c, siw_qp_sq_process(), which ends
  /// sends as they leave and reads as their answers come.
  bool reads_in_order = !domain->context->is_iwarp();

  /// Not on iWARP. Source: RFC 5040.
  [[nodiscard]] bool carries_immediates() const noexcept { return !domain->context->is_iwarp(); }
};

struct ReceiveQueueHandle : RequestQueue {
  RawHandle<ibv_srq, &Provider::destroy_srq> raw;
  EventMarks marks;
  std::uint32_t depth = 0;  ///< granted
  /// One for each completion queue of its queue pairs: all its receives may complete in one.
  std::vector<CompletionShare> shares{};
};

/// Whether `completions` has room for all receives of `receives`.
[[nodiscard]] bool has_share(ReceiveQueueHandle const& receives,
                             CompletionQueueHandle const& completions) noexcept;

/// An address handle, and the queue pair to which it leads.
struct DestinationHandle {
  std::shared_ptr<DomainHandle> domain;
  RawHandle<ibv_ah, &Provider::destroy_ah> raw;
  std::uint32_t queue_pair_number = 0;
  std::uint32_t queue_key = 0;
};

struct QueuePairHandle : RequestQueue {
  std::shared_ptr<ReceiveQueueHandle> shared_receives;  // or null
  CompletionShare sends;  // its share of the queue where its sends complete
  CompletionShare receives;
  RawHandle<ibv_qp, &Provider::destroy_qp> raw;
  EventMarks marks{};

  std::uint32_t inline_bytes = 0;  ///< granted

  ConnectionTimes times{};
  ConnectionTerms terms{};
  std::uint8_t gid_index = 0;
  Endpoint local{};
  Endpoint peer{};
  FirstSender first_sender = FirstSender::either;

  // Destroyed before raw: an unfinished connection holds a reference to an iWARP queue pair, whose
  // destruction waits for it. Source: Linux drivers/infiniband/sw/siw/siw_verbs.c.
  std::unique_ptr<ConnectionKeeper> keeper{};
  /// True once the device no longer has the queue pair. Outlives the handle.
  std::shared_ptr<DestroyedFlag> is_destroyed{};
};

}  // namespace lend::verbs
