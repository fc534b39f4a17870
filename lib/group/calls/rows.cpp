// SPDX-License-Identifier: MIT OR Apache-2.0
// The pieces of rows, and how those are copied that no request takes. The thread of the group.
#include <base/copy_bytes.hpp>
#include <group/calls/checked_call.hpp>
#include <group/calls/rows.hpp>
#include <group/link/written_row.hpp>
#include <verbs/memory/pieces.hpp>
#include <verbs/memory/region_state.hpp>

#include <algorithm>
#include <cstring>

namespace lend::group {

namespace {

using base::LoanKind;

// Source: measured on the soft device, whose messages of four pieces of 4 KiB go faster by copies,
// and of 16 KiB as they lie; no card was measured.
constexpr std::size_t direct_piece_min = 8192;

template <class Visit>
void for_each_piece(RowPart const& part, Visit&& visit) {
  for (Run const& run : part.runs)
    for (std::size_t i = 0; i < run.count; ++i)
      visit(ByteRange{run.first + i * run.stride, run.length});
}

/// Errors:  already_borrowed.
Result<void> check_loans(RowPart const& part, LoanKind kind) noexcept {
  if (verbs::touch(part.region, part.hull(), kind).has_value()) return success();
  // What is on loan may lie between the pieces.
  Result<void> allowed = success();
  for_each_piece(part, [&](ByteRange piece) {
    if (allowed.has_value()) allowed = without_value(verbs::touch(part.region, piece, kind));
  });
  return allowed;
}

/// One piece after the other. Of constant length, which is a load and a store.
template <std::size_t length>
void copy_pieces(std::byte* to, std::size_t to_stride, std::byte const* from,
                 std::size_t from_stride, std::size_t count) noexcept {
  for (; count > 0; --count, to += to_stride, from += from_stride) std::memcpy(to, from, length);
}

void copy_pieces(std::byte* to, std::size_t to_stride, std::byte const* from,
                 std::size_t from_stride, Run const& run) noexcept {
  switch (run.length) {
    case 4: return copy_pieces<4>(to, to_stride, from, from_stride, run.count);
    case 8: return copy_pieces<8>(to, to_stride, from, from_stride, run.count);
    case 16: return copy_pieces<16>(to, to_stride, from, from_stride, run.count);
    default: break;
  }
  for (std::size_t i = 0; i < run.count; ++i)
    base::copy_bytes({to + i * to_stride, run.length}, {from + i * from_stride, run.length});
}

}  // namespace

void RowPart::add(ByteRange piece) {
  ++pieces;
  begin = std::min(begin, piece.offset);
  end = std::max(end, piece.offset + piece.length);
  if (!runs.empty() && runs.back().length == piece.length && piece.offset > runs.back().first) {
    Run& last = runs.back();
    std::size_t const apart = piece.offset - last.first;
    if (last.count == 1) last.stride = apart;
    if (apart == last.count * last.stride) {
      ++last.count;
      return;
    }
  }
  runs.push_back({piece.offset, piece.length, 1, 0});
}

template <class Element>
Result<void> Row<Element>::add(PartsOf<Element> const& part) {
  auto const& [region, range] = part.all;
  if (region == nullptr || !region->contains(range))
    return verbs::element_error(region, range, 0, 1);
  constexpr auto are =
      std::is_same_v<Element, ScatterElement> ? verbs::PartsAre::written : verbs::PartsAre::read;
  LEND_TRY(length, verbs::check_parts(part.which, part.value_bytes, range.length, are));
  RowPart& added = parts.emplace_back(RowPart{region});
  verbs::Pieces all{part.which, part.value_bytes};
  for (ByteRange piece = all.next(); piece.length > 0; piece = all.next())
    added.add({range.offset + piece.offset, piece.length});
  bytes += length;
  return success();
}

template <class Element>
bool Row<Element>::is_of_host() const noexcept {
  auto const is_of_device = [](auto const& of) {
    return of.region != nullptr && of.region->is_device_memory;
  };
  return std::ranges::none_of(elements, is_of_device) && std::ranges::none_of(parts, is_of_device);
}

template <class Element>
Result<void> Row<Element>::copy_to(std::byte* to) const noexcept {
  for (Element const& element : elements) {
    LEND_TRY(from, verbs::touch(element.region, element.range, LoanKind::shared));
    base::copy_bytes({to, element.range.length}, {from, element.range.length});
    to += element.range.length;
  }
  if (!elements.empty()) return success();
  for (RowPart const& part : parts) {
    LEND_TRYV(check_loans(part, LoanKind::shared));
    for (Run const& run : part.runs) {
      copy_pieces(to, run.length, part.region->address + run.first, run.stride, run);
      to += run.count * run.length;
    }
  }
  return success();
}

template <class Element>
Result<std::byte const*> Row<Element>::together(std::byte* room) const noexcept {
  if (elements.size() == 1) {
    auto const& [region, range] = elements.front();
    LEND_TRY(from, verbs::touch(region, range, LoanKind::shared));
    return from;
  }
  LEND_TRYV(copy_to(room));
  return room;
}

template <class Element>
std::byte* Row<Element>::at_once() const noexcept {
  if (elements.size() != 1) return nullptr;
  constexpr auto kind =
      std::is_same_v<Element, ScatterElement> ? LoanKind::exclusive : LoanKind::shared;
  return verbs::touch_at_once(elements.front().region, elements.front().range, kind);
}

template <class Element>
Result<void> Row<Element>::copy_from(std::byte const* from) noexcept {
  for (Element const& element : elements) {
    LEND_TRY(to, verbs::touch(element.region, element.range, LoanKind::exclusive));
    base::copy_bytes({to, element.range.length}, {from, element.range.length});
    from += element.range.length;
  }
  if (elements.empty())
    for (RowPart const& part : parts) {
      LEND_TRYV(check_loans(part, LoanKind::exclusive));
      for (Run const& run : part.runs) {
        copy_pieces(part.region->address + run.first, run.stride, from, run.length, run);
        from += run.count * run.length;
      }
    }
  is_to_be_unpacked = false;
  return success();
}

template <class Element>
Result<bool> Row<Element>::take_elements(std::size_t most) {
  if (bytes <= WrittenRow::stored_max)  // which nothing else may check before it is copied
    for (auto const& [region, range] : elements)
      if (region == nullptr || !region->contains(range))
        return verbs::element_error(region, range, 0, 1);
  if (!elements.empty() && elements.size() <= most) return true;
  if (elements.empty() && parts.empty())
    return Error{Errc::invalid_argument, "a row without parts"};
  if (parts.empty()) {
    for (Element const& element : elements) {
      LEND_TRYV(without_value(bytes_of(element)));
      if (parts.empty() || parts.back().region != element.region)
        parts.emplace_back(RowPart{element.region});
      parts.back().add(element.range);
    }
    elements.clear();
    return false;
  }
  std::size_t pieces = 0;
  bool is_of_device = false;
  for (RowPart const& part : parts) {
    pieces += part.pieces;
    is_of_device = is_of_device || part.region->is_device_memory;
  }
  if (pieces > most || (pieces > 1 && bytes / pieces < direct_piece_min && !is_of_device)) {
    for (RowPart const& part : parts)
      LEND_TRYV(without_value(bytes_of(Element{part.region, part.hull()})));
    return false;
  }
  for (RowPart const& part : parts)
    for_each_piece(part, [&](ByteRange piece) { elements.push_back({part.region, piece}); });
  if (elements.empty()) elements.push_back({parts.front().region, {}});
  return true;
}

template struct Row<GatherElement>;
template struct Row<ScatterElement>;

}  // namespace lend::group
