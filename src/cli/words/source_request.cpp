// SPDX-License-Identifier: Apache-2.0
#include "cli/words/source_request.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>
#include <variant>

#include "reshardfs/error.h"

#include "cli/options/table.h"
#include "cli/options/value_checks.h"
#include "cli/words/shared_words.h"
#include "conversion/auto_map.h"
#include "conversion/option_words.h"
#include "conversion/source_words.h"
#include "conversion/stated_model/stated_model.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

constexpr std::string_view kOfSource = "src-";

/// The option of a side ("a-step", "a-join"), or else that of both sides; empty: the command has
/// none.
std::string option_for(const Given& given, std::string_view name, const std::string& side) {
  if (!side.empty()) {
    std::string_view own = name;
    if (own.starts_with(kOfSource)) own.remove_prefix(kOfSource.size());
    std::string of_side = side + std::string(own);
    if (find_option(given.command(), of_side) != nullptr) return of_side;
  }
  return find_option(given.command(), name) == nullptr ? std::string() : std::string(name);
}

void read_plain(const Given& given, const std::string& option, const SourceField& field,
                SourceRequest& request) {
  std::visit(
      [&](auto member) {
        auto& value = request.*member;
        using Value = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          value = given.flag(option);
        } else if constexpr (std::is_same_v<Value, std::filesystem::path>) {
          if (const std::string text = given.text(option); !text.empty()) {
            value = absolute_location(text);
          }
        } else if constexpr (std::is_same_v<Value, std::string>) {
          value = given.text(option);
        } else {
          value = given.texts(option);
        }
      },
      field);
}

/// @throws Error kUsage for a configuration that nothing uses.
void require_use_of_config(const Given& given, const SourceRequest& request) {
  // A conversion has other uses for it, too, and judges for itself.
  const bool judges = (given.command().bit & commands::kConversions) != 0;
  if (judges || has_use_for_config(request)) return;
  const std::string option = "--" + request.side + "m";
  throw Error(ErrorKind::kUsage, option + "odel-config without " + option +
                                     "ap, and without sizes of a model to compare")
      .hint("name another config.json, or give the map that it is for");
}

/// The sides of maps that the files which are asked for need.
std::vector<std::string> asked_sides(const Given& given, const std::string& side) {
  constexpr std::array<std::array<std::string_view, 3>, 6> kSides{
      {{"views", "hf", "Hugging Face"},
       {"views", "dcp-hf", "Hugging Face"},
       {"views", "megatron", "Megatron-Core torch_dist"},
       {"views", "vllm", "vLLM"},
       {"views", "iteration", "MindFormers"},
       {"format", "ckpt", "MindFormers"}}};
  std::vector<std::string> sides;
  for (const auto& [option, word, asked] : kSides) {
    if (!side.empty() || find_option(given.command(), option) == nullptr) continue;
    const std::vector<std::string> texts = given.texts(option);
    if (std::find(texts.begin(), texts.end(), word) != texts.end()) sides.emplace_back(asked);
  }
  // Files of strategies that MindSpore writes are for its own ranks.
  if (side.empty() && find_option(given.command(), "dst-strategy") != nullptr &&
      given.text("dst-strategy").ends_with(".ckpt")) {
    sides.emplace_back("MindFormers");
  }
  return sides;
}

}  // namespace

SourceRequest set_request(const Given& given, std::filesystem::path path, const std::string& side) {
  SourceRequest request;
  request.path = std::move(path);
  request.side = side;
  for (const SourceOption& option : plain_source_options()) {
    const std::string name = option_for(given, option.name, side);
    if (!name.empty()) read_plain(given, name, option.field, request);
  }
  return request;
}

SourceRequest source_request(const Given& given, std::filesystem::path path,
                             const std::string& side) {
  SourceRequest request = set_request(given, std::move(path), side);
  if (const auto name = option_for(given, "src-strategy", side); !name.empty()) {
    NamedStrategy named = named_strategy(given, name);
    request.strategy = std::move(named.path);
    request.sizes = std::move(named.sizes);
  }
  if (const auto name = option_for(given, "replicas", side); !name.empty()) {
    request.replicas = given.word(name, kReplicasWords);
  }
  if (!option_for(given, "map-var", side).empty()) request.maps = model_maps(given, side);
  if (find_option(given.command(), side + "map") != nullptr) require_use_of_config(given, request);
  settle_auto_map(request, asked_sides(given, side));
  return request;
}

}  // namespace reshardfs
