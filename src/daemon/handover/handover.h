// SPDX-License-Identifier: Apache-2.0
/// How one process takes a mount over from another: the messages between them.
///
///   new  HELLO  {version, read-by, program}   which versions of the hand-over it takes and gives
///   old  OFFER  {crash, replace} + [state, names]  what it must know (HandoverState); the names,
///                                              of which the kernel is told if another tree is
///                                              shown in the place of this one; not after a crash
///   new  READY                                 it has opened and checked everything; until now
///                                              nothing has happened to the mount
///   old  MOUNT  + [fuse, requests, texts, ...] the old one takes no requests any more
///   new  LIVE                                  the new one does
///
/// Instead of READY the new one may send FAILED {message}, and end. If it ends after MOUNT without
/// LIVE, the old one goes on. Until READY it ends with the old one (caller.h): there would be
/// nothing to take over. A holder of the descriptors plays the old one's part after a crash.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/posix/descriptor.h"
#include "daemon/handover/handover_options.h"
#include "daemon/handover/handover_state.h"

namespace reshardfs {

/// The option whose value is the descriptor of a socket to the process that serves the mount.
/// Programs that cannot take over mounts refuse it.
inline constexpr const char* kTakeOverOption = "--take-over";

/// What a process needs of the other one's; -1: not there.
struct MountDescriptors {
  Descriptor fuse{-1};
  Descriptor requests{-1};    ///< RequestTable
  Descriptor state{-1};       ///< MemoryRecord of a HandoverState
  Descriptor texts{-1};       ///< MemoryRecord of an OpenState; not after a crash
  Descriptor keeper{-1};      ///< connection to the keeper of the first three
  Descriptor connection{-1};  ///< of --fuse-socket, to be kept open
};

/// Their names in MOUNT, which says in this order what it carries.
inline constexpr std::array<const char*, 5> kHandedNames = {"fuse", "requests", "texts", "keeper",
                                                            "connection"};

enum class HandoverStep : std::uint8_t { kHello, kOffer, kReady, kMount, kLive, kFailed };

struct HandoverMessage {
  HandoverStep step{};
  HandoverVersions versions{};  ///< kHello
  bool after_crash = false;     ///< kOffer
  bool replace = false;         ///< kOffer: any other tree may replace this one
  std::string text{};           ///< kFailed: why; kHello: the program's version
  std::vector<Descriptor> descriptors{};
};

/// The connection of two processes that hand a mount over.
class HandoverSocket {
 public:
  explicit HandoverSocket(Descriptor socket) : socket_(std::move(socket)) {}

  int get() const noexcept { return socket_.get(); }
  /// @return whether the other side was there to get it.
  bool send(const HandoverMessage& message, std::span<const int> descriptors = {}) const noexcept;
  /// The next message; nothing if the other side has gone, or nothing has come after `limit`
  /// (negative: no limit). @throws Error kIo for any other message.
  std::optional<HandoverMessage> receive(std::chrono::milliseconds limit) const;

 private:
  Descriptor socket_;
};

/// Starts the program with kTakeOverOption and the socket. @return its process.
/// @throws Error kIo
pid_t start_successor(const ProgramStart& start, const Descriptor& socket);

/// Why a program that says hello() cannot take the mount over; empty if it can.
std::string version_conflict(const HandoverMessage& hello);

}  // namespace reshardfs
