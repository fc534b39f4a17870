// SPDX-License-Identifier: MIT OR Apache-2.0
// Connects what the doctor tries.
#include <cm/address.hpp>
#include <cm/event_channel.hpp>
#include <lend/cm/connector.hpp>
#include <lend/cm/listener.hpp>
#include <lend/cm/pair_connector.hpp>

#include <charconv>
#include <utility>

namespace lend {

namespace {

class OneListener final : public PairConnector::Listener {
 public:
  explicit OneListener(CmListener listener) noexcept : listener_{std::move(listener)} {}

  [[nodiscard]] std::uint16_t port() const noexcept override {
    auto const& address = listener_.address();
    std::uint16_t port = 0;
    std::from_chars(address.data() + address.rfind(':') + 1, address.data() + address.size(), port);
    return port;
  }

  [[nodiscard]] Result<QueuePair> accept(PreparedQueuePair queue_pair, Deadline deadline) override {
    LEND_TRY(request, listener_.next(deadline));
    LEND_TRY(connected, std::move(request).accept(std::move(queue_pair), deadline));
    return std::move(connected.queue_pair);
  }

 private:
  CmListener listener_;
};

class ByCm final : public PairConnector {
 public:
  [[nodiscard]] Result<void> check() const override {
    LEND_TRYV(without_value(cm::EventChannel::open()));
    return success();
  }

  [[nodiscard]] Result<std::unique_ptr<Listener>> listen(std::string const& host) const override {
    LEND_TRY(listener, CmListener::open(cm::address_of(host, 0)));
    return std::make_unique<OneListener>(std::move(listener));
  }

  [[nodiscard]] Result<QueuePair> connect(std::string const& host, std::uint16_t port,
                                          std::string const& source, PreparedQueuePair queue_pair,
                                          Deadline deadline) const override {
    CmOptions options;
    if (!source.empty()) options.source = cm::address_of(source, 0);
    LEND_TRY(connected,
             cm_connect(cm::address_of(host, port), std::move(queue_pair), deadline, options));
    return std::move(connected.queue_pair);
  }
};

}  // namespace

PairConnector const& cm_pair_connector() noexcept {
  static ByCm const connector;
  return connector;
}

}  // namespace lend
