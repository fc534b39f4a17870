// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what is not lend, or lies, can neither join nor hang nor crash a side, and is told why.
// Method: the other side is plain rdma_cm, written against the man pages.
#include <base/wire.hpp>
#include <cm/contract.hpp>
#include <cm/event_channel.hpp>
#include <lend/cm/transport.hpp>
#include <lend/transport/read_ring.hpp>

#include <infiniband/verbs.h>

#include <cstring>

#include "cm_ends.hpp"
#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

using Bytes = std::vector<std::byte>;

/// A plain rdma_cm side, with a queue pair that no byte will ever go through.
class Plain {
 public:
  explicit Plain(CmHost const& host) {
    completions_ = ::ibv_create_cq(host.context.native(), 4, nullptr, nullptr, 0);
    REQUIRE(completions_ != nullptr);
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = completions_;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {2, 2, 1, 1, 0};
    queue_pair_ = ::ibv_create_qp(host.domain.native(), &attributes);
    REQUIRE(queue_pair_ != nullptr);
  }
  Plain(Plain const&) = delete;
  Plain& operator=(Plain const&) = delete;
  ~Plain() {
    link.reset();
    ::ibv_destroy_qp(queue_pair_);
    ::ibv_destroy_cq(completions_);
  }

  /// Asks the listener at `address`; what it answers.
  cm::CmEvent request(std::string const& address, Bytes const& said) {
    link.emplace(must(cm::CmLink::make()));
    auto const colon = address.rfind(':');
    rdma_addrinfo hints{};
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    REQUIRE(rdma_getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(),
                             &hints, &found) == 0);
    int const resolving = rdma_resolve_addr(id(), nullptr, found->ai_dst_addr, 2000);
    rdma_freeaddrinfo(found);
    REQUIRE(resolving == 0);
    REQUIRE(next().type == RDMA_CM_EVENT_ADDR_RESOLVED);
    REQUIRE(rdma_resolve_route(id(), 2000) == 0);
    REQUIRE(next().type == RDMA_CM_EVENT_ROUTE_RESOLVED);
    initialize();
    auto parameters = parameters_with(said);
    REQUIRE(rdma_connect(id(), &parameters) == 0);
    return next();
  }

  /// Listens; where.
  std::string listen() {
    link.emplace(must(cm::CmLink::make()));
    rdma_addrinfo hints{};
    hints.ai_flags = RAI_PASSIVE;
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    REQUIRE(rdma_getaddrinfo(std::getenv("LEND_TEST_ADDRESS"), "0", &hints, &found) == 0);
    int const status = rdma_bind_addr(id(), found->ai_src_addr);
    rdma_freeaddrinfo(found);
    REQUIRE(status == 0);
    REQUIRE(rdma_listen(id(), 4) == 0);
    return test_address(be16toh(rdma_get_src_port(id())));
  }
  /// Takes the request that came to listen()'s address.
  cm::CmEvent take_request() {
    auto event = next();
    REQUIRE(event.type == RDMA_CM_EVENT_CONNECT_REQUEST);
    auto own = must(cm::CmLink::of(std::move(event.request)));
    link.reset();
    link.emplace(std::move(own));
    return event;
  }
  void accept(Bytes const& said) {
    initialize();
    auto parameters = parameters_with(said);
    REQUIRE(rdma_accept(id(), &parameters) == 0);
  }

  void establish() { REQUIRE(rdma_establish(id()) == 0); }

  cm::CmEvent next() {
    auto event = must(link->events.next(within(20s)));
    REQUIRE(event.has_value());
    return std::move(*event);
  }
  [[nodiscard]] rdma_cm_id* id() const { return link->id.get(); }

  std::optional<cm::CmLink> link;
  std::uint8_t reads_made = 1, reads_served = 1;

 private:
  void initialize() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    int mask = 0;
    REQUIRE(rdma_init_qp_attr(id(), &attributes, &mask) == 0);
    REQUIRE(::ibv_modify_qp(queue_pair_, &attributes, mask) == 0);
  }
  [[nodiscard]] rdma_conn_param parameters_with(Bytes const& said) const {
    rdma_conn_param parameters{};
    parameters.private_data = said.data();
    parameters.private_data_len = static_cast<std::uint8_t>(said.size());
    parameters.responder_resources = reads_served;
    parameters.initiator_depth = reads_made;
    parameters.qp_num = queue_pair_->qp_num;
    return parameters;
  }

  ibv_cq* completions_ = nullptr;
  ibv_qp* queue_pair_ = nullptr;
};

Bytes contract(cm::ContractKind kind) {
  return must(encode(kind, cm::Contract{4, 4, 4096, {}}));
}

/// Private data that is not lend's, each in its own way.
std::vector<Bytes> wrong(cm::ContractKind kind) {
  Bytes damaged = contract(kind), other_version = contract(kind);
  damaged[9] ^= std::byte{1};
  other_version[4] = std::byte{9};
  auto const other_kind =
      kind == cm::ContractKind::request ? cm::ContractKind::answer : cm::ContractKind::request;
  return {{}, Bytes(3), Bytes(56, std::byte{0xff}), damaged, other_version, contract(other_kind)};
}

}  // namespace

TEST_CASE("a listener rejects what is not lend with the reason, and waits on", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));

  for (auto const& said : wrong(cm::ContractKind::request)) {
    auto listening = meanwhile([&] { return listener.next(within(1s)); });
    Plain raw{host};
    auto const answer = raw.request(listener.address(), said);
    CHECK(answer.type == RDMA_CM_EVENT_REJECTED);
    auto const refusal = cm::decode_refusal(answer.private_data);
    REQUIRE(refusal.has_value());
    CHECK_FALSE(refusal->by_program);
    auto const error = error_of(listening.get());
    CHECK(error == Errc::timed_out);
    CHECK(contains(error, "last rejected"));
  }
  auto connecting =
      meanwhile([&] { return connect_to(listener.address(), host.prepare(), within(20s)); });
  must(accept_from(must(listener.next(within(20s))), host.prepare(), within(20s)));
  must(connecting.get());
}

TEST_CASE("a connector refuses an answer that is not lend's", "[cm]") {
  CmHost host;
  for (auto const& said : wrong(cm::ContractKind::answer)) {
    Plain raw{host};
    auto const address = raw.listen();
    auto connecting = meanwhile([&] { return connect_to(address, host.prepare(), within(20s)); });
    raw.take_request();
    raw.accept(said);
    auto const error = error_of(connecting.get());
    CAPTURE(error.message());
    CHECK(error == Errc::incompatible_peer);

    auto const told = raw.next();
    if (told.type != RDMA_CM_EVENT_ESTABLISHED) {
      auto const refusal = cm::decode_refusal(told.private_data);
      REQUIRE(refusal.has_value());
      CHECK_FALSE(refusal->by_program);
      CHECK(contains(error, refusal->reason.substr(0, 20)));
    } else {  // iWARP: the answer had connected them
      CHECK(raw.next().type == RDMA_CM_EVENT_DISCONNECTED);
    }
  }
}

TEST_CASE("a message may be as long as the peer said, and no longer", "[cm]") {
  CmHost host;
  SECTION("of a listener") {
    Plain raw{host};
    auto const address = raw.listen();
    auto connecting = meanwhile([&] { return connect_to(address, host.prepare(), within(20s)); });
    raw.take_request();
    raw.accept(contract(cm::ContractKind::answer));
    CHECK(must(connecting.get()).channel.message_bytes_max() == 4096);
  }
  SECTION("of a connector") {
    auto listener = must(CmListener::open(test_address(0)));
    Plain raw{host};
    auto asking = meanwhile(
        [&] { return raw.request(listener.address(), contract(cm::ContractKind::request)); });
    auto request = must(listener.next(within(20s)));
    auto accepting =
        meanwhile([&] { return accept_from(std::move(request), host.prepare(), within(20s)); });
    if (asking.get().type == RDMA_CM_EVENT_CONNECT_RESPONSE) raw.establish();
    CHECK(must(accepting.get()).channel.message_bytes_max() == 4096);
  }
}

TEST_CASE("a rejection without lend's reason is one still", "[cm]") {
  CmHost host;
  Bytes const said = GENERATE(Bytes{}, Bytes(40, std::byte{0xff}));
  Plain raw{host};
  auto const address = raw.listen();
  auto connecting = meanwhile([&] { return connect_to(address, host.prepare(), within(20s)); });
  raw.take_request();
  REQUIRE(rdma_reject(raw.id(), said.data(), static_cast<std::uint8_t>(said.size())) == 0);

  auto const error = error_of(connecting.get());
  CAPTURE(error.message());
  CHECK(error == Errc::denied);
}

TEST_CASE("a peer that asks and then goes silent does not hold accept beyond its deadline",
          "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  Plain silent{host};
  auto asking = meanwhile(
      [&] { return silent.request(listener.address(), contract(cm::ContractKind::request)); });
  auto request = must(listener.next(within(20s)));
  auto accepted = accept_from(std::move(request), host.prepare(), within(300ms));

  // Where the kernel completes the connection itself (iWARP), there is no silence.
  auto const answer = asking.get();
  if (answer.type == RDMA_CM_EVENT_CONNECT_RESPONSE)
    CHECK(error_of(accepted) == Errc::timed_out);
  else
    must(std::move(accepted));
}

TEST_CASE("a peer that asks and leaves does not hold accept", "[cm]") {
  CmHost host;
  auto listener = must(CmListener::open(test_address(0)));
  auto raw = std::make_unique<Plain>(host);
  auto asking = meanwhile(
      [&] { return raw->request(listener.address(), contract(cm::ContractKind::request)); });
  auto request = must(listener.next(within(20s)));
  auto prepared = host.prepare();
  auto accepting =
      meanwhile([&] { return accept_from(std::move(request), std::move(prepared), within(20s)); });
  static_cast<void>(asking.get());
  raw.reset();

  auto accepted = accepting.get();
  if (!accepted.has_value()) {
    CAPTURE(accepted.error().message());
    CHECK((accepted.error() == Errc::peer_lost || accepted.error() == Errc::denied));
  }
}

TEST_CASE("a ReadRing refuses a peer that makes no READs or serves none, before it is used",
          "[cm]") {
  CmHost host;
  TransportOptions const asked{.kind = TransportKind::read_ring};
  auto const lender = must(ReadRing::prepare(host.domain));  // of the terms that the peer claims
  auto const said_as = [&](cm::ContractKind kind) {
    auto const& terms = lender.terms();
    return must(encode(kind, cm::Contract{128, 128, 1u << 30, {terms.begin(), terms.end()}}));
  };
  auto const check = [](Result<AnyTransport> const& made, bool is_refused) {
    CHECK(made.has_value() != is_refused);
    if (made) return;
    auto const error = error_of(made);
    CHECK(error == Errc::incompatible_peer);
    CHECK(contains(error, "a ReadRing needs READs of both ends"));
  };
  SECTION("of a listener") {
    auto const made =
        GENERATE(as<std::uint8_t>{}, 0, 1);  // iWARP's kernels let each end serve what it must
    Plain raw{host};
    raw.reads_made = made;
    auto const address = raw.listen();
    auto connecting =
        meanwhile([&] { return cm_connect_transport(address, host.domain, asked, within(20s)); });
    raw.take_request();
    raw.accept(said_as(cm::ContractKind::answer));
    check(connecting.get(), made == 0);
  }
  SECTION("of a connector") {
    auto const [made, served] =
        GENERATE(table<std::uint8_t, std::uint8_t>({{0, 1}, {1, 0}, {1, 1}}));
    auto listener = must(CmListener::open(test_address(0)));
    Plain raw{host};
    raw.reads_made = made;
    raw.reads_served = served;
    auto accepting =
        meanwhile([&] { return cm_accept_transport(listener, host.domain, asked, within(20s)); });
    auto const answer = raw.request(listener.address(), said_as(cm::ContractKind::request));
    if (answer.type == RDMA_CM_EVENT_CONNECT_RESPONSE) raw.establish();
    check(accepting.get(), made == 0 || served == 0);
  }
}
