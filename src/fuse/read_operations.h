// SPDX-License-Identifier: Apache-2.0
/// The answers to what may wait for storage: reads, and attributes that are computed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "reshardfs/virtual_file.h"

#include "fuse/killable_request.h"
#include "fuse/libfuse.h"
#include "vfs/inode_number.h"

namespace reshardfs {

class ServedTree;

struct ReadRequest {
  KillableRequest::Ptr request;
  InodeNumber inode = 0;
  /// What the opening sees, if the file's contents change. It is kept here: of a killed program
  /// the file may be closed before the read has ended.
  std::shared_ptr<const VirtualFile> snapshot;
  std::uint64_t offset = 0;
  std::size_t size = 0;
  std::chrono::steady_clock::time_point arrived{};
};

struct AttributeRequest {
  KillableRequest::Ptr request;
  InodeNumber inode = 0;
  std::string name;  ///< without the prefix
  std::size_t size = 0;
};

/// These answer a request, or find that it has been given up.
void run_read(ServedTree& served, const ReadRequest& read) noexcept;
void run_getxattr(ServedTree& served, const AttributeRequest& query) noexcept;

/// Adds read, getxattr and listxattr.
void add_read_operations(fuse_lowlevel_ops& ops);

}  // namespace reshardfs
