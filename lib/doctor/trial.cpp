// SPDX-License-Identifier: MIT OR Apache-2.0
// Connects one end and moves bytes.
#include <lend/base/deadline.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/unsafe.hpp>

#include <doctor/trial.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>

namespace lend::doctor {

namespace {

using namespace std::chrono_literals;

constexpr auto step_patience = 5s;
// A packet that never arrives is known after 5 · 67 ms, on cards up to four times that.
constexpr std::uint8_t retries_of_trial = 4;
constexpr std::size_t incoming = Step::bytes_max;

std::byte byte_at(std::size_t i, std::uint64_t seed) noexcept {
  // Bytes that were moved, or are of another step, differ.
  auto const mixed = (seed * 31 + i) * 0x9e3779b97f4a7c15ull;
  return static_cast<std::byte>(mixed >> 56);
}

}  // namespace

void fill(std::span<std::byte> bytes, std::uint64_t seed) noexcept {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(i, seed);
}

Result<void> compare(std::span<std::byte const> bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != byte_at(i, seed)) {
      std::array<char, 80> text{};
      std::snprintf(text.data(), text.size(), "byte %zu of %zu came as 0x%02x and not as 0x%02x", i,
                    bytes.size(), std::to_integer<unsigned>(bytes[i]),
                    std::to_integer<unsigned>(byte_at(i, seed)));
      return Error{Errc::system_failed, text.data()};
    }
  return success();
}

Result<TrialEnd> TrialEnd::prepare(OpenPorts const& ports, Way const& way) {
  LEND_TRY(context, ports.at(way.device, way.number));
  LEND_TRY(domain, context.allocate_protection_domain());
  // SAFETY: only this class uses the bytes, and looks once the peer says that it is done.
  LEND_TRY(exposed, domain.unsafe_allocate_exposed(Step::bytes_max, RemoteAccess::read_write));
  LEND_TRY(memory, domain.allocate(2 * Step::bytes_max));
  ChannelOptions options;
  options.queue_pair.send_depth = options.queue_pair.receive_depth = 4;
  if (way.host.empty()) {  // else rdma_cm knows them
    if (way.mtu_bytes != 0) options.queue_pair.connection.mtu_bytes = way.mtu_bytes;
    options.queue_pair.connection.gid.index = way.gid_index;
  }
  options.queue_pair.connection.ack_retries = retries_of_trial;
  LEND_TRY(prepared, prepare_channel(domain, options));
  LEND_TRY(ours, exposed.remote());
  return TrialEnd{std::move(memory), std::move(exposed), ours, std::move(prepared),
                  context.capabilities().acknowledges};
}

std::string TrialEnd::card() const {
  auto const endpoint = prepared_->endpoint().encode();
  auto const region = ours_.encode();
  std::string card{reinterpret_cast<char const*>(endpoint.data()), endpoint.size()};
  return card.append(reinterpret_cast<char const*>(region.data()), region.size());
}

Result<Channel> TrialEnd::channel_by(Join const& join) {
  LEND_TRY(connected, join(prepared_->take_queue_pair()));
  return std::move(*prepared_).adopt(std::move(connected));
}

Result<void> TrialEnd::connect(std::string_view card, Join const& join) {
  auto const bytes = std::as_bytes(std::span{card});
  constexpr auto at = Endpoint::encoded_size;
  if (bytes.size() != at + RemoteRegion::encoded_size)
    return Error{Errc::incompatible_peer, "the peer's endpoint has another length"};
  LEND_TRY(region, RemoteRegion::decode(bytes.subspan(at)));
  theirs_ = region;
  if (join) {
    LEND_TRY(channel, channel_by(join));
    channel_ = std::move(channel);
    return success();
  }
  LEND_TRY(endpoint, Endpoint::decode(bytes.first(at)));
  LEND_TRY(channel, std::move(*prepared_).handshake(endpoint));
  channel_ = std::move(channel);
  return success();
}

Result<void> TrialEnd::act(Step const& step) {
  auto const limit = within(step_patience);
  bool const reads = step.operation == "read";
  LEND_TRY(bytes, memory_.mutable_bytes(0, step.bytes));
  if (reads)
    std::ranges::fill(bytes, std::byte{});
  else
    fill(bytes, step.seed);
  if (step.operation == "send") return channel_->send(memory_.gather(0, step.bytes), limit);
  auto const target = theirs_.slice(0, step.bytes);
  if (!reads) return channel_->write({memory_.gather(0, step.bytes), target}, limit);
  LEND_TRYV(channel_->read({memory_.scatter(0, step.bytes), target}, limit));
  LEND_TRY(came, memory_.bytes(0, step.bytes));
  return compare(came, step.seed);
}

Result<void> TrialEnd::expect(Step const& step) {
  arrival_.reset();
  if (step.operation == "send") {
    // SAFETY: the memory outlives the channel, and nothing else uses it until check().
    LEND_TRY(arrival, unsafe_post_receive(*channel_, memory_.scatter(incoming, step.bytes)));
    arrival_.emplace(std::move(arrival));
    return success();
  }
  LEND_TRY(bytes, exposed_.mutable_bytes(0, step.bytes));
  if (step.operation == "read")
    fill(bytes, step.seed);
  else
    std::ranges::fill(bytes, std::byte{});
  return success();
}

Result<void> TrialEnd::check_written(Step const& step) {
  for (auto const limit = within(step_patience);;) {
    LEND_TRY(bytes, exposed_.bytes(0, step.bytes));
    auto const same = compare(bytes, step.seed);
    if (same || is_acknowledged_ || limit.has_passed()) return same;
    std::this_thread::sleep_for(1ms);
  }
}

Result<void> TrialEnd::check(Step const& step) {
  if (step.operation == "read") return success();
  if (step.operation == "write") return check_written(step);
  if (!arrival_) return Error{Errc::invalid_argument, "no message was expected"};
  LEND_TRY(arrived, arrival_->wait(within(step_patience)));
  if (arrived.bytes != step.bytes)
    return Error{Errc::system_failed, std::to_string(arrived.bytes) + " bytes came and not " +
                                          std::to_string(step.bytes)};
  LEND_TRY(bytes, memory_.bytes(incoming, step.bytes));
  return compare(bytes, step.seed);
}

}  // namespace lend::doctor
