// SPDX-License-Identifier: MIT OR Apache-2.0
// Declares the classes of lend that other headers name, and says which header defines each: for
// headers that pass references to them.
#pragma once

#include <lend/base/export.hpp>

namespace lend {

// lend/lend.hpp, liblend
class Batch;
class Cancellation;
class Channel;
class Context;
class DatagramChannel;
class DatagramScope;
class Deadline;
class Device;
class DeviceRegion;
class LEND_ABI_TAG Error;
class MemoryRegion;
class MultiChannel;
class PeerLoan;
class PendingWork;
class PollingScope;
class PreparedChannel;
class ProtectionDomain;
class ReceivePool;
class SetScope;
class UnreliableChannel;
class UnreliableScope;
class WaitSet;
struct ChannelOptions;
struct Endpoint;
struct WorkSuccess;

// lend/transport/…, lend/stream/…, liblend
class AnyTransport;
class ByteStream;

class Desk;               // lend/group.hpp, liblend-group
class Epoch;              // lend/group.hpp, liblend-group
class Exchange;           // lend/group.hpp, liblend-group
class Group;              // lend/group.hpp, liblend-group
class GroupScope;         // lend/group.hpp, liblend-group
class PeerScope;          // lend/group.hpp, liblend-group
class Peers;              // lend/group.hpp, liblend-group
class PendingCollective;  // lend/group.hpp, liblend-group
class PreparedGroup;      // lend/group.hpp, liblend-group
class Roster;             // lend/group.hpp, liblend-group
class Team;               // lend/group.hpp, liblend-group
class Window;             // lend/group.hpp, liblend-group
struct GroupOptions;      // lend/group.hpp, liblend-group
struct Seat;              // lend/group.hpp, liblend-group

}  // namespace lend
