// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "report/map_sources.h"
#include "report/svg.h"

namespace reshardfs {

/// Sizes of a picture, in pixels.
struct PictureFrame {
  double margin = 24;
  double axis = 44;  ///< to the left of what has rows
  double longest = 640;
  double shortest = 200;
  double highest = 360;
  double highest_of_many = 960;  ///< of more rows than have room in `highest`
  double bar = 72;               ///< the height of what has one dimension
  bool has_heading = true;

  double width() const { return longest + axis + 2 * margin; }
};

/// Which color is which source, below a picture.
class PictureLegend {
 public:
  /// Both must outlive it.
  PictureLegend(const MapSources& sources, const PictureFrame& frame)
      : sources_(sources), frame_(frame) {}

  double height() const;
  void draw(Svg& svg, double top) const;

 private:
  /// Whether the sources are too many for colors of their own.
  bool has_ramp() const;
  void draw_tensors(Svg& svg, double top) const;
  void draw_swatches(Svg& svg, double top) const;
  void draw_ramp(Svg& svg, double top) const;

  const MapSources& sources_;
  const PictureFrame& frame_;
};

}  // namespace reshardfs
