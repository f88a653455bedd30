// SPDX-License-Identifier: Apache-2.0
#include "view/iteration/training_state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <span>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "checkpoint/iteration/iteration_names.h"
#include "format/mindformers/iteration_common.h"
#include "plan/reading/content.h"
#include "storage/inputs.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMaxStateBytes = 65536;

using Values = std::map<std::string, CommonValue, std::less<>>;

template <typename Value>
Value value_in(std::span<const std::byte> bytes) {
  Value value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// The value of a parameter of one element, if it is of a type that trainers count with.
std::optional<CommonValue> scalar(const TargetParameter& parameter) {
  const SourceParameter& source = *parameter.source;
  if (parameter.treatment != Treatment::kKeep || !is_array(source.dtype) ||
      element_count(parameter.grid->full_shape()) != 1 || !parameter.grid->complete()) {
    return std::nullopt;
  }
  std::array<std::byte, 8> space{};
  const std::span<std::byte> bytes(space.data(),
                                   static_cast<std::size_t>(element_size(source.dtype)));
  ReadBatch batch;
  read_content(parameter.grid->cell(0), 0, bytes, batch);
  batch.check();
  double number = 0;
  switch (source.dtype) {
    case DType::kInt32:
      return value_in<std::int32_t>(bytes);
    case DType::kInt64:
      return value_in<std::int64_t>(bytes);
    case DType::kFloat32:
      number = value_in<float>(bytes);
      break;
    case DType::kFloat64:
      number = value_in<double>(bytes);
      break;
    default:
      return std::nullopt;
  }
  // JSON has no others.
  return std::isfinite(number) ? std::optional<CommonValue>(number) : std::nullopt;
}

Values values_of(const TargetTable& target) {
  Values values;
  for (const TargetParameter& parameter : target.parameters()) {
    if (std::find(kCommonKeys.begin(), kCommonKeys.end(), parameter.name) == kCommonKeys.end()) {
      continue;
    }
    if (const auto value = scalar(parameter)) values.emplace(parameter.name, *value);
  }
  return values;
}

std::optional<std::int64_t> count_in(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  if (found == values.end()) return std::nullopt;
  const auto* count = std::get_if<std::int64_t>(&found->second);
  return count != nullptr && *count >= 0 ? std::optional(*count) : std::nullopt;
}

/// "50" of "9_50": the step in its epoch.
std::optional<std::int64_t> last_number(const std::string& step) {
  const std::size_t end = step.find_last_not_of("0123456789");
  return parse_number(std::string_view(step).substr(end == std::string::npos ? 0 : end + 1));
}

/// That of the source, if it has one that can be passed on.
std::optional<std::string> own_common(const ViewContext& context,
                                      const std::filesystem::path& directory,
                                      std::vector<std::string>& notes) {
  const std::filesystem::path path = directory / kIterationCommon;
  const SourceTreePtr tree = recording(
      linkless_tree_of(context.options.source.no_symlinks ? context.options.source.path : "", path),
      context.inputs);
  if (path_kind(path, tree) == PathKind::kMissing) return std::nullopt;
  std::string text = read_small_file(path, kMaxStateBytes, tree);
  if (is_common_json(text)) return text;
  notes.push_back("'" + printable(path.native()) +
                  "' is not as MindSpore Transformers reads it: iteration/ has another");
  return std::nullopt;
}

}  // namespace

TrainingState training_state(const ViewContext& context) {
  TrainingState state;
  const CheckpointSet& checkpoint = context.target->source().checkpoint();
  const RankFile& file = checkpoint.files().front();
  const bool own_format = parse_iteration_file(file.path.filename().string()).has_value();
  auto step = own_format ? last_number(checkpoint.step()) : std::nullopt;
  std::optional<std::string> common;
  if (own_format) common = own_common(context, file.path.parent_path(), state.notes);
  if (step && common) return {*step, std::move(*common), std::move(state.notes)};
  Values values = values_of(*context.target);
  if (!step) step = count_in(values, "global_step");
  if (!step) step = count_in(values, "step_num");
  if (!step) step = last_number(checkpoint.step());
  state.step = step.value_or(0);
  if (common) {
    state.common = std::move(*common);
    return state;
  }
  if (step) {
    values.try_emplace("step_num", *step);
    values.try_emplace("global_step", *step);
  } else {
    state.notes.emplace_back(
        "iteration/ is of step 0, as nothing in the source tells which step it is");
  }
  state.common = common_json(values);
  std::string lacking;
  for (const std::string_view key : {"epoch_num", "step_num", "global_step", "global_batch_size"}) {
    if (values.contains(key)) continue;
    lacking += (lacking.empty() ? "" : ", ") + std::string(key);
  }
  if (!lacking.empty()) {
    state.notes.push_back("iteration/: the source does not tell " + lacking +
                          ", which MindSpore Transformers needs to resume training; loading "
                          "weights does not need them");
  }
  return state;
}

}  // namespace reshardfs
