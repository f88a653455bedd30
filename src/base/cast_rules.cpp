// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "reshardfs/error.h"

#include "base/cast.h"
#include "base/text/glob.h"

namespace reshardfs {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 13> kNames{{
    {"fp16", DType::kFloat16},
    {"f16", DType::kFloat16},
    {"float16", DType::kFloat16},
    {"half", DType::kFloat16},
    {"bf16", DType::kBFloat16},
    {"bfloat16", DType::kBFloat16},
    {"fp32", DType::kFloat32},
    {"f32", DType::kFloat32},
    {"float32", DType::kFloat32},
    {"fp64", DType::kFloat64},
    {"f64", DType::kFloat64},
    {"float64", DType::kFloat64},
    {"double", DType::kFloat64},
}};

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorKind::kUsage, "cannot understand the cast '" + printable(text) + "': " + why)
      .hint(
          "write [GLOB:]FROM->TO, e.g. 'fp32->bf16' or '*.weight:fp32->fp16'; the types are fp16, "
          "bf16, fp32 and fp64");
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlank = " \t";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

DType type_in(const std::string& text, const std::string& name) {
  if (const auto dtype = dtype_from_cast_name(name)) return *dtype;
  refuse(text, name.empty() ? "a type is missing"
                            : "'" + printable(name) + "' is not a floating-point type");
}

}  // namespace

std::optional<DType> dtype_from_cast_name(std::string_view name) noexcept {
  const auto same = [&](const auto& known) {
    return std::equal(
        name.begin(), name.end(), known.first.begin(), known.first.end(),
        [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
  };
  const auto* const found = std::find_if(kNames.begin(), kNames.end(), same);
  if (found == kNames.end()) return std::nullopt;
  return found->second;
}

CastRule parse_cast(const std::string& text) {
  const std::size_t arrow = text.rfind("->");
  if (arrow == std::string::npos) refuse(text, "'->' is missing");
  const std::string before = text.substr(0, arrow);
  const std::size_t colon = before.rfind(':');
  CastRule rule{"*", {}, {}};
  if (colon != std::string::npos) rule.glob = before.substr(0, colon);
  if (rule.glob.empty()) refuse(text, "the parameters' pattern is empty");
  rule.from =
      type_in(text, trimmed(colon == std::string::npos ? before : before.substr(colon + 1)));
  rule.to = type_in(text, trimmed(text.substr(arrow + 2)));
  return rule;
}

Casts::Casts(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) rules_.push_back(parse_cast(text));
}

DType Casts::target(const std::string& parameter, DType source) const {
  const CastRule* rule = rule_for(parameter, source);
  return rule == nullptr ? source : rule->to;
}

const CastRule* Casts::rule_for(const std::string& parameter, DType source) const {
  const auto found = std::find_if(rules_.begin(), rules_.end(), [&](const CastRule& rule) {
    return rule.from == source && glob_match(rule.glob, parameter);
  });
  return found == rules_.end() ? nullptr : &*found;
}

}  // namespace reshardfs
