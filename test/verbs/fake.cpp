// SPDX-License-Identifier: MIT OR Apache-2.0
// What the fake provider counts, and which call it fails.
#include "verbs/fake_provider.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lend::test {

Fake& Fake::get() {
  static Fake fake;
  return fake;
}

std::mutex& Fake::mutex() {
  static std::mutex one;
  return one;
}

void Fake::reset(FakeDevice next) {
  std::lock_guard const lock{mutex()};
  // What is live stays in memory, as with any device: a fork looks at each device that is open.
  static std::vector<std::map<void const*, Object>> forgotten;
  forgotten.push_back(std::move(objects_));
  *this = Fake{};
  device = std::move(next);
}

std::size_t Fake::live() const {
  std::lock_guard const lock{mutex()};
  return objects_.size();
}

std::size_t Fake::live(std::string const& kind) const {
  std::lock_guard const lock{mutex()};
  return static_cast<std::size_t>(
      std::count_if(objects_.begin(), objects_.end(),
                    [&](auto const& entry) { return entry.second.kind == kind; }));
}

ibv_wc completion_of(Posted const& posted, ibv_wc_status status, std::uint32_t received_bytes) {
  ibv_wc entry{};
  entry.wr_id = posted.request.wr_id;
  entry.status = status;
  entry.opcode = posted.is_receive ? IBV_WC_RECV : IBV_WC_SEND;
  entry.byte_len = received_bytes;
  // A shared receive was taken for one of the queue pairs that share it.
  entry.qp_num = posted.queue_pair != 0 ? posted.queue_pair : Fake::get().last_queue_pair->qp_num;
  return entry;
}

void complete(Posted const& posted, ibv_wc_status status, std::uint32_t received_bytes) {
  Fake::get().completions.push_back(completion_of(posted, status, received_bytes));
}

void Fake::fail_after(std::uint64_t succeeding, int error) {
  fail_call = calls + static_cast<int>(succeeding) + 1;
  fail_errno = error;
}

bool Fake::fails(char const* call) {
  called.insert(call);
  if (++calls != fail_call) return false;
  failed_call = call;
  errno = fail_errno;
  return true;
}

void Fake::raise(ibv_async_event event) {
  events.push_back(event);
  std::uint64_t const one = 1;
  [[maybe_unused]] auto const put = ::write(last_opened, &one, sizeof one);
}

bool Fake::is_full(char const* kind, int limit) const {
  if (std::cmp_less(live(kind), limit)) return false;
  errno = device.limit_errno;
  return true;
}

int Fake::end(void const* object) {
  std::lock_guard const lock{mutex()};
  ++destructions;
  auto const found = objects_.find(object);
  if (found == objects_.end()) {
    violations.push_back("ended twice, or never made");
    return EINVAL;
  }
  if (destructions == fail_destruction) return EIO;
  for (auto const& [child, entry] : objects_) {
    auto const& parents = entry.parents;
    if (std::find(parents.begin(), parents.end(), object) == parents.end()) continue;
    if (fail_destruction == 0)
      violations.push_back(found->second.kind + " ended before its " + entry.kind);
    return EBUSY;
  }
  objects_.erase(found);
  return 0;
}

}  // namespace lend::test
