// SPDX-License-Identifier: MIT OR Apache-2.0
// Creates a raw queue pair, or finds out why that was refused. Any thread.
#include <verbs/device/limits.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/queue/making.hpp>
#include <verbs/queue/queue_pair_states.hpp>

#include <algorithm>
#include <cerrno>

namespace lend::verbs {

namespace {

/// What all attempts have in common.
struct Maker {
  DomainHandle const& domain;
  RawCompletionQueues completions;
  ibv_srq* shared_receives;
  ibv_qp_type type;

  /// Null, and errno, if it is refused; otherwise `cap` has the granted values.
  [[nodiscard]] RawQueuePair make(ibv_qp_cap& cap) const noexcept {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = completions.sends;
    attributes.recv_cq = completions.receives;
    attributes.srq = shared_receives;
    attributes.qp_type = type;
    attributes.sq_sig_all = 0;  // each post sets IBV_SEND_SIGNALED itself
    attributes.cap = cap;
    Provider const& provider = domain.provider();
    errno = 0;
    RawQueuePair raw{provider, provider.create_qp(domain.raw.get(), &attributes)};
    if (raw) cap = attributes.cap;
    return raw;
  }
  [[nodiscard]] bool can_make(ibv_qp_cap cap) const noexcept { return bool{make(cap)}; }

  /// Whether another request than one that failed with `errno_value` may succeed.
  [[nodiscard]] bool may_be_a_limit(int errno_value) const noexcept {
    return verbs::may_be_a_limit(errno_value) && domain.provider().last_reason() == nullptr;
  }

  /// The largest inline size with which `asked` can be created; with 0 it can.
  [[nodiscard]] std::uint32_t inline_possible(ibv_qp_cap asked) const noexcept {
    std::uint32_t possible = 0;
    std::uint32_t too_large = asked.max_inline_data;
    while (too_large - possible > 1) {
      asked.max_inline_data = possible + (too_large - possible) / 2;
      (can_make(asked) ? possible : too_large) = asked.max_inline_data;
    }
    return possible;
  }
  /// As make(). If that is refused: with what inline size makes it possible, which then is `asked`.
  [[nodiscard]] RawQueuePair make_with_less_inline(ibv_qp_cap& asked,
                                                   ibv_qp_cap& granted) const noexcept {
    granted = asked;
    RawQueuePair raw = make(granted);
    if (raw) asked.max_inline_data = std::min(asked.max_inline_data, granted.max_inline_data);
    if (raw || !may_be_a_limit(errno)) return raw;
    ibv_qp_cap less = asked;
    less.max_inline_data = 0;
    asked.max_inline_data = can_make(less) ? inline_possible(asked) : 0;
    granted = asked;
    return make(granted);
  }
};

/// "4", or "4 of a send and 1 of a receive".
std::string elements_of(ibv_qp_cap const& cap) {
  auto const send = std::to_string(cap.max_send_sge);
  if (cap.max_recv_wr == 0 || cap.max_recv_sge == cap.max_send_sge) return send;
  return send + " of a send and " + std::to_string(cap.max_recv_sge) + " of a receive";
}

std::string text_of(ibv_qp_cap const& cap) {
  return "send_depth " + std::to_string(cap.max_send_wr) + ", receive_depth " +
         std::to_string(cap.max_recv_wr) + ", elements " + elements_of(cap) + ", inline_bytes " +
         std::to_string(cap.max_inline_data);
}

/// No errno tells which limit was hit, and no query reports that of inline bytes; trying does.
Error refusal_of(Maker const& maker, ibv_qp_cap const& asked, int errno_value) {
  Provider const& provider = maker.domain.provider();
  ContextHandle const& context = *maker.domain.context;
  std::string const call = "ibv_create_qp with " + text_of(asked);
  if (!maker.may_be_a_limit(errno_value)) return verb_error(provider, call, errno_value);

  std::string const locked =
      locked_memory_is_limited() ? ' ' + locked_memory_remedy() : std::string{};
  std::uint32_t const own_receives = maker.shared_receives == nullptr ? 1 : 0;
  ibv_qp_cap const smallest{.max_send_wr = 1,
                            .max_recv_wr = own_receives,
                            .max_send_sge = 1,
                            .max_recv_sge = own_receives,
                            .max_inline_data = 0};
  if (!maker.can_make(smallest))
    return verb_error(code_of_limit(errno_value), provider, call, errno_value,
                      "Not even the smallest can be made: " +
                          at_most(context, context.limits.queue_pairs_max, "queue pairs") + '.' +
                          locked);
  ibv_qp_cap without_inline = asked;
  without_inline.max_inline_data = 0;
  if (asked.max_inline_data != 0 && maker.can_make(without_inline))
    return verb_error(Errc::invalid_argument, provider, call, errno_value,
                      "Of inline_bytes " + context.name + " takes at most " +
                          std::to_string(maker.inline_possible(asked)) +
                          " with these depths and elements; ask for that.");
  return verb_error(Errc::exhausted, provider, call, errno_value,
                    "A smaller one can be made: ask for less depth or fewer elements, because the "
                    "limits of " +
                        context.name + " (" + std::to_string(context.limits.work_requests_max) +
                        " requests, " + std::to_string(context.limits.elements_max) +
                        " elements) hold for each and not for both together." + locked);
}

}  // namespace

Result<RawQueuePair> make_queue_pair(DomainHandle const& domain, RawCompletionQueues completions,
                                     ibv_srq* shared_receives, QueuePairOptions const& options,
                                     Service service, ibv_qp_cap& granted) {
  auto const receive_elements =
      shared_receives == nullptr ? options.receive_elements.value_or(options.elements) : 0;
  ibv_qp_cap asked{.max_send_wr = options.send_depth + options.probes,
                   // Some cards refuse both. Source: rdma-core pull request 1624.
                   .max_recv_wr = shared_receives == nullptr ? options.receive_depth : 0,
                   .max_send_sge = options.elements,
                   .max_recv_sge = receive_elements,
                   .max_inline_data = options.inline_bytes.value_or(inline_bytes_unasked)};
  Maker const maker{domain, completions, shared_receives, bring_up_of(service).type};
  granted = asked;
  auto raw =
      options.inline_bytes ? maker.make(granted) : maker.make_with_less_inline(asked, granted);
  if (int const error = errno; !raw) return refusal_of(maker, asked, error);
  if (granted.max_send_wr < asked.max_send_wr || granted.max_recv_wr < asked.max_recv_wr ||
      granted.max_send_sge < asked.max_send_sge || granted.max_recv_sge < asked.max_recv_sge ||
      granted.max_inline_data < asked.max_inline_data)
    return Error{Errc::exhausted, domain.context->name + " granted less than " + text_of(asked) +
                                      ": " + text_of(granted) + "; ask for that"};
  // So that the limits, and which bytes are copied, depend on the program and not on what else the
  // device would take: SoftRoCE with room for 64 inline bytes takes four elements.
  // Source: Linux drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_init_req().
  granted.max_inline_data = asked.max_inline_data;
  granted.max_send_sge = asked.max_send_sge;
  granted.max_recv_sge = asked.max_recv_sge;
  return raw;
}

}  // namespace lend::verbs
