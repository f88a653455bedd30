// SPDX-License-Identifier: Apache-2.0
/// What the answers to the kernel's requests have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "fuse/errno_mapping.h"
#include "fuse/libfuse.h"
#include "fuse/served_tree.h"

namespace reshardfs {

using TreePtr = std::shared_ptr<const Tree>;

inline ServedTree& served(fuse_req_t request) {
  return *static_cast<ServedTree*>(fuse_req_userdata(request));
}

/// Logs the exception that is being handled, with the path.
void log_failure(ServedTree& served, fuse_ino_t inode, const char* operation) noexcept;

/// What `make` returns, or the errno of what it throws.
template <typename Make>
Reply reply_of(ServedTree& served, fuse_ino_t inode, const char* operation, Make& make) noexcept {
  try {
    return make();
  } catch (...) {
    const int error = errno_of_current_exception();
    log_failure(served, inode, operation);
    return Reply::error(error);
  }
}

/// Answers at once with what `make` returns. For what does not wait.
template <typename Make>
void answer(fuse_req_t request, fuse_ino_t inode, const char* operation, Make&& make) noexcept {
  reply_of(served(request), inode, operation, make).send(request);
}

/// Answers with what `make` returns when its turn has come. For what may wait.
/// @param key of the storage queue.
template <typename MakeKey, typename Make>
void answer_in_turn(fuse_req_t request, fuse_ino_t inode, const char* operation, WaitClass kind,
                    MakeKey&& key, Make&& make) noexcept {
  ServedTree& all = served(request);
  KillableRequest::Ptr waiting;
  try {
    waiting = KillableRequest::watch(request, is_killed);
    all.storage.submit(waiting, kind, std::forward<MakeKey>(key),
                       [&all, inode, operation, make = std::forward<Make>(make)]() mutable {
                         return reply_of(all, inode, operation, make);
                       });
  } catch (...) {
    const int error = errno_of_current_exception();
    log_failure(all, inode, operation);
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

/// Takes an opening out of the table, before the answer that it is closed.
/// @return its tree. Nothing if there was none, or if the mount is being handed over: whoever goes
///         on with it answers, and ends the opening.
std::optional<std::uint64_t> take_opening(fuse_req_t request, OpeningHandle handle) noexcept;

/// The key of work that reads no sources of its own.
inline StorageQueue::Key no_key() {
  return {};
}

/// How long the kernel may keep what it knows of a node, and of a name.
double node_seconds(const Node& node) noexcept;
double absence_seconds(const Node& directory) noexcept;

}  // namespace reshardfs
