// SPDX-License-Identifier: Apache-2.0
/// .reshardfs/: what the mount is and does, for people and for monitoring. It answers to its name,
/// but is not listed, so that copies of the tree have the checkpoint alone.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/process/counters.h"
#include "base/process/mount_record.h"
#include "base/version.h"
#include "plan/traffic/traffic.h"
#include "report/page.h"
#include "storage/storage_figures.h"
#include "view/control/plan_json.h"
#include "view/control/status_json.h"
#include "view/control/watched_source.h"
#include "view/files/recent_texts.h"
#include "view/files/text_file.h"
#include "view/view.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string plan_text(const TargetTable& target, const std::vector<Rank>& ranks) {
  Json list = Json::array();
  for (const Rank rank : ranks) list.push_back(plan_json(rank, traffic_of(target, rank)));
  return text({{"ranks", std::move(list)}});
}

/// The plan never changes, but looks at each cell of each rank: made when it is asked for.
class PlanText {
 public:
  PlanText(std::shared_ptr<const TargetTable> target, std::vector<Rank> ranks)
      : target_(std::move(target)), ranks_(std::move(ranks)) {}
  PlanText(const PlanText&) = delete;
  PlanText& operator=(const PlanText&) = delete;
  ~PlanText() { recent_texts().forget(this); }

  SharedText get() const {
    const auto plan = recent_texts().get(this, [this] { return plan_text(*target_, ranks_); });
    SharedText text;
    text.append(plan, *plan);
    return text;
  }

 private:
  std::shared_ptr<const TargetTable> target_;
  std::vector<Rank> ranks_;
};

/// Pages of one conversion: they have in common all but what is of the moment.
class ReportText {
 public:
  explicit ReportText(std::shared_ptr<const ReportSubject> subject)
      : subject_(std::move(subject)) {}
  ReportText(const ReportText&) = delete;
  ReportText& operator=(const ReportText&) = delete;
  ~ReportText() { recent_texts().forget(this); }

  SharedText get() const {
    const auto page = recent_texts().get(this, [this] { return page_with_gaps(); });
    const ReportMoment moment = report_moment(counters().values());
    SharedText text;
    std::string_view rest = *page;
    for (const std::string& part : {moment.reads, moment.time}) {
      const std::size_t gap = rest.find(kReportGap);
      text.append(page, rest.substr(0, gap));
      text.append(part);
      rest.remove_prefix(gap + 1);
    }
    text.append(page, rest);
    return text;
  }

 private:
  std::string page_with_gaps() const {
    const std::string gap(1, kReportGap);
    std::string page;
    write_report(*subject_, ReportMoment{gap, gap}, [&](std::string_view part) { page += part; });
    return page;
  }

  std::shared_ptr<const ReportSubject> subject_;
};

OutputFile control(const std::string& name, std::shared_ptr<const VirtualFile> file) {
  return {".reshardfs/" + name, std::move(file), /*hidden=*/true};
}

/// null instead of a time that there was not.
Json time_json(std::int64_t seconds) {
  return seconds == 0 ? Json() : Json(seconds);
}

/// In which the number of this process holds; null where that cannot be found out.
Json pid_namespace() {
  std::error_code failed;
  const auto name = std::filesystem::read_symlink("/proc/self/ns/pid", failed);
  return failed ? Json() : Json(name.string());
}

/// By which 'reshardfs reload' knows what has become of its request.
Json requests_json(const ReloadRequests& requests) {
  return {{"taken", requests.taken},
          {"to_replace", requests.to_replace},
          {"answered", requests.answered},
          {"granted", requests.granted},
          {"replaced", requests.replaced}};
}

Json mount_json(const MountRecord& record) {
  Json json{{"version", kVersion},
            {"pid_namespace", pid_namespace()},
            {"mounted_at", time_json(record.mounted_at)},
            {"upgrades", record.upgrades},
            {"crash_restarts", record.crashes},
            {"handed_over_at", time_json(record.last_at)},
            {"handed_over_from", nullptr},
            {"replacements", record.replaced},
            {"replacing", is_telling_kernel()},
            {"reloads", record.reloads},
            {"reload_refused", nullptr},
            {"reload_requests", requests_json(record.requests)}};
  if (!record.last_program.empty()) json["handed_over_from"] = record.last_program;
  if (!record.refusal.empty()) json["reload_refused"] = record.refusal;
  return json;
}

/// null: no file is known to have changed.
Json change_json(const std::optional<SourceChange>& change) {
  if (!change) return {};
  return {{"file", change->file}, {"message", change->what}};
}

/// @param change does not wait for storage.
OutputFile status_file(const Json& known,
                       const std::function<std::optional<SourceChange>()>& change) {
  using std::chrono::steady_clock;
  return control(
      "status.json", std::make_shared<LiveFile>([known, change, begin = steady_clock::now()] {
        Json json = known;
        json["pid"] = ::getpid();
        json["mount"] = mount_json(mount_record());
        json["source_changed"] = change_json(change());
        json["uptime_seconds"] =
            std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - begin).count();
        json["activity"] = activity_json(counters().values());
        for (const StorageFigure& figure : storage_figures()) {
          json["storage"][figure.name] = figure.value;
        }
        return text(json);
      }));
}

/// "ready", or why the mount is not: a source file is not what it was.
OutputFile ready_file(std::function<std::optional<SourceChange>()> look) {
  const auto text = [look = std::move(look)] {
    try {
      const auto change = look();
      return (change ? change->what : "ready") + "\n";
    } catch (const Error& error) {
      return std::string(error.what()) + "\n";
    }
  };
  return control("ready", std::make_shared<LiveFile>(text, Effort::kReads));
}

OutputFile report_file(std::shared_ptr<const ReportSubject> subject) {
  // The counters are all that grows in it: some tens of numbers with at most 20 digits.
  constexpr std::size_t kGrowth = std::size_t{4} << 10;
  const auto report = std::make_shared<const ReportText>(std::move(subject));
  return control("report.html",
                 std::make_shared<PaddedFile>([report] { return report->get(); }, kGrowth));
}

}  // namespace

std::vector<OutputFile> control_view(const ViewContext& context) {
  std::vector<OutputFile> files;
  const auto subject = std::make_shared<const ReportSubject>(report_subject(context));
  const auto source =
      std::make_shared<const WatchedSource>(context.target->source().checkpoint_ptr());
  opened_sources().add(source);
  files.push_back(status_file(subject->facts, [source] { return source->known(); }));
  files.push_back(
      control("plan.json", std::make_shared<LiveFile>(
                               [plan = std::make_shared<PlanText>(context.target, context.ranks)] {
                                 return plan->get();
                               },
                               Effort::kComputes)));
  files.push_back(report_file(subject));
  files.push_back(ready_file([source] { return source->look(); }));
  for (OutputFile& file : process_files()) files.push_back(std::move(file));
  return files;
}

OutputFile all_steps_status(const ConversionOptions& options) {
  Json json = option_facts_json(options);
  json["step"] = "all";
  return status_file(json, [] { return opened_sources().known(); });
}

OutputFile all_steps_ready() {
  return ready_file([] { return opened_sources().look(); });
}

std::vector<OutputFile> process_files() {
  return {
      control("metrics", std::make_shared<LiveFile>([] {
                return counters().prometheus_text() + mount_metrics() + storage_metrics() +
                       source_change_metrics(opened_sources().known());
              })),
      // Another version may take the mount over.
      control("version", std::make_shared<LiveFile>(
                             [] { return std::string("reshardfs ") + kVersion + "\n"; })),
  };
}

}  // namespace reshardfs
