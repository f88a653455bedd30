// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "reshardfs/virtual_file.h"

#include "base/process/counters.h"
#include "fuse/queue/wait_permits.h"
#include "vfs/tree.h"

namespace reshardfs {

/// A part of a file, up to its end.
struct FilePart {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// A file that a program has opened: all that its reads need.
struct OpenFile {
  InodeNumber inode = 0;  ///< 0: not known, of a text that another process has opened
  std::shared_ptr<const VirtualFile> file;
  std::uint64_t size = 0;
  ViewNumber view = kOtherView;
  /// What its reads wait for; nothing: they are answered from memory.
  std::optional<WaitClass> wait{};
  bool backed = false;  ///< counted by Passthrough::files

  /// @param node of a file.
  explicit OpenFile(const Node& node)
      : inode(node.inode),
        file(node.file),
        size(node.size),
        view(node.view),
        wait(wait_for(*node.file)) {}
  explicit OpenFile(std::shared_ptr<const VirtualFile> text) { hold(std::move(text)); }

  /// From now on its contents are these.
  void hold(std::shared_ptr<const VirtualFile> snapshot) {
    file = std::move(snapshot);
    size = file->size();
    wait = wait_for(*file);
  }

  /// The part of a read before the file's end.
  FilePart part(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const std::uint64_t begin = std::min(size, offset);
    return {begin, std::min(bytes, size - begin)};
  }

 private:
  static std::optional<WaitClass> wait_for(const VirtualFile& file) noexcept {
    const Effort effort = file.effort();
    if (effort == Effort::kNone) return std::nullopt;
    return effort == Effort::kReads ? WaitClass::kRead : WaitClass::kMade;
  }
};

using OpenFilePtr = std::shared_ptr<const OpenFile>;

}  // namespace reshardfs
