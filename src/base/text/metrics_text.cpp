// SPDX-License-Identifier: Apache-2.0
#include "base/text/metrics_text.h"

#include <algorithm>

#include "base/text/utf8.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

/// Nanoseconds as seconds, "1.000000005", in any locale.
std::string seconds(std::chrono::nanoseconds time) {
  const auto all = static_cast<std::uint64_t>(time.count());
  const std::string digits = std::to_string(all % kNanosecondsPerSecond);
  return std::to_string(all / kNanosecondsPerSecond) + '.' + std::string(9 - digits.size(), '0') +
         digits;
}

/// A bound as Prometheus' own clients write it: "0.0001", "1".
std::string bound_text(std::chrono::nanoseconds bound) {
  std::string text = seconds(bound);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string label_text(std::string_view name, std::string_view value) {
  return std::string(name) + "=\"" + metric_label_value(value) + '"';
}

std::string label_texts(std::initializer_list<MetricsText::Label> labels) {
  std::string text;
  for (const MetricsText::Label& label : labels) text += ',' + label_text(label.name, label.value);
  return text;
}

}  // namespace

std::string metric_label_value(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto [bytes, character] = utf8_character(text, at);
    const char first = text[at];
    const bool is_shown = bytes != 0 && !is_control(character) && !is_layout_control(character);
    if (!is_shown && first != '\n') {
      for (const std::size_t end = at + std::max(bytes, std::size_t{1}); at < end; ++at) {
        const auto byte = static_cast<unsigned char>(text[at]);
        out.append("\\\\x").append({kDigits[byte >> 4U], kDigits[byte & 0xfU]});
      }
      continue;
    }
    if (first == '\n') {
      out += "\\n";
    } else {
      if (first == '\\' || first == '"') out += '\\';
      out.append(text, at, bytes);
    }
    at += bytes;
  }
  return out;
}

MetricsText::MetricsText(std::string_view mount) : mount_label_(label_text("mount", mount)) {}

void MetricsText::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = std::string(kMetricPrefix).append(name);
  text_.append("# HELP ").append(name_).append(" ").append(help).append("\n# TYPE ");
  text_.append(name_).append(" ").append(type).append("\n");
}

void MetricsText::sample(std::uint64_t value, std::initializer_list<Label> labels) {
  line("", label_texts(labels), std::to_string(value));
}

void MetricsText::seconds_sample(std::chrono::nanoseconds value) {
  line("", "", seconds(value));
}

void MetricsText::histogram(std::span<const std::chrono::microseconds> bounds,
                            std::span<const std::uint64_t> counts, std::chrono::nanoseconds total,
                            std::initializer_list<Label> labels) {
  const std::string own = label_texts(labels);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    sum += counts[i];
    const std::string bound = i < bounds.size() ? bound_text(bounds[i]) : "+Inf";
    line("_bucket", own + ',' + label_text("le", bound), std::to_string(sum));
  }
  line("_sum", own, seconds(total));
  line("_count", own, std::to_string(sum));
}

void MetricsText::line(std::string_view suffix, std::string_view labels, std::string_view value) {
  text_.append(name_).append(suffix).append("{").append(mount_label_).append(labels);
  text_.append("} ").append(value).append("\n");
}

}  // namespace reshardfs
