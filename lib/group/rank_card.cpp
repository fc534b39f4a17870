// SPDX-License-Identifier: MIT OR Apache-2.0
// Any thread.
#include <lend/group/rank_card.hpp>

#include <algorithm>
#include <string>

namespace lend {

std::array<std::byte, RankCard::encoded_size> RankCard::encode() const noexcept {
  std::array<std::byte, encoded_size> bytes{};
  auto rest = std::ranges::copy(endpoint.encode(), bytes.begin()).out;
  rest = std::ranges::copy(record.encode(), rest).out;
  rest = std::ranges::copy(mailbox.encode(), rest).out;
  std::ranges::copy(address.encode(), rest);
  return bytes;
}

Result<RankCard> RankCard::decode(std::span<std::byte const> bytes) {
  if (bytes.size() != encoded_size)
    return Error{Errc::incompatible_peer, "a rank's card has " + std::to_string(encoded_size) +
                                              " bytes, not " + std::to_string(bytes.size())};
  constexpr std::size_t of_region = RemoteRegion::encoded_size;
  LEND_TRY(endpoint, Endpoint::decode(bytes.first(Endpoint::encoded_size)));
  LEND_TRY(record, RemoteRegion::decode(bytes.subspan(Endpoint::encoded_size, of_region)));
  LEND_TRY(mailbox,
           RemoteRegion::decode(bytes.subspan(Endpoint::encoded_size + of_region, of_region)));
  return RankCard{endpoint, record, mailbox,
                  LinkAddress::decode(bytes.last<LinkAddress::encoded_size>())};
}

}  // namespace lend
