// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "reshardfs/virtual_file.h"

#include "storage/byte_source.h"
#include "vfs/inode_number.h"

namespace reshardfs {

/// The source files that the kernel reads itself, without this process, for files that equal them.
/// The kernel reads an inode in one way at a time, from one backing file, so the first opening
/// decides for all others until the last one is closed. Every member function may be called from
/// any number of threads at once.
class BackingFiles {
 public:
  /// The kernel's list of backing files.
  struct Kernel {
    /// @return the file's number, above 0, or a negative errno.
    std::function<std::int32_t(int descriptor)> add;
    std::function<void(std::int32_t number)> remove;
  };

  /// The number of no file.
  static constexpr std::int32_t kNone = 0;

  explicit BackingFiles(Kernel kernel) : kernel_(std::move(kernel)) {}

  /// Checks whether the kernel accepts a file at all, and reports if it does not.
  void try_out();

  /// A program opens the file. May wait for storage.
  /// @return the number of the source that equals the file, or kNone: reads come to this process.
  /// @throws Error kChanged if the source has changed, or kIo; then it is not opened.
  std::int32_t open(InodeNumber inode, const VirtualFile& file);
  /// Call this once for each successful open().
  /// @return the source that the kernel has read, or nullptr.
  ByteSourcePtr close(InodeNumber inode) noexcept;

 private:
  struct Backing {
    std::int32_t number = kNone;
    ByteSourcePtr source;  ///< nullptr: reads come to this process
  };
  struct Way {
    std::uint64_t openings = 0;  ///< guarded by mutex_
    std::mutex deciding;         ///< before mutex_; held while storage is waited for
    // Written under both locks, so that either suffices for reading.
    bool decided = false;
    Backing backing;
  };

  std::shared_ptr<Way> enter(InodeNumber inode);
  Backing find_backing(const VirtualFile& file);
  void refused(int error, const std::string& what) noexcept;

  const Kernel kernel_;
  std::atomic<bool> warned_ = false;
  std::mutex mutex_;
  std::unordered_map<InodeNumber, std::shared_ptr<Way>> ways_;  ///< of the open files; guarded
};

}  // namespace reshardfs
