// SPDX-License-Identifier: Apache-2.0
/// A checkpoint as training saved it: one file for each rank, or several parts.
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
#include "checkpoint/second_copies.h"
#include "format/encrypted/encrypted.h"
#include "format/input_format.h"
#include "format/listed_items.h"
#include "format/torch/torch_save.h"
#include "storage/source_tree.h"

namespace reshardfs {

class Catalogue;
struct Completeness;
struct Discovery;
struct FoundFile;
struct SetFaults;
struct SetFormat;

struct CheckpointOptions {
  /// Path pattern below the source directory, with {rank} and optionally {step}, `*` and `?`
  /// within one path component; empty: the known patterns are tried in order.
  std::string pattern{};
  /// "latest", or the step's name as inspect prints it ("9_50").
  std::string step = "latest";
  /// Check every file's CRC trailer while opening.
  bool check_crc = false;
  /// Decrypts encrypted .ckpt files; nullptr: there are none.
  std::shared_ptr<const Decryption> decryption{};
  /// Compare all indexes while opening, instead of leaving a part to later reads.
  bool examine_all = false;
  /// Refuse symbolic links below the source; the source itself may be one, as the user named it.
  bool no_symlinks = false;
  /// The list of a source on a server: see listed_once(). nullptr: it has not been listed yet.
  SourceTreePtr listed{};
  /// Selects one of several runs or models: see series.h. Empty: there must be only one.
  std::string prefix{};
  /// The name, in messages, of the option that sets `prefix`.
  std::string prefix_option = "--src-prefix";
  /// Takes only what is saved below this key, whose names then begin behind it. Empty: all.
  std::string state_key{};
  /// The name, in messages, of the option that sets `state_key`.
  std::string state_key_option = "--state-key";
  /// Weights in 8-bit floats with the scales of their blocks are read as BFloat16: see
  /// dequantize().
  bool dequantize = false;
  /// "nvfp4": see quantize_to_nvfp4(); empty: not.
  std::string quantize{};
  /// The config.json that states the blocks, or its directory; empty: the one beside the files.
  std::filesystem::path model_config{};
  /// How many files are opened at once; 0: as many as suit the source.
  std::size_t threads = 0;
};

/// How the files of ranks or of a whole model were found.
struct FoundBy {
  std::string pattern{};     ///< of the ranks' files; empty: the source is one model
  std::string index{};       ///< the file that lists the model's; empty: none does
  std::string metadata{};    ///< of the index, as NameMapDirectory has it
  bool are_counted = false;  ///< whether the model's files count each other
};

class CheckpointSet {
 public:
  /// Finds the files of the step, opens them and reads their indexes (in parallel). In large sets,
  /// comparing indexes may be left to the first read of each file: see read_indexes().
  /// @param path a directory with a directory or file for each rank, or one checkpoint file.
  /// @throws Error kMissing, kBadInput, kIo: names the file or directory.
  static CheckpointSet open(const std::filesystem::path& path, const CheckpointOptions& options);

  /// The same with the files that can be read, all of them looked at anew.
  /// @param faults gets what is wrong with the others, and what is not thrown.
  /// @return nullptr if none can be read.
  /// @throws Error if no files are found, or if they are no set at all.
  static std::shared_ptr<CheckpointSet> open_readable(const std::filesystem::path& path,
                                                      const CheckpointOptions& options,
                                                      SetFaults& faults);

  /// A set of files that are already open.
  /// @param catalogue the layouts that the set itself records; nullptr: none.
  /// @param identity see identity()
  /// @throws Error kBadInput if there is no file, two files of one rank are not different parts, or
  ///         two parts hold the same parameter other than as boxes; kUnsupported if a file has
  ///         boxes that no catalogue places.
  explicit CheckpointSet(std::vector<RankFile> files,
                         std::shared_ptr<const Catalogue> catalogue = nullptr,
                         std::optional<ObjectKey> identity = std::nullopt);

  /// Ascending by rank, then by part. A parameter is in at most one file of a rank, unless it is
  /// stored in boxes.
  const std::vector<RankFile>& files() const noexcept { return files_; }
  /// The (first) file of a rank, or nullptr if there is none.
  const RankFile* find(Rank rank) const noexcept;
  /// All files of a rank, ascending by part; empty if there is none.
  std::span<const RankFile> files_of(Rank rank) const noexcept;
  /// The ranks in `wanted` that have no file, ascending.
  std::vector<Rank> missing_ranks(const RankRange& wanted) const;
  /// The path that was opened.
  const std::filesystem::path& root() const noexcept { return root_; }

  /// The chosen step ("10_50"); empty if the names carry none.
  const std::string& step() const noexcept { return step_; }
  /// All steps that the set holds, oldest first.
  const std::vector<std::string>& steps() const noexcept { return steps_; }
  /// The newest modification time of the files, nanoseconds since the epoch.
  std::int64_t mtime_ns() const noexcept;
  /// The format of the files.
  const InputFormat& format() const {
    return files_.front().of_torch() ? torch_format() : input_format_of(files_.front().path);
  }
  /// The layouts that the set itself records; nullptr: none.
  const std::shared_ptr<const Catalogue>& catalogue() const noexcept { return catalogue_; }
  /// Tensors that cannot be shown, and why: according to the set's metadata, or found while opening
  /// the files.
  std::vector<RefusedTensor> refused() const;
  /// Distinguishes its bytes from those of all other sets; nullopt if there is no cache on disk
  /// that needs it, or it is not certain.
  const std::optional<ObjectKey>& identity() const noexcept { return identity_; }
  /// Whether the set is complete, and what proves it; empty for a set that was made from open
  /// files.
  const Completeness& completeness() const noexcept { return *completeness_; }
  /// Whether --state-key can select in it: not in sets whose metadata knows parameters by name.
  bool takes_state_key() const;
  /// All empty if a kind has recognized the source, and of files that were already open.
  const FoundBy& found_by() const noexcept { return found_by_; }
  /// The kind that recognized the source; nullptr for files of ranks and whole models.
  const SetFormat* described_by() const noexcept { return described_by_; }
  /// The same; of a directory of steps, the kind of the step.
  const SetFormat* step_described_by() const noexcept {
    return step_described_by_ != nullptr ? step_described_by_ : described_by_;
  }
  /// Sets what was found out before the set was made.
  void set_completeness(Completeness statement);
  /// The value of --src-prefix that selects the same run's files again, even if others have
  /// appeared beside them; empty: there is only one run.
  const std::string& series() const noexcept { return series_; }
  /// "a LoRA adapter of '/models/qwen3'" where the set says of itself that its weights are no
  /// model's; empty: it does not.
  const std::string& adapter() const noexcept { return adapter_; }
  /// What the names of optimizer states begin with, in sets that tell states from weights; the
  /// weight's name follows.
  const std::vector<std::string>& state_prefixes() const noexcept { return state_prefixes_; }
  /// Compares what the set has twice; empty: nothing is known to be there twice.
  const CompareCopies& compare_copies() const noexcept { return compare_copies_; }
  /// What files of torch.save have beside tensors.
  const SavedBeside& beside() const noexcept { return beside_; }
  /// Facts that may surprise the user, one line each.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  /// Choices that were made and are worth a line in the log: the pattern, the step, ignored files.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  class Opening;

  /// Of a tensor in several files that cannot be read, the first reason.
  static std::vector<RefusedTensor> once_each(std::vector<std::vector<RefusedTensor>>& by_file);
  void require_one_place_for_each_name() const;
  void require_boxes_to_be_placed() const;
  /// Applies --state-key to files that were read without it. @throws Error as take_below().
  void select_below(const CheckpointOptions& options);
  /// Shows quantized weights as BFloat16, for files that were read without.
  /// @param path of the source.
  /// @throws Error kBadInput if scales and blocks do not fit the weights, kMissing without blocks.
  void show_weights(const std::filesystem::path& path, const CheckpointOptions& options);

  std::vector<RankFile> files_;
  std::filesystem::path root_;
  std::string step_;
  std::vector<std::string> steps_;
  std::shared_ptr<const Catalogue> catalogue_;
  std::vector<RefusedTensor> unreadable_;
  SavedBeside beside_;
  FoundBy found_by_;
  const SetFormat* described_by_ = nullptr;
  const SetFormat* step_described_by_ = nullptr;
  bool kind_takes_state_key_ = true;
  bool applies_state_key_ = false;
  std::string series_;
  std::string adapter_;
  std::vector<std::string> state_prefixes_;
  CompareCopies compare_copies_;
  std::vector<std::string> notes_;
  std::vector<std::string> warnings_;
  std::optional<ObjectKey> identity_;
  std::shared_ptr<const Completeness> completeness_;  ///< never null
};

}  // namespace reshardfs
