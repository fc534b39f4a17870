// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/transport/read_ring.hpp>
#include <transport/preparing.hpp>
#include <transport/read_line.hpp>

#include <utility>

namespace lend {

namespace {

using NoteBuffers = transport::Buffers;

class ReadPreparing final : public transport::Preparing {
 public:
  ReadPreparing(ProtectionDomain const& domain, transport::Terms const& ours,
                transport::PreparedReceives receives, MemoryRegion ring, NoteBuffers notes)
      : Preparing{domain, ours, std::move(receives)},
        ring_{std::move(ring)},
        notes_{std::move(notes)} {}

 private:
  Result<std::unique_ptr<transport::Line>> connect_line(transport::Way way,
                                                        transport::Terms const& theirs) override {
    LEND_TRY(landing, domain().allocate(ours().ring_bytes));
    LEND_TRY(words,
             NoteBuffers::allocate(domain(), transport::word_receives, transport::note_bytes));
    LEND_TRY(channel, channel_by(std::move(way)));
    return std::make_unique<transport::ReadLine>(
        std::move(channel), std::move(receives().handles),
        transport::ReadLine::Rings{
            .own = std::move(ring_),
            .landing = std::move(landing),
            .peers = {theirs.address, theirs.ring_bytes, theirs.key, RemoteAccess::read},
            .own_cells = theirs.ring_bytes / flow::cell_bytes,
            .window_in = ours().window,
            .window_out = theirs.window},
        std::move(notes_), std::move(words));
  }

  MemoryRegion ring_;
  NoteBuffers notes_;  // on loan until the channel gives them back, also if this ends before it
};

}  // namespace

ReadRing::ReadRing(std::unique_ptr<transport::End> end) noexcept : TransportBase{std::move(end)} {}

Result<PreparedReadRing> ReadRing::prepare(ProtectionDomain const& domain,
                                           TransportOptions const& options) try {
  LEND_TRY(terms, transport::terms_of(options, TransportKind::read_ring));
  // SAFETY: peers can only read here, and a message stays until its receiver says that it has read
  // it; ReadRing says which other peers can read.
  LEND_TRY(ring, domain.unsafe_allocate_exposed(terms.ring_bytes, RemoteAccess::read));
  LEND_TRY(remote, ring.remote());
  terms.address = remote.address();
  terms.key = remote.key();
  LEND_TRY(notes, NoteBuffers::allocate(domain, transport::notes_max + flow::greetings_max - 1,
                                        transport::note_bytes));
  LEND_TRY(receives, transport::PreparedReceives::prepare(domain, options, transport::reads_max,
                                                          notes.count()));
  for (std::uint32_t slot = 0; slot < notes.count(); ++slot) {
    LEND_TRYV(receives.post(notes.whole(slot)));
  }
  return PreparedReadRing{std::make_unique<ReadPreparing>(domain, terms, std::move(receives),
                                                          std::move(ring), std::move(notes))};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

}  // namespace lend
