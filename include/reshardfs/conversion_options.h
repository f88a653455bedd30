// SPDX-License-Identifier: Apache-2.0
/// What a conversion shows and how, and the facts about its source.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/rank.h"
#include "reshardfs/source_request.h"

namespace reshardfs {

/// What happens to a parameter that only one of the two strategies lays out.
enum class Unmatched : std::uint8_t {
  kDrop,       ///< left out, with one warning that names them
  kSource,     ///< the raw slice of source rank (destination rank modulo source stage devices)
  kReplicate,  ///< the full tensor on every destination rank
  kError,      ///< refused
};

/// The file format of a destination rank.
enum class OutputFormat : std::uint8_t {
  kCkpt,         ///< MindSpore's .ckpt
  kSafetensors,  ///< .safetensors
  kTorch,        ///< .pt: a dictionary of tensors, as torch.save writes it
};

/// The parts of the directory tree that a conversion shows.
enum class ViewKind : std::uint8_t {
  kRanks,   ///< rank_<r>/: the target checkpoint
  kMerged,  ///< two single files and kHub; with `formats`, only the single files of these formats
  kMergedCkpt,         ///< merged/<prefix>merged.ckpt: the whole model
  kMergedSafetensors,  ///< merged/<prefix>merged.safetensors
  kMergedTorch,        ///< merged/<prefix>merged.pt
  kHub,                ///< merged/model-*.safetensors and their index
  kParams,             ///< merged/params/: a NumPy file for each parameter
  kHuggingFace,        ///< hf/: weights and companions as transformers and vLLM load them
  kUnified,            ///< unified/: what load_distributed_checkpoint(format="safetensors") reads
  kIteration,          ///< iteration/: MindSpore Transformers' Checkpoint 2.0
  kDcp,                ///< dcp/: a directory of torch.distributed.checkpoint
  kDcpHuggingFace,     ///< dcp-hf/: the same in its Hugging Face form, as safetensors
  kMegatron,           ///< megatron/: a checkpoint of Megatron-Core, from which a run starts
  kHyper,              ///< hyper/: steps of hyper-parallel's Trainer, from which a run starts
  kVllm,               ///< vllm/: a file for each rank, as vLLM's sharded_state loader reads them
  kStrategy,           ///< strategy/: both strategies as JSON and text
};

/// The release of PyTorch whose class names the files in dcp/ use.
enum class TorchRelease : std::uint8_t {
  k2,    ///< 2.0 and later
  k113,  ///< 1.13
};

/// Of MindSpore Transformers.
enum class IterationRelease : std::uint8_t {
  k20,  ///< up to 2.0: metadata.json is indented
  k21,  ///< 2.1 and later: metadata.json is one line
};

inline constexpr std::int64_t kMostDcpShards = 99'999;

/// What the user states of a training for kHyper, where the source does not.
struct TrainerStatement {
  std::optional<std::int64_t> step{};   ///< that it had taken
  std::optional<std::int64_t> epoch{};  ///< as hyper-parallel's Trainer counts them
  /// The number of parameter groups of an optimizer that counts steps by group, as the Trainer's
  /// own AdamW does; nullopt: it counts them by parameter, as torch.optim does.
  std::optional<std::int64_t> param_groups{};
};

struct ConversionOptions {
  SourceRequest source{};
  std::optional<std::filesystem::path> dst_strategy{};
  /// Instead of dst_strategy: sizes ("tp=8,dp=2"), from which derive_strategy() makes the strategy.
  DerivedSizes dst_sizes{};
  /// With dst_sizes: the number of layers of each pipeline stage; empty: as dst_sizes says.
  std::vector<std::int64_t> stage_layers{};
  /// A JSON file with an object that maps names in the source to names in the destination; empty:
  /// names stay. With maps, it has the names that the last map shows; so have all options below.
  std::filesystem::path name_map{};
  /// Destination files are called rank_<r>/<prefix><r>.ckpt.
  std::string prefix = "checkpoint_";
  Unmatched unmatched = Unmatched::kDrop;
  /// Compare samples of the replicas. A caller that reads no tensor data can turn this off.
  bool check_replicas = true;
  /// Destination ranks to show; empty: all.
  std::vector<Rank> ranks{};
  /// Globs over parameter names (those in the destination).
  std::vector<std::string> include{};
  std::vector<std::string> exclude{};
  /// Leave out the state of training: optimizers (including `source.state_prefixes`), schedulers
  /// and the training loop. It is recognized by name; see reshardfs-conversion(7).
  bool weights_only = false;
  /// Accept a source that lacks layers or tensors according to its own numbers, or does not fit
  /// them, with a warning. Without this it is refused.
  bool partial = false;
  /// Accept options of views that are not shown, without a warning: they may be meant for other
  /// commands.
  bool allow_idle_view_options = false;
  /// The files of each rank directory; empty: one file, in the source's format.
  std::vector<OutputFormat> formats{};
  /// What to show; empty: everything but kIteration, kDcp, kDcpHuggingFace, kMegatron, kHyper and
  /// kVllm,
  /// kMergedTorch only if `formats` has kTorch, and kHuggingFace only if a map shows the side
  /// "Hugging Face".
  std::vector<ViewKind> views{};
  /// The `format` that safetensors metadata states: "ms" (MindSpore) or "pt" (PyTorch).
  std::string safetensors_metadata = "ms";
  /// Tensor data in safetensors files begins at a multiple of this many bytes: 8, 16, ... 4096.
  /// nullopt: 8 in files that equal MindSpore's own, byte for byte, and 4096 in all others.
  std::optional<std::uint64_t> align{};
  /// Without `align`: the data begins at the same place in a page of 4096 bytes as in the source,
  /// if that is the same for most bytes. File systems can share whole pages then.
  bool as_in_source = false;
  /// Most bytes of tensors in one file of kHub, kHuggingFace and kHyper; a larger tensor has a file
  /// of its own.
  std::uint64_t shard_bytes = 5'000'000'000;
  /// Number of files in dcp/, dcp-hf/ and megatron/, over which the model is spread evenly; at most
  /// kMostDcpShards. 0: one file for each destination rank.
  std::int64_t dcp_shards = 0;
  TorchRelease dcp_release = TorchRelease::k2;
  /// The release whose bytes kIteration has. All releases load both.
  IterationRelease iteration_release = IterationRelease::k20;
  TrainerStatement trainer{};
  /// Show rank_<r>/params/ too.
  bool rank_params = false;
  /// "[GLOB:]FROM->TO": element types to convert, e.g. "fp32->bf16", "*.weight:fp32->fp16".
  std::vector<std::string> casts{};
  /// Append MindSpore's CRC trailer to .ckpt files.
  bool append_crc = false;
};

/// How much a destination file reads from one source file. A source rank may have several files
/// (parts).
struct SourceTraffic {
  Rank rank{};
  std::string file;         ///< path
  std::uint64_t bytes = 0;  ///< of element data; at least 1
};

/// A source file of a conversion, as it was when it was opened.
struct ConversionSource {
  std::filesystem::path path;
  std::uint64_t bytes = 0;  ///< of the whole file; of an encrypted file: as decrypted
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;    ///< st_ctime: when it was last written, linked or renamed
  std::uint64_t device = 0;     ///< st_dev: may change when its file system is mounted again
  std::uint64_t inode = 0;      ///< st_ino
  std::uint64_t index_sum = 0;  ///< checksum of the parameters' names, types, shapes and offsets
};

/// Receives a text in pieces. An exception that it throws stops the writer and reaches its caller.
using TextSink = std::function<void(std::string_view)>;

}  // namespace reshardfs
