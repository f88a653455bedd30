// SPDX-License-Identifier: Apache-2.0
#include "modelmap/tensor_plan.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <utility>

#include "reshardfs/error.h"

#include "base/toml/toml_table.h"
#include "modelmap/map_toml.h"

namespace reshardfs {
namespace {

constexpr std::string_view kBias = ".bias";
constexpr std::string_view kWeight = ".weight";

/// The module whose weight or bias a tensor is; the tensor itself if it is a parameter of its own.
std::string_view module_of(std::string_view name) {
  for (const std::string_view end : {kWeight, kBias}) {
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  }
  return name;
}

/// The number of "layers.7.mlp", and where it stands.
std::optional<std::pair<std::int64_t, std::size_t>> layer_in(std::string_view name) {
  for (const std::string_view stack : {"layers.", "blocks.", "h."}) {
    if (!name.starts_with(stack)) continue;
    std::int64_t number = 0;
    const char* const begin = name.data() + stack.size();
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(begin, end, number);
    if (read.ec == std::errc() && read.ptr != begin && read.ptr != end && *read.ptr == '.') {
      return std::pair(number, stack.size());
    }
  }
  return std::nullopt;
}

}  // namespace

template <typename Use>
bool TensorPlan::any_text(std::string_view name, const Use& use) const {
  return std::any_of(shared_->text.begin(), shared_->text.end(), [&](const std::string& prefix) {
    return name.starts_with(prefix) && use(name.substr(prefix.size()));
  });
}

bool TensorPlan::is_one_of(const std::vector<std::string>& modules, std::string_view name) {
  return std::find(modules.begin(), modules.end(), module_of(name)) != modules.end();
}

bool TensorPlan::is_embedding(std::string_view name) const {
  return any_text(name, [&](std::string_view own) { return is_one_of(shared_->embeddings, own); });
}

bool TensorPlan::is_head(std::string_view name) const {
  return any_text(name, [&](std::string_view own) { return is_one_of(shared_->heads, own); });
}

bool TensorPlan::is_beside(std::string_view name) const {
  const auto is_in = [&](std::string_view own, const std::string& part) {
    return own.starts_with(part) && (own.size() == part.size() || own[part.size()] == '.');
  };
  return any_text(name, [&](std::string_view own) {
    return std::any_of(shared_->beside.begin(), shared_->beside.end(),
                       [&](const std::string& part) { return is_in(own, part); });
  });
}

void TensorPlan::add(const std::string& text, std::optional<Part> part) {
  const modelmap::Pattern pattern = modelmap::Pattern::parse(text);
  for (const std::string& shape : pattern.shapes()) named_[shape].push_back({pattern, part});
}

const TensorPlan::Named* TensorPlan::find(std::string_view module) const {
  const auto same = named_.find(modelmap::Pattern::shape(module));
  if (same == named_.end()) return nullptr;
  const auto found = std::find_if(same->second.begin(), same->second.end(), [&](const Named& one) {
    return one.pattern.match(module, one.pattern.plain_numberings()).has_value();
  });
  return found == same->second.end() ? nullptr : &*found;
}

TensorPlan::Cut TensorPlan::cut_of(std::string_view name, const Shape& shape) const {
  Cut cut;
  std::optional<Part> part;
  if (is_embedding(name) || is_head(name)) part = Part::kRows;
  cut.is_known = part || is_beside(name) || any_text(name, [&](std::string_view own) {
                   return is_one_of(shared_->last, own);
                 });
  any_text(name, [&](std::string_view own) {
    const Named* const found = find(module_of(own));
    if (found == nullptr) return false;
    cut.is_known = true;
    if (found->part) part = found->part;
    cut.is_by_heads = found->part && heads_;
    return true;
  });
  cut.is_named = part.has_value();
  if (!part || *part == Part::kWhole || shape.empty()) return cut;
  cut.is_packed = *part == Part::kPacked;
  const bool is_bias = name.ends_with(kBias);
  if (*part == Part::kColumns) {
    if (!is_bias) cut.dimension = shape.size() - 1;
  } else {
    cut.dimension = shape.size() < 2 ? 0 : shape.size() - 2;
  }
  return cut;
}

std::optional<TensorPlan::Place> TensorPlan::place_of(std::string_view name) const {
  Place place;
  place.first = is_embedding(name);
  place.last = is_head(name) ||
               any_text(name, [&](std::string_view own) { return is_one_of(shared_->last, own); });
  any_text(name, [&](std::string_view own) {
    const auto layer = layer_in(own);
    if (!layer) return false;
    place.layer = layer->first;
    place.stack = std::string(name.substr(0, name.size() - own.size() + layer->second));
    return true;
  });
  if (!place.first && !place.last && !place.layer) return std::nullopt;
  return place;
}

class TensorPlanReader {
 public:
  TensorPlanReader(std::string file, const std::vector<std::string>& types)
      : file_(std::move(file)), types_(types) {}

  std::optional<TensorPlan> read(const toml::table& parsed) {
    const TomlTable top(parsed, "the file",
                        {"text", "embeddings", "heads", "last", "inside", "beside", "plan"});
    auto shared = std::make_shared<TensorPlan::Shared>();
    shared->text = texts_at("text", top.at("text"));
    shared->embeddings = texts_at("embeddings", top.at("embeddings"));
    shared->heads = texts_at("heads", top.at("heads"));
    shared->last = texts_at("last", top.at("last"));
    shared->beside = texts_at("beside", top.at("beside"));
    for_each_table(top, "plan", [&](const toml::table& table) { read_plan(table); });
    if (plans_.empty()) return std::nullopt;
    for (const auto& [rank, plan] : plans_) {
      shared->text.insert(shared->text.end(), plan.prefixes.begin(), plan.prefixes.end());
    }
    TensorPlan all;
    all.shared_ = std::move(shared);
    for (auto& [rank, plan] : plans_) {
      for (const auto& [text, part] : plan.named) all.add(text, part);
      all.origin_ += (all.origin_.empty() ? "" : "; ") + plan.origin;
      if (!all.heads_) all.heads_ = plan.heads;
    }
    for (const std::string& text : texts_at("inside", top.at("inside"))) {
      all.add("{stack:layers|blocks|h}.{layer}." + text, std::nullopt);
    }
    return all;
  }

 private:
  void read_plan(const toml::table& source) {
    const TomlTable table(
        source, "[[plan]]",
        {"types", "source", "text", "heads", "rows", "columns", "packed", "whole"});
    const std::vector<std::string> types = texts_at("types", table.at("types"));
    const auto found = std::find_if(types_.begin(), types_.end(), [&](const std::string& type) {
      return std::find(types.begin(), types.end(), type) != types.end();
    });
    if (found == types_.end()) return;
    Plan& plan = plans_[found - types_.begin()];
    plan.origin += (plan.origin.empty() ? std::filesystem::path(file_).filename().string() : "") +
                   ", line " + std::to_string(table.line());
    if (const toml::node* node = table.find("source")) {
      plan.origin += ": " + text_at("source", *node, "a text");
    }
    if (const toml::node* node = table.find("text")) plan.prefixes = texts_at("text", *node);
    if (const toml::node* node = table.find("heads")) {
      const std::string heads = text_at("heads", *node, "an expression");
      plan.heads = modelmap::parse_at(*node, [&] { return modelmap::Expression::parse(heads); });
    }
    add(table, "rows", TensorPlan::Part::kRows, plan);
    add(table, "columns", TensorPlan::Part::kColumns, plan);
    add(table, "packed", TensorPlan::Part::kPacked, plan);
    add(table, "whole", TensorPlan::Part::kWhole, plan);
  }

  struct Plan {
    std::vector<std::pair<std::string, TensorPlan::Part>> named{};
    std::vector<std::string> prefixes{};
    std::optional<modelmap::Expression> heads{};
    std::string origin{};
  };

  static void add(const TomlTable& table, std::string_view key, TensorPlan::Part part, Plan& plan) {
    const toml::node* node = table.find(key);
    if (node == nullptr) return;
    for (const std::string& text : texts_at(key, *node)) {
      plan.named.emplace_back(text, part);
    }
  }

  std::string file_;
  const std::vector<std::string>& types_;
  std::map<std::ptrdiff_t, Plan> plans_{};  ///< by the number of the type
};

std::optional<TensorPlan> read_tensor_plan(const std::string& file, const std::string& text,
                                           const std::vector<std::string>& types) {
  if (types.empty()) return std::nullopt;
  return read_toml(file, text, [&](const toml::table& parsed) {
    return TensorPlanReader(file, types).read(parsed);
  });
}

}  // namespace reshardfs
