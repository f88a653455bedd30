// SPDX-License-Identifier: Apache-2.0
/// One page about a conversion, for people, and what it and a mount's status.json state of the
/// conversion: facts that never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion_options.h"
#include "reshardfs/virtual_file.h"

#include "base/process/counters.h"
#include "plan/target/target_table.h"
#include "report/parameter_role.h"

namespace reshardfs {

/// The options' values, and when the conversion was opened. Does not name the key file.
struct OptionFacts {
  std::string source{};
  // Or the sizes that they are derived from.
  std::optional<std::string> src_strategy{};
  std::optional<std::string> dst_strategy{};
  std::string opened{};
};

struct ConversionFacts {
  OptionFacts options{};
  std::string source_format{};
  std::size_t source_files = 0;
  std::size_t source_parameters = 0;
  std::optional<std::string> step{};
  std::int64_t destination_ranks = 0;
  std::size_t shown_ranks = 0;
  std::vector<std::string> formats{};  ///< of the ranks' files
  std::vector<std::string> casts{};
  bool whole_model = false;
  std::vector<std::string> warnings{};
  std::vector<std::string> notes{};
};

/// A file of a target rank.
struct ReportFile {
  std::string path;  ///< "rank_0/checkpoint_0.ckpt"
  std::shared_ptr<const VirtualFile> file;
};

/// What a page is about. Small: the page is made from it when someone asks.
struct ReportSubject {
  std::shared_ptr<const TargetTable> target;
  std::vector<Rank> ranks;  ///< those that are shown
  ParameterRoles roles;
  ConversionFacts facts;
  std::vector<std::string> command;  ///< makes a page about the same conversion
  std::vector<ReportFile> files;
};

/// What the page of a mount says of the moment in which it is opened, as HTML.
struct ReportMoment {
  std::string reads;  ///< the section on what the mount has done so far
  std::string time;
};

ReportMoment report_moment(const CounterValues& activity);

/// In the place of each text of a moment, in its order, this gives a page that others can be made
/// from: no page has it, as neither XML nor JSON can.
inline constexpr char kReportGap = '\0';

/// Writes the page: HTML with its pictures, styles and script in it, that loads nothing. A policy
/// in it forbids any other script or style, and any connection.
/// @param moment of a mount; nothing: it is of none.
void write_report(const ReportSubject& subject, const std::optional<ReportMoment>& moment,
                  const TextSink& out);

}  // namespace reshardfs
