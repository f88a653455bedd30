// SPDX-License-Identifier: Apache-2.0
/// Functions for answering the kernel's requests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "fuse/libfuse.h"
#include "fuse/queue/asker.h"
#include "fuse/served_tree.h"

namespace reshardfs {

/// What a program that uses the mount gets in errno: always positive. Of the operating system's
/// own numbers only those are passed on that tell the program something about its request.
int errno_of(const Error& error) noexcept;

/// The same for the exception being handled. Call this in a catch block.
int errno_of_current_exception() noexcept;

using TreePtr = std::shared_ptr<const Tree>;

inline ServedTree& served(fuse_req_t request) {
  return *static_cast<ServedTree*>(fuse_req_userdata(request));
}

/// Counts and logs the exception that is being handled, with the path.
void log_failure(ServedTree& served, const Asked& asked) noexcept;

/// Logs it, and answers with its errno.
void answer_failure(fuse_req_t request, const Asked& asked) noexcept;

/// The result of `make`, or the errno of its exception.
/// @throws StuckRead if `make` does.
template <typename Make>
Reply reply_of(ServedTree& served, const Asked& asked, Make& make) {
  try {
    return make();
  } catch (const StuckRead&) {
    throw;
  } catch (...) {
    const int error = errno_of_current_exception();
    log_failure(served, asked);
    return Reply::error(error);
  }
}

/// Answers at once with the result of `make`, which must not wait.
template <typename Make>
void answer(fuse_req_t request, fuse_ino_t inode, const char* operation, Make&& make) noexcept {
  const Asked asked{inode, operation, Asker::of(request)};
  reply_of(served(request), asked, make).send(request);
}

/// Answers with the result of `make`, which may wait, when its turn comes.
template <typename Make>
void answer_in_turn(fuse_req_t request, fuse_ino_t inode, const char* operation, WaitClass kind,
                    Make&& make) noexcept {
  ServedTree& all = served(request);
  const Asked asked{inode, operation, Asker::of(request)};
  KillableRequest::Ptr waiting;
  try {
    waiting = KillableRequest::watch(request, is_killed, asked);
    all.storage.submit(waiting, kind, inode,
                       [&all, asked, make = std::forward<Make>(make)]() mutable {
                         return reply_of(all, asked, make);
                       });
  } catch (...) {
    const int error = errno_of_current_exception();
    log_failure(all, asked);
    if (waiting == nullptr) {
      fuse_reply_err(request, error);
    } else if (fuse_req_t claimed = waiting->claim()) {
      fuse_reply_err(claimed, error);
    }
  }
}

/// The number of the request that this thread is being asked to answer, before the operation
/// returns.
std::uint64_t& request_number() noexcept;

/// Removes an opening from the table, before the answer that it is closed.
/// @return its tree; nullopt if there was no such opening, or the mount is being handed over. Then
///         the other process answers, and ends the opening.
std::optional<std::uint64_t> take_opening(fuse_req_t request, OpeningHandle handle) noexcept;

/// How long the kernel may cache a node's attributes, and a name.
double node_seconds(const Node& node) noexcept;
double absence_seconds(const Node& directory) noexcept;

}  // namespace reshardfs
