// SPDX-License-Identifier: MIT OR Apache-2.0
// lend's part of rdma_cm's private data; received data is untrusted. Pure; any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/cm/connection.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lend::cm {

/// The message of the connection setup that carries it.
enum class ContractKind : std::uint8_t { request = 1, answer = 2 };

/// What each side sends to the other: enough to refuse a peer that does not fit.
struct Contract {
  std::uint32_t send_depth = 0;
  std::uint32_t receive_depth = 0;
  std::uint32_t message_bytes_max = 0;
  std::vector<std::byte> private_data{};
  std::uint8_t traffic_class = 0;  // of an answer: what the accepting end chose; 0: nothing
};

/// Errors:  invalid_argument  more private data than fits.
[[nodiscard]] Result<std::vector<std::byte>> encode(ContractKind kind, Contract const& contract);
/// `bytes` may be followed by padding: InfiniBand delivers the whole field.
/// Errors:  incompatible_peer  says what is wrong with the bytes.
[[nodiscard]] Result<Contract> decode(ContractKind kind, std::span<std::byte const> bytes);

/// Why a connection was rejected.
struct Refusal {
  bool by_program = true;  // otherwise by lend: the contracts do not fit
  std::string reason{};
};

[[nodiscard]] std::vector<std::byte> encode(Refusal const& refusal);
/// Nothing if it is not lend's.
[[nodiscard]] std::optional<Refusal> decode_refusal(std::span<std::byte const> bytes);

}  // namespace lend::cm
