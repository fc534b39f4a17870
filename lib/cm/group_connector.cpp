// SPDX-License-Identifier: MIT OR Apache-2.0
// Connects the links of a rank: each connection's private data is the key of one of them.
#include <base/unique_fd.hpp>
#include <cm/address.hpp>
#include <lend/cm/connecting.hpp>
#include <lend/cm/group_connector.hpp>
#include <lend/cm/listener.hpp>
#include <lend/verbs/gid.hpp>

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

namespace lend {

namespace {

class LinksByCm final : public GroupConnector::Links {
 public:
  LinksByCm(std::string host, CmListener listener, base::UniqueFd epoll) noexcept
      : host_{std::move(host)}, listener_{std::move(listener)}, epoll_{std::move(epoll)} {}

  [[nodiscard]] Result<void> watch(int descriptor) const {
    epoll_event event{.events = EPOLLIN, .data = {}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
      return Error::from_errno("epoll_ctl", errno);
    return success();
  }

  [[nodiscard]] std::uint16_t port() const noexcept override {
    auto const& address = listener_.address();
    std::uint16_t port = 0;
    std::from_chars(address.data() + address.rfind(':') + 1, address.data() + address.size(), port);
    return port;
  }

  void accept(std::uint32_t rank, LinkAddress::Key const& key, PreparedQueuePair queue_pair,
              Deadline deadline) override {
    awaited_.push_back({rank, key, std::move(queue_pair), deadline});
  }

  [[nodiscard]] Result<void> connect(std::uint32_t rank, LinkAddress const& to,
                                     PreparedQueuePair queue_pair, Deadline deadline) override {
    auto const host = text_of(to.host);
    CmOptions options{.private_data = to.key};
    // Where several devices reach the peer.
    if (cm::is_ipv6(host) == cm::is_ipv6(host_)) options.source = cm::address_of(host_, 0);
    LEND_TRY(connecting, CmConnecting::begin(cm::address_of(host, to.port), std::move(queue_pair),
                                             deadline, options));
    return keep(rank, std::move(connecting));
  }

  [[nodiscard]] int descriptor() const noexcept override { return epoll_.get(); }

  [[nodiscard]] Result<std::optional<Made>> next() override {
    LEND_TRY(refused, answer_requests());
    if (refused) return std::move(refused);
    for (auto one = making_.begin(); one != making_.end(); ++one) {
      auto connection = one->connecting.advance();
      if (connection && !connection.value()) continue;
      auto const rank = one->rank;
      making_.erase(one);
      if (!connection) return std::optional{Made{rank, connection.error()}};
      return std::optional{Made{rank, std::move(connection.value()->queue_pair)}};
    }
    return std::optional<Made>{};
  }

 private:
  struct Awaited {
    std::uint32_t rank;
    LinkAddress::Key key;
    PreparedQueuePair queue_pair;
    Deadline deadline;
  };
  struct Making {
    std::uint32_t rank;
    CmConnecting connecting;
  };

  [[nodiscard]] Result<void> keep(std::uint32_t rank, CmConnecting connecting) {
    LEND_TRYV(watch(connecting.descriptor()));
    making_.push_back({rank, std::move(connecting)});
    return success();
  }

  /// One of which it failed.
  [[nodiscard]] Result<std::optional<Made>> answer_requests() {
    for (;;) {
      LEND_TRY(request, listener_.poll());
      if (!request) return std::optional<Made>{};
      auto const& shown = request->peer().private_data;
      auto const one = std::ranges::find_if(
          awaited_, [&](Awaited const& each) { return std::ranges::equal(each.key, shown); });
      if (one == awaited_.end()) {
        static_cast<void>(std::move(*request).reject(
            "this rank does not await it: it is of another group, or of a meeting that is over"));
        continue;
      }
      Awaited awaited = std::move(*one);
      awaited_.erase(one);
      auto begun =
          std::move(*request).begin_accept(std::move(awaited.queue_pair), awaited.deadline);
      auto kept = begun ? keep(awaited.rank, std::move(begun).value()) : begun.error();
      if (!kept) return std::optional{Made{awaited.rank, kept.error()}};
    }
  }

  std::string host_;
  CmListener listener_;
  base::UniqueFd epoll_;
  std::vector<Awaited> awaited_{};
  std::vector<Making> making_{};
};

class RanksByCm final : public GroupConnector {
 public:
  [[nodiscard]] Result<std::unique_ptr<Links>> open(std::string const& host) const override {
    LEND_TRY(listener, CmListener::open(cm::address_of(host, 0), backlog));
    base::UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
    if (!epoll) return Error::from_errno("epoll_create1", errno);
    int const descriptor = listener.descriptor();
    auto links = std::make_unique<LinksByCm>(host, std::move(listener), std::move(epoll));
    LEND_TRYV(links->watch(descriptor));
    return links;
  }

 private:
  /// All other ranks may come before this one looks.
  static constexpr int backlog = 1024;
};

}  // namespace

GroupConnector const& cm_group_connector() noexcept {
  static RanksByCm const connector;
  return connector;
}

}  // namespace lend
