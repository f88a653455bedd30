// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <vector>

#include "fuzz/fuzzing.h"
#include "modelmap/mapping.h"
#include "support/form_places.h"

using namespace reshardfs;
using namespace reshardfs::modelmap;

namespace {

const std::vector<SourceTensor> kTensors{{"embed.weight", DType::kFloat32, {8, 6}},
                                         {"layers.0.q.weight", DType::kFloat32, {8, 6}},
                                         {"layers.0.k.weight", DType::kFloat32, {4, 6}},
                                         {"layers.1.q.weight", DType::kFloat32, {8, 6}},
                                         {"layers.1.k.weight", DType::kFloat32, {4, 6}},
                                         {"experts.0.w", DType::kBFloat16, {3, 4}},
                                         {"experts.1.w", DType::kBFloat16, {3, 4}},
                                         {"adam_m.embed.weight", DType::kFloat32, {8, 6}},
                                         {"norm", DType::kFloat32, {6}},
                                         {"step", DType::kInt32, {}}};

constexpr const char* kConfig = R"({"hidden_size": 6, "num_attention_heads": 4,
  "num_key_value_heads": 2, "num_hidden_layers": 2, "num_experts": 2, "tie_word_embeddings": true})";

constexpr std::int64_t kMostElements = 1 << 16;

/// Source and element of each element of a tensor; of literals the source is negative.
using Places = std::vector<std::pair<std::int64_t, std::int64_t>>;

Places places_of(const TargetTensor& target, const std::vector<SourceTensor>& sources) {
  Places places;
  for (const auto& [number, element] : test::places_of(*target.form)) {
    fuzz::require(number > test::kNowhere.first, "an element that is visited never or twice");
    if (number < 0) {
      places.emplace_back(-1, 0);
      continue;
    }
    const std::uint32_t source = target.sources.at(static_cast<std::size_t>(number));
    fuzz::require(element >= 0 && element < element_count(sources.at(source).shape),
                  "an element that the source does not have");
    places.emplace_back(source, element);
  }
  fuzz::require(static_cast<std::int64_t>(places.size()) == target.form->elements(),
                "elements that come from nowhere");
  return places;
}

bool is_small(const Mapping& mapping) {
  std::int64_t elements = 0;
  for (const TargetTensor& target : mapping.targets) {
    if (target.form->elements() > kMostElements - elements) return false;
    elements += target.form->elements();
  }
  return true;
}

/// What a map has made, it makes again of the source when it is turned round.
void check_back(const ModelMap& map, const Mapping& mapping, const MapOptions& options) {
  std::vector<SourceTensor> shown;
  for (const TargetTensor& target : mapping.targets) {
    shown.push_back({target.name, target.dtype, target.shape()});
  }
  MapOptions back = options;
  back.direction =
      mapping.direction == Direction::kForward ? Direction::kInverse : Direction::kForward;
  Mapping turned;
  const bool is_possible = fuzz::may_refuse([&] { turned = map_tensors(map, shown, back); });
  if (!is_possible || !is_small(turned)) return;
  std::map<std::string, std::size_t> numbers;
  for (std::size_t i = 0; i < kTensors.size(); ++i) numbers.emplace(kTensors[i].name, i);
  std::vector<Places> of_shown;
  for (const TargetTensor& target : mapping.targets)
    of_shown.push_back(places_of(target, kTensors));
  for (const TargetTensor& target : turned.targets) {
    const auto original = numbers.find(target.name);
    // An alias that was not there is made, and so is what is cast and named anew.
    if (original == numbers.end() || target.is_alias) continue;
    if (kTensors[original->second].shape != target.shape()) continue;
    const Places places = places_of(target, shown);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].first < 0) continue;
      const auto& [source, element] = of_shown.at(static_cast<std::size_t>(places[i].first))
                                          .at(static_cast<std::size_t>(places[i].second));
      fuzz::require(source < 0 || (source == static_cast<std::int64_t>(original->second) &&
                                   element == static_cast<std::int64_t>(i)),
                    "another element after there and back");
    }
  }
}

}  // namespace

/// Whatever rules say, each element of what they make is one that the source has or a literal, and
/// turning them round leads back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::may_refuse([&] {
    const ModelMap map = load_model_map("map.toml", [&](const std::filesystem::path& file) {
      if (file == "map.toml") return text;
      throw Error(ErrorKind::kMissing, "there is no such file").in_file(file.string());
    });
    for (const Direction direction : {Direction::kForward, Direction::kInverse}) {
      MapOptions options;
      options.direction = direction;
      options.config = ModelConfig::parse(kConfig);
      Mapping mapping;
      const bool fits = fuzz::may_refuse([&] { mapping = check_mapping(map, kTensors, options); });
      if (!fits || !is_small(mapping)) continue;
      for (const TargetTensor& target : mapping.targets) places_of(target, kTensors);
      if (mapping.problems.empty()) check_back(map, mapping, options);
    }
  });
  return 0;
}
