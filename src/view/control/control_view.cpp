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

#include "reshardfs/error.h"

#include "base/process/counters.h"
#include "base/process/mount_record.h"
#include "base/text/metrics_text.h"
#include "base/version.h"
#include "plan/traffic/traffic.h"
#include "report/page.h"
#include "storage/storage_figures.h"
#include "view/control/control_json.h"
#include "view/control/watched_source.h"
#include "view/files/recent_texts.h"
#include "view/files/text_file.h"
#include "view/view.h"

namespace reshardfs {
namespace {

std::string plan_text(const TargetTable& target, const std::vector<Rank>& ranks) {
  JsonWriter json(kIndentedJson);
  json.open_object();
  json.open_list("ranks");
  for (const Rank rank : ranks) write_plan(json, rank, traffic_of(target, rank));
  json.close_list();
  json.close_object();
  return json.take() + "\n";
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
void write_time(JsonWriter& json, std::string_view name, std::int64_t seconds) {
  seconds == 0 ? json.null_member(name) : json.member(name, seconds);
}

/// null instead of a text that there is not.
void write_text(JsonWriter& json, std::string_view name, const std::string& text) {
  text.empty() ? json.null_member(name) : json.member(name, text);
}

/// In which the number of this process holds; empty where that cannot be found out.
std::string pid_namespace() {
  std::error_code failed;
  const auto name = std::filesystem::read_symlink("/proc/self/ns/pid", failed);
  return failed ? std::string() : name.string();
}

/// By which 'reshardfs reload' knows what has become of its request.
void write_requests(JsonWriter& json, const ReloadRequests& requests) {
  json.open_object("reload_requests");
  json.member("taken", requests.taken);
  json.member("to_replace", requests.to_replace);
  json.member("answered", requests.answered);
  json.member("granted", requests.granted);
  json.member("replaced", requests.replaced);
  json.close_object();
}

void write_mount(JsonWriter& json, const MountRecord& record) {
  json.open_object("mount");
  json.member("version", kVersion);
  write_text(json, "pid_namespace", pid_namespace());
  write_time(json, "mounted_at", record.mounted_at);
  json.member("upgrades", record.upgrades);
  json.member("crash_restarts", record.crashes);
  write_time(json, "handed_over_at", record.last_at);
  write_text(json, "handed_over_from", record.last_program);
  json.member("replacements", record.replaced);
  json.member("replacing", is_telling_kernel());
  json.member("reloads", record.reloads);
  write_text(json, "reload_refused", record.refusal);
  write_requests(json, record.requests);
  json.close_object();
}

/// null: no file is known to have changed.
void write_change(JsonWriter& json, const std::optional<SourceChange>& change) {
  if (!change) return json.null_member("source_changed");
  json.open_object("source_changed");
  json.member("file", change->file);
  json.member("message", change->what);
  json.close_object();
}

void write_storage(JsonWriter& json, const std::vector<StorageFigure>& figures) {
  if (figures.empty()) return;
  json.open_object("storage");
  for (const StorageFigure& figure : figures) json.member(figure.name, figure.value);
  json.close_object();
}

/// @param known writes what never changes.
/// @param change does not wait for storage.
OutputFile status_file(std::function<void(JsonWriter& json)> known,
                       std::function<std::optional<SourceChange>()> change) {
  using std::chrono::steady_clock;
  return control("status.json",
                 std::make_shared<LiveFile>([known = std::move(known), change = std::move(change),
                                             begin = steady_clock::now()] {
                   const auto age = steady_clock::now() - begin;
                   JsonWriter json(kIndentedJson);
                   json.open_object();
                   known(json);
                   json.member("pid", ::getpid());
                   write_mount(json, mount_record());
                   write_change(json, change());
                   json.member("uptime_seconds",
                               std::chrono::duration_cast<std::chrono::seconds>(age).count());
                   json.key("activity");
                   write_activity(json, counters().values());
                   write_storage(json, storage_figures());
                   json.close_object();
                   return json.take() + "\n";
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
  files.push_back(status_file([subject](JsonWriter& json) { write_members(json, subject->facts); },
                              [source] { return source->known(); }));
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
  return status_file(
      [facts = option_facts(options)](JsonWriter& json) {
        write_members(json, facts);
        json.member("step", "all");
      },
      [] { return opened_sources().known(); });
}

OutputFile all_steps_ready() {
  return ready_file([] { return opened_sources().look(); });
}

std::vector<OutputFile> process_files() {
  return {
      control("metrics", std::make_shared<LiveFile>([] {
                MetricsText text(mount_name().place);
                write_mount_metrics(text);
                counters().write_metrics(text);
                write_storage_metrics(text);
                write_source_change(text, opened_sources().known());
                return std::move(text).take();
              })),
      // Another version may take the mount over.
      control("version", std::make_shared<LiveFile>(
                             [] { return std::string("reshardfs ") + kVersion + "\n"; })),
  };
}

}  // namespace reshardfs
