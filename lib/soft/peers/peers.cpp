// SPDX-License-Identifier: MIT OR Apache-2.0
// Finding a peer by slot, mapping what it shares, and learning of its death.
#include <soft/peers/peers.hpp>

#include <soft/peers/host.hpp>
#include <soft/platform/clock.hpp>
#include <soft/platform/reason.hpp>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace lend::soft {
namespace {

bool can_read_memory_of(int thread, std::uint64_t address) noexcept {
  char byte = 0;
  iovec local{&byte, 1};
  iovec remote{reinterpret_cast<void*>(address), 1};
  return ::process_vm_readv(thread, &local, 1, &remote, 1, 0) == 1;
}

/// Asked where nothing lies, so that nothing changes: the right comes first, the address after.
bool can_write_memory_of(int thread) noexcept {
  char byte = 0;
  iovec local{&byte, 1};
  iovec remote{nullptr, 1};
  return ::process_vm_writev(thread, &local, 1, &remote, 1, 0) < 0 && errno == EFAULT;
}

int cannot_look(int error, std::uint32_t slot) noexcept {
  return fail(error, "cannot check which process holds slot %u of the soft device: %s", slot,
              std::strerror(error));
}

}  // namespace

bool Peer::is_dead_now() const noexcept {
  if (pidfd_) {
    // A pidfd becomes readable when its process ends. Source: pidfd_open(2).
    pollfd wait{pidfd_.get(), POLLIN, 0};
    if (::poll(&wait, 1, 0) > 0) return true;
  } else if (presence_of(tenant_.pid, tenant_.start_time) == Presence::gone) {
    return true;
  }
  return !lock_is_held(slot_file_.get(), tenant_.generation);
}

bool Peer::is_found_dead() noexcept {
  auto const time = tick();
  if (asked_at_.load(std::memory_order_relaxed) == time) return false;
  asked_at_.store(time, std::memory_order_relaxed);
  if (!is_dead_now()) return false;
  mark_dead();
  return true;
}

bool Peer::is_going() const noexcept {
  if (is_self_) return false;
  if (is_dead_now()) return true;
  // A killed process loses its memory before its files, and counts as ended last.
  return presence_of(tenant_.pid, tenant_.start_time) == Presence::gone;
}

bool Peer::has_thread_beside(int ended) noexcept {
  auto const thread = living_thread_of(tenant_.pid);
  if (thread == 0 || thread == ended) return false;
  thread_.store(thread, std::memory_order_relaxed);
  return true;
}

ArenaView* Peer::pin(std::uint32_t arena) noexcept {
  if (arena >= arenas_max) return errno = ENXIO, nullptr;
  auto& shared = segment_->arenas[arena];
  // Acquire pairs with the release in Arenas::add().
  auto const generation = shared.generation.load(std::memory_order_acquire);
  if (generation == 0) return errno = ENXIO, nullptr;
  std::lock_guard const guard{views_lock_};
  auto& view = views_[arena];
  if (view == nullptr || view->generation() != generation) {
    view.reset();
    auto const length = shared.length.get();
    auto file = open_memory_file_of(tenant_.pid, shared.fd.get(), length);
    if (!file) return nullptr;
    auto mapping = Mapping::of(file.get(), length);
    if (!mapping) return nullptr;
    view.reset(new (std::nothrow) ArenaView{generation, std::move(mapping)});
    if (view == nullptr) return errno = ENOMEM, nullptr;
  }
  view->pin();
  return view.get();
}

int Peers::connect(Peer& peer, std::uint32_t slot) noexcept {
  auto& tenant = peer.tenant_;
  auto const unread = read_slot(own_slot_.directory(), slot, tenant, peer.slot_file_);
  if (is_shortage(unread)) return cannot_look(unread, slot);
  auto const presence = unread == 0 ? presence_of(tenant, peer.slot_file_.get()) : Presence::gone;
  if (unread == EBADMSG)
    return fail(ENETUNREACH,
                "the file of slot %u of the soft device is damaged, or of another version of it",
                slot);
  if (presence == Presence::unknown && errno == EXDEV)
    return fail(ENETUNREACH,
                "slot %u of the soft device is held in another pid or time namespace: its process "
                "cannot be reached from here",
                slot);
  if (presence == Presence::unknown) return cannot_look(errno, slot);
  if (presence == Presence::gone)
    return fail(ENETUNREACH,
                "no living process holds slot %u of the soft device: the peer is gone, or its "
                "endpoint is not of this host",
                slot);
  peer.thread_.store(tenant.pid, std::memory_order_relaxed);
  peer.wake_pipes_.set_process(tenant.pid);
  if (tenant.instance() == own_slot_.tenant().instance()) {
    peer.is_self_ = true;
    peer.is_readable_ = peer.is_writable_ = peer.reads_us_ = peer.writes_us_ = true;
    peer.segment_ = &own_;
    return 0;
  }
  peer.pidfd_ = base::UniqueFd{static_cast<int>(::syscall(SYS_pidfd_open, tenant.pid, 0))};
  auto const file = open_memory_file_of(tenant.pid, tenant.segment_fd, segment_bytes);
  if (file) peer.mapping_ = Mapping::of(file.get(), segment_bytes);
  auto const unmapped = peer.mapping_ ? 0 : errno;
  if (is_shortage(unmapped)) return cannot_look(unmapped, slot);
  // Looked at again: between reading the slot and opening the pidfd the process may have changed.
  auto const still = presence_of(tenant, peer.slot_file_.get());
  if (still == Presence::unknown) return cannot_look(errno, slot);
  if (unmapped != 0 || still == Presence::gone) {
    auto const why = unmapped != 0 ? unmapped : ESRCH;
    char obstacle[128] = "";
    if (why == EACCES || why == EPERM) tell_obstacle(tenant.pid, obstacle, sizeof obstacle);
    return fail(ENETUNREACH, "cannot map the memory of process %d: %s%s%s (slot %u)", tenant.pid,
                obstacle, *obstacle != '\0' ? "; " : "", std::strerror(why), slot);
  }
  peer.segment_ = reinterpret_cast<Segment*>(peer.mapping_.base());
  auto const& header = peer.segment_->header;
  // Acquire pairs with the release that ends the making of a context.
  if (header.magic.load(std::memory_order_acquire) != SharedHeader::magic_value ||
      header.instance.get() != tenant.instance())
    return fail(ENETUNREACH, "process %d, slot %u, speaks another version of the soft device",
                tenant.pid, slot);
  if (auto const thread = living_thread_of(tenant.pid); thread != 0)
    peer.thread_.store(thread, std::memory_order_relaxed);
  auto const ours = cross_memory();
  auto const theirs = header.cross_memory.get();
  peer.is_readable_ = ours.reads && can_read_memory_of(peer.thread(), header.probe_address.get());
  peer.is_writable_ = ours.writes && can_write_memory_of(peer.thread());
  peer.reads_us_ = ours.is_open && (theirs & SharedHeader::reads) != 0;
  peer.writes_us_ = ours.is_open && (theirs & SharedHeader::writes) != 0;
  return 0;
}

Peer* Peers::acquire(std::uint32_t slot) {
  std::lock_guard const guard{mutex_};
  for (auto const& known : peers_)
    if (known->tenant_.slot == slot && !known->is_dead() &&
        (known->is_self_ || !known->is_dead_now())) {
      ++known->users_;
      return known.get();
    }
  auto peer = std::make_unique<Peer>();
  peers_.reserve(peers_.size() + 1);
  if (auto const error = connect(*peer, slot); error != 0) {
    peer.reset();
    errno = error;  // closing what the peer had open may have changed it
    return nullptr;
  }
  if (!peer->is_self_) peer->views_ = std::make_unique<HeldView[]>(arenas_max);
  peer->users_ = 1;
  peers_.push_back(std::move(peer));
  return peers_.back().get();
}

void Peers::release(Peer* peer) noexcept {
  std::lock_guard const guard{mutex_};
  if (--peer->users_ != 0) return;
  std::erase_if(peers_, [&](auto const& known) { return known.get() == peer; });
}

bool Peers::instance_is_dead(std::uint32_t instance) noexcept {
  if (instance == own_slot_.tenant().instance()) return false;
  {
    // A known peer is recognised by its pidfd, even if the rendezvous directory was cleared.
    std::unique_lock const guard{mutex_, std::try_to_lock};
    if (guard)
      for (auto const& known : peers_)
        if (known->instance() == instance) return known->is_dead_now();
  }
  SlotTenant tenant;
  base::UniqueFd file;
  auto const error = read_slot(own_slot_.directory(), slot_of_instance(instance), tenant, file);
  if (error == ENOENT) return own_slot_.is_listed();
  if (!file) return false;
  // A later claimer died while it wrote the file: only the lock tells now.
  if (error != 0) return !lock_is_held(file.get(), generation_of_instance(instance));
  return tenant.instance() != instance || presence_of(tenant, file.get()) == Presence::gone;
}

}  // namespace lend::soft
