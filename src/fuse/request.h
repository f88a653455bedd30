// SPDX-License-Identifier: Apache-2.0
/// What the answers to the kernel's requests have in common.
#pragma once

#include <cerrno>
#include <memory>
#include <utility>

#include "fuse/errno_mapping.h"
#include "fuse/libfuse.h"
#include "fuse/operations.h"

namespace reshardfs {

using TreePtr = std::shared_ptr<const Tree>;

inline ServedTree& served(fuse_req_t request) {
  return *static_cast<ServedTree*>(fuse_req_userdata(request));
}

inline TreePtr current_tree(fuse_req_t request) {
  return served(request).source.current();
}

/// Logs the exception that is being handled, with the path.
void log_failure(const ServedTree& served, fuse_ino_t inode, const char* operation) noexcept;

/// Runs `reply`, which answers the request as its last act, or throws before; then the request is
/// answered with an errno. So every request gets exactly one answer.
template <typename Reply>
void answer(fuse_req_t request, fuse_ino_t inode, const char* operation, Reply&& reply) noexcept {
  int error = EIO;
  try {
    std::forward<Reply>(reply)();
    return;
  } catch (...) {
    error = errno_of_current_exception();
    log_failure(served(request), inode, operation);
  }
  fuse_reply_err(request, error);
}

/// The tree's node, or nullptr if this generation has none. Then the request is answered with
/// ESTALE, on which the kernel walks the path again to see what is there now.
const Node* find_or_answer(fuse_req_t request, const Tree& tree, fuse_ino_t inode) noexcept;

/// How long the kernel may keep what it knows of a node, and of a name.
double node_seconds(const Node& node) noexcept;
double absence_seconds(const Node& directory) noexcept;

fuse_entry_param entry_of(fuse_req_t request, const Node& node) noexcept;

}  // namespace reshardfs
