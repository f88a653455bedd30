// SPDX-License-Identifier: Apache-2.0
#include "view/control/control_json.h"

#include <algorithm>

#include "base/text/text.h"
#include "base/version.h"
#include "conversion/option_words.h"
#include "report/report_command.h"

namespace reshardfs {
namespace {

std::optional<std::string> text_of(const std::optional<std::filesystem::path>& path) {
  return path ? std::optional(path->string()) : std::nullopt;
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

ConversionFacts facts_of(const ViewContext& context) {
  const CheckpointSet& checkpoint = context.target->source().checkpoint();
  ConversionFacts facts{
      .options = option_facts(context.options),
      .source_format = std::string(checkpoint.format().name),
      .source_files = checkpoint.files().size(),
      .source_parameters = context.target->source().parameters().size(),
      .destination_ranks = context.target->rank_count(),
      .shown_ranks = context.ranks.size(),
      .casts = context.options.casts,
      .whole_model = context.whole != nullptr,
      .warnings = context.warnings,
      .notes = context.notes,
  };
  if (!checkpoint.step().empty()) facts.step = checkpoint.step();
  for (const OutputFormat format : context.formats) {
    facts.formats.emplace_back(word_of(kFormatWords, format));
  }
  return facts;
}

}  // namespace

OptionFacts option_facts(const ConversionOptions& options) {
  return {.source = options.source.path.string(),
          .src_strategy = options.source.sizes.empty() ? text_of(options.source.strategy)
                                                       : options.source.sizes.text,
          .dst_strategy =
              options.dst_sizes.empty() ? text_of(options.dst_strategy) : options.dst_sizes.text,
          .opened = utc_now()};
}

ReportSubject report_subject(const ViewContext& context) {
  const std::string& step = context.target->source().checkpoint().step();
  return {context.target,
          context.ranks,
          ParameterRoles(context.model.state_prefixes, context.model.states),
          facts_of(context),
          report_command(context.options, step),
          rank_files(context.files)};
}

void write_members(JsonWriter& json, const OptionFacts& facts) {
  json.member("version", kVersion);
  json.member("source", facts.source);
  json.member_or_null("src_strategy", facts.src_strategy);
  json.member_or_null("dst_strategy", facts.dst_strategy);
  json.member("opened", facts.opened);
}

void write_members(JsonWriter& json, const ConversionFacts& facts) {
  write_members(json, facts.options);
  json.member("source_format", facts.source_format);
  json.member("source_files", facts.source_files);
  json.member("source_parameters", facts.source_parameters);
  json.member_or_null("step", facts.step);
  json.member("destination_ranks", facts.destination_ranks);
  json.member("shown_ranks", facts.shown_ranks);
  json.texts("formats", facts.formats);
  json.texts("casts", facts.casts);
  json.member("whole_model", facts.whole_model);
  json.texts("warnings", facts.warnings);
  json.texts("notes", facts.notes);
}

void write_activity(JsonWriter& json, const CounterValues& values) {
  json.open_object();
  json.open_object("requests");
  for (std::size_t i = 0; i < kOperationNames.size(); ++i) {
    json.member(kOperationNames.at(i), values.requests.at(i));
  }
  json.close_object();
  json.member("bytes_delivered", values.bytes_delivered());
  json.member("bytes_read_from_sources", values.source_bytes());
  json.member("source_reads", values.source_reads());
  json.member("source_changes", values.source_changes);
  json.member("replica_reads", values.replica_reads);
  json.member("reads_in_flight", values.reads_in_flight);
  json.open_object("read_errors");
  for (std::size_t i = 0; i < kReadErrorNames.size(); ++i) {
    if (values.read_errors.at(i) == 0) continue;
    json.member(kReadErrorNames.at(i), values.read_errors.at(i));
  }
  json.close_object();
  json.close_object();
}

std::vector<Rank> ranks_of(const std::vector<SourceTraffic>& traffic) {
  std::vector<Rank> ranks;
  for (const SourceTraffic& source : traffic) {
    if (ranks.empty() || ranks.back() != source.rank) ranks.push_back(source.rank);
  }
  return ranks;
}

void write_plan(JsonWriter& json, Rank rank, const std::vector<SourceTraffic>& traffic) {
  json.open_object();
  json.member("rank", rank);
  json.numbers("needed_ranks", ranks_of(traffic));
  json.objects("sources", traffic, [&](const SourceTraffic& source) {
    json.member("rank", source.rank);
    json.member("file", source.file);
    json.member("bytes", source.bytes);
  });
  json.close_object();
}

}  // namespace reshardfs
