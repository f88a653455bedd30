// SPDX-License-Identifier: Apache-2.0
/// A view is one way to show the converted checkpoint as files. To add one: a file with a builder
/// function, and a line in view_registry.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"
#include "reshardfs/error.h"

#include "conversion/conversion_tables.h"
#include "plan/target/target_table.h"
#include "view/files/safetensors_file.h"

namespace reshardfs {

/// What is not shown although it was wanted.
struct AbsentFiles {
  std::string path;  ///< of a file, or of a directory with a '/' at its end
  std::string why;
};

/// What a view may use. All of it but `warnings` outlives the files.
struct ViewContext {
  const ConversionOptions& options;
  /// Of each rank's files: options.formats, or the source's own.
  const std::vector<OutputFormat>& formats;
  /// The destination ranks to show, ascending.
  const std::vector<Rank>& ranks;
  std::shared_ptr<const TargetTable> target;
  /// As of ConversionTables.
  std::shared_ptr<const TargetTable> whole;
  /// For lines the user should see.
  std::vector<std::string>& warnings;
  /// What the user has been told so far.
  const std::vector<std::string>& notes;
  const ShownModel& model;
  /// Of the views before it in view_registry().
  const std::vector<OutputFile>& files;
  std::vector<AbsentFiles>& absent;

  /// What a view calls that cannot make its files: a warning, if the view is one of many.
  /// @param path as in AbsentFiles.
  /// @throws Error the same, if the user has named the view.
  void leave_out(ViewKind kind, const std::string& path, const Error& error) const;
};

using ViewBuilder = std::vector<OutputFile> (*)(const ViewContext&);

struct View {
  /// With what it is asked for; nothing: it is always there.
  std::optional<ViewKind> kind;
  ViewBuilder build;
};

/// All views, in the order in which their files are listed.
const std::vector<View>& view_registry();

std::vector<OutputFile> rank_files_view(const ViewContext& context);
std::vector<OutputFile> rank_params_view(const ViewContext& context);
std::vector<OutputFile> merged_ckpt_view(const ViewContext& context);
std::vector<OutputFile> merged_safetensors_view(const ViewContext& context);
std::vector<OutputFile> merged_shards_view(const ViewContext& context);
std::vector<OutputFile> hugging_face_view(const ViewContext& context);
std::vector<OutputFile> params_view(const ViewContext& context);
std::vector<OutputFile> unified_view(const ViewContext& context);
std::vector<OutputFile> iteration_view(const ViewContext& context);
std::vector<OutputFile> dcp_view(const ViewContext& context);
std::vector<OutputFile> dcp_hugging_face_view(const ViewContext& context);
std::vector<OutputFile> strategy_view(const ViewContext& context);
std::vector<OutputFile> control_view(const ViewContext& context);

/// The control files that are about the process, not about one conversion.
std::vector<OutputFile> process_files();
/// status.json of a mount that shows all steps.
OutputFile all_steps_status(const ConversionOptions& options);
/// ready of such a mount: whether the steps that are opened are what they were.
OutputFile all_steps_ready();

/// The common parts of a table's safetensors files, as the options ask for them.
/// @param format "ms" or "pt".
std::shared_ptr<const SafetensorsFile::Common> safetensors_common(const ViewContext& context,
                                                                  const TargetTable& table,
                                                                  const std::string& format);
/// The same without the texts among the parameters.
std::shared_ptr<const SafetensorsFile::Common> safetensors_common(const ViewContext& context,
                                                                  const std::string& format);

}  // namespace reshardfs
