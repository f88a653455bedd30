// SPDX-License-Identifier: Apache-2.0
/// Pictures: the few elements of SVG that they are made of, and their colours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/bounded_writer.h"

namespace reshardfs {

/// A text as content of an XML element or as an attribute's value: markup is escaped, and what XML
/// cannot hold (control characters, bytes that are not UTF-8) is shown as printable() shows it.
std::string xml_text(const std::string& text);

/// What the dark theme changes about all pictures. Their light colours are attributes of their
/// elements, so that a copy which loses its style sheet keeps them.
std::string_view picture_style();

/// Where a picture stands.
enum class Placement : std::uint8_t {
  kDocument,  ///< a file of its own
  kPage,      ///< in a page that has picture_style() among its styles
};

/// Units are pixels; numbers have one decimal. Texts are escaped here.
class Svg {
 public:
  /// @param label what the picture shows, for those who cannot see it.
  Svg(BoundedWriter& out, Placement placement, double width, double height,
      const std::string& label);

  struct Rectangle {
    double x = 0;
    double y = 0;
    double width = 0;
    double height = 0;
  };

  /// @param style a part of a picture, by which the dark theme knows it: see svg.cpp.
  /// @param title shown where the pointer rests; empty: none.
  void box(const Rectangle& box, std::string_view style, const std::string& title = {});
  /// A box in a colour that is the same in both themes.
  void filled_box(const Rectangle& box, const std::string& fill, const std::string& title = {});
  /// @param style words: "s" small, "x" very small, "b" a heading, "h" bold; "q" quiet; "m" in the
  ///        middle, "e" ends at x; of a text on a colour "k" black, "w" white in both themes, "n1"
  ///        to "n7" on that shade. Otherwise it has the theme's colour.
  void text(double x, double y, std::string_view style, const std::string& text);
  /// Reads upwards, beginning at (x, y).
  void text_upwards(double x, double y, std::string_view style, const std::string& text);
  enum class Edges : std::uint8_t {
    kBordered,  ///< thin white borders
    kCrisp,     ///< none, and colors do not blend where boxes are thinner than a pixel
  };
  /// What follows has these edges, until end_group().
  void begin_group(Edges edges);
  void end_group();
  /// To be called once, at the end.
  void close();

 private:
  void write_box(const Rectangle& box);
  void end_box(const std::string& title);

  BoundedWriter& out_;
};

/// Pixels that a text takes in a small font ("s"), near enough.
double small_text_width(const std::string& text);

}  // namespace reshardfs
