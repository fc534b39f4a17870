// SPDX-License-Identifier: MIT OR Apache-2.0
// Two connected ends of `lend bench`: a channel to measure, and one on which the near end says what
// comes next. One thread.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/network/connect.hpp>
#include <lend/verbs/context.hpp>

#include <tools/bench/joining.hpp>
#include <tools/bench/options.hpp>
#include <tools/loops/end.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lend::tools {

/// What both ends do next.
struct Order {
  bool is_latency = false;
  Load load{};
};

/// How long a peer that lives may say nothing where it is its turn.
inline constexpr std::chrono::seconds turn_patience{60};

/// What an end has beside its options.
struct BenchPlace {
  bool one_core = false;                 ///< this process has one CPU
  PairConnector const* by_cm = nullptr;  ///< for devices of iWARP
  /// Binds this process to its CPU, once the device is open and before it has memory.
  std::function<void(Context const&)> bind{};
  std::chrono::nanoseconds patience = turn_patience;
};

class BenchLine {
 public:
  /// Waits for one peer, for as long as it takes.
  /// Errors:  those of open_device(), of channels and of Joining::first(); and
  ///          timed_out  the peer said nothing for the place's patience.
  [[nodiscard]] static Result<BenchLine> accept(Listener& listener, BenchOptions const& options,
                                                BenchPlace const& place);
  /// Errors:  those of open_device(), of channels and of Joining::first().
  [[nodiscard]] static Result<BenchLine> connect(std::string_view address,
                                                 BenchOptions const& options,
                                                 BenchPlace const& place);

  [[nodiscard]] Context const& device() const noexcept { return device_; }
  [[nodiscard]] End& end() noexcept { return *end_; }

  /// Of the near end. No order: the last one was given.
  [[nodiscard]] Result<void> give(std::optional<Order> const& order);
  /// Errors:  incompatible_peer  the order is none that this program gives.
  ///          timed_out          the first one did not come in time.
  [[nodiscard]] Result<std::optional<Order>> take();

 private:
  /// The channel of orders, with the memory that its messages are in. Receives are posted ahead of
  /// what comes: no message waits for one.
  struct Talk {
    /// Messages that may come before this end hears one: an order, and the word at which both meet.
    static constexpr std::size_t ahead = 2;

    MemoryRegion memory;
    Channel channel;
    std::chrono::nanoseconds patience;
    std::array<std::optional<PendingWork>, ahead> arrivals;
    std::size_t heard = 0;

    [[nodiscard]] static Result<std::unique_ptr<Talk>> join(Joining& joining,
                                                            ProtectionDomain const& domain,
                                                            std::chrono::nanoseconds patience);
    [[nodiscard]] Result<void> say(std::span<std::byte const> message);
    /// Errors:  timed_out  by the deadline.
    [[nodiscard]] Result<void> hear(std::span<std::byte> message, Deadline deadline);
    /// The same message's worth of bytes of the other end.
    [[nodiscard]] Result<void> swap(std::span<std::byte> message, bool near);
  };

  /// What the near end decides for both.
  struct Plan {
    std::size_t largest = 0;  ///< of the messages
    bool own_memory = false;
  };

  BenchLine(Context device, std::unique_ptr<Talk> talk)
      : device_{std::move(device)}, talk_{std::move(talk)} {}
  [[nodiscard]] static Result<BenchLine> make(BenchOptions const& options, bool near,
                                              BenchPlace const& place, Joining joining);
  [[nodiscard]] Result<void> make_end(Joining& joining, ProtectionDomain const& domain, Plan plan,
                                      bool near, bool one_core);
  [[nodiscard]] Result<std::pair<MemoryRegion, MemoryRegion>> make_regions(
      ProtectionDomain const& domain, Plan plan);

  Context device_;
  std::unique_ptr<Talk> talk_;    // before the end, which meets by it
  std::vector<std::byte> own_{};  // before the end, whose regions may be of it
  std::unique_ptr<End> end_;
  std::size_t largest_ = 0;  // of messages
  bool has_order_ = false;
};

}  // namespace lend::tools
