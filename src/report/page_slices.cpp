// SPDX-License-Identifier: Apache-2.0
#include "report/page_slices.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "report/parameter_picture.h"
#include "report/slice_map.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostBytes = std::size_t{2} << 20;
/// The limit for one parameter; a larger picture does not fit a dialog.
constexpr std::size_t kMostBytesOfOne = std::size_t{512} << 10;
/// More examples are not looked at.
constexpr std::size_t kMostExamples = 2'000;

std::string picture_of(const TargetTable& target, const TargetParameter& parameter,
                       const std::vector<Rank>& ranks, DrawnSlices slices) {
  std::string picture;
  const TextSink sink = [&](std::string_view text) { picture += text; };
  BoundedWriter writer(sink);
  draw_parameter(target, parameter, ranks, Placement::kPage, slices, writer);
  writer.flush();
  return picture;
}

}  // namespace

PageSlices::PageSlices(const TargetTable& target, const std::vector<Rank>& ranks,
                       const std::vector<std::size_t>& examples)
    : target_(target), ranks_(ranks), examples_(examples) {
  std::unordered_map<std::string, std::int64_t> known;
  std::size_t bytes = 0;
  for (const std::size_t example : examples) {
    numbers_.push_back(-1);
    if (numbers_.size() > kMostExamples || bytes >= kMostBytes) continue;
    const TargetParameter& parameter = target.parameters()[example];
    if (slice_maps(target, parameter, ranks).empty()) continue;
    Slices slices{picture_of(target, parameter, ranks, DrawnSlices::kOfTheSource),
                  picture_of(target, parameter, ranks, DrawnSlices::kOfBothSides)};
    const std::size_t size = slices.source.size() + slices.target.size();
    if (size > kMostBytesOfOne) continue;
    const auto [found, is_new] =
        known.try_emplace(slices.source + slices.target, static_cast<std::int64_t>(slices_.size()));
    numbers_.back() = found->second;
    if (!is_new) continue;
    slices_.push_back(std::move(slices));
    bytes += size;
  }
}

void PageSlices::write_card(std::size_t example, BoundedWriter& out) {
  const auto place = std::find(examples_.begin(), examples_.end(), example);
  const std::int64_t number =
      place == examples_.end()
          ? -1
          : numbers_[static_cast<std::size_t>(std::distance(examples_.begin(), place))];
  if (number < 0 || slices_[static_cast<std::size_t>(number)].is_on_card) {
    out.write("<div class=\"fitted\">\n");
    draw_parameter(target_, target_.parameters()[example], ranks_, Placement::kPage,
                   DrawnSlices::kOfBothSides, out);
  } else {
    Slices& slices = slices_[static_cast<std::size_t>(number)];
    slices.is_on_card = true;
    out.print("<div class=\"fitted\" id=\"target-{}\">\n", number);
    out.write(slices.target);
  }
  out.write("</div>");
}

void PageSlices::write_rest(BoundedWriter& out) const {
  for (std::size_t number = 0; number < slices_.size(); ++number) {
    out.print("<template id=\"source-{}\">\n{}</template>\n", number, slices_[number].source);
    if (slices_[number].is_on_card) continue;
    out.print("<template id=\"target-{}\">\n{}</template>\n", number, slices_[number].target);
  }
}

}  // namespace reshardfs
