// SPDX-License-Identifier: Apache-2.0
/// What the user says of a source: where it is, which part of it is read, and what it means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/model_map.h"
#include "reshardfs/sizes.h"

namespace reshardfs {

/// Which copy is read where several source ranks hold the same slice or the same whole parameter.
enum class Replicas : std::uint8_t {
  kSame,   ///< the lowest rank's, another if that fails; refused if the copies prove to differ
  kFirst,  ///< the lowest rank's, with one warning that names the copies that prove to differ
  kOwn,    ///< destination rank r gets source rank r's
};

/// Every command that opens a source takes all of it.
struct SourceRequest {
  /// A directory with one directory or file for each rank, or one checkpoint file.
  std::filesystem::path path{};
  /// A strategy file (MindSpore's, or .toml rules) or a directory of stage files; nullopt: the
  /// layouts that the checkpoint itself records; if it records none, every rank holds whole
  /// parameters.
  std::optional<std::filesystem::path> strategy{};
  /// Instead of `strategy`: sizes ("tp=4,pp=2"), where the shapes of the slices, model maps and a
  /// config.json prove which dimensions were cut.
  DerivedSizes sizes{};
  /// Without a strategy: parameters that match one of these globs are cut along dimension 0,
  /// one slice a rank in rank order; all others must be whole and equal on every rank.
  std::vector<std::string> join{};
  /// Path pattern below the source directory, with {rank} and optionally {step}, `*` and `?`
  /// within one path component; empty: the known patterns are tried in order.
  std::string pattern{};
  /// "latest", or the step's name as inspect prints it ("9_50").
  std::string step = "latest";
  /// Selects files by the prefix of their names, for a directory with files of several runs or
  /// models. `*`: different prefixes belong to one run. Empty: all names must have the same prefix.
  std::string prefix{};
  /// Of files of torch.save: reads only the tensors that are saved below this key ("model", "a.b"),
  /// by their names behind it. Empty: all tensors, by their full names.
  std::string state_key{};
  /// Shows weights in 8-bit floats that have a scale for each block (`weight_scale_inv`) as
  /// BFloat16, and leaves the scales out. config.json states the blocks.
  bool dequantize = false;
  /// "nvfp4": shows weights in MXFP4 as NVFP4, without loss; other weights in few bits are refused.
  /// Empty: nothing is shown in another form.
  std::string quantize{};
  /// "OLD=NEW", in the patterns of model maps: new names for the tensors that match OLD, in this
  /// order. Strategies and the set's own metadata have the stored names, all else the new ones.
  std::vector<std::string> renames{};
  /// Patterns of tensors to leave out, by their new names.
  std::vector<std::string> drops{};
  /// Model maps, which show the source's tensors with the names and fusions of another model
  /// family.
  ModelMapOptions maps{};
  /// More prefixes of optimizer states that are cut like the weight whose name follows; MindSpore's
  /// own (adam_m., adam_v., moments., ...) are known.
  std::vector<std::string> state_prefixes{};
  Replicas replicas = Replicas::kSame;
  /// Check the CRCs in the source files. This reads each such file completely, and refuses a
  /// damaged one.
  bool check_crc = false;
  /// Refuse symbolic links below the source (the source itself may be one).
  bool no_symlinks = false;
  /// A file that holds the key of an encrypted source, as raw bytes or hexadecimal digits.
  std::filesystem::path dec_key_file{};
  /// "AES-GCM", "AES-CBC" or "SM4-CBC".
  std::string dec_mode = "AES-GCM";
  /// Accept options that select nothing in this checkpoint (globs, prefixes, entries of the
  /// name map, casts, rules of strategies, options of views that are not shown). Without this
  /// they are errors.
  bool allow_unmatched = false;
  /// What the names of options begin with, in messages about one of several sources: "a-" for
  /// --a-strategy and so on. Empty: --src-strategy, --map and so on.
  std::string side{};
};

}  // namespace reshardfs
