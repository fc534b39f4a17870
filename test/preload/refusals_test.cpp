// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what the soft device does not model it refuses by the errno for that, and does not offer;
// and lend, in such a program, takes it for what it is.
// Method: a verbs program with the library preloaded makes each such call.
#include "support/catch.hpp"

#include <infiniband/verbs.h>
#include <lend/open_device.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

namespace {

template <auto end>
struct End {
  template <class T>
  void operator()(T* made) const {
    CHECK(end(made) == 0);
  }
};

/// soft0 with a domain, memory, a queue, and a datagram queue pair.
struct Soft {
  std::unique_ptr<ibv_context, End<::ibv_close_device>> context{open()};
  std::unique_ptr<ibv_pd, End<::ibv_dealloc_pd>> domain{::ibv_alloc_pd(context.get())};
  std::unique_ptr<ibv_cq, End<::ibv_destroy_cq>> queue{
      ::ibv_create_cq(context.get(), 4, nullptr, nullptr, 0)};
  std::unique_ptr<ibv_qp, End<::ibv_destroy_qp>> pair{make_pair(IBV_QPT_UD)};

  static ibv_context* open() {
    auto** const list = ::ibv_get_device_list(nullptr);
    REQUIRE(list != nullptr);
    ibv_context* opened = nullptr;
    for (auto** at = list; *at != nullptr; ++at)
      if (std::strcmp(::ibv_get_device_name(*at), "soft0") == 0) opened = ::ibv_open_device(*at);
    ::ibv_free_device_list(list);
    REQUIRE(opened != nullptr);
    return opened;
  }
  [[nodiscard]] ibv_qp* make_pair(ibv_qp_type type) const {
    ibv_qp_init_attr asked{};
    asked.send_cq = asked.recv_cq = queue.get();
    asked.qp_type = type;
    asked.cap = {4, 4, 1, 1, 0};
    return ::ibv_create_qp(domain.get(), &asked);
  }
};

/// What a call that failed says: the errno that it returned, or set beside null.
template <class Call>
int refusal(Call const& call) {
  errno = 0;
  auto const answer = call();
  if constexpr (std::is_pointer_v<decltype(answer)>)
    return answer == nullptr ? errno : 0;
  else
    return answer;
}

}  // namespace

TEST_CASE("multicast is refused and not offered", "[preload]") {
  Soft const soft;
  ibv_device_attr attributes{};
  REQUIRE(::ibv_query_device(soft.context.get(), &attributes) == 0);
  ibv_gid group{};
  group.raw[0] = 0xff;

  CHECK(refusal([&] { return ::ibv_attach_mcast(soft.pair.get(), &group, 0xc000); }) == EOPNOTSUPP);
  CHECK(refusal([&] { return ::ibv_detach_mcast(soft.pair.get(), &group, 0xc000); }) == EOPNOTSUPP);
  CHECK(attributes.max_mcast_grp == 0);
  CHECK(attributes.max_mcast_qp_attach == 0);
}

TEST_CASE("memory windows of type 1 are refused and not offered", "[preload]") {
  Soft const soft;
  ibv_device_attr attributes{};
  REQUIRE(::ibv_query_device(soft.context.get(), &attributes) == 0);

  CHECK(refusal([&] { return ::ibv_alloc_mw(soft.domain.get(), IBV_MW_TYPE_1); }) == EOPNOTSUPP);
  CHECK((attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW) == 0);
}

TEST_CASE("extended connections are refused", "[preload]") {
  Soft const soft;
  ibv_xrcd_init_attr domain{};
  domain.fd = -1;
  domain.oflags = 0;
  domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  ibv_srq_init_attr_ex receives{};
  receives.attr = {4, 1, 0};
  receives.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  receives.srq_type = IBV_SRQT_XRC;
  receives.pd = soft.domain.get();

  CHECK(refusal([&] { return ::ibv_open_xrcd(soft.context.get(), &domain); }) == EOPNOTSUPP);
  CHECK(refusal([&] { return ::ibv_create_srq_ex(soft.context.get(), &receives); }) == EOPNOTSUPP);
  for (auto const type : {IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER}) {
    CAPTURE(static_cast<int>(type));
    CHECK(refusal([&] { return soft.make_pair(type); }) == EOPNOTSUPP);
  }
}

TEST_CASE("memory of the device, or of another one, is refused", "[preload]") {
  Soft const soft;
  ibv_alloc_dm_attr asked{};
  asked.length = 64;

  CHECK(refusal([&] { return ::ibv_alloc_dm(soft.context.get(), &asked); }) == EOPNOTSUPP);
  CHECK(refusal([&] {
          return ::ibv_reg_dmabuf_mr(soft.domain.get(), 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE);
        }) == EOPNOTSUPP);
  CHECK(refusal([&] { return ::ibv_alloc_null_mr(soft.domain.get()); }) == EOPNOTSUPP);
}

TEST_CASE("a region of the whole address space is refused and not offered", "[preload]") {
  Soft const soft;
  ibv_device_attr_ex attributes{};
  REQUIRE(::ibv_query_device_ex(soft.context.get(), nullptr, &attributes) == 0);
  constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;

  CHECK(refusal([&] { return ibv_reg_mr(soft.domain.get(), nullptr, SIZE_MAX, access); }) ==
        EOPNOTSUPP);
  CHECK(attributes.odp_caps.general_caps == IBV_ODP_SUPPORT);
  CHECK(attributes.max_dm_size == 0);
  CHECK(attributes.raw_packet_caps == 0);
}

TEST_CASE("thread domains, parent domains, moderation, flows and work queues are refused",
          "[preload]") {
  Soft const soft;
  ibv_td_init_attr thread{};
  ibv_parent_domain_init_attr parent{};
  parent.pd = soft.domain.get();
  ibv_modify_cq_attr moderation{};
  moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
  moderation.moderate = {8, 8};
  ibv_flow_attr flow{};
  ibv_wq_init_attr work{};
  work.wq_type = IBV_WQT_RQ;
  work.max_wr = work.max_sge = 1;
  work.pd = soft.domain.get();
  work.cq = soft.queue.get();

  CHECK(refusal([&] { return ::ibv_alloc_td(soft.context.get(), &thread); }) == EOPNOTSUPP);
  CHECK(refusal([&] { return ::ibv_alloc_parent_domain(soft.context.get(), &parent); }) ==
        EOPNOTSUPP);
  CHECK(refusal([&] { return ::ibv_modify_cq(soft.queue.get(), &moderation); }) == EOPNOTSUPP);
  CHECK(refusal([&] { return ::ibv_create_flow(soft.pair.get(), &flow); }) == EOPNOTSUPP);
  CHECK(refusal([&] { return ::ibv_create_wq(soft.context.get(), &work); }) == EOPNOTSUPP);
}

TEST_CASE("a program of lend sees the preloaded device once, and as the soft one", "[preload]") {
  auto const devices = lend::list_devices();
  REQUIRE(devices.has_value());
  auto const is_soft0 = [](lend::Device const& device) { return device.name() == "soft0"; };
  CHECK(std::ranges::count_if(devices.value(), is_soft0) == 1);
  CHECK(std::ranges::find_if(devices.value(), is_soft0)->kind() == lend::DeviceKind::soft);

  auto const opened = lend::open_device(lend::DeviceChoice::card());
  CHECK((!opened.has_value() || opened.value().name() != "soft0"));
}
