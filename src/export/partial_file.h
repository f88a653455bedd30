// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "export/folder.h"

namespace reshardfs {

/// The name that a file has beside its own until it is complete: `.NAME.reshardfs-partial`, or if
/// that would be too long for a file system, a hash in place of NAME.
std::string partial_name(const std::string& name);

/// Which processes may write a file of the same name in the same directory at the same time.
enum class Writers : std::uint8_t {
  kOne,   ///< only this process, which locks the file with the partial name; without a lock, it
          ///< was left by a killed run
  kMany,  ///< anybody: each has a partial name of its own
};

/// Removes partial files that killed processes left. A process that still writes one cannot commit
/// it afterwards.
/// @param names of the files, in this directory.
/// @param writers kOne: those that have a journal stay, to go on with.
/// @return the names of those that stay.
std::set<std::string> remove_partial_files(const Folder& folder, const std::set<std::string>& names,
                                           Writers writers = Writers::kMany);

/// A file that gets its name only when all of it is on disk. Until then it has another name in the
/// same directory, and is removed unless it is committed or deliberately left.
class PartialFile {
 public:
  /// @param size the final size in bytes, or 0 if it is unknown.
  /// @throws Error kIo; kUsage if another process has the only one, see Writers.
  PartialFile(Folder folder, std::string name, std::uint64_t size, Writers writers = Writers::kOne);
  /// Goes on with the one that a process before this one has left.
  /// @return nullptr if there is none of this size that is a file of its own.
  /// @throws Error kUsage if the process still runs.
  static std::unique_ptr<PartialFile> resume(const Folder& folder, const std::string& name,
                                             std::uint64_t size);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile();

  /// May be called from several threads. @throws Error kIo.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Whether all of `out` could be read. May be called from several threads.
  bool read_at(std::uint64_t offset, std::span<std::byte> out) const noexcept;
  /// Has the disk begin with bytes that were written, so that sync() waits for fewer. May be called
  /// from several threads.
  void begin_sync(std::uint64_t offset, std::uint64_t length) noexcept;
  /// Waits until the bytes are on disk. @throws Error kIo.
  void sync();
  /// Gives it its name. The directory is not synced.
  /// @param replace whether a file of that name may be replaced. What is neither a regular file nor
  ///        a link never is.
  /// @throws Error kUsage if there is one and it may not, kIo; with ENOENT if somebody has removed
  ///         the partial file.
  void commit(bool replace);
  /// The file itself, open for writing.
  int descriptor() const noexcept { return file_.get(); }
  /// Leaves it as a killed process would, for resume().
  void leave() noexcept { temporary_.clear(); }

 private:
  PartialFile(Folder folder, std::string name)
      : folder_(std::move(folder)), name_(std::move(name)) {}
  void lock() const;
  int rename_to_name(bool replace) noexcept;
  void remove() noexcept;

  Folder folder_;
  std::string name_;
  std::string temporary_;  ///< empty: committed, or left
  Descriptor file_;
};

/// Gives a small file its contents, in one step; any number of processes may do so at once. The
/// directory is not synced.
/// @throws Error kIo.
void publish_text(const Folder& folder, const std::string& name, const std::string& text);

}  // namespace reshardfs
