// SPDX-License-Identifier: Apache-2.0
/// The main entry: a source checkpoint set seen under a target strategy.
///
///   auto conversion = reshardfs::Conversion::open({.source = "ckpt", .src_strategy = "src.ckpt",
///                                                  .dst_strategy = "dst.ckpt"});
///   for (const auto& output : conversion.files()) { output.file->read_at(0, buffer); }
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/export.h"
#include "reshardfs/model_map.h"
#include "reshardfs/rank.h"
#include "reshardfs/virtual_file.h"

namespace reshardfs {

class TensorSet;

/// What happens to a parameter that only one of the two strategies lays out.
enum class Unmatched : std::uint8_t {
  kDrop,       ///< left out, with one warning that names them
  kSource,     ///< the raw slice of source rank (destination rank modulo source stage devices)
  kReplicate,  ///< the full tensor on every destination rank
  kError,      ///< refused
};

/// What is read where several source ranks hold the same, by the strategy or as whole parameters.
enum class Replicas : std::uint8_t {
  kSame,   ///< the lowest rank's, others where it fails; refused if they are seen to differ
  kFirst,  ///< the lowest rank's, with one warning that names those that are seen to differ
  kOwn,    ///< destination rank r gets source rank r's
};

/// How a destination rank's parameters are written.
enum class OutputFormat : std::uint8_t {
  kCkpt,         ///< MindSpore's .ckpt
  kSafetensors,  ///< .safetensors
};

/// The parts of the tree.
enum class ViewKind : std::uint8_t {
  kRanks,       ///< rank_<r>/: the target checkpoint
  kMerged,      ///< the next three; if `formats` is set, the single files of these formats alone
  kMergedCkpt,  ///< merged/<prefix>merged.ckpt: the whole model
  kMergedSafetensors,  ///< merged/<prefix>merged.safetensors
  kHub,                ///< merged/model-*.safetensors and their index
  kParams,             ///< merged/params/: a NumPy file for each parameter
  kHuggingFace,        ///< hf/: weights and companions as transformers and vLLM load them
  kUnified,            ///< unified/: what load_distributed_checkpoint(format="safetensors") reads
  kIteration,          ///< iteration/: MindSpore Transformers' Checkpoint 2.0
  kDcp,                ///< dcp/: a directory of torch.distributed.checkpoint
  kDcpHuggingFace,     ///< dcp-hf/: the same in its Hugging Face form, as safetensors
  kStrategy,           ///< strategy/: both strategies as JSON and text
};

/// The release of PyTorch whose names dcp/ has for torch's classes.
enum class TorchRelease : std::uint8_t {
  k2,    ///< 2.0 and later
  k113,  ///< 1.13
};

inline constexpr std::int64_t kMostDcpShards = 99'999;

struct ConversionOptions {
  /// A directory with one directory or file for each rank, or one checkpoint file.
  std::filesystem::path source{};
  /// A strategy file (MindSpore's, or .toml rules) or a directory of stage files; nothing: what the
  /// checkpoint itself records; if it records nothing, every rank holds whole parameters.
  std::optional<std::filesystem::path> src_strategy{};
  /// Instead of src_strategy: sizes ("tp=4,pp=2"), where the shapes of the slices, model maps and a
  /// config.json prove which dimensions were cut.
  std::string src_sizes{};
  std::optional<std::filesystem::path> dst_strategy{};
  /// Instead of dst_strategy: sizes from which to derive it ("tp=8,dp=2"), see derive_strategy().
  std::string dst_sizes{};
  /// With dst_sizes: how many layers each pipeline stage has; empty: dst_sizes tells.
  std::vector<std::int64_t> stage_layers{};
  /// Without a source strategy: parameters that match one of these globs are cut along dimension 0,
  /// one slice a rank in rank order; all others must be whole and equal on every rank.
  std::vector<std::string> src_join{};
  /// Model maps: the source's tensors under the names and fusions of another model family. Names in
  /// all options below are then those that the last map shows.
  ModelMapOptions maps{};
  /// A JSON object, name in the source to name in the destination; empty: names stay.
  std::filesystem::path name_map{};
  /// More prefixes of optimizer states that are cut like the weight whose name follows; MindSpore's
  /// own (adam_m., adam_v., moments., ...) are known.
  std::vector<std::string> state_prefixes{};
  /// Destination files are called rank_<r>/<prefix><r>.ckpt.
  std::string prefix = "checkpoint_";
  /// See CheckpointOptions: where the source's files are, and which step is taken.
  std::string src_pattern{};
  std::string step = "latest";
  /// Where files of several runs or models lie in one directory: which ones are read, by what their
  /// names begin with. `*` says that different beginnings are of one run. Empty: there must be one.
  std::string src_prefix{};
  /// What becomes of parameters that only one of the two strategies lays out.
  Unmatched unmatched = Unmatched::kDrop;
  Replicas replicas = Replicas::kSame;
  /// Look whether replicas are the same, in samples. What reads no data of the tensors needs it
  /// not.
  bool check_replicas = true;
  /// Destination ranks to show; empty: all.
  std::vector<Rank> ranks{};
  /// Globs over parameter names (those in the destination).
  std::vector<std::string> include{};
  std::vector<std::string> exclude{};
  /// Leave out what training keeps beside the weights: states of optimizers (also those of
  /// `state_prefixes`), of schedulers and of the loop. Their names tell; see reshardfs(1).
  bool weights_only = false;
  /// Accept options that select nothing of this checkpoint (globs, prefixes, entries of the name
  /// map, casts, rules of strategies, options of views that are not shown): see unmatched(). They
  /// are refused otherwise.
  bool allow_unmatched = false;
  /// Accept only options of views that are not shown, without a word: they may be those of other
  /// commands.
  bool allow_idle_view_options = false;
  /// Check the CRCs that source files carry: reads all of these files, and refuses a damaged one.
  bool check_crc = false;
  /// Refuse symbolic links below the source (the source itself may be one).
  bool no_symlinks = false;
  /// A file that holds the key of an encrypted source, as raw bytes or hexadecimal digits.
  std::filesystem::path dec_key_file{};
  /// "AES-GCM", "AES-CBC" or "SM4-CBC".
  std::string dec_mode = "AES-GCM";

  /// The files of each rank directory; empty: one file, in the source's format.
  std::vector<OutputFormat> formats{};
  /// What to show; empty: everything but kIteration, kDcp and kDcpHuggingFace, and kHuggingFace
  /// only if a map shows the side "Hugging Face".
  std::vector<ViewKind> views{};
  /// The `format` that safetensors metadata states: "ms" (MindSpore) or "pt" (PyTorch).
  std::string safetensors_metadata = "ms";
  /// Tensor data in safetensors files begins at a multiple of this many bytes: 8, 16, ... 4096.
  std::uint64_t align = 8;
  /// merged/model-*.safetensors hold at most this many bytes of tensors, if more than one.
  std::uint64_t shard_bytes = 5'000'000'000;
  /// Files of dcp/ and dcp-hf/, over which the whole model is spread evenly, at most
  /// kMostDcpShards; 0: those of the destination's ranks.
  std::int64_t dcp_shards = 0;
  TorchRelease dcp_release = TorchRelease::k2;
  /// Show rank_<r>/params/ too.
  bool rank_params = false;
  /// "[GLOB:]FROM->TO": element types to convert, e.g. "fp32->bf16", "*.weight:fp32->fp16".
  std::vector<std::string> casts{};
  /// Append MindSpore's CRC trailer to .ckpt files.
  bool append_crc = false;
};

/// One file of the target checkpoint.
struct OutputFile {
  std::string
      path;  ///< relative, e.g. "rank_0/checkpoint_0.ckpt" or "merged/checkpoint_merged.ckpt"
  std::shared_ptr<const VirtualFile> file;
  bool hidden = false;  ///< answers to its name, but is not listed
};

struct NodeFetches;

/// What a destination file reads from one source file (a rank may have several: its parts).
struct SourceTraffic {
  Rank rank{};
  std::string file;         ///< path of the source file
  std::uint64_t bytes = 0;  ///< bytes of element data, at least 1
};

/// A source file of a conversion, as it was when it was opened.
struct ConversionSource {
  std::filesystem::path path;
  std::uint64_t bytes = 0;  ///< of the whole file; of an encrypted file: as decrypted
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;    ///< when it was last written, linked or renamed, as the kernel says
  std::uint64_t device = 0;     ///< st_dev: not the same after the next mount of its file system
  std::uint64_t inode = 0;      ///< st_ino
  std::uint64_t index_sum = 0;  ///< of its parameters' names, types, shapes and places
};

/// Takes a text piece by piece. What it throws ends the text.
using TextSink = std::function<void(std::string_view)>;

/// Immutable after open(); every member function may be called from any number of threads.
class RESHARDFS_EXPORT Conversion {
 public:
  /// Opens the source, and checks that every byte of every destination file has a source. Of tensor
  /// data it reads what no strategy lays out, to compare the ranks, and samples of replicas: 2,000
  /// reads of 4 KiB at most; without a source strategy the first 4 KiB of each copy in addition.
  /// @throws Error of any kind; its text says what, where and what to do.
  static Conversion open(const ConversionOptions& options);

  Conversion(Conversion&&) noexcept;
  Conversion& operator=(Conversion&&) noexcept;
  ~Conversion();

  /// Destination ranks, whether shown or not.
  std::int64_t rank_count() const;
  /// Parameters of the destination, whichever ranks hold them.
  std::size_t parameter_count() const;
  /// All files shown, rank_0 first. A path may hold several directories.
  const std::vector<OutputFile>& files() const;
  /// What destination rank `rank` holds, tensor by tensor (tensor.h). Costs a look at each
  /// parameter, and reads nothing.
  /// @throws Error kUsage if there is no such rank, or it is not among the options' ranks; kMissing
  ///         if no file has a part of what it holds.
  TensorSet tensors(Rank rank) const;
  /// The whole model, tensor by tensor: what the files in merged/ hold.
  /// @throws Error kUsage if there is no such whole; its text says why.
  TensorSet whole_tensors() const;
  /// What destination rank `rank` reads, ascending by source rank and part; lowest replica first
  /// choice.
  /// @throws Error kUsage if there is no such rank.
  std::vector<SourceTraffic> traffic(Rank rank) const;
  /// What each of `nodes` nodes fetches from the source (node_fetches.h) if the shown ranks are
  /// spread over them: neighbors on one node, as many on each, or on the last ones one less.
  /// @throws Error kUsage if there is no node, or no rank for one.
  std::vector<NodeFetches> node_fetches(std::int64_t nodes) const;
  /// Draws who reads how much from whom as a heat map of the shown ranks: an SVG document. Many
  /// ranks are drawn in groups, so that it stays small. Bytes as traffic() counts them.
  void draw_traffic(const TextSink& out) const;
  /// Draws from which source rank each part of a parameter's slices comes: an SVG document.
  /// @param name as in the destination.
  /// @throws Error kMissing if the destination has no such parameter.
  void draw_parameter(const std::string& name, const TextSink& out) const;
  /// A page about the conversion, with these pictures and all parameters: one HTML document that
  /// needs no other file. It grows with the number of parameters.
  void write_report(const TextSink& out) const;
  /// All source files of the step, ascending by rank and part.
  std::vector<ConversionSource> source_files() const;
  /// The source's newest modification time, nanoseconds since the epoch.
  std::int64_t mtime_ns() const;
  /// The step that was taken; empty if the file names carry none.
  const std::string& step() const;
  /// What src_prefix names to read the same run's files again; empty: there is nothing to choose.
  const std::string& series() const;
  /// All steps of the source, oldest first; empty if the file names carry none.
  const std::vector<std::string>& steps() const;
  /// Things that the user should know (parameters left out, ...), one line each.
  const std::vector<std::string>& warnings() const;
  /// Options that select nothing, as ConversionOptions::allow_unmatched accepts them, one line
  /// each. They are among the warnings, too.
  const std::vector<std::string>& unmatched() const;
  /// Why a view that would have a file of this path or the directory is not shown; empty if that is
  /// not the reason why there is none.
  std::string why_absent(const std::string& path) const;
  /// Parameters without a layout of their own that were placed by a rule, one line each.
  const std::vector<std::string>& rules() const;
  /// Choices made (files, steps, and rules()), one line each.
  const std::vector<std::string>& notes() const;

 private:
  struct State;
  explicit Conversion(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace reshardfs
