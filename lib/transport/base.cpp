// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <lend/base/stop.hpp>
#include <lend/transport/base.hpp>
#include <transport/end.hpp>

#include <utility>

namespace lend {

TransportBase::TransportBase(std::unique_ptr<transport::End> end) noexcept : end_{std::move(end)} {}
TransportBase::TransportBase(TransportBase&&) noexcept = default;
TransportBase& TransportBase::operator=(TransportBase&&) noexcept = default;
TransportBase::~TransportBase() = default;

transport::End& TransportBase::end() const noexcept {
  if (end_ == nullptr) [[unlikely]]
    stop("a transport was used after it had been moved from");
  return *end_;
}

Result<Draft> TransportBase::try_draft(std::size_t at_least, std::size_t at_most) noexcept {
  return end().try_draft(at_least, at_most);
}
Result<std::optional<std::size_t>> TransportBase::try_send_some(
    std::size_t at_least, std::span<std::byte const> bytes) noexcept {
  return end().try_send_some(at_least, bytes);
}
Result<Received> TransportBase::try_receive() noexcept {
  return end().try_receive();
}
Result<void> TransportBase::finish_sending() noexcept {
  return end().finish_sending();
}
Result<LentMessage> TransportBase::try_send_lent(GatherElement const& bytes,
                                                 SourceLine where) noexcept {
  return end().try_send_lent(bytes, where);
}
Result<bool> TransportBase::try_fetch(Received const& message, ScatterElement const& target,
                                      SourceLine where) noexcept {
  return end().try_fetch(message, target, where);
}
void TransportBase::disconnect() noexcept {
  end().disconnect();
}
Result<bool> TransportBase::poll() noexcept {
  return end().poll();
}
Result<bool> TransportBase::arm() noexcept {
  return end().arm();
}
Result<int> TransportBase::descriptor() const noexcept {
  return end().descriptor();
}
Deadline TransportBase::look_again() const noexcept {
  return end().look_again();
}
std::uint32_t TransportBase::sends_in_flight() const noexcept {
  return end().sends_in_flight();
}
std::vector<Setting> TransportBase::settings() const {
  return end().settings();
}
TransportLimits const& TransportBase::limits() const noexcept {
  return end().limits();
}

}  // namespace lend
