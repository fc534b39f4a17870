// SPDX-License-Identifier: MIT OR Apache-2.0
// What a device can do that not every one can. A value; any thread.
#pragma once

namespace lend {

/// Ask before you rely on one of these. Messages, writes, reads, gather and scatter lists, scopes
/// and loans are there on every device. InfiniBand, RoCE and the soft device can do all of these
/// too, but for rdma_cm on the last.
/// Source:  RFC 5040 and RFC 5041 for iWARP; InfiniBand Architecture, volume 1, chapter 9.
struct DeviceCapabilities {
  /// Connects by endpoints: PreparedChannel::handshake(), listen(), connect(). Without: by lend/cm.
  bool endpoints = false;
  /// Connects by cm_connect() and CmListener.
  bool rdma_cm = false;
  /// A send or a write may carry an immediate.
  bool immediates = false;
  /// A message waits for the receive that the peer posts later. Without: it ends the connection, so
  /// that receives must be posted first, and as many as messages may be under way.
  bool waits_for_receives = false;
  /// A send or write is over when the peer's device has taken it, and fails with the reason where
  /// that refuses. Without: it is over once it is on its way, and a refusal ends the connection.
  bool acknowledges = false;
};

}  // namespace lend
