// SPDX-License-Identifier: Apache-2.0
/// .reshardfs/: what the mount is and does, for people and for monitoring. It answers to its name,
/// but is not listed, so that copies of the tree have the checkpoint alone.
#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>

#include <nlohmann/json.hpp>

#include "base/counters.h"
#include "base/version.h"
#include "plan/traffic.h"
#include "view/plan_json.h"
#include "view/recent_texts.h"
#include "view/text_file.h"
#include "view/view.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string utc(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> out{};
  const std::size_t length = std::strftime(out.data(), out.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {out.data(), length};
}

Json path_or_null(const std::optional<std::filesystem::path>& path) {
  return path ? Json(path->string()) : Json();
}

/// What the options say of a mount, whatever it shows. The key file is not named.
Json option_facts(const ConversionOptions& options) {
  return {{"version", kVersion},
          {"source", options.source.string()},
          {"src_strategy", path_or_null(options.src_strategy)},
          {"dst_strategy", options.dst_sizes.empty() ? path_or_null(options.dst_strategy)
                                                     : Json(options.dst_sizes)}};
}

/// What does not change while it is mounted.
Json facts(const ViewContext& context) {
  const CheckpointSet& checkpoint = context.target->source().checkpoint();
  const ConversionOptions& options = context.options;
  Json formats = Json::array();
  for (const OutputFormat format : context.formats) {
    formats.push_back(format == OutputFormat::kCkpt ? "ckpt" : "safetensors");
  }
  Json json = option_facts(options);
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

Json activity() {
  const CounterValues values = counters().values();
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
          {"reads_in_flight", values.reads_in_flight},
          {"read_errors", std::move(errors)}};
}

std::string plan_text(const TargetTable& target, const std::vector<std::int64_t>& ranks) {
  Json list = Json::array();
  for (const std::int64_t rank : ranks) list.push_back(plan_json(rank, traffic_of(target, rank)));
  return text({{"ranks", std::move(list)}});
}

/// The plan never changes, but looks at each cell of each rank: made when it is asked for.
class PlanText {
 public:
  PlanText(std::shared_ptr<const TargetTable> target, std::vector<std::int64_t> ranks)
      : target_(std::move(target)), ranks_(std::move(ranks)) {}
  PlanText(const PlanText&) = delete;
  PlanText& operator=(const PlanText&) = delete;
  ~PlanText() { recent_texts().forget(this); }

  std::string get() const {
    return *recent_texts().get(this, [this] { return plan_text(*target_, ranks_); });
  }

 private:
  std::shared_ptr<const TargetTable> target_;
  std::vector<std::int64_t> ranks_;
};

OutputFile control(const std::string& name, std::shared_ptr<const VirtualFile> file) {
  return {".reshardfs/" + name, std::move(file), /*hidden=*/true};
}

OutputFile status_file(Json known) {
  using std::chrono::steady_clock;
  known["opened"] = utc(std::chrono::system_clock::now());
  return control(
      "status.json", std::make_shared<LiveFile>([known, begin = steady_clock::now()] {
        Json json = known;
        json["pid"] = ::getpid();
        json["uptime_seconds"] =
            std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - begin).count();
        json["activity"] = activity();
        return text(json);
      }));
}

}  // namespace

std::vector<OutputFile> control_view(const ViewContext& context) {
  std::vector<OutputFile> files;
  files.push_back(status_file(facts(context)));
  files.push_back(control(
      "plan.json",
      std::make_shared<LiveFile>([plan = std::make_shared<PlanText>(
                                      context.target, context.ranks)] { return plan->get(); })));
  for (OutputFile& file : process_files()) files.push_back(std::move(file));
  return files;
}

OutputFile all_steps_status(const ConversionOptions& options) {
  Json json = option_facts(options);
  json["step"] = "all";
  return status_file(std::move(json));
}

std::vector<OutputFile> process_files() {
  return {
      control("metrics", std::make_shared<LiveFile>([] { return counters().prometheus_text(); })),
      control("version", std::make_shared<TextFile>(std::string("reshardfs ") + kVersion + "\n")),
  };
}

}  // namespace reshardfs
