// SPDX-License-Identifier: Apache-2.0
/// The main entry point: shows a source checkpoint under a target strategy.
///
///   auto conversion = reshardfs::Conversion::open({
///       .source = {.path = "ckpt", .strategy = "src.ckpt"}, .dst_strategy = "dst.ckpt"});
///   for (const auto& output : conversion.files()) { output.file->read_at(0, buffer); }
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reshardfs/conversion_options.h"
#include "reshardfs/export.h"
#include "reshardfs/rank.h"
#include "reshardfs/virtual_file.h"

namespace reshardfs {

class TensorSet;

/// One file of the target checkpoint.
struct OutputFile {
  std::string
      path;  ///< relative, e.g. "rank_0/checkpoint_0.ckpt" or "merged/checkpoint_merged.ckpt"
  std::shared_ptr<const VirtualFile> file;
  bool hidden = false;  ///< can be opened by name, but is not listed
};

struct NodeFetches;

/// Immutable after open(); every member function may be called from any number of threads.
class RESHARDFS_EXPORT Conversion {
 public:
  /// Opens the source, and checks that every byte of every destination file has a source. It reads
  /// little tensor data: parameters that no strategy lays out, to compare the ranks; at most 2,000
  /// samples of 4 KiB, to compare replicas; and without a source strategy the first 4 KiB of each
  /// copy.
  /// @throws Error of any kind; its text says what is wrong, where, and what to do.
  static Conversion open(const ConversionOptions& options);

  Conversion(Conversion&&) noexcept;
  Conversion& operator=(Conversion&&) noexcept;
  ~Conversion();

  /// The number of destination ranks, including those that are not shown.
  std::int64_t rank_count() const;
  /// The number of parameters in the destination, over all ranks.
  std::size_t parameter_count() const;
  /// How many of them ConversionOptions::casts converts.
  std::size_t cast_count() const;
  /// The destination's strategy as MindSpore's JSON; empty if there is none.
  /// @throws Error kUnsupported for a name that is not UTF-8.
  std::string target_strategy() const;
  /// All files shown, rank_0 first. A path may contain several directories.
  const std::vector<OutputFile>& files() const;
  /// The tensors of destination rank `rank` (tensor.h). Takes time in proportion to the number of
  /// parameters; reads no file.
  /// @throws Error kUsage if there is no such rank, or it is not among the options' ranks; kMissing
  ///         if no source file has a part of its data.
  TensorSet tensors(Rank rank) const;
  /// The tensors of the whole model, as in the files of merged/.
  /// @throws Error kUsage if the model cannot be shown as a whole; its text says why.
  TensorSet whole_tensors() const;
  /// What destination rank `rank` reads if it prefers the lowest replica; ascending by source rank
  /// and part.
  /// @throws Error kUsage if there is no such rank.
  std::vector<SourceTraffic> traffic(Rank rank) const;
  /// What each of `nodes` nodes fetches from the source (node_fetches.h) if the shown ranks are
  /// spread over them in order. The first nodes have one rank more if the ranks do not divide
  /// evenly.
  /// @throws Error kUsage if `nodes` is less than 1 or more than the number of shown ranks.
  std::vector<NodeFetches> node_fetches(std::int64_t nodes) const;
  /// Draws a heat map (SVG) of how many bytes each shown rank reads from each source rank, as
  /// traffic() counts them. It draws many ranks in groups, so that the document stays small.
  void draw_traffic(const TextSink& out) const;
  /// Draws (SVG) from which source rank each part of a parameter's slices comes.
  /// @param name the parameter's name in the destination.
  /// @throws Error kMissing if the destination has no such parameter.
  void draw_parameter(const std::string& name, const TextSink& out) const;
  /// Writes one self-contained HTML page about the conversion, with these drawings and all
  /// parameters. Its size grows with the number of parameters.
  void write_report(const TextSink& out) const;
  /// All source files of the step, ascending by rank and part.
  std::vector<ConversionSource> source_files() const;
  /// The source's newest modification time, nanoseconds since the epoch.
  std::int64_t mtime_ns() const;
  /// The step that was read; empty if the file names carry none.
  const std::string& step() const;
  /// The src_prefix that selects the same run's files again; empty: there is only one run.
  const std::string& series() const;
  /// All steps of the source, oldest first; empty if the file names carry none.
  const std::vector<std::string>& steps() const;
  /// Things that the user should know (parameters left out, ...), one line each.
  const std::vector<std::string>& warnings() const;
  /// What remains unproven of whether the source is complete: "that these are all files". Empty:
  /// nothing.
  const std::string& unstated() const noexcept;
  /// Options that select nothing (see SourceRequest::allow_unmatched), one line each. They are
  /// also among the warnings.
  const std::vector<std::string>& unmatched() const;
  /// Why the view that would contain this file or directory is not shown; empty if no such view was
  /// left out.
  std::string why_absent(const std::string& path) const;
  /// Parameters without a layout of their own that were placed by a rule, one line each.
  const std::vector<std::string>& rules() const;
  /// Choices that reshardfs made (files, steps, and rules()), one line each.
  const std::vector<std::string>& notes() const;

 private:
  struct State;
  friend struct ConversionAccess;
  explicit Conversion(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace reshardfs
