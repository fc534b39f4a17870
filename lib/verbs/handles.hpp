// SPDX-License-Identifier: MIT OR Apache-2.0
// The raw verbs objects, one owner each; a child keeps its parent alive. Immutable once made,
// except where a member says so; any thread.
//
// Order: in each struct the parents are declared above the raw object, so that it is destroyed
// before what it was made from. The verbs answer EBUSY to any other order.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/error.hpp>
#include <lend/verbs/device.hpp>
#include <lend/verbs/endpoint.hpp>
#include <verbs/provider.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace lend {

/// One raw object and the table's entry that ends it.
///
/// An object whose destruction is refused (a card pulled out answers EIO) stays with the kernel,
/// which takes it back when the process ends; nobody here could do more about it.
template <class Raw, int (*Provider::*end)(Raw*)>
class RawHandle {
 public:
  RawHandle(Provider const& provider, Raw* raw) noexcept : provider_{&provider}, raw_{raw} {}
  RawHandle(RawHandle&& other) noexcept
      : provider_{other.provider_}, raw_{std::exchange(other.raw_, nullptr)} {}
  RawHandle& operator=(RawHandle&&) = delete;
  ~RawHandle() { static_cast<void>(destroy()); }

  /// Ends the object now. False if that was refused; it is not tried again.
  [[nodiscard]] bool destroy() noexcept { return try_destroy() == 0; }
  /// The same with what the verb answered, if not 0.
  [[nodiscard]] int try_destroy() noexcept {
    Raw* const raw = std::exchange(raw_, nullptr);
    return raw == nullptr ? 0 : (provider_->*end)(raw);
  }

  [[nodiscard]] Provider const& provider() const noexcept { return *provider_; }
  [[nodiscard]] Raw* get() const noexcept { return raw_; }
  [[nodiscard]] explicit operator bool() const noexcept { return raw_ != nullptr; }

 private:
  Provider const* provider_;
  Raw* raw_;
};

/// What connecting needs of a device beyond its public limits.
struct ReadLimits {
  std::uint8_t as_initiator = 0;  ///< reads outstanding from one queue pair
  std::uint8_t as_target = 0;     ///< reads served at once by one queue pair
};

struct ContextHandle {
  RawHandle<ibv_context, &Provider::close_device> raw;
  std::string name{};
  PortInfo port{};
  DeviceLimits limits{};
  ReadLimits reads{};

  [[nodiscard]] Provider const& provider() const noexcept { return raw.provider(); }
  [[nodiscard]] DeviceKind kind() const noexcept {
    return provider().is_soft ? DeviceKind::soft : DeviceKind::hardware;
  }
  /// Whether only rdma_cm can connect its queue pairs.
  [[nodiscard]] bool is_iwarp() const noexcept {
    return raw.get()->device->transport_type == IBV_TRANSPORT_IWARP;
  }
};

struct DomainHandle {
  std::shared_ptr<ContextHandle> context;
  RawHandle<ibv_pd, &Provider::dealloc_pd> raw;

  [[nodiscard]] Provider const& provider() const noexcept { return raw.provider(); }
};

struct CompletionQueueHandle {
  using Channel = RawHandle<ibv_comp_channel, &Provider::destroy_comp_channel>;

  std::shared_ptr<ContextHandle> context;
  Channel channel;  // empty: not wakeable; ends after the queue
  RawHandle<ibv_cq, &Provider::destroy_cq> raw;
  std::uint32_t depth = 0;
  /// Entries that its queue pairs may fill. A count, publishing nothing: relaxed throughout.
  std::atomic<std::uint64_t> promised{0};

  CompletionQueueHandle(std::shared_ptr<ContextHandle> parent, Channel events,
                        RawHandle<ibv_cq, &Provider::destroy_cq> queue,
                        std::uint32_t granted) noexcept
      : context{std::move(parent)},
        channel{std::move(events)},
        raw{std::move(queue)},
        depth{granted} {}
};

/// Room for a queue pair's completions, given back with it.
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
  [[nodiscard]] bool fits() const noexcept {
    return queue_->promised.load(std::memory_order_relaxed) <= queue_->depth;
  }

 private:
  std::shared_ptr<CompletionQueueHandle> queue_;
  std::uint64_t entries_;
};

/// What connect() applies, in the units of ibv_qp_attr.
struct ConnectionTimes {
  std::uint8_t ack_timeout = 0;                 ///< 4.096 µs · 2^n
  std::uint8_t ack_retries = 0;                 ///< 0 to 7
  std::uint8_t receiver_not_ready_retries = 0;  ///< 0 to 6; 7: without end
  std::uint8_t receiver_not_ready_delay = 0;    ///< index of the table in queue_pair_states.hpp
};

/// A connection that another room made. Its destructor ends it.
class ConnectionKeeper {
 public:
  ConnectionKeeper() = default;
  ConnectionKeeper(ConnectionKeeper const&) = delete;
  ConnectionKeeper& operator=(ConnectionKeeper const&) = delete;
  virtual ~ConnectionKeeper() = default;
  /// Why the connection is over, if it is told so before `deadline`.
  [[nodiscard]] virtual std::optional<Error> lost(Deadline deadline) noexcept = 0;
};

struct QueuePairHandle {
  std::shared_ptr<DomainHandle> domain;
  CompletionShare completions;
  RawHandle<ibv_qp, &Provider::destroy_qp> raw;

  // What each post reads.
  ibv_pd* protection_domain = nullptr;
  std::uint64_t message_bytes_max = 0;
  std::uint32_t elements = 0;      ///< granted, at most elements_max
  std::uint32_t inline_bytes = 0;  ///< granted

  ConnectionTimes times{};
  std::uint8_t gid_index = 0;
  Endpoint local{};
  Endpoint peer{};
  /// Of no other in this process: address and number of one that is gone come again.
  std::uint64_t serial = 0;

  // Destroyed before raw: a connection still being made holds on to an iWARP queue pair, whose
  // destruction waits for that. Source: Linux drivers/infiniband/sw/siw/siw_verbs.c.
  std::unique_ptr<ConnectionKeeper> keeper{};

  /// Not on iWARP. Source: RFC 5040.
  [[nodiscard]] bool carries_immediates() const noexcept { return !domain->context->is_iwarp(); }
};

}  // namespace lend
