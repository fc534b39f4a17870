// SPDX-License-Identifier: MIT OR Apache-2.0
// Completion channels and asynchronous events. Any thread.
#include "route.hpp"

using namespace lend;
using namespace lend::preload;

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return route(context, soft::provider().create_comp_channel, __func__, context);
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return route(channel->context, soft::provider().destroy_comp_channel, __func__, channel);
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return route(channel->context, soft::provider().get_cq_event, __func__, channel, cq, cq_context);
}
void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  return route(cq->context, soft::provider().ack_cq_events, __func__, cq, count);
}

// ibv_ack_async_event stays libibverbs' own: it counts in public fields of any object.
int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return route(context, soft::provider().get_async_event, __func__, context, event);
}
