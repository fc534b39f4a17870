// SPDX-License-Identifier: MIT OR Apache-2.0
// Any transport behind one type. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/base/stop.hpp>
#include <lend/transport/lending.hpp>
#include <lend/transport/transport.hpp>
#include <lend/transport/waiting.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lend {

/// A transport whose kind is chosen at run time: lend's, or the program's own. One allocation.
class AnyTransport {
 public:
  // In this order: whether this is a transport is not known while it is asked.
  template <class T>
  requires(!std::same_as<T, AnyTransport> && IsTransport<T>) explicit AnyTransport(T transport)
      : held_{std::make_unique<Holder<T>>(std::move(transport))} {}

  // As TransportBase. All stop the process where it was moved from.
  [[nodiscard]] Result<Draft> try_draft(std::size_t at_least, std::size_t at_most) noexcept {
    return held().try_draft(at_least, at_most);
  }
  [[nodiscard]] Result<std::optional<std::size_t>> try_send_some(
      std::size_t at_least, std::span<std::byte const> bytes) noexcept {
    return held().try_send_some(at_least, bytes);
  }
  [[nodiscard]] Result<Received> try_receive() noexcept { return held().try_receive(); }
  [[nodiscard]] Result<void> finish_sending() noexcept { return held().finish_sending(); }
  /// Errors:  also unsupported  a transport of the program's own that lends none.
  [[nodiscard]] Result<LentMessage> try_send_lent(GatherElement const& bytes,
                                                  SourceLine where = SourceLine::here()) noexcept {
    return held().try_send_lent(bytes, where);
  }
  [[nodiscard]] Result<bool> try_fetch(Received const& message, ScatterElement const& target,
                                       SourceLine where = SourceLine::here()) noexcept {
    return held().try_fetch(message, target, where);
  }
  void disconnect() noexcept { held().disconnect(); }
  [[nodiscard]] Result<bool> poll() noexcept { return held().poll(); }
  [[nodiscard]] Result<bool> arm() noexcept { return held().arm(); }
  [[nodiscard]] Result<int> descriptor() const noexcept { return held().descriptor(); }
  [[nodiscard]] Deadline look_again() const noexcept { return held().look_again(); }
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept { return held().sends_in_flight(); }
  [[nodiscard]] TransportLimits const& limits() const noexcept { return held().limits(); }
  /// Empty if the transport has none.
  [[nodiscard]] std::vector<Setting> settings() const { return held().settings(); }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual Result<Draft> try_draft(std::size_t at_least, std::size_t at_most) noexcept = 0;
    virtual Result<Received> try_receive() noexcept = 0;
    virtual Result<void> finish_sending() noexcept = 0;
    virtual void disconnect() noexcept = 0;
    virtual Result<bool> poll() noexcept = 0;
    virtual Result<bool> arm() noexcept = 0;
    virtual Result<int> descriptor() const noexcept = 0;
    virtual Deadline look_again() const noexcept = 0;
    virtual std::uint32_t sends_in_flight() const noexcept = 0;
    virtual TransportLimits const& limits() const noexcept = 0;
    virtual std::vector<Setting> settings() const = 0;
    virtual Result<LentMessage> try_send_lent(GatherElement const& bytes,
                                              SourceLine where) noexcept = 0;
    virtual Result<bool> try_fetch(Received const& message, ScatterElement const& target,
                                   SourceLine where) noexcept = 0;
    virtual Result<std::optional<std::size_t>> try_send_some(
        std::size_t at_least, std::span<std::byte const> bytes) noexcept = 0;
  };
  template <class T>
  struct Holder final : Interface {
    explicit Holder(T held) : transport{std::move(held)} {}
    Result<Draft> try_draft(std::size_t at_least, std::size_t at_most) noexcept override {
      return transport.try_draft(at_least, at_most);
    }
    Result<std::optional<std::size_t>> try_send_some(
        std::size_t at_least, std::span<std::byte const> bytes) noexcept override {
      return transport::try_send_some(transport, at_least, bytes);
    }
    Result<Received> try_receive() noexcept override { return transport.try_receive(); }
    Result<void> finish_sending() noexcept override { return transport.finish_sending(); }
    Result<LentMessage> try_send_lent([[maybe_unused]] GatherElement const& bytes,
                                      [[maybe_unused]] SourceLine where) noexcept override {
      if constexpr (LendsMessages<T>)
        return transport.try_send_lent(bytes, where);
      else
        return Errc::unsupported;
    }
    Result<bool> try_fetch([[maybe_unused]] Received const& message,
                           [[maybe_unused]] ScatterElement const& target,
                           [[maybe_unused]] SourceLine where) noexcept override {
      if constexpr (LendsMessages<T>)
        return transport.try_fetch(message, target, where);
      else
        return transport::copy_message(message, target);
    }
    void disconnect() noexcept override { transport.disconnect(); }
    Result<bool> poll() noexcept override { return transport.poll(); }
    Result<bool> arm() noexcept override { return transport.arm(); }
    Result<int> descriptor() const noexcept override { return transport.descriptor(); }
    Deadline look_again() const noexcept override { return transport.look_again(); }
    std::uint32_t sends_in_flight() const noexcept override { return transport.sends_in_flight(); }
    TransportLimits const& limits() const noexcept override { return transport.limits(); }
    std::vector<Setting> settings() const override {
      if constexpr (requires(T const& t) { t.settings(); })
        return transport.settings();
      else
        return {};
    }
    T transport;
  };
  [[nodiscard]] Interface& held() const noexcept {
    if (held_ == nullptr) [[unlikely]]
      stop("an AnyTransport was used after it had been moved from");
    return *held_;
  }

  std::unique_ptr<Interface> held_;
};
static_assert(IsTransport<AnyTransport>);

}  // namespace lend
