// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reshardfs/conversion.h"

#include "base/process/mount_record.h"
#include "base/version.h"
#include "view/view.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

const std::filesystem::path kCase = std::filesystem::path(RESHARDFS_GOLDEN_DIR) / "dp2tp2_to_tp4";

ConversionOptions options() {
  ConversionOptions options;
  options.source.path = kCase / "src";
  options.source.strategy = kCase / "src_strategy.ckpt";
  options.dst_strategy = kCase / "dst_strategy.ckpt";
  options.prefix = "ckpt_";
  options.unmatched = Unmatched::kSource;
  return options;
}

std::string text_of(const VirtualFile& file) {
  const auto present = file.snapshot();
  const VirtualFile& shown = present != nullptr ? *present : file;
  std::string text(static_cast<std::size_t>(shown.size()), '\0');
  shown.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::map<std::string, std::string> control_files(const Conversion& conversion) {
  std::map<std::string, std::string> texts;
  for (const OutputFile& output : conversion.files()) {
    if (output.hidden) texts[output.path] = text_of(*output.file);
  }
  return texts;
}

std::vector<std::string> keys_of(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

using Keys = std::vector<std::string>;
const Keys kActivity{"requests",       "bytes_delivered", "bytes_read_from_sources", "source_reads",
                     "source_changes", "replica_reads",   "reads_in_flight",         "read_errors"};

/// Programs read it, and it was written by nlohmann's library: it must not change.
void is_as_the_library_writes_it(const std::string& text) {
  EXPECT_EQ(text, Json::parse(text).dump(2) + "\n");
}

TEST(ControlView, StatusHasTheFormThatItAlwaysHad) {
  const Conversion conversion = Conversion::open(options());
  const std::string text = control_files(conversion).at(".reshardfs/status.json");
  is_as_the_library_writes_it(text);
  const Json status = Json::parse(text);
  EXPECT_EQ(keys_of(status), (Keys{"version",
                                   "source",
                                   "src_strategy",
                                   "dst_strategy",
                                   "opened",
                                   "source_format",
                                   "source_files",
                                   "source_parameters",
                                   "step",
                                   "destination_ranks",
                                   "shown_ranks",
                                   "formats",
                                   "casts",
                                   "whole_model",
                                   "warnings",
                                   "notes",
                                   "pid",
                                   "mount",
                                   "source_changed",
                                   "uptime_seconds",
                                   "activity"}));
  EXPECT_EQ(status.at("version"), kVersion);
  EXPECT_EQ(status.at("source"), options().source.path.string());
  EXPECT_EQ(status.at("dst_strategy"), options().dst_strategy->string());
  EXPECT_EQ(status.at("source_files"), 4);
  EXPECT_EQ(status.at("destination_ranks"), 4);
  EXPECT_EQ(status.at("formats"), Json({"ckpt"}));
  EXPECT_EQ(status.at("casts"), Json::array());
  EXPECT_EQ(status.at("whole_model"), true);
  EXPECT_EQ(status.at("warnings"), Json(conversion.warnings()));
  EXPECT_EQ(status.at("notes"), Json(conversion.notes()));
  EXPECT_TRUE(status.at("source_changed").is_null());
  EXPECT_EQ(keys_of(status.at("activity")), kActivity);
}

TEST(ControlView, StatusTellsOfTheMount) {
  const MountRecord before = mount_record();
  MountRecord record;
  record.upgrades = 2;
  record.mounted_at = 1'700'000'000;
  record.last_program = "9.8";
  record.refusal = "\xff";
  record.requests.taken = 3;
  set_mount_record(record);
  const std::string text = text_of(*all_steps_status(options()).file);
  set_mount_record(before);
  is_as_the_library_writes_it(text);
  const Json status = Json::parse(text);
  EXPECT_EQ(keys_of(status),
            (Keys{"version", "source", "src_strategy", "dst_strategy", "opened", "step", "pid",
                  "mount", "source_changed", "uptime_seconds", "activity"}));
  EXPECT_EQ(status.at("step"), "all");
  const Json& mount = status.at("mount");
  EXPECT_EQ(keys_of(mount),
            (Keys{"version", "pid_namespace", "mounted_at", "upgrades", "crash_restarts",
                  "handed_over_at", "handed_over_from", "replacements", "replacing", "reloads",
                  "reload_refused", "reload_requests"}));
  EXPECT_EQ(mount.at("upgrades"), 2);
  EXPECT_EQ(mount.at("mounted_at"), 1'700'000'000);
  EXPECT_TRUE(mount.at("handed_over_at").is_null());
  EXPECT_EQ(mount.at("handed_over_from"), "9.8");
  EXPECT_EQ(mount.at("reload_refused"), "\xef\xbf\xbd");
  EXPECT_EQ(keys_of(mount.at("reload_requests")),
            (Keys{"taken", "to_replace", "answered", "granted", "replaced"}));
  EXPECT_EQ(mount.at("reload_requests").at("taken"), 3);
}

TEST(ControlView, PlanHasTheFormThatItAlwaysHad) {
  const Conversion conversion = Conversion::open(options());
  const std::string text = control_files(conversion).at(".reshardfs/plan.json");
  is_as_the_library_writes_it(text);
  Json ranks = Json::array();
  for (std::int64_t rank = 0; rank < conversion.rank_count(); ++rank) {
    Json needed = Json::array();
    Json sources = Json::array();
    for (const SourceTraffic& source : conversion.traffic(Rank(rank))) {
      if (needed.empty() || needed.back() != source.rank.number()) {
        needed.push_back(source.rank.number());
      }
      sources.push_back(
          {{"rank", source.rank.number()}, {"file", source.file}, {"bytes", source.bytes}});
    }
    ranks.push_back({{"rank", rank}, {"needed_ranks", needed}, {"sources", sources}});
  }
  EXPECT_EQ(Json::parse(text), Json({{"ranks", ranks}}));
}

TEST(SourceAttribute, HasTheFormThatItAlwaysHad) {
  const Conversion conversion = Conversion::open(options());
  const std::string text = conversion.files().front().file->attribute("source").value();
  const Json sources = Json::parse(text);
  EXPECT_EQ(text, sources.dump());
  EXPECT_EQ(keys_of(sources), (Keys{"files", "parameters"}));
  EXPECT_EQ(keys_of(sources.at("files").at(0)), (Keys{"file", "rank", "bytes"}));
  std::uint64_t bytes = 0;
  for (const auto& [name, pieces] : sources.at("parameters").items()) {
    for (const Json& piece : pieces) {
      EXPECT_EQ(keys_of(piece), piece.contains("count")
                                    ? (Keys{"file", "offset", "length", "count", "stride"})
                                    : (Keys{"file", "offset", "length"}));
      bytes += piece.at("length").get<std::uint64_t>() * piece.value("count", std::uint64_t{1});
    }
  }
  std::uint64_t of_files = 0;
  for (const Json& file : sources.at("files")) of_files += file.at("bytes").get<std::uint64_t>();
  EXPECT_GT(bytes, 0U);
  EXPECT_EQ(bytes, of_files);
}

}  // namespace
}  // namespace reshardfs
