// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/metrics_union.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/text/metrics_text.h"
#include "base/text/utf8.h"

namespace reshardfs {
namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

bool is_name(std::string_view text) noexcept {
  return !text.empty() && !is_digit(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_'; });
}

/// Digits, perhaps with a point between them.
bool is_value(std::string_view text) noexcept {
  const std::size_t point = std::min(text.find('.'), text.size());
  const auto digits = [](std::string_view part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), is_digit);
  };
  return digits(text.substr(0, point)) && (point == text.size() || digits(text.substr(point + 1)));
}

/// Whether a terminal shows it, as all text of the program.
bool is_shown_text(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const auto [bytes, character] = utf8_character(text, at);
    if (bytes == 0 || is_control(character) || is_layout_control(character)) return false;
    at += bytes;
  }
  return true;
}

/// Takes `count` bytes from the front of `text`.
std::string_view take(std::string_view& text, std::size_t count) noexcept {
  const std::string_view taken = text.substr(0, count);
  text.remove_prefix(taken.size());
  return taken;
}

/// The escaped value of a label up to its closing quote, which is taken, too.
std::optional<std::string_view> take_quoted(std::string_view& text) noexcept {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') {
      const std::string_view value = take(text, at);
      text.remove_prefix(1);
      return is_shown_text(value) ? std::optional(value) : std::nullopt;
    }
    if (text[at] != '\\') continue;
    ++at;
    if (at == text.size() || std::string_view("\\\"n").find(text[at]) == std::string_view::npos) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

struct Sample {
  std::string_view name;
  std::string labels{};  ///< without `mount`, each with a comma before it
  std::string_view value{};
  bool has_bound = false;
};

/// Takes `{a="b",c="d"}`.
bool take_labels(std::string_view& text, Sample& sample) {
  text.remove_prefix(1);
  std::set<std::string_view> seen;
  for (;;) {
    const std::string_view name = take(text, std::min(text.find('='), text.size()));
    if (!is_name(name) || !seen.insert(name).second || !text.starts_with("=\"")) return false;
    text.remove_prefix(2);
    const auto value = take_quoted(text);
    if (!value) return false;
    if (name == "le") sample.has_bound = true;
    if (name != "mount") {
      sample.labels.append(",").append(name).append("=\"").append(*value).append("\"");
    }
    if (text.starts_with('}')) {
      text.remove_prefix(1);
      return true;
    }
    if (!text.starts_with(',')) return false;
    text.remove_prefix(1);
  }
}

std::optional<Sample> sample_of(std::string_view line) {
  Sample sample{.name = take(line, std::min(line.find_first_of("{ "), line.size()))};
  if (!is_name(sample.name)) return std::nullopt;
  if (line.starts_with('{') && !take_labels(line, sample)) return std::nullopt;
  if (!line.starts_with(' ')) return std::nullopt;
  sample.value = line.substr(1);
  return is_value(sample.value) ? std::optional(std::move(sample)) : std::nullopt;
}

bool belongs_to(const Sample& sample, std::string_view family, std::string_view type) noexcept {
  if (type != "histogram") return sample.name == family;
  if (!sample.name.starts_with(family)) return false;
  const std::string_view suffix = sample.name.substr(family.size());
  return sample.has_bound ? suffix == "_bucket" : suffix == "_sum" || suffix == "_count";
}

/// A family of metrics in the text of one mount.
struct ReadFamily {
  std::string_view name;
  std::string_view help;
  std::string_view type{};
  std::string samples{};
};

class MetricsReader {
 public:
  MetricsReader(std::string_view mount, std::string_view text)
      : mount_label_("{mount=\"" + metric_label_value(mount) + '"'), text_(text) {}

  /// @return nothing if the text is not in the format.
  std::optional<std::vector<ReadFamily>> read() {
    if (!text_.empty() && !text_.ends_with('\n')) return std::nullopt;
    while (!text_.empty()) {
      const std::string_view line = take(text_, text_.find('\n'));
      text_.remove_prefix(1);
      if (!read_line(line)) return std::nullopt;
    }
    const bool whole = families_.empty() || !families_.back().type.empty();
    return whole && !families_.empty() ? std::optional(std::move(families_)) : std::nullopt;
  }

 private:
  bool read_line(std::string_view line) {
    constexpr std::string_view kHelp = "# HELP ";
    constexpr std::string_view kType = "# TYPE ";
    if (line.starts_with(kHelp)) return begin(line.substr(kHelp.size()));
    if (families_.empty()) return false;
    if (line.starts_with(kType)) return set_type(line.substr(kType.size()));
    const auto sample = sample_of(line);
    ReadFamily& family = families_.back();
    if (!sample || !belongs_to(*sample, family.name, family.type)) return false;
    if (!samples_.insert(std::string(sample->name) + sample->labels).second) return false;
    family.samples.append(sample->name).append(mount_label_).append(sample->labels);
    family.samples.append("} ").append(sample->value).append("\n");
    return true;
  }

  bool begin(std::string_view rest) {
    if (!families_.empty() && families_.back().type.empty()) return false;
    const std::string_view name = take(rest, std::min(rest.find(' '), rest.size()));
    const bool fits = name.starts_with(kMetricPrefix) && is_name(name) && rest.size() > 1 &&
                      is_shown_text(rest) && rest.find('\\') == std::string_view::npos;
    if (!fits || !names_.insert(name).second) return false;
    families_.push_back({.name = name, .help = rest.substr(1)});
    return true;
  }

  bool set_type(std::string_view rest) {
    constexpr std::array<std::string_view, 3> kTypes{"counter", "gauge", "histogram"};
    ReadFamily& family = families_.back();
    const std::string_view name = take(rest, std::min(rest.find(' '), rest.size()));
    if (name != family.name || !family.type.empty() || rest.empty()) return false;
    rest.remove_prefix(1);
    if (std::find(kTypes.begin(), kTypes.end(), rest) == kTypes.end()) return false;
    family.type = rest;
    return true;
  }

  const std::string mount_label_;
  std::string_view text_;
  std::vector<ReadFamily> families_;
  std::set<std::string_view> names_;
  std::set<std::string> samples_;
};

}  // namespace

void MetricsUnion::begin(std::string_view name, std::string_view help) {
  order_.push_back(std::string(kMetricPrefix).append(name));
  families_[order_.back()] = {.type = "gauge", .help = std::string(help), .samples = {}};
}

void MetricsUnion::own_sample(std::string_view mount, std::string_view labels, bool value) {
  families_.at(order_.back())
      .samples.append(order_.back())
      .append("{mount=\"")
      .append(metric_label_value(mount))
      .append("\"")
      .append(labels)
      .append(value ? "} 1\n" : "} 0\n");
}

bool MetricsUnion::add(std::string_view mount, std::string_view text) {
  const auto read = MetricsReader(mount, text).read();
  if (!read) return false;
  for (const ReadFamily& from : *read) {
    const auto found = families_.find(from.name);
    if (found == families_.end()) {
      order_.emplace_back(from.name);
      families_[order_.back()] = {
          .type = std::string(from.type), .help = std::string(from.help), .samples = from.samples};
    } else if (found->second.type == from.type) {
      found->second.samples += from.samples;
    }
  }
  return true;
}

std::string MetricsUnion::text() const {
  std::string out;
  for (const std::string& name : order_) {
    const Family& family = families_.at(name);
    if (family.samples.empty()) continue;
    out.append("# HELP ").append(name).append(" ").append(family.help);
    out.append("\n# TYPE ").append(name).append(" ").append(family.type).append("\n");
    out += family.samples;
  }
  return out;
}

}  // namespace reshardfs
