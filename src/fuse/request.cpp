// SPDX-License-Identifier: Apache-2.0
#include "fuse/request.h"

#include <exception>
#include <string>

#include <spdlog/spdlog.h>

#include "reshardfs/error.h"

#include "fuse/attributes.h"

namespace reshardfs {
namespace {

/// For what never changes.
constexpr double kLongSeconds = 24.0 * 60 * 60;
/// For what another generation may have otherwise.
constexpr double kShortSeconds = 1.0;

std::string text_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

void log_failure(const ServedTree& served, fuse_ino_t inode, const char* operation) noexcept {
  try {
    spdlog::error("{} of '/{}': {}", operation, printable(served.source.current()->path(inode)),
                  text_of_current_exception());
  } catch (...) {
    // No memory for a message: the program that asked still gets its errno.
  }
}

const Node* find_or_answer(fuse_req_t request, const Tree& tree, fuse_ino_t inode) noexcept {
  const Node* node = tree.find(inode);
  if (node == nullptr) fuse_reply_err(request, ESTALE);
  return node;
}

double node_seconds(const Node& node) noexcept {
  return node.brief ? kShortSeconds : kLongSeconds;
}

double absence_seconds(const Node& directory) noexcept {
  return directory.changing ? kShortSeconds : kLongSeconds;
}

fuse_entry_param entry_of(fuse_req_t request, const Node& node) noexcept {
  fuse_entry_param entry{};
  entry.ino = node.inode;
  entry.generation = 1;
  entry.attr = attributes(node, served(request).options);
  entry.attr_timeout = node_seconds(node);
  entry.entry_timeout = node_seconds(node);
  return entry;
}

}  // namespace reshardfs
