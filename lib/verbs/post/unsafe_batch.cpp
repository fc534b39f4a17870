// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the queue pair.
#include <lend/verbs/unsafe_batch.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/post/chain.hpp>
#include <verbs/post/posting.hpp>

#include <algorithm>
#include <string>

namespace lend {

using verbs::Chain;

namespace {

/// Whether the queue pair takes no receives of its own.
Error shares_receives() noexcept {
  return Error{Errc::invalid_argument,
               "receive refused: this queue pair shares the receives of a ReceiveQueue, post to "
               "that; nothing was added"};
}

/// Posts a list, and leaves in it what was not posted.
template <class Request>
Result<void> post_list(verbs::QueuePairHandle const& queue_pair, Chain::List<Request>& list,
                       Operation operation) noexcept {
  if (list.size() == 0) return success();
  list.close();
  Request* refused = nullptr;
  int const result = verbs::post_chain(queue_pair, *list.first, refused);
  if (result == 0) {
    list.first = list.last;
    return success();
  }
  int const error = verbs::errno_of(result);
  auto const first_left = std::find_if(list.begin(), list.end(),
                                       [&](Request const& request) { return &request == refused; });
  list.first = first_left;
  return first_left == list.last ? verbs::device_unclear(queue_pair, operation, error)
                                 : verbs::device_refused(queue_pair, operation, error);
}

}  // namespace

static_assert(AnyUnsafeBatch::requests_max == Chain::requests_max);

AnyUnsafeBatch::AnyUnsafeBatch(verbs::QueuePairHandle const& queue_pair) noexcept
    : queue_pair_{&queue_pair} {
  verbs::make_chain_in(storage_);
}

std::uint32_t AnyUnsafeBatch::size() const noexcept {
  return verbs::chain_in(storage_).size();
}

void AnyUnsafeBatch::drop() noexcept {
  verbs::chain_in(storage_).clear();
  is_cut_ = false;
}

template <class Work>
Result<void> AnyUnsafeBatch::append(std::uint64_t id, Work const& work, Completes how) noexcept {
  Chain& requests = verbs::chain_in(storage_);
  // A list whose head was posted begins in the middle of the array, where others would follow.
  if (is_cut_)
    return Error{Errc::queue_full,
                 "an earlier post() left requests in the batch; post() or drop() them, then add"};
  if (!requests.has_room(verbs::list_of(work).size()))
    return Error{Errc::queue_full, "the batch is full; post() it, then add again"};
  auto const resolved = verbs::append(*queue_pair_, requests, id, work, verbs::LoanRow{});
  if (resolved.is_refused())
    return verbs::refusal_error(*queue_pair_, work, verbs::PostAnswer::of(resolved), {});
  if constexpr (std::is_same_v<verbs::RequestOf<Work>, ibv_send_wr>)
    if (how == Completes::silently && verbs::may_be_silent(*queue_pair_, verbs::operation_of<Work>))
      verbs::silence(requests.sends.back());
  return success();
}

Result<void> AnyUnsafeBatch::add(std::uint64_t id, Send const& work, Completes how) noexcept {
  return append(id, work, how);
}
Result<void> AnyUnsafeBatch::add(std::uint64_t id, Write const& work, Completes how) noexcept {
  return append(id, work, how);
}
Result<void> AnyUnsafeBatch::add(std::uint64_t id, Read const& work, Completes how) noexcept {
  return append(id, work, how);
}
Result<void> AnyUnsafeBatch::add(std::uint64_t id, Atomic const& work, Completes how) noexcept {
  return append(id, work, how);
}
Result<void> AnyUnsafeBatch::add(std::uint64_t id, Receive const& work) noexcept {
  if (queue_pair_->shared_receives != nullptr) return shares_receives();
  return append(id, work, Completes::aloud);
}
Result<void> AnyUnsafeBatch::add_to(std::uint64_t id, Send const& work, Destination const& to,
                                    Completes how) noexcept {
  return append(id, AddressedSend{work, to}, how);
}

Result<void> AnyUnsafeBatch::post() noexcept {
  Chain& requests = verbs::chain_in(storage_);
  // Receives first: the peer may answer the other requests at once.
  auto posted = post_list(*queue_pair_, requests.receives, Operation::receive);
  if (posted.has_value())
    posted = post_list(*queue_pair_, requests.sends, Operation::send);
  else if (requests.receives.size() == 0)
    requests.clear();  // the device does not say which it took: the caller aborts, no send follows
  is_cut_ = requests.size() != 0;
  if (!is_cut_) requests.clear();
  return posted;
}

}  // namespace lend
