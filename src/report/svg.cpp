// SPDX-License-Identifier: Apache-2.0
#include "report/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "base/text/utf8.h"

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

constexpr std::string_view kInk = "#1c2430";
constexpr int kSmall = 11;

struct Part {
  std::string_view style;
  std::string_view attributes;
};

constexpr std::array<Part, 12> kParts{
    {{"bg", R"(fill="#fff")"},
     {"z", R"(fill="#eef1f5")"},  // no bytes, or no shown rank
     {"o", R"(fill="none" stroke="#10151d" stroke-width="1.5" pointer-events="none")"},
     {"bar", R"(fill="#8b98a8")"},
     {"miss", R"(fill="#fff" stroke="#c0392b" stroke-dasharray="4 3")"},
     {"h1", R"(fill="#deebf7")"},
     {"h2", R"(fill="#bfd9ee")"},
     {"h3", R"(fill="#94c1e0")"},
     {"h4", R"(fill="#62a3d0")"},
     {"h5", R"(fill="#3a80b8")"},
     {"h6", R"(fill="#1f5f99")"},
     {"h7", R"(fill="#0d3d6b")"}}};

std::string_view box_attributes(std::string_view style) {
  const auto found = std::find_if(kParts.begin(), kParts.end(),
                                  [style](const Part& part) { return part.style == style; });
  return found == kParts.end() ? std::string_view() : found->attributes;
}

/// With a blank before each. Attributes of the root are not repeated.
std::string text_attributes(std::string_view style) {
  std::string size = R"( font-size="13")";
  std::string weight;
  std::string anchor;
  std::string fill;
  std::string theme = "t";
  while (!style.empty()) {
    const std::size_t end = std::min(style.find(' '), style.size());
    const std::string_view word = style.substr(0, end);
    style.remove_prefix(std::min(end + 1, style.size()));
    if (word == "s") size.clear();
    if (word == "x") size = R"( font-size="9")";
    if (word == "h") weight = R"( font-weight="700")";
    if (word == "b") {
      size = R"( font-size="15")";
      weight = R"( font-weight="600")";
    }
    if (word == "m") anchor = R"( text-anchor="middle")";
    if (word == "e") anchor = R"( text-anchor="end")";
    if (word == "q") fill = R"( fill="#5a6675")";
    if (word == "q") theme = "t q";
    if (word == "k" || word == "w") theme.clear();
    if (word == "k") fill = R"( fill="#10151d")";
    if (word == "w") fill = R"( fill="#fff")";
    if (word.starts_with('n')) {
      theme = word;
      if (word >= "n5") fill = R"( fill="#fff")";
    }
  }
  if (!theme.empty()) theme = fmt::format(R"( class="{}")", theme);
  return theme + size + weight + anchor + fill;
}

}  // namespace

std::string xml_text(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view escaped = markup(text[at]);
    // An invalid byte counts as a character.
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
  return R"(@media (prefers-color-scheme:dark){
.pic .bg{fill:#14181f}
.pic .t{fill:#e4e9f0}
.pic .q{fill:#9aa7b8}
.pic .z{fill:#1d232d}
.pic .bar{fill:#6f7d8f}
.pic .miss{fill:#14181f;stroke:#ff7a6b}
.pic .h1{fill:#16304a}.pic .h2{fill:#1b4165}.pic .h3{fill:#215583}.pic .h4{fill:#2a6ea6}
.pic .h5{fill:#438cc6}.pic .h6{fill:#74b0df}.pic .h7{fill:#b3d7f4}
.pic .n1,.pic .n2,.pic .n3,.pic .n4{fill:#fff}
.pic .n5,.pic .n6,.pic .n7{fill:#0b1420}
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
      "width=\"{:.0f}\" height=\"{:.0f}\" viewBox=\"0 0 {:.0f} {:.0f}\" font-family=\"system-ui,"
      "-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif\" font-size=\"{}\" "
      "fill=\"{}\">\n",
      xml_text(label), width, height, width, height, kSmall, kInk);
  if (placement == Placement::kPage) return;
  out_.print("<title>{}</title>\n<style>\n", xml_text(label));
  out_.write(picture_style());
  out_.write("</style>\n");
  box({0, 0, width, height}, "bg");
}

void Svg::write_box(const Rectangle& box) {
  out_.print(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}")", box.x, box.y,
             box.width, box.height);
}

void Svg::end_box(const std::string& title) {
  if (title.empty()) {
    out_.write("/>\n");
  } else {
    out_.print("><title>{}</title></rect>\n", xml_text(title));
  }
}

void Svg::box(const Rectangle& box, std::string_view style, const std::string& title) {
  write_box(box);
  out_.print(R"( class="{}" {})", style, box_attributes(style));
  end_box(title);
}

void Svg::filled_box(const Rectangle& box, const std::string& fill, const std::string& title) {
  write_box(box);
  out_.print(R"( fill="{}")", fill);
  end_box(title);
}

void Svg::text(double x, double y, std::string_view style, const std::string& text) {
  out_.print("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, text_attributes(style),
             xml_text(text));
}

void Svg::text_upwards(double x, double y, std::string_view style, const std::string& text) {
  out_.print(
      "<text x=\"{0:.1f}\" y=\"{1:.1f}\" transform=\"rotate(-90 {0:.1f} {1:.1f})\"{2}>{3}</text>\n",
      x, y, text_attributes(style), xml_text(text));
}

void Svg::begin_group(Edges edges) {
  out_.write(edges == Edges::kBordered ? "<g stroke=\"#fff\" stroke-width=\"0.7\">\n"
                                       : "<g shape-rendering=\"crispEdges\">\n");
}

void Svg::end_group() {
  out_.write("</g>\n");
}

void Svg::close() {
  out_.write("</svg>\n");
}

double small_text_width(const std::string& text) {
  return 6.3 * static_cast<double>(text_width(text));
}

}  // namespace reshardfs
