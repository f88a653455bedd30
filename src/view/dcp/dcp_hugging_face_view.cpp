// SPDX-License-Identifier: Apache-2.0
/// dcp-hf/: the destination in the Hugging Face form of torch.distributed.checkpoint: safetensors
/// files with boxes of tensors, of which the metadata says where they begin.
#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/json/json_writer.h"
#include "view/dcp/box_plan.h"
#include "view/files/shown_words.h"
#include "view/view.h"

namespace reshardfs {
namespace {

constexpr std::string_view kHfDirectory = "dcp-hf/";

/// Other types its reader takes for float32 (pytorch/pytorch torch/distributed/checkpoint/
/// hf_storage.py, _hf_utils.py).
void require_known_types(const BoxPlan& plan) {
  for (const TargetParameter* parameter : plan.parameters()) {
    switch (parameter->dtype) {
      case DType::kFloat64:
      case DType::kFloat32:
      case DType::kFloat16:
      case DType::kBFloat16:
      case DType::kInt64:
      case DType::kInt32:
      case DType::kInt16:
      case DType::kInt8:
      case DType::kUInt8:
        continue;
      default:
        break;
    }
    throw Error(ErrorKind::kUnsupported,
                "is " + std::string(mindspore_name(parameter->dtype)) +
                    ", which PyTorch's reader of dcp-hf takes for another type")
        .for_parameter(parameter->name)
        .hint("show it with --views dcp, convert it with --cast, or leave it out with --exclude");
  }
}

/// Some boxes of a plan, of each tensor one at most.
class ShardFile final : public SafetensorsFile {
 public:
  /// @param items in the plan.
  ShardFile(std::shared_ptr<const BoxPlan> plan, Rank rank, std::vector<std::size_t> items,
            std::shared_ptr<const Common> common)
      : SafetensorsFile(plan->target(), rank, std::move(common)),
        plan_(std::move(plan)),
        items_(std::move(items)) {
    measure();
  }

  std::optional<std::string> attribute(std::string_view name) const override {
    if (name != "source") return SafetensorsFile::attribute(name);
    std::vector<BoxPlan::Item> items;
    for (const std::size_t item : items_) items.push_back(plan_->items()[item]);
    return plan_->source_attribute(items);
  }

 private:
  std::vector<safetensors::HeaderTensor> tensors() const override {
    std::vector<safetensors::HeaderTensor> tensors;
    for (const std::size_t number : items_) {
      const BoxPlan::Item& item = plan_->items()[number];
      const TargetParameter& parameter = plan_->parameter(item);
      tensors.push_back(
          {parameter.name, parameter.dtype, plan_->box(item).sizes, plan_->is_shared(item)});
    }
    return tensors;
  }

  /// As its writer has it (filesystem.py, _write_files_from_queue).
  safetensors::Metadata metadata() const override {
    std::string sharding;
    for (const std::size_t number : items_) {
      const BoxPlan::Item& item = plan_->items()[number];
      const std::string& name = plan_->parameter(item).name;
      sharding += fmt::format("{}{}: {{\"saved_offsets\": [{}]}}", sharding.empty() ? "" : ", ",
                              json_quoted(name, JsonText::kReplaced),
                              fmt::join(plan_->box(item).offsets, ", "));
    }
    safetensors::Metadata metadata{{"DCP_SHARDING_INFO", "{" + sharding + "}"},
                                   {"DCP_VERSION", "1.0"}};
    for (const auto& entry : SafetensorsFile::metadata()) metadata.push_back(entry);
    return metadata;
  }

  void append_to(FileImage& image, std::size_t number) const override {
    image.append(plan_->view(plan_->items()[items_[number]]));
  }

  std::vector<const TargetParameter*> parameters() const override {
    std::vector<const TargetParameter*> parameters;
    for (const std::size_t item : items_) {
      parameters.push_back(&plan_->parameter(plan_->items()[item]));
    }
    return parameters;
  }

  std::shared_ptr<const BoxPlan> plan_;
  std::vector<std::size_t> items_;
};

/// Items of each of the files that a rank takes.
using Parts = std::vector<std::vector<std::size_t>>;

/// A rank may have several boxes of a tensor; a file can have one.
Parts divided(const BoxPlan& plan, std::size_t file) {
  Parts parts;
  std::size_t of_parameter = 0;
  const std::size_t first = plan.first_item(file);
  for (std::size_t i = first; i < first + plan.items_of(file).size(); ++i) {
    const bool again = i > first && plan.items()[i].parameter == plan.items()[i - 1].parameter;
    of_parameter = again ? of_parameter + 1 : 0;
    if (of_parameter == parts.size()) parts.emplace_back();
    parts[of_parameter].push_back(i);
  }
  return parts;
}

/// The names of all files, which tell a reader whether any is missing: shards are counted from 1
/// without a gap, though a rank may have nothing to write, and all of them have as many parts,
/// though one rank may need more than another. Where they do, each part is a shard.
std::vector<std::vector<std::string>> names_of(const std::vector<Parts>& all) {
  std::size_t most = 0;
  bool is_even = true;
  for (const Parts& parts : all) {
    if (parts.empty()) continue;
    is_even = is_even && (most == 0 || parts.size() == most);
    most = std::max(most, parts.size());
  }
  std::vector<std::vector<std::string>> names;
  std::size_t shard = 0;
  for (const Parts& parts : all) {
    std::vector<std::string>& of_file = names.emplace_back();
    if (is_even && !parts.empty()) ++shard;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if (!is_even) ++shard;
      of_file.push_back(fmt::format("shard-{:05}-model-{:05}-of-{:05}.safetensors", shard,
                                    is_even ? part + 1 : 1, is_even ? most : 1));
    }
  }
  return names;
}

}  // namespace

std::vector<OutputFile> dcp_hugging_face_view(const ViewContext& context) {
  const auto plan = std::make_shared<const BoxPlan>(box_plan(context));
  require_known_types(*plan);
  const DescribedFiles described{*plan->target(), {}, true};
  const auto common = with_words(safetensors_common(context, SafetensorsKind::kOwn, "pt"),
                                 shown_words(context, described).header);
  std::vector<Parts> all;
  for (std::size_t file = 0; file < plan->file_count(); ++file) {
    all.push_back(divided(*plan, file));
  }
  const std::vector<std::vector<std::string>> names = names_of(all);
  std::vector<OutputFile> files;
  for (const std::size_t file : shown_files(context, *plan, std::string(kHfDirectory))) {
    for (std::size_t part = 0; part < all[file].size(); ++part) {
      files.push_back({std::string(kHfDirectory) + names[file][part],
                       std::make_shared<ShardFile>(plan, Rank(static_cast<std::int64_t>(file)),
                                                   std::move(all[file][part]), common)});
    }
  }
  return files;
}

}  // namespace reshardfs
