// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a real device behind the preloaded library is as if it were not there: every call arrives
// with its arguments and its answer comes back. Method: a library that pretends to be libibverbs,
// preloaded behind ours.
#include <infiniband/verbs.h>

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "pretended_verbs.hpp"
#include "support/catch.hpp"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

extern "C" int ibv_query_gid_type(ibv_context*, std::uint8_t port, unsigned index, unsigned* type);

namespace {

using namespace lend::test;

std::vector<ForwardedCall>& calls() {
  static auto* const get = reinterpret_cast<decltype(&pretended_verbs_calls)>(
      ::dlsym(RTLD_DEFAULT, "pretended_verbs_calls"));
  REQUIRE(get != nullptr);
  return *get();
}

template <class Value>
std::uint64_t word_of(Value value) {
  if constexpr (std::is_pointer_v<Value>)
    return reinterpret_cast<std::uint64_t>(value);
  else
    return static_cast<std::uint64_t>(value);
}
/// Of a word of which the bits above a Value are nobody's.
template <class Value>
std::uint64_t narrowed(std::uint64_t word) {
  return sizeof(Value) == 8 ? word : word & ((std::uint64_t{1} << 8 * (sizeof(Value) & 7)) - 1);
}

template <class Result, class... Parameters>
void check(char const* name, Result (*function)(Parameters...),
           std::type_identity_t<Parameters>... arguments) {
  INFO(name);
  calls().clear();
  if constexpr (std::is_void_v<Result>)
    function(arguments...);
  else
    CHECK(narrowed<Result>(word_of(function(arguments...))) == narrowed<Result>(pretended_answer));
  REQUIRE(calls().size() == 1);
  CHECK(calls()[0].name == name);
  auto const* word = calls()[0].arguments;
  bool const arrived =
      ((narrowed<Parameters>(*word++) == narrowed<Parameters>(word_of(arguments))) && ...);
  CHECK(arrived);
}
#define CHECK_FORWARDED(function, ...) check(#function, &function, __VA_ARGS__)

/// The pretended device, and objects of it as far as anybody looks at them.
struct Card {
  Card() {
    device = *ibv_get_device_list(nullptr);
    context.device = device;
    channel.context = pd.context = mr.context = cq.context = srq.context = qp.context = ah.context =
        &context;
    calls().clear();
  }
  ibv_device* device = nullptr;
  ibv_context context{};
  ibv_pd pd{};
  ibv_mr mr{};
  ibv_comp_channel channel{};
  ibv_cq cq{};
  ibv_srq srq{};
  ibv_qp qp{};
  ibv_ah ah{};
  // Somewhere for each pointer that is passed through.
  std::byte bytes[8]{};
  template <class Type>
  Type* some(std::size_t at = 0) {
    return reinterpret_cast<Type*>(bytes + at);
  }
};

}  // namespace

TEST_CASE("the device list is the cards and then the soft device, and both parts are given back",
          "[preload]") {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  REQUIRE(count == 2);
  CHECK(std::string{ibv_get_device_name(list[0])} == "card0");
  CHECK(std::string{ibv_get_device_name(list[1])} == "soft0");
  CHECK(list[2] == nullptr);
  calls().clear();
  ibv_free_device_list(list);
  REQUIRE(calls().size() == 1);
  CHECK(calls()[0].name == "ibv_free_device_list");
}

TEST_CASE("what is asked of a card reaches the next library", "[preload]") {
  Card card;
  auto* const context = &card.context;
  CHECK_FORWARDED(ibv_get_device_index, card.device);
  CHECK_FORWARDED(ibv_get_device_guid, card.device);
  CHECK_FORWARDED(ibv_close_device, context);
  CHECK_FORWARDED(ibv_query_device, context, card.some<ibv_device_attr>());
  CHECK_FORWARDED(ibv_query_port, context, 3, card.some<_compat_ibv_port_attr>());
  CHECK_FORWARDED(ibv_query_gid, context, 3, 4, card.some<ibv_gid>());
  CHECK_FORWARDED(_ibv_query_gid_ex, context, 3, 4, card.some<ibv_gid_entry>(), 5, 6);
  CHECK_FORWARDED(_ibv_query_gid_table, context, card.some<ibv_gid_entry>(), 4, 5, 6);
  CHECK_FORWARDED(ibv_query_gid_type, context, 3, 4, card.some<unsigned>());
  CHECK_FORWARDED(ibv_query_pkey, context, 3, 4, card.some<std::uint16_t>());
  CHECK_FORWARDED(ibv_get_pkey_index, context, 3, 4);
  CHECK_FORWARDED(ibv_get_async_event, context, card.some<ibv_async_event>());
}

TEST_CASE("what is made from a card is made by the next library", "[preload]") {
  Card card;
  auto* const context = &card.context;
  auto* const pd = &card.pd;
  auto* const somewhere = card.some<void>();
  CHECK_FORWARDED(ibv_alloc_pd, context);
  CHECK_FORWARDED(ibv_import_pd, context, 2);
  CHECK_FORWARDED(ibv_import_dm, context, 2);
  CHECK_FORWARDED(ibv_reg_mr, pd, somewhere, 2, 3);
  CHECK_FORWARDED(ibv_reg_mr_iova, pd, somewhere, 2, 3, 4);
  CHECK_FORWARDED(ibv_reg_mr_iova2, pd, somewhere, 2, 3, 4);
  CHECK_FORWARDED(ibv_reg_dmabuf_mr, pd, 2, 3, 4, 5, 6);
  CHECK_FORWARDED(ibv_import_mr, pd, 2);
  CHECK_FORWARDED(ibv_create_comp_channel, context);
  CHECK_FORWARDED(ibv_create_cq, context, 2, somewhere, card.some<ibv_comp_channel>(1), 5);
  CHECK_FORWARDED(ibv_create_srq, pd, card.some<ibv_srq_init_attr>());
  CHECK_FORWARDED(ibv_create_qp, pd, card.some<ibv_qp_init_attr>());
  CHECK_FORWARDED(ibv_create_ah, pd, card.some<ibv_ah_attr>());
  CHECK_FORWARDED(ibv_init_ah_from_wc, context, 2, card.some<ibv_wc>(), card.some<ibv_grh>(1),
                  card.some<ibv_ah_attr>(2));
  CHECK_FORWARDED(ibv_create_ah_from_wc, pd, card.some<ibv_wc>(), card.some<ibv_grh>(1), 4);
  CHECK_FORWARDED(ibv_resolve_eth_l2_from_gid, context, card.some<ibv_ah_attr>(),
                  card.some<std::uint8_t>(1), card.some<std::uint16_t>(2));
}

TEST_CASE("what was made from a card is changed and destroyed by the next library", "[preload]") {
  Card card;
  auto* const qp = &card.qp;
  CHECK_FORWARDED(ibv_dealloc_pd, &card.pd);
  CHECK_FORWARDED(ibv_rereg_mr, &card.mr, 2, &card.pd, card.some<void>(), 5, 6);
  CHECK_FORWARDED(ibv_dereg_mr, &card.mr);
  CHECK_FORWARDED(ibv_destroy_comp_channel, &card.channel);
  CHECK_FORWARDED(ibv_get_cq_event, &card.channel, card.some<ibv_cq*>(), card.some<void*>(1));
  CHECK_FORWARDED(ibv_ack_cq_events, &card.cq, 2);
  CHECK_FORWARDED(ibv_resize_cq, &card.cq, 2);
  CHECK_FORWARDED(ibv_destroy_cq, &card.cq);
  CHECK_FORWARDED(ibv_modify_srq, &card.srq, card.some<ibv_srq_attr>(), 3);
  CHECK_FORWARDED(ibv_query_srq, &card.srq, card.some<ibv_srq_attr>());
  CHECK_FORWARDED(ibv_destroy_srq, &card.srq);
  CHECK_FORWARDED(ibv_modify_qp, qp, card.some<ibv_qp_attr>(), 3);
  CHECK_FORWARDED(ibv_query_qp, qp, card.some<ibv_qp_attr>(), 3, card.some<ibv_qp_init_attr>(1));
  CHECK_FORWARDED(ibv_query_qp_data_in_order, qp, IBV_WR_SEND, 3);
  CHECK_FORWARDED(ibv_qp_to_qp_ex, qp);
  CHECK_FORWARDED(ibv_set_ece, qp, card.some<ibv_ece>());
  CHECK_FORWARDED(ibv_query_ece, qp, card.some<ibv_ece>());
  CHECK_FORWARDED(ibv_attach_mcast, qp, card.some<ibv_gid>(), 3);
  CHECK_FORWARDED(ibv_detach_mcast, qp, card.some<ibv_gid>(), 3);
  CHECK_FORWARDED(ibv_destroy_qp, qp);
  CHECK_FORWARDED(ibv_destroy_ah, &card.ah);
}
