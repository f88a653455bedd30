// SPDX-License-Identifier: Apache-2.0
#include "report/page.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"
#include "plan/traffic_survey.h"
#include "report/assets.h"
#include "report/page_data.h"
#include "report/parameter_picture.h"
#include "report/slice_map.h"
#include "report/traffic_picture.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostPictures = 16;

/// What a content security policy allows by its text alone.
std::string source_hash(std::string_view text) {
  Sha256 sum;
  sum.update(std::as_bytes(std::span(text)));
  return "'sha256-" + sum.finish_base64() + "'";
}

/// "20,000"
std::string grouped(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string many(std::uint64_t count, const char* one, const char* more) {
  return grouped(count) + " " + (count == 1 ? one : more);
}

std::string fact_line(const std::string& term, const std::string& value) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", xml_text(term), xml_text(value));
}

class Page {
 public:
  Page(const ReportSubject& subject, const std::optional<ReportMoment>& moment, BoundedWriter& out)
      : subject_(subject),
        moment_(moment),
        target_(*subject.target),
        survey_(survey_traffic(target_, subject.ranks, kMostDrawnRanks)),
        out_(out) {
    for (const TargetParameter& parameter : target_.parameters()) {
      model_bytes_ += full_bytes(target_, parameter, subject_.ranks);
    }
  }

  void write() {
    write_head();
    write_summary();
    write_traffic();
    write_layouts();
    write_parameters();
    if (moment_) out_.write(moment_->reads);
    write_details();
    out_.print(
        "</main>\n<footer class=\"wide\">Made by reshardfs {} on {}. "
        "The page needs no network.</footer>\n",
        kVersion, moment_ ? moment_->time : utc_now());
    write_dialog();
    out_.write(R"(<script type="application/json" id="data">)");
    write_report_data(target_, subject_.ranks, survey_, out_);
    out_.write("</script>\n<script>");
    out_.write(kReportScript);
    out_.write("</script>\n</body>\n</html>\n");
  }

 private:
  /// A text of the facts, or what stands for none.
  std::string fact(const char* name, const char* without) const {
    const auto& value = subject_.facts.at(name);
    return value.is_string() ? value.get<std::string>() : std::string(without);
  }

  std::string name() const {
    const std::filesystem::path path(fact("source", ""));
    return path.filename().empty() ? path.parent_path().filename().string()
                                   : path.filename().string();
  }

  std::string sides() const {
    return many(survey_.sources.ranks().size(), "rank", "ranks") + " \u2192 " +
           many(static_cast<std::uint64_t>(target_.rank_count()), "rank", "ranks");
  }

  void write_head() {
    const std::string style = std::string(kReportStyle) + std::string(picture_style());
    const std::string step = fact("step", "");
    out_.print(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "script-src {}; style-src {}; base-uri 'none'; form-action 'none'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<meta name=\"referrer\" content=\"no-referrer\">\n"
        "<title>{} \u00b7 {}</title>\n<style>",
        source_hash(kReportScript), source_hash(style), xml_text(name()), sides());
    out_.write(style);
    out_.print(
        "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#parameters\">To the parameters</a>\n"
        "<header class=\"wide\">\n<p class=\"brand\">reshardfs report</p>\n<h1>{}</h1>\n"
        "<p class=\"lead\">{}{}</p>\n</header>\n<nav aria-label=\"Sections\"><ul class=\"wide\">"
        "<li><a href=\"#traffic\">Traffic</a><li><a href=\"#layouts\">Layouts</a>"
        "<li><a href=\"#parameters\">Parameters</a>{}<li><a href=\"#about\">Details</a>"
        "</ul></nav>\n<main class=\"wide\">\n",
        xml_text(name()), sides(), step.empty() ? "" : ", step " + xml_text(step),
        moment_ ? "<li><a href=\"#reads\">Reads</a>" : "");
  }

  void tile(const char* term, const std::string& value) {
    out_.print("<div class=\"tile\"><dt>{}</dt><dd>{}</dd></div>\n", term, xml_text(value));
  }

  void write_summary() {
    out_.write("<dl class=\"tiles\">\n");
    tile("Parameters", grouped(target_.parameters().size()));
    tile("Model", human_bytes(model_bytes_));
    tile("Source ranks", grouped(survey_.sources.ranks().size()));
    tile("Destination ranks", grouped(static_cast<std::uint64_t>(target_.rank_count())));
    tile("To read, for all", human_bytes(survey_.total_bytes));
    out_.write("</dl>\n");
    const auto& warnings = subject_.facts.at("warnings");
    if (warnings.empty()) return;
    out_.write(R"(<ul class="warnings" aria-label="Warnings">)");
    for (const auto& line : warnings) {
      out_.print("<li>{}</li>\n", xml_text(line.get<std::string>()));
    }
    out_.write("</ul>\n");
  }

  void write_traffic() {
    out_.write(
        "<section id=\"traffic\">\n<h2>Who reads from whom</h2>\n<p class=\"note\">A cell is what "
        "the destination ranks of its row read from the source ranks of its column, if each reads "
        "its file once. Where replicas hold the same bytes, the lowest rank serves them.</p>\n"
        "<div class=\"card picture\" tabindex=\"0\">\n");
    draw_traffic(survey_, Placement::kPage, out_);
    out_.write("</div>\n</section>\n");
  }

  /// The kinds to draw: the largest first, none that looks like another but for its ranks.
  std::vector<std::size_t> drawn_kinds(std::size_t& left_out) const {
    std::vector<std::pair<std::uint64_t, std::size_t>> by_size;
    for (std::size_t kind = 0; kind < survey_.kinds.size(); ++kind) {
      by_size.emplace_back(kind_bytes(kind), kind);
    }
    std::stable_sort(by_size.begin(), by_size.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::size_t> drawn;
    std::set<std::string> seen;
    for (const auto& [bytes, kind] : by_size) {
      const TargetParameter& first = target_.parameters()[survey_.kinds[kind].first];
      if (!first.grid || first.grid->boxes() != nullptr) continue;
      if (!seen.insert(look(first)).second) continue;
      if (drawn.size() == kMostPictures) {
        ++left_out;
      } else {
        drawn.push_back(kind);
      }
    }
    return drawn;
  }

  std::uint64_t kind_bytes(std::size_t kind) const {
    const ParameterKind& own = survey_.kinds[kind];
    return own.count * full_bytes(target_, target_.parameters()[own.first], subject_.ranks);
  }

  std::string look(const TargetParameter& parameter) const {
    std::string text = to_string(parameter.grid->full_shape());
    for (const AxisPartition& partition : parameter.grid->partitions()) {
      text += fmt::format(" {}", partition.parts());
    }
    for (const Rank rank : subject_.ranks) {
      if (!target_.has(parameter, rank)) continue;
      return text + to_string(target_.slice_shape(parameter, rank));
    }
    return text;
  }

  void write_layouts() {
    std::size_t left_out = 0;
    const std::vector<std::size_t> kinds = drawn_kinds(left_out);
    out_.write(
        "<section id=\"layouts\">\n<h2>How parameters are cut</h2>\n<p class=\"note\">One picture "
        "for parameters that are cut and read alike, the largest first. Outlines are slices of "
        "destination ranks, colours the source ranks that they come from.");
    if (left_out > 0) out_.print(" {} not drawn.", many(left_out, "more is", "more are"));
    out_.write("</p>\n<div class=\"cards\">\n");
    for (const std::size_t kind : kinds) {
      const ParameterKind& own = survey_.kinds[kind];
      out_.print("<figure class=\"card\" id=\"kind-{}\">\n", kind);
      draw_parameter(target_, target_.parameters()[own.first], subject_.ranks, Placement::kPage,
                     out_);
      out_.print("<figcaption>{}, {} together</figcaption>\n</figure>\n",
                 many(own.count, "parameter", "parameters like this"),
                 human_bytes(kind_bytes(kind)));
    }
    out_.write("</div>\n</section>\n");
  }

  void column(const char* key, const char* text, const char* style) {
    out_.print(
        R"(<th scope="col" data-column="{}" class="{}"><button type="button">{}</button></th>)",
        key, style, text);
  }

  void write_parameters() {
    out_.write(
        "<section id=\"parameters\">\n<h2>Parameters</h2>\n<p class=\"note\">Click a heading to "
        "sort, a name for its layouts. The key / leads to the search.</p>\n"
        "<noscript><p>The table needs JavaScript.</p></noscript>\n<div class=\"bar\">"
        "<label for=\"search\">Search</label><input type=\"search\" id=\"search\" "
        "placeholder=\"name, type or shape\" autocomplete=\"off\" spellcheck=\"false\">"
        "<span id=\"count\" role=\"status\"></span></div>\n"
        "<div class=\"card\" id=\"rows\" tabindex=\"0\" role=\"region\" "
        "aria-label=\"Parameters\">\n"
        "<table id=\"table\" aria-label=\"Parameters\"><thead><tr>");
    column("name", "Name", "w-name");
    column("type", "Type", "w-type");
    column("shape", "Full shape", "w-shape");
    column("source", "In the source", "w-cut");
    column("target", "In the destination", "w-cut");
    column("size", "Size", "w-size right");
    column("ranks", "Source ranks", "w-ranks");
    out_.write("</tr></thead><tbody id=\"body\"></tbody></table>\n</div>\n</section>\n");
  }

  void line(const std::string& term, const std::string& value) {
    out_.write(fact_line(term, value));
  }

  void write_details() {
    out_.print("<section id=\"about\">\n<h2>{}</h2>\n<dl class=\"card facts\">\n",
               moment_ ? "What is mounted" : "What it is about");
    line("Source", fact("source", ""));
    line("Files", grouped(subject_.facts.at("source_files").get<std::uint64_t>()) + " " +
                      fact("source_format", ""));
    line("Step", fact("step", "the file names carry none"));
    line("Source ranks", format_rank_list(survey_.sources.ranks()));
    line("Source strategy", fact("src_strategy", "none: every rank holds whole parameters"));
    line("Destination strategy",
         fact("dst_strategy", "none: one rank that has every parameter whole"));
    line("Destination ranks", grouped(static_cast<std::uint64_t>(target_.rank_count())));
    if (subject_.ranks.size() != static_cast<std::size_t>(target_.rank_count())) {
      line("Shown ranks", format_rank_list(subject_.ranks));
    }
    std::string formats;
    for (const auto& format : subject_.facts.at("formats")) {
      formats += (formats.empty() ? "" : ", ") + format.get<std::string>();
    }
    line("Rank files", formats);
    line("Other options", subject_.options.empty() ? "none" : subject_.options.front());
    for (std::size_t i = 1; i < subject_.options.size(); ++i) line("", subject_.options[i]);
    for (const auto& note : subject_.facts.at("notes")) line("Note", note.get<std::string>());
    line("Opened", fact("opened", ""));
    out_.write("</dl>\n</section>\n");
  }

  void write_dialog() {
    out_.write(
        "<dialog id=\"details\" aria-labelledby=\"parameter-name\"><h3 id=\"parameter-name\" "
        "tabindex=\"-1\" autofocus "
        "class=\"name\"></h3><dl class=\"facts\" id=\"parameter-facts\"></dl>"
        "<div id=\"parameter-picture\" class=\"slices\"></div><p id=\"picture-note\" "
        "class=\"note\"></p><button type=\"button\" class=\"close\" id=\"close\">Close</button>"
        "</dialog>\n");
  }

  const ReportSubject& subject_;
  const std::optional<ReportMoment>& moment_;
  const TargetTable& target_;
  TrafficSurvey survey_;
  BoundedWriter& out_;
  std::uint64_t model_bytes_ = 0;
};

}  // namespace

ReportMoment report_moment(const CounterValues& activity) {
  ReportMoment moment{{}, utc_now()};
  moment.reads = fmt::format(
      "<section id=\"reads\">\n<h2>Reads so far</h2>\n<p class=\"note\">Of the whole mount, at "
      "the moment this page was opened: {}. Load it again for newer figures.</p>\n"
      "<dl class=\"card facts\">\n",
      moment.time);
  const auto line = [&moment](const std::string& term, const std::string& value) {
    moment.reads += fact_line(term, value);
  };
  line("Given to programs", human_bytes(activity.bytes_delivered));
  line("Read from sources", fmt::format("{} in {}", human_bytes(activity.source_bytes),
                                        many(activity.source_reads, "read", "reads")));
  for (std::size_t i = 0; i < kOperationNames.size(); ++i) {
    line(fmt::format("Requests: {}", kOperationNames.at(i)), grouped(activity.requests.at(i)));
  }
  line("Reads under way", grouped(activity.reads_in_flight));
  line("Sources seen to change", many(activity.source_changes, "time", "times"));
  line("Reads served by replicas", many(activity.replica_reads, "read", "reads"));
  std::string errors;
  for (std::size_t i = 0; i < kReadErrorNames.size(); ++i) {
    if (activity.read_errors.at(i) == 0) continue;
    errors += fmt::format("{}{}: {}", errors.empty() ? "" : ", ", kReadErrorNames.at(i),
                          activity.read_errors.at(i));
  }
  line("Failed reads", errors.empty() ? "none" : errors);
  moment.reads += "</dl>\n</section>\n";
  return moment;
}

void write_report(const ReportSubject& subject, const std::optional<ReportMoment>& moment,
                  const TextSink& out) {
  BoundedWriter writer(out);
  Page(subject, moment, writer).write();
  writer.flush();
}

}  // namespace reshardfs
