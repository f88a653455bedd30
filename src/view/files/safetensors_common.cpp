// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "reshardfs/error.h"

#include "view/files/text_value.h"
#include "view/view.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMindSporesAlign = 8;
constexpr std::uint64_t kPage = 4096;

SafetensorsFile::Common without_texts(const ViewContext& context, SafetensorsKind kind,
                                      const std::string& format) {
  const ConversionOptions& options = context.options;
  SafetensorsFile::Common common;
  common.sizes = context.sizes;
  const bool equals_mindspores =
      kind == SafetensorsKind::kMindSpores && format == "ms" && options.casts.empty();
  common.as_in_source = options.as_in_source && !options.align;
  common.align =
      options.align.value_or(equals_mindspores && !common.as_in_source ? kMindSporesAlign : kPage);
  common.metadata.emplace_back("format", format);
  std::string casts;
  for (const std::string& cast : options.casts) casts += (casts.empty() ? "" : ", ") + cast;
  if (!casts.empty()) common.metadata.emplace_back("cast", casts);
  return common;
}

}  // namespace

std::shared_ptr<const SafetensorsFile::Common> safetensors_common(const ViewContext& context,
                                                                  SafetensorsKind kind,
                                                                  const std::string& format) {
  return std::make_shared<const SafetensorsFile::Common>(without_texts(context, kind, format));
}

std::shared_ptr<const SafetensorsFile::Common> safetensors_common(const ViewContext& context,
                                                                  const TargetTable& table,
                                                                  SafetensorsKind kind,
                                                                  const std::string& format) {
  constexpr std::size_t kNamed = 5;
  SafetensorsFile::Common common = without_texts(context, kind, format);
  std::string left_out;
  std::size_t left_out_count = 0;
  for (const TargetParameter& parameter : table.parameters()) {
    if (is_array(parameter.dtype)) continue;
    const auto has_the_name = [&](const auto& entry) { return entry.first == parameter.name; };
    const bool taken = std::any_of(common.metadata.begin(), common.metadata.end(), has_the_name);
    const std::optional<std::string> value = taken ? std::nullopt : text_value(parameter);
    if (value) {
      common.metadata.emplace_back(parameter.name, *value);
    } else if (++left_out_count <= kNamed) {
      left_out += (left_out.empty() ? "" : ", ") + printable(parameter.name);
    }
  }
  if (left_out_count > 0) {
    context.warnings.push_back(
        "not in safetensors files, which hold arrays and short texts only: " + left_out +
        (left_out_count > kNamed ? ", ..." : ""));
  }
  return std::make_shared<const SafetensorsFile::Common>(std::move(common));
}

}  // namespace reshardfs
