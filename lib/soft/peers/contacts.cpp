// SPDX-License-Identifier: MIT OR Apache-2.0
// Finding the context that has a number now.
#include <soft/peers/contacts.hpp>

#include <new>

namespace lend::soft {

void Contacts::release(Known& known) noexcept {
  if (known.peer != nullptr) peers_.release(known.peer);
  known = {};
}

void Contacts::forget() noexcept {
  for (auto& known : known_) release(known);
}

Peer* Contacts::find(std::uint32_t slot) noexcept try {
  Known* place = nullptr;
  for (auto& known : known_) {
    if (known.peer != nullptr && known.slot == slot) {
      if (!known.peer->is_dead()) return known.peer;
      release(known);  // somebody else may have the slot now
    }
    if (known.peer == nullptr && place == nullptr) place = &known;
  }
  if (place == nullptr) {
    place = &known_[next_++ % known_max];
    release(*place);
  }
  place->peer = peers_.acquire(slot);
  place->slot = slot;
  return place->peer;
} catch (std::bad_alloc const&) {
  return nullptr;
}

}  // namespace lend::soft
