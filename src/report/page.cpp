// SPDX-License-Identifier: Apache-2.0
#include "report/page.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/sha256.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "base/version.h"
#include "plan/traffic/traffic_survey.h"
#include "report/assets.h"
#include "report/drawn_cuts.h"
#include "report/page_data.h"
#include "report/page_sizes.h"
#include "report/page_slices.h"
#include "report/page_text.h"
#include "report/parameter_picture.h"
#include "report/traffic_picture.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostPictures = 12;

/// What a content security policy allows by its text alone.
std::string source_hash(std::string_view text) {
  Sha256 sum;
  sum.update(std::as_bytes(std::span(text)));
  return "'sha256-" + sum.finish_base64() + "'";
}

/// The name of this machine.
std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

class Page {
 public:
  Page(const ReportSubject& subject, const std::optional<ReportMoment>& moment, BoundedWriter& out)
      : subject_(subject),
        moment_(moment),
        target_(*subject.target),
        survey_(survey_traffic(target_, subject.ranks, kMostDrawnRanks)),
        examples_(kind_examples(target_, survey_, subject.roles)),
        slices_(target_, subject.ranks, examples_),
        host_(host_name()),
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
    write_sizes(subject_, out_);
    if (moment_) out_.write(moment_->reads);
    write_details();
    out_.print(
        "</main>\n<footer class=\"wide\">Made by reshardfs {} on {}. "
        "This page is one file and works offline.</footer>\n",
        kVersion, moment_ ? moment_->time : utc_now());
    write_dialog();
    slices_.write_rest(out_);
    out_.write(R"(<script type="application/json" id="data">)");
    write_report_data(target_, subject_.ranks, survey_, examples_, slices_.numbers(), out_);
    out_.write("</script>\n<script>");
    out_.write(kReportScript);
    out_.write("</script>\n</body>\n</html>\n");
  }

 private:
  std::string name() const {
    const std::filesystem::path path(facts_.options.source);
    return path.filename().empty() ? path.parent_path().filename().string()
                                   : path.filename().string();
  }

  std::string sides() const {
    return many(survey_.sources.ranks().size(), "rank", "ranks") + " \u2192 " +
           many(static_cast<std::uint64_t>(target_.rank_count()), "rank", "ranks");
  }

  void write_head() {
    const std::string style = std::string(kReportStyle) + std::string(picture_style());
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
    write_header();
  }

  void write_header() {
    const std::string step = facts_.step.value_or("");
    out_.print(
        "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#parameters\">Skip to the "
        "parameters</a>\n<header><div class=\"wide\">\n<p class=\"brand\">reshardfs report</p>\n"
        "<h1>{}</h1>\n<p class=\"lead\">{}{}</p>\n<p class=\"where\">{} on {}</p>\n"
        "</div></header>\n",
        xml_text(name()), sides(), step.empty() ? "" : ", step " + xml_text(step),
        xml_text(facts_.options.source), xml_text(host_));
    out_.print(
        "<nav aria-label=\"Sections\"><ul class=\"wide\">"
        "<li><a href=\"#traffic\">Traffic</a><li><a href=\"#layouts\">Layouts</a>"
        "<li><a href=\"#parameters\">Parameters</a><li><a href=\"#sizes\">Sizes</a>{}"
        "<li><a href=\"#about\">Details</a></ul></nav>\n<main class=\"wide\">\n",
        moment_ ? "<li><a href=\"#reads\">Reads</a>" : "");
  }

  void tile(const char* term, const std::string& value) {
    out_.print("<div class=\"tile\"><dt>{}</dt><dd>{}</dd></div>\n", term, xml_text(value));
  }

  void write_summary() {
    out_.write("<dl class=\"tiles\">\n");
    tile("Parameters", grouped(target_.parameters().size()));
    tile("Full model", human_bytes(model_bytes_));
    tile("Source ranks", grouped(survey_.sources.ranks().size()));
    tile("Target ranks", grouped(static_cast<std::uint64_t>(target_.rank_count())));
    tile("Read by all ranks", human_bytes(survey_.total_bytes));
    out_.write("</dl>\n");
    if (facts_.warnings.empty()) return;
    out_.write(R"(<ul class="warnings" aria-label="Warnings">)");
    for (const std::string& line : facts_.warnings) {
      out_.print("<li>{}</li>\n", xml_text(line));
    }
    out_.write("</ul>\n");
  }

  void write_traffic() {
    out_.write(
        "<section id=\"traffic\">\n<h2>Who reads from whom</h2>\n<p class=\"note\">Each cell "
        "shows how much the target ranks of its row read from the source ranks of its column when "
        "every target rank reads its file once. Where replicas hold the same bytes, the lowest "
        "rank serves them.</p>\n<div class=\"scroll card\"><div class=\"pan\" tabindex=\"0\" "
        "role=\"region\" aria-label=\"Traffic\">\n");
    draw_traffic(survey_, Placement::kPage, out_);
    out_.write("</div></div>\n</section>\n");
  }

  void write_cut(const DrawnCut& cut) {
    const TargetParameter& example = target_.parameters()[cut.example];
    out_.print(
        "<figure class=\"card\"><h3><button type=\"button\" class=\"name\" "
        "data-parameter=\"{}\">{}</button></h3><p class=\"meta\">{}</p>\n",
        cut.example, breakable(example.name),
        xml_text(parameter_facts(target_, example, subject_.ranks)));
    slices_.write_card(cut.example, out_);
    out_.print("<figcaption>{}, {}{}</figcaption>\n</figure>\n",
               many(cut.count, "parameter", "parameters like this"), human_bytes(cut.bytes),
               cut.same_sources ? "" : "; some come from other source ranks");
  }

  void write_layouts() {
    const std::vector<DrawnCut> cuts =
        drawn_cuts(target_, subject_.ranks, survey_, subject_.roles, examples_);
    const std::size_t shown = std::min(cuts.size(), kMostPictures);
    out_.write(
        "<section id=\"layouts\">\n<h2>How parameters are cut</h2>\n<p class=\"note\">Each "
        "picture stands for all parameters of one shape that both strategies cut alike. Outlines "
        "are the slices of target ranks; colors and numbers name the source ranks that they come "
        "from.");
    if (cuts.size() > shown) {
      out_.print(" {} not drawn here; select a parameter below to see its slices.",
                 many(cuts.size() - shown, "more way is", "more ways are"));
    }
    out_.write("</p>\n<div class=\"cards\">\n");
    for (std::size_t i = 0; i < shown; ++i) write_cut(cuts[i]);
    out_.write("</div>\n</section>\n");
  }

  void column(const char* key, const char* text, const char* style) {
    out_.print(
        R"(<th scope="col" data-column="{}" class="{}"><button type="button">{}</button></th>)",
        key, style, text);
  }

  void write_parameters() {
    out_.write(
        "<section id=\"parameters\">\n<h2>Parameters</h2>\n<p class=\"note\">Select a heading to "
        "sort, or a name to see its slices. Press <kbd>/</kbd> to search.</p>\n"
        "<noscript><p>Turn on JavaScript to see the table.</p></noscript>\n<div class=\"bar\">"
        "<label for=\"search\">Search</label><input type=\"search\" id=\"search\" "
        "placeholder=\"name, type, or shape\" autocomplete=\"off\" spellcheck=\"false\">"
        "<span id=\"count\" role=\"status\"></span></div>\n"
        "<p id=\"find-note\" class=\"note\" hidden>Of more than 5,000 rows the page keeps only "
        "those "
        "on the screen, so find in page misses the rest. Use the search field.</p>\n"
        "<div class=\"scroll card\"><div class=\"pan\" id=\"rows\" tabindex=\"0\" role=\"region\" "
        "aria-label=\"Parameters\">\n"
        "<table id=\"table\" aria-label=\"Parameters\"><thead><tr>");
    column("name", "Name", "w-name");
    column("type", "Type", "w-type");
    column("shape", "Full shape", "w-shape");
    column("source", "Source", "w-cut");
    column("target", "Target", "w-cut");
    column("size", "Size", "w-size right");
    column("ranks", "Source ranks", "w-ranks");
    out_.write("</tr></thead><tbody id=\"body\"></tbody></table>\n</div></div>\n</section>\n");
  }

  void line(const std::string& term, const std::string& value) {
    out_.write(fact_line(term, value));
  }

  void write_details() {
    out_.write("<section id=\"about\">\n<h2>Details</h2>\n<dl class=\"card facts\">\n");
    line("Host", host_);
    const OptionFacts& options = facts_.options;
    line("Source", options.source);
    line("Source files", grouped(facts_.source_files) + " " + facts_.source_format);
    line("Step", facts_.step.value_or("not in the file names"));
    line("Source ranks", format_rank_list(survey_.sources.ranks()));
    line("Source strategy",
         options.src_strategy.value_or("none: every rank holds whole parameters"));
    line("Target strategy",
         options.dst_strategy.value_or("none: one rank holds every parameter whole"));
    line("Target ranks", grouped(static_cast<std::uint64_t>(target_.rank_count())));
    if (subject_.ranks.size() != static_cast<std::size_t>(target_.rank_count())) {
      line("Shown ranks", format_rank_list(subject_.ranks));
    }
    std::string formats;
    for (const std::string& format : facts_.formats) {
      formats += (formats.empty() ? "" : ", ") + format;
    }
    line("Format of rank files", formats);
    for (const std::string& note : facts_.notes) line("Note", note);
    line(moment_ ? "Mounted" : "Opened", options.opened);
    out_.write("<dt>Command to repeat this report</dt><dd><code class=\"command\">");
    for (std::size_t i = 0; i < subject_.command.size(); ++i) {
      // In an element of its own no word is broken at its hyphens.
      out_.print("{}<span>{}</span>", i == 0 ? "" : " ", xml_text(shell_word(subject_.command[i])));
    }
    out_.write("</code></dd>\n</dl>\n</section>\n");
  }

  void write_dialog() {
    out_.write(
        "<dialog id=\"details\" aria-labelledby=\"parameter-name\"><h3 id=\"parameter-name\" "
        "tabindex=\"-1\" autofocus "
        "class=\"name\"></h3><dl class=\"facts\" id=\"parameter-facts\"></dl>"
        "<div id=\"parameter-pictures\"></div><p id=\"picture-note\" class=\"note\"></p>"
        "<button type=\"button\" class=\"close\" id=\"close\">Close</button></dialog>\n"
        "<template id=\"words\"><details class=\"words\"><summary>The same as a table</summary>"
        "<table class=\"plain\"><thead><tr><th scope=\"col\">Target ranks</th><th scope=\"col\">"
        "Elements</th><th scope=\"col\">Source</th></tr></thead></table>"
        "<p class=\"note\">Only the first 512 parts are listed.</p></details></template>\n");
  }

  const ReportSubject& subject_;
  const ConversionFacts& facts_ = subject_.facts;
  const std::optional<ReportMoment>& moment_;
  const TargetTable& target_;
  TrafficSurvey survey_;
  std::vector<std::size_t> examples_;
  PageSlices slices_;
  std::string host_;
  BoundedWriter& out_;
  std::uint64_t model_bytes_ = 0;
};

}  // namespace

ReportMoment report_moment(const CounterValues& activity) {
  ReportMoment moment{{}, utc_now()};
  moment.reads = fmt::format(
      "<section id=\"reads\">\n<h2>Reads so far</h2>\n<p class=\"note\">Figures of the whole "
      "mount at {}. Reload the page to update them.</p>\n"
      "<dl class=\"card facts\">\n",
      moment.time);
  const auto line = [&moment](const std::string& term, const std::string& value) {
    moment.reads += fact_line(term, value);
  };
  line("Delivered to programs", human_bytes(activity.bytes_delivered()));
  line("Read from sources", fmt::format("{} in {}", human_bytes(activity.source_bytes()),
                                        many(activity.source_reads(), "read", "reads")));
  for (std::size_t i = 0; i < kOperationNames.size(); ++i) {
    line(fmt::format("Requests: {}", kOperationNames.at(i)), grouped(activity.requests.at(i)));
  }
  line("Reads in progress", grouped(activity.reads_in_flight));
  line("Source changes seen", many(activity.source_changes, "time", "times"));
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
