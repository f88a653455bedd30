// SPDX-License-Identifier: Apache-2.0
#include "report/svg.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(XmlText, EscapesMarkup) {
  EXPECT_EQ(xml_text("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
  EXPECT_THAT(xml_text("</script>'"), Not(HasSubstr("'")));
}

TEST(XmlText, HasNothingThatXmlForbids) {
  EXPECT_EQ(xml_text(std::string("a\0b\x1b", 4)), "a\\x00b\\x1b");
  EXPECT_EQ(xml_text("\xff"), "\\xff");
  EXPECT_EQ(xml_text("\xef\xbf\xbe|\xef\xbf\xbf"), "\xef\xbf\xbd|\xef\xbf\xbd");
}

TEST(BoundedWriter, GivesAllOfItInOrderAndInPieces) {
  std::string all;
  std::size_t largest = 0;
  const TextSink sink = [&](std::string_view part) {
    all += part;
    largest = std::max(largest, part.size());
  };
  BoundedWriter writer(sink);
  std::string expected;
  for (int i = 0; i < 20000; ++i) {
    writer.print("{},", i);
    writer.write("x");
    expected += std::to_string(i) + ",x";
  }
  writer.flush();
  EXPECT_EQ(all, expected);
  EXPECT_LT(largest, 20000U);
}

std::string picture(Placement placement) {
  std::string out;
  const TextSink sink = [&](std::string_view part) { out += part; };
  BoundedWriter writer(sink);
  Svg svg(writer, placement, 100, 50, "<label>");
  svg.box({1, 2, 3, 4}, "h1", "<title>");
  svg.close();
  writer.flush();
  return out;
}

std::string text(std::string_view style) {
  std::string out;
  const TextSink sink = [&](std::string_view part) { out += part; };
  BoundedWriter writer(sink);
  Svg svg(writer, Placement::kPage, 100, 50, "label");
  svg.text(1, 2, style, "words");
  svg.close();
  writer.flush();
  return out;
}

TEST(Svg, StandsAloneOrInAPage) {
  const std::string document = picture(Placement::kDocument);
  EXPECT_THAT(document, HasSubstr("<style>"));
  EXPECT_THAT(document, HasSubstr("<title>&lt;title&gt;</title>"));
  EXPECT_THAT(document, HasSubstr("aria-label=\"&lt;label&gt;\""));
  EXPECT_THAT(picture(Placement::kPage), Not(HasSubstr("<style>")));
}

TEST(Svg, HasItsLightColoursAsAttributes) {
  EXPECT_THAT(picture(Placement::kPage), HasSubstr(R"(class="h1" fill="#deebf7")"));
  EXPECT_THAT(text("s q m"), HasSubstr(R"( class="t q" text-anchor="middle" fill="#5a6675">)"));
  EXPECT_THAT(text("s"), HasSubstr(R"( class="t">)")) << "the root's color and size";
  EXPECT_THAT(text("x w"), HasSubstr(R"(y="2.0" font-size="9" fill="#fff">)"))
      << "the same in both themes";
  EXPECT_THAT(text("s n6"), HasSubstr(R"( class="n6" fill="#fff">)"));
  EXPECT_THAT(text("s n2"), HasSubstr(R"( class="n2">)"));
  // The style sheet has the dark theme alone.
  EXPECT_EQ(picture_style().find("@media (prefers-color-scheme:dark){"), 0U);
}

}  // namespace
}  // namespace reshardfs
