// SPDX-License-Identifier: Apache-2.0
/// A checkpoint as training left it: one file for each rank, or several parts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reshardfs/rank.h"

#include "cache/object_key.h"
#include "checkpoint/ranks/rank_file.h"
#include "format/encrypted/encrypted.h"
#include "format/input_format.h"
#include "format/listed_items.h"
#include "storage/source_tree.h"

namespace reshardfs {

class Catalogue;
struct Completeness;
struct Discovery;
struct FoundFile;

struct CheckpointOptions {
  /// Path pattern below the source directory, with {rank} and optionally {step}, `*` and `?`
  /// within one path component; empty: the known patterns are tried in order.
  std::string pattern{};
  /// "latest", or the step's name as inspect prints it ("9_50").
  std::string step = "latest";
  /// Check every file's CRC trailer while opening.
  bool check_crc = false;
  /// How encrypted .ckpt files are read; nullptr: there are none.
  std::shared_ptr<const Decryption> decryption{};
  /// Leave nothing about the indexes for later, however many there are.
  bool examine_all = false;
  /// Refuse symbolic links below the source; the source itself may be one, as the user named it.
  bool no_symlinks = false;
  /// Of a source on a server: see listed_once(). nullptr: nothing has been listed yet.
  SourceTreePtr listed{};
  /// Of the files of several runs or models, which ones: see series.h. Empty: there must be one.
  std::string prefix{};
  /// What messages call the option that sets `prefix`.
  std::string prefix_option = "--src-prefix";
};

/// Opens a file, decrypting if it is to be; its index is not read.
/// @throws what open_file() and open_plain() throw.
RankFile open_rank_file(const FoundFile& found, const CheckpointOptions& options);

class CheckpointSet {
 public:
  /// Finds the files of the step, opens them and reads their indexes (in parallel). Of large sets
  /// a part of that may be left to the first read of each file: see read_indexes().
  /// @param path a directory with a directory or file for each rank, or one checkpoint file.
  /// @throws Error kMissing, kBadInput, kIo: names the file or directory.
  static CheckpointSet open(const std::filesystem::path& path, const CheckpointOptions& options);

  /// A set of files that are open already.
  /// @param catalogue what the set records of its layouts itself; nullptr if it does not.
  /// @param identity see identity()
  /// @throws Error kBadInput if there is none, two of one rank are not different parts, or two
  ///         parts hold the same parameter, but for boxes of it; kUnsupported if one has boxes
  ///         that no catalogue places.
  explicit CheckpointSet(std::vector<RankFile> files,
                         std::shared_ptr<const Catalogue> catalogue = nullptr,
                         std::optional<ObjectKey> identity = std::nullopt);

  /// Ascending by rank, then by part. A parameter is in one file of a rank at most, but for one
  /// that is there in boxes.
  const std::vector<RankFile>& files() const noexcept { return files_; }
  /// The (first) file of a rank, or nullptr if there is none.
  const RankFile* find(Rank rank) const noexcept;
  /// All files of a rank, ascending by part; empty if there is none.
  std::span<const RankFile> files_of(Rank rank) const noexcept;
  /// Those of `wanted` that have no file, ascending.
  std::vector<Rank> missing_ranks(const RankRange& wanted) const;
  /// Where the files are: what was opened.
  const std::filesystem::path& root() const noexcept { return root_; }

  /// The step that was taken ("10_50"), or empty if the names carry none.
  const std::string& step() const noexcept { return step_; }
  /// All steps that the set holds, oldest first.
  const std::vector<std::string>& steps() const noexcept { return steps_; }
  /// The newest modification time of the files, nanoseconds since the epoch.
  std::int64_t mtime_ns() const noexcept;
  /// The format of the files.
  const InputFormat& format() const { return input_format_of(files_.front().path); }
  /// What the set records of its layouts itself; nullptr if it does not.
  const std::shared_ptr<const Catalogue>& catalogue() const noexcept { return catalogue_; }
  /// Tensors that cannot be shown, and why: by the set's metadata, and by what opening saw of the
  /// files.
  std::vector<RefusedTensor> refused() const;
  /// Tells its bytes from those of all other sets; nothing if there is no cache on disk to keep
  /// anything by it, or that is not certain.
  const std::optional<ObjectKey>& identity() const noexcept { return identity_; }
  /// Whether that is all that was saved, and what states it; of a set that was not opened as one,
  /// nothing.
  const Completeness& completeness() const noexcept { return *completeness_; }
  /// Gives it what was found out before it was made.
  void set_completeness(Completeness statement);
  /// What --src-prefix names to take the same run's files again, whatever lies beside them by then;
  /// empty: the set has no runs to choose from.
  const std::string& series() const noexcept { return series_; }
  /// What may surprise, one line each.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  /// Choices that were made and are worth a line in the log: the pattern, the step, ignored files.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  void require_one_place_for_each_name() const;
  void require_places(const Discovery& found) const;
  void require_boxes_to_be_placed() const;

  std::vector<RankFile> files_;
  std::filesystem::path root_;
  std::string step_;
  std::vector<std::string> steps_;
  std::shared_ptr<const Catalogue> catalogue_;
  std::vector<RefusedTensor> unreadable_;
  std::string series_;
  std::vector<std::string> notes_;
  std::vector<std::string> warnings_;
  std::optional<ObjectKey> identity_;
  std::shared_ptr<const Completeness> completeness_;  ///< never null
};

}  // namespace reshardfs
