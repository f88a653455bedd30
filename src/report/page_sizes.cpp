// SPDX-License-Identifier: Apache-2.0
#include "report/page_sizes.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/text/text.h"
#include "report/page_data.h"
#include "report/page_text.h"

namespace reshardfs {

ModelTotals model_totals(const TargetTable& target, const std::vector<Rank>& ranks,
                         const ParameterRoles& roles) {
  ModelTotals totals;
  for (const TargetParameter& parameter : target.parameters()) {
    const bool of_optimizer = roles.is_of_optimizer(parameter);
    const std::uint64_t bytes = full_bytes(target, parameter, ranks);
    ModelTotals::OfType& type = totals.by_type[std::string(mindspore_name(parameter.dtype))];
    for (ModelTotals::OfType* sum : {&type, &totals.all}) {
      ModelTotals::Share& share = of_optimizer ? sum->optimizer : sum->weights;
      ++share.parameters;
      share.bytes += bytes;
    }
  }
  return totals;
}

namespace {

/// More files are folded away.
constexpr std::size_t kMostOpenFiles = 16;
/// More are not listed.
constexpr std::size_t kMostFiles = 4'096;

std::string size_cell(std::uint64_t bytes) {
  return fmt::format("<td class=\"right\" title=\"{} bytes\">{}</td>", grouped(bytes),
                     human_bytes(bytes));
}

class Sizes {
 public:
  Sizes(const ReportSubject& subject, BoundedWriter& out) : subject_(subject), out_(out) {}

  void write() {
    out_.write("<section id=\"sizes\">\n<h2>Sizes</h2>\n");
    write_totals();
    write_files();
    out_.write("</section>\n");
  }

 private:
  void begin_table(const char* id, const char* label, const char* heads) {
    out_.print(
        "<div class=\"scroll card\"><div class=\"pan\" role=\"region\" aria-label=\"{1}\">"
        "<table class=\"plain\" id=\"{0}\" aria-label=\"{1}\"><thead><tr>{2}</tr></thead><tbody>\n",
        id, label, heads);
  }
  void end_table() { out_.write("</tbody></table></div></div>\n"); }

  void write_share(const ModelTotals::Share& share) {
    out_.print("<td class=\"right\">{}</td>{}", grouped(share.parameters), size_cell(share.bytes));
  }

  void write_row(const std::string& type, const ModelTotals::OfType& sum) {
    out_.print("<tr><th scope=\"row\">{}</th>", type);
    write_share(sum.weights);
    write_share(sum.optimizer);
    write_share({sum.weights.parameters + sum.optimizer.parameters,
                 sum.weights.bytes + sum.optimizer.bytes});
    out_.write("</tr>\n");
  }

  void write_totals() {
    const ModelTotals totals = model_totals(*subject_.target, subject_.ranks, subject_.roles);
    out_.write(
        "<p class=\"note\">The full model, each parameter once, in the target's element types. "
        "Names tell weights from optimizer states and training counters.</p>\n");
    begin_table("totals", "Totals by element type",
                "<th scope=\"col\">Type</th><th scope=\"col\" class=\"right\">Weights</th>"
                "<th scope=\"col\" class=\"right\">Size</th><th scope=\"col\" class=\"right\">"
                "Optimizer</th><th scope=\"col\" class=\"right\">Size</th>"
                "<th scope=\"col\" class=\"right\">All</th>"
                "<th scope=\"col\" class=\"right\">Size</th>");
    for (const auto& [type, sum] : totals.by_type) write_row(type, sum);
    if (totals.by_type.size() != 1) write_row("All types", totals.all);
    end_table();
  }

  void write_files() {
    const std::vector<ReportFile>& files = subject_.files;
    if (files.empty()) {
      out_.write("<p class=\"note\">This conversion shows no rank files (--views).</p>\n");
      return;
    }
    std::vector<std::uint64_t> sizes;
    std::uint64_t total = 0;
    for (const ReportFile& file : files) {
      sizes.push_back(file.file->size());
      total += sizes.back();
    }
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    std::string summary = many(files.size(), "rank file", "rank files") + ", " + human_bytes(total);
    if (files.size() > 1) summary += " in all, " + human_range(*least, *most) + " each";
    const bool folded = files.size() > kMostOpenFiles;
    out_.print("<details class=\"files\"{}><summary>{}</summary>\n", folded ? "" : " open",
               summary);
    begin_table("files", "Files of the target ranks",
                "<th scope=\"col\">File</th><th scope=\"col\" class=\"right\">Size</th>"
                "<th scope=\"col\" class=\"right\">Bytes</th>");
    for (std::size_t i = 0; i < std::min(files.size(), kMostFiles); ++i) {
      out_.print(
          "<tr><td class=\"mono\">{}</td><td class=\"right\">{}</td><td class=\"right\">{}"
          "</td></tr>\n",
          xml_text(files[i].path), human_bytes(sizes[i]), grouped(sizes[i]));
    }
    end_table();
    if (files.size() > kMostFiles) {
      out_.print("<p class=\"note\">{} not listed.</p>\n",
                 many(files.size() - kMostFiles, "more file is", "more files are"));
    }
    out_.write("</details>\n");
  }

  const ReportSubject& subject_;
  BoundedWriter& out_;
};

}  // namespace

void write_sizes(const ReportSubject& subject, BoundedWriter& out) {
  Sizes(subject, out).write();
}

}  // namespace reshardfs
