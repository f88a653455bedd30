// SPDX-License-Identifier: Apache-2.0
#include "view/control/status_json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/text/text.h"
#include "base/version.h"
#include "conversion/option_words.h"
#include "report/report_command.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

Json path_or_null(const std::optional<std::filesystem::path>& path) {
  return path ? Json(path->string()) : Json();
}

/// rank_<r>/NAME, not what is in a directory below.
bool is_rank_file(const OutputFile& output) {
  const std::string& path = output.path;
  return path.starts_with("rank_") && std::count(path.begin(), path.end(), '/') == 1;
}

std::vector<ReportFile> rank_files(const std::vector<OutputFile>& files) {
  std::vector<ReportFile> found;
  for (const OutputFile& output : files) {
    if (is_rank_file(output)) found.push_back({output.path, output.file});
  }
  return found;
}

}  // namespace

nlohmann::ordered_json option_facts_json(const ConversionOptions& options) {
  return {{"version", kVersion},
          {"source", options.source.string()},
          {"src_strategy", path_or_null(options.src_strategy)},
          {"dst_strategy", options.dst_sizes.empty() ? path_or_null(options.dst_strategy)
                                                     : Json(options.dst_sizes)},
          {"opened", utc_now()}};
}

nlohmann::ordered_json facts_json(const ViewContext& context) {
  const CheckpointSet& checkpoint = context.target->source().checkpoint();
  const ConversionOptions& options = context.options;
  Json formats = Json::array();
  for (const OutputFormat format : context.formats) {
    formats.push_back(word_of(kFormatWords, format));
  }
  Json json = option_facts_json(options);
  json.update({{"source_format", checkpoint.format().name},
               {"source_files", checkpoint.files().size()},
               {"source_parameters", context.target->source().parameters().size()},
               {"step", checkpoint.step().empty() ? Json() : Json(checkpoint.step())},
               {"destination_ranks", context.target->rank_count()},
               {"shown_ranks", context.ranks.size()},
               {"formats", std::move(formats)},
               {"casts", options.casts},
               {"whole_model", context.whole != nullptr},
               {"warnings", context.warnings},
               {"notes", context.notes}});
  return json;
}

ReportSubject report_subject(const ViewContext& context) {
  const std::string& step = context.target->source().checkpoint().step();
  return {context.target,
          context.ranks,
          ParameterRoles(context.options.state_prefixes, context.model.states),
          facts_json(context),
          report_command(context.options, step),
          rank_files(context.files)};
}

nlohmann::ordered_json activity_json(const CounterValues& values) {
  Json requests = Json::object();
  for (std::size_t i = 0; i < kOperationNames.size(); ++i) {
    requests[std::string(kOperationNames.at(i))] = values.requests.at(i);
  }
  Json errors = Json::object();
  for (std::size_t i = 0; i < kReadErrorNames.size(); ++i) {
    if (values.read_errors.at(i) > 0) {
      errors[std::string(kReadErrorNames.at(i))] = values.read_errors.at(i);
    }
  }
  return {{"requests", std::move(requests)},
          {"bytes_delivered", values.bytes_delivered},
          {"bytes_read_from_sources", values.source_bytes},
          {"source_reads", values.source_reads},
          {"source_changes", values.source_changes},
          {"replica_reads", values.replica_reads},
          {"reads_in_flight", values.reads_in_flight},
          {"read_errors", std::move(errors)}};
}

}  // namespace reshardfs
