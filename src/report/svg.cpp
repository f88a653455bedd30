// SPDX-License-Identifier: Apache-2.0
#include "report/svg.h"

#include <algorithm>
#include <cmath>

#include "reshardfs/error.h"

#include "base/text.h"
#include "base/utf8.h"

namespace reshardfs {
namespace {

std::string_view markup(char c) {
  switch (c) {
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '&':
      return "&amp;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string xml_text(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view escaped = markup(text[at]);
    // What is no character is one byte of it.
    const std::string character = text.substr(at, std::max<std::size_t>(1, utf8_length(text, at)));
    if (!escaped.empty()) {
      out += escaped;
    } else if (character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf") {
      out += "\xef\xbf\xbd";  // U+FFFE and U+FFFF are UTF-8, but not for XML
    } else {
      out += character == "\\" ? character : printable(character);
    }
    at += character.size();
  }
  return out;
}

std::string_view picture_style() {
  // Classes alone, no variables: viewers that are no browsers know these.
  return R"(.pic{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
.pic .bg{fill:#fff}
.pic .t{font-size:13px;fill:#1c2430}
.pic .s{font-size:11px}
.pic .b{font-size:16px;font-weight:600}
.pic .q{fill:#5a6675}
.pic .m{text-anchor:middle}
.pic .e{text-anchor:end}
.pic .z{fill:#f3f5f8}
.pic .o{fill:none;stroke:#1c2430;stroke-width:1.5;pointer-events:none}
.pic .bar{fill:#8b98a8}
.pic .miss{fill:#fff;stroke:#c0392b;stroke-dasharray:4 3}
.pic .h1{fill:#deebf7}.pic .h2{fill:#bfd9ee}.pic .h3{fill:#94c1e0}.pic .h4{fill:#62a3d0}
.pic .h5{fill:#3a80b8}.pic .h6{fill:#1f5f99}.pic .h7{fill:#0d3d6b}
.pic .n5,.pic .n6,.pic .n7{fill:#fff}
.pic .c0{fill:#a9cdee}.pic .c1{fill:#fbcf9d}.pic .c2{fill:#b4dfae}.pic .c3{fill:#f4b5b5}
.pic .c4{fill:#d3c1ec}.pic .c5{fill:#e3cbb4}.pic .c6{fill:#f6c6e0}.pic .c7{fill:#d0d4da}
.pic .c8{fill:#e6e398}.pic .c9{fill:#a6e1e2}
@media (prefers-color-scheme:dark){
.pic .bg{fill:#14181f}
.pic .t{fill:#e4e9f0}
.pic .q{fill:#9aa7b8}
.pic .z{fill:#1d232d}
.pic .o{stroke:#e4e9f0}
.pic .bar{fill:#6f7d8f}
.pic .miss{fill:#14181f;stroke:#ff7a6b}
.pic .h1{fill:#16304a}.pic .h2{fill:#1b4165}.pic .h3{fill:#215583}.pic .h4{fill:#2a6ea6}
.pic .h5{fill:#438cc6}.pic .h6{fill:#74b0df}.pic .h7{fill:#b3d7f4}
.pic .n5,.pic .n6,.pic .n7{fill:#0b1420}
.pic .c0{fill:#26557f}.pic .c1{fill:#80521c}.pic .c2{fill:#2f662c}.pic .c3{fill:#803434}
.pic .c4{fill:#5b4287}.pic .c5{fill:#66503b}.pic .c6{fill:#813f68}.pic .c7{fill:#4d5560}
.pic .c8{fill:#67641c}.pic .c9{fill:#1f6768}
}
)";
}

Svg::Svg(BoundedWriter& out, Placement placement, double width, double height,
         const std::string& label)
    : out_(out) {
  width = std::ceil(width);
  height = std::ceil(height);
  out_.print(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"pic\" role=\"img\" aria-label=\"{}\" "
      "width=\"{:.0f}\" height=\"{:.0f}\" viewBox=\"0 0 {:.0f} {:.0f}\">\n",
      xml_text(label), width, height, width, height);
  if (placement == Placement::kPage) return;
  out_.print("<title>{}</title>\n<style>\n", xml_text(label));
  out_.write(picture_style());
  out_.write("</style>\n");
  box({0, 0, width, height}, "bg");
}

void Svg::box(const Box& box, std::string_view style, const std::string& title) {
  out_.print(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="{}")", box.x,
             box.y, box.width, box.height, style);
  if (title.empty()) {
    out_.write("/>\n");
  } else {
    out_.print("><title>{}</title></rect>\n", xml_text(title));
  }
}

void Svg::text(double x, double y, std::string_view style, const std::string& text) {
  out_.print("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, style,
             xml_text(text));
}

void Svg::text_upwards(double x, double y, std::string_view style, const std::string& text) {
  out_.print(
      "<text x=\"{0:.1f}\" y=\"{1:.1f}\" transform=\"rotate(-90 {0:.1f} {1:.1f})\" "
      "class=\"{2}\">{3}</text>\n",
      x, y, style, xml_text(text));
}

void Svg::close() {
  out_.write("</svg>\n");
}

double small_text_width(const std::string& text) {
  return 6.3 * static_cast<double>(text_width(text));
}

}  // namespace reshardfs
