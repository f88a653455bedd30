// SPDX-License-Identifier: Apache-2.0
/// The files that an opening reads beside the tensors' own: configurations, indexes, tables,
/// strategies, name maps, companions of a model. Each of them may change what is shown, so each one
/// is recorded where it is read.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/source_tree.h"

namespace reshardfs {

/// A file as it was when it was read.
struct Input {
  std::filesystem::path path{};
  std::string content{};  ///< a checksum of its bytes; empty: they have not been read
  /// Of a file whose bytes are read later: its size, its times and its inode number; empty: it is
  /// read no more.
  std::string version{};

  friend auto operator<=>(const Input&, const Input&) = default;
};

/// A small file with its bytes, so that it can be read again as it was.
struct SavedInput {
  std::filesystem::path path{};
  std::string bytes{};
  std::int64_t mtime_ns = 0;
  FileStamp stamp{};
};

/// The files that one opening has read. Any number of threads may use it at once.
class Inputs {
 public:
  /// Files of more bytes are not saved, nor are more files than have kMostSavedBytes together.
  static constexpr std::uint64_t kMostBytesOfFile = std::uint64_t{64} << 10U;
  static constexpr std::uint64_t kMostSavedBytes = std::uint64_t{1} << 20U;

  Inputs() = default;
  /// Files are read as another opening has saved them, whatever has become of them since.
  explicit Inputs(const std::vector<SavedInput>& saved);

  /// A file that has been read completely.
  /// @throws Error kChanged if it was recorded before in another version.
  void add_read(const std::filesystem::path& path, const ByteSource& file,
                std::string_view content);
  /// A file that stays open, and is read when its bytes are needed. @throws Error as add_read().
  void add_open(const std::filesystem::path& path, const ByteSource& file);
  /// What was derived from files of the program and is used in the place of a file.
  /// @param sum of it.
  void add_derived(const std::string& name, std::string sum);

  /// All of them, sorted by path.
  std::vector<Input> list() const;

  /// Those that have been read completely and are small, for an opening in another process.
  std::vector<SavedInput> saved() const;
  /// The file as it was saved; nullptr: it was not.
  ByteSourcePtr find_saved(const std::filesystem::path& path) const;

 private:
  struct Known {
    std::string content{};
    std::string version{};        ///< once it stays open
    std::string local_version{};  ///< of a file of this machine: all openings have the same
    std::optional<SavedInput> saved{};
  };

  /// With mutex_.
  Known& known(const std::filesystem::path& path, const ByteSource& file);

  std::map<std::filesystem::path, SavedInput> as_they_were_;  ///< of another opening
  mutable std::mutex mutex_;
  std::map<std::filesystem::path, Known> files_;  ///< guarded
  std::uint64_t saved_bytes_ = 0;                 ///< guarded
};

using InputsPtr = std::shared_ptr<Inputs>;

/// The same tree, but read_small_file() records in `inputs` what it reads through it.
/// @param tree nullptr: files are opened by their paths.
/// @param inputs nullptr: nothing is recorded.
SourceTreePtr recording(SourceTreePtr tree, InputsPtr inputs);

/// The tree without the record: for files that change no byte that is shown, such as trackers of
/// steps, and for comparisons that only refuse or warn.
SourceTreePtr unrecorded(const SourceTreePtr& tree);

/// Where the tree records; nullptr: nowhere.
InputsPtr inputs_of(const SourceTreePtr& tree);

/// Whether symbolic links are refused in the tree.
bool refuses_links(const SourceTreePtr& tree);

/// Records a file of the tree that has been opened in another way than by read_small_file(), if the
/// tree records. @throws Error as Inputs::add_read().
void record_open(const std::filesystem::path& path, const ByteSource& file,
                 const SourceTreePtr& tree);

}  // namespace reshardfs
