// SPDX-License-Identifier: Apache-2.0
#include "report/picture_legend.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostTensors = 12;
constexpr std::size_t kMostSwatches = 64;

}  // namespace

bool PictureLegend::has_ramp() const {
  return sources_.count() > kHues && !sources_.are_tensors();
}

double PictureLegend::height() const {
  if (sources_.are_tensors()) {
    const std::size_t shown = std::min(sources_.count(), kMostTensors);
    return 20 + static_cast<double>(shown + (sources_.count() > shown ? 1 : 0)) * 18;
  }
  return 20 + (has_ramp() ? 34 : 20);
}

void PictureLegend::draw(Svg& svg, double top) const {
  svg.text(frame_.margin, top + 8, "s q",
           sources_.are_tensors() ? "Outlines, bold: target ranks. Colors, plain: source tensors."
                                  : "Outlines, bold: target ranks. Colors, plain: source ranks.");
  top += 18;
  if (sources_.are_tensors()) {
    draw_tensors(svg, top);
  } else if (has_ramp()) {
    draw_ramp(svg, top);
  } else {
    draw_swatches(svg, top);
  }
}

void PictureLegend::draw_tensors(Svg& svg, double top) const {
  const auto columns =
      static_cast<std::size_t>((frame_.width() - 2 * frame_.margin - 56) / small_text_width("n"));
  const std::size_t shown = std::min(sources_.count(), kMostTensors);
  for (std::size_t i = 0; i < shown; ++i, top += 18) {
    svg.filled_box({frame_.margin, top, 13, 13}, sources_.colour(i).fill, sources_.label(i));
    svg.text(frame_.margin + 20, top + 11, "s",
             sources_.short_label(i) + " " + shortened(sources_.label(i), columns));
  }
  if (sources_.count() > shown) {
    svg.text(
        frame_.margin, top + 11, "s q",
        fmt::format("and {} more: point at a part to see its tensor", sources_.count() - shown));
  }
}

void PictureLegend::draw_swatches(Svg& svg, double top) const {
  double x = frame_.margin;
  for (std::size_t i = 0; i < sources_.count(); ++i) {
    // In a page titles are those of parts: a table repeats them.
    const std::string title = frame_.has_heading ? "source rank " + sources_.label(i) : "";
    svg.filled_box({x, top, 13, 13}, sources_.colour(i).fill, title);
    svg.text(x + 17, top + 11, "s", sources_.label(i));
    x += 17 + small_text_width(sources_.label(i)) + 10;
  }
}

void PictureLegend::draw_ramp(Svg& svg, double top) const {
  const std::size_t count = std::min(sources_.count(), kMostSwatches);
  const double width = (frame_.width() - 2 * frame_.margin) / static_cast<double>(count);
  const double last_label = small_text_width(sources_.label(sources_.count() - 1));
  double labelled = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = i * (sources_.count() - 1) / (count - 1);
    const double x = frame_.margin + static_cast<double>(i) * width;
    const std::string label = sources_.label(number);
    svg.filled_box({x, top, width + 0.3, 13}, sources_.colour(number).fill, "source rank " + label);
    const double needed = small_text_width(label);
    const double end = frame_.margin + static_cast<double>(count) * width;
    const bool last = i + 1 == count;
    const bool free = x >= labelled && x + needed + 8 + last_label <= end;
    if (!last && !free) continue;
    svg.text(last ? end : x, top + 26, last ? "s e" : "s", label);
    labelled = x + needed + 8;
  }
}

}  // namespace reshardfs
