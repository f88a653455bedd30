// SPDX-License-Identifier: Apache-2.0
/// A view is one way to show the converted checkpoint as files. To add one: a file with a builder
/// function, and a line in view_registry.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"
#include "reshardfs/error.h"

#include "base/deferred_files.h"
#include "base/engine.h"
#include "conversion/conversion_tables.h"
#include "plan/target/target_table.h"
#include "view/files/safetensors_file.h"

namespace reshardfs {

/// Files that the options ask for but that are not shown.
struct AbsentFiles {
  std::string path;  ///< of a file, or of a directory, which ends with '/'
  std::string why;
};

/// Files of a view that are made when they are first needed.
struct DeferredView {
  /// How many of the other files come before them: of the view's own, and later of all.
  std::size_t position = 0;
  std::string directory;  ///< in which they are, e.g. "merged/params"
  std::shared_ptr<const DeferredFiles> files;
};

/// The input of a view. All of it except `warnings` outlives the files.
struct ViewContext {
  const ConversionOptions& options;
  /// The formats of the rank files: options.formats, or the source's format.
  const std::vector<OutputFormat>& formats;
  /// The destination ranks to show, ascending.
  const std::vector<Rank>& ranks;
  std::shared_ptr<const TargetTable> target;
  /// See ConversionTables::whole.
  std::shared_ptr<const TargetTable> whole;
  /// Receives lines for the user, as the following lists receive what is the view's own.
  std::vector<std::string>& warnings;
  /// The lines that the user has got so far.
  const std::vector<std::string>& notes;
  const ShownModel& model;
  /// The files of all views that have a kind; for these themselves, none.
  const std::vector<OutputFile>& files;
  const std::shared_ptr<SafetensorsSizes>& sizes;
  /// Receives those of the views' files that their list does not have.
  std::vector<DeferredView>& deferred;
  std::vector<AbsentFiles>& absent;
  /// Receives the files that views read.
  const InputsPtr& inputs;

  /// Called by a view that cannot make its files. Adds a warning if the user has not named the
  /// view.
  /// @param path as in AbsentFiles.
  /// @throws Error `error`, if the user has named the view.
  void leave_out(ViewKind kind, const std::string& path, const Error& error) const;
  /// Warns of a table's parameters that are no arrays, such as texts.
  /// @param where what they are left out of, because it has tensors alone.
  void tell_left_out(const TargetTable& table, const std::string& where) const;
  /// Warns of a table's tensors without elements, which .ckpt files cannot hold.
  void tell_empty(const TargetTable& table, const std::string& where) const;
};

/// Called while others are, if the view has a kind.
using ViewBuilder = std::vector<OutputFile> (*)(const ViewContext&);

struct View {
  /// The kind with which users ask for it; nullopt: it is always shown.
  std::optional<ViewKind> kind;
  ViewBuilder build;
};

/// All views, in the order in which their files are listed.
const std::vector<View>& view_registry();

std::vector<OutputFile> rank_files_view(const ViewContext& context);
std::vector<OutputFile> rank_params_view(const ViewContext& context);
std::vector<OutputFile> merged_ckpt_view(const ViewContext& context);
std::vector<OutputFile> merged_safetensors_view(const ViewContext& context);
std::vector<OutputFile> merged_torch_view(const ViewContext& context);
std::vector<OutputFile> merged_shards_view(const ViewContext& context);
std::vector<OutputFile> hugging_face_view(const ViewContext& context);
std::vector<OutputFile> params_view(const ViewContext& context);
std::vector<OutputFile> unified_view(const ViewContext& context);
std::vector<OutputFile> iteration_view(const ViewContext& context);
std::vector<OutputFile> dcp_view(const ViewContext& context);
std::vector<OutputFile> dcp_hugging_face_view(const ViewContext& context);
std::vector<OutputFile> megatron_view(const ViewContext& context);
std::vector<OutputFile> hyper_view(const ViewContext& context);
std::vector<OutputFile> vllm_view(const ViewContext& context);
std::vector<OutputFile> strategy_view(const ViewContext& context);
std::vector<OutputFile> control_view(const ViewContext& context);

/// The control files about the process rather than one conversion.
std::vector<OutputFile> process_files();
/// status.json of a mount that shows all steps.
OutputFile all_steps_status(const ConversionOptions& options);
/// `ready` of such a mount: whether the opened steps are unchanged.
OutputFile all_steps_ready();

/// Whose safetensors files a view shows.
enum class SafetensorsKind : std::uint8_t {
  /// MindSpore writes such files: with the format "ms" and unconverted types, these equal its own
  /// byte for byte.
  kMindSpores,
  kOwn,  ///< no other program's bytes are promised
};

/// Access to the files of a conversion, for code inside reshardfs.
struct ConversionAccess {
  /// Conversion::files() without those that are deferred.
  static const std::vector<OutputFile>& listed(const Conversion& conversion);
  static const std::vector<DeferredView>& deferred(const Conversion& conversion);
  /// Of the files that were read beside the tensors, those that decide which parameters there are,
  /// and where their bytes lie.
  static const std::vector<Input>& inputs(const Conversion& conversion);
  /// And those that views alone have read: companions of the model.
  static const std::vector<Input>& companions(const Conversion& conversion);
  /// The texts in the headers of the source's files, by key.
  RESHARDFS_ENGINE static std::map<std::string, std::string> metadata(const Conversion& conversion);
  /// The small ones among all of them, with their bytes.
  static const std::vector<SavedInput>& saved(const Conversion& conversion);
  /// Conversion::open(), with files as another opening has saved them. Others must not have
  /// changed.
  static Conversion open(const ConversionOptions& options, const std::vector<SavedInput>& saved);
};

/// The common parts of a table's safetensors files, made from the options. Unless these state an
/// alignment, tensors begin where MindSpore's own begin if the files equal them, and else at a
/// multiple of 4096: loaders that read with O_DIRECT, or into the memory of accelerators, move all
/// bytes again otherwise.
/// @param format "ms" or "pt".
std::shared_ptr<const SafetensorsFile::Common> safetensors_common(const ViewContext& context,
                                                                  const TargetTable& table,
                                                                  SafetensorsKind kind,
                                                                  const std::string& format);
/// The same without the texts among the parameters.
std::shared_ptr<const SafetensorsFile::Common> safetensors_common(const ViewContext& context,
                                                                  SafetensorsKind kind,
                                                                  const std::string& format);

}  // namespace reshardfs
