// SPDX-License-Identifier: Apache-2.0
#include "random_sets.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace guess_property {
namespace {

using property::one_in;
using property::pick;
using property::Random;
using reshardfs::Layout;
using reshardfs::Shape;

enum class Part : std::uint8_t { kNorm, kMatrix, kKey, kBias, kEmbedding };

/// A kind of parameter: the letters of `shape` are the sizes below.
struct Name {
  std::string_view text;
  std::string_view shape;
  int cut;
  Part part;
};

constexpr std::array kLegacy{
    Name{"model.layers.#.attention_norm.weight", "H", -1, Part::kNorm},
    Name{"model.layers.#.attention.wq.weight", "QH", 0, Part::kMatrix},
    Name{"model.layers.#.attention.wk.weight", "KH", 0, Part::kKey},
    Name{"model.layers.#.attention.wv.weight", "KH", 0, Part::kKey},
    Name{"model.layers.#.attention.wq.bias", "Q", 0, Part::kBias},
    Name{"model.layers.#.attention.wo.weight", "HQ", 1, Part::kMatrix},
    Name{"model.layers.#.ffn_norm.weight", "H", -1, Part::kNorm},
    Name{"model.layers.#.feed_forward.w1.weight", "FH", 0, Part::kMatrix},
    Name{"model.layers.#.feed_forward.w2.weight", "HF", 1, Part::kMatrix},
    Name{"model.layers.#.feed_forward.w3.weight", "FH", 0, Part::kMatrix},
    Name{"model.tok_embeddings.embedding_weight", "VH", 0, Part::kEmbedding},
    Name{"model.norm_out.weight", "H", -1, Part::kNorm},
    Name{"lm_head.weight", "VH", 0, Part::kEmbedding}};
constexpr std::array kCore{
    Name{"decoder.layers.#.input_layernorm.weight", "H", -1, Part::kNorm},
    Name{"decoder.layers.#.self_attention.linear_qkv.weight", "TH", 0, Part::kKey},
    Name{"decoder.layers.#.self_attention.q_layernorm.weight", "D", -1, Part::kNorm},
    Name{"decoder.layers.#.self_attention.linear_proj.weight", "HQ", 1, Part::kMatrix},
    Name{"decoder.layers.#.pre_mlp_layernorm.weight", "H", -1, Part::kNorm},
    Name{"decoder.layers.#.mlp.linear_fc1.weight", "GH", 0, Part::kMatrix},
    Name{"decoder.layers.#.mlp.linear_fc2.weight", "HF", 1, Part::kMatrix},
    Name{"embedding.word_embeddings.weight", "VH", 0, Part::kEmbedding},
    Name{"decoder.final_layernorm.weight", "H", -1, Part::kNorm},
    Name{"output_layer.weight", "VH", 0, Part::kEmbedding}};
constexpr std::array kHub{
    Name{"model.layers.#.input_layernorm.weight", "H", -1, Part::kNorm},
    Name{"model.layers.#.self_attn.q_proj.weight", "QH", 0, Part::kMatrix},
    Name{"model.layers.#.self_attn.k_proj.weight", "KH", 0, Part::kKey},
    Name{"model.layers.#.self_attn.v_proj.weight", "KH", 0, Part::kKey},
    Name{"model.layers.#.self_attn.o_proj.weight", "HQ", 1, Part::kMatrix},
    Name{"model.layers.#.post_attention_layernorm.weight", "H", -1, Part::kNorm},
    Name{"model.layers.#.mlp.gate_proj.weight", "FH", 0, Part::kMatrix},
    Name{"model.layers.#.mlp.up_proj.weight", "FH", 0, Part::kMatrix},
    Name{"model.layers.#.mlp.down_proj.weight", "HF", 1, Part::kMatrix},
    Name{"model.embed_tokens.weight", "VH", 0, Part::kEmbedding},
    Name{"model.norm.weight", "H", -1, Part::kNorm},
    Name{"lm_head.weight", "VH", 0, Part::kEmbedding}};

template <typename Item>
const Item& one_of(Random& random, const std::vector<Item>& items) {
  return items[static_cast<std::size_t>(
      pick(random, 0, static_cast<std::int64_t>(items.size()) - 1))];
}

std::vector<Name> random_family(Random& random) {
  switch (pick(random, 0, 2)) {
    case 0:
      return {kLegacy.begin(), kLegacy.end()};
    case 1:
      return {kCore.begin(), kCore.end()};
    default:
      return {kHub.begin(), kHub.end()};
  }
}

std::int64_t product(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{1}, std::multiplies<>());
}

bool fits(const Layout& layout, const Shape& full) {
  return !boxes_of(layout, full).empty();
}

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {
    constexpr std::array kOrigins{
        Origin::kNetwork, Origin::kNetwork, Origin::kNetwork, Origin::kSpoiled, Origin::kSpoiled,
        Origin::kAnyCuts, Origin::kAnyCuts, Origin::kAnyCuts, Origin::kUnknown, Origin::kNoConfig};
    set_.origin = kOrigins[static_cast<std::size_t>(pick(random_, 0, kOrigins.size() - 1))];
  }

  TrueSet make() {
    family_ = random_family(random_);
    const bool any = set_.origin == Origin::kAnyCuts || set_.origin == Origin::kUnknown;
    any ? make_any_cuts() : make_network();
    if (set_.origin == Origin::kUnknown) {
      for (Truth& truth : set_.parameters)
        truth.name = "net." + std::to_string(truth.full.size()) + "." + truth.name;
    }
    if (set_.origin != Origin::kNoConfig && set_.origin != Origin::kUnknown) set_.config = config();
    return std::move(set_);
  }

 private:
  // --- sizes ----------------------------------------------------------------------------------

  Shape shape_of(std::string_view text) const {
    Shape shape;
    for (const char letter : text) shape.push_back(sizes_.at(letter));
    return shape;
  }

  void set_sizes(std::int64_t heads, std::int64_t groups, std::int64_t head_dim,
                 std::int64_t hidden, std::int64_t ffn, std::int64_t vocabulary) {
    heads_ = heads;
    groups_ = groups;
    sizes_ = {{'H', hidden},
              {'Q', heads * head_dim},
              {'K', groups * head_dim},
              {'T', (heads + 2 * groups) * head_dim},
              {'D', head_dim},
              {'F', ffn},
              {'G', 2 * ffn},
              {'V', vocabulary}};
    vocabulary_ = vocabulary;
  }

  std::string config() const {
    std::map<std::string, std::int64_t> numbers{
        {"hidden_size", sizes_.at('H')},       {"num_attention_heads", heads_},
        {"num_key_value_heads", groups_},      {"head_dim", sizes_.at('D')},
        {"intermediate_size", sizes_.at('F')}, {"vocab_size", vocabulary_},
        {"num_hidden_layers", layers_}};
    if (set_.config_is_wrong) numbers.at(wrong_number_) *= wrong_factor_;
    std::string text = "{";
    for (const auto& [name, number] : numbers) {
      text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + std::to_string(number);
    }
    return text + "}";
  }

  // --- sets that a network's code makes -------------------------------------------------------

  void make_network() {
    const std::vector<std::int64_t> few{1, 1, 2, 2, 3, 4, 4, 8};
    parallel_ = one_of<std::int64_t>(random_, {1, 2, 2, 3, 4, 4, 4, 6, 8, 8, 16});
    stride_ = one_in(random_, 3) ? one_of(random_, few) : 1;
    do {
      outer_ = one_of(random_, few);
    } while (outer_ > 1 && parallel_ * stride_ * outer_ > 64);
    set_.stages = one_of<std::int64_t>(random_, {1, 1, 1, 1, 2, 3});
    while (set_.stages > 1 && set_.stages * parallel_ * stride_ * outer_ > 64) --set_.stages;
    set_.devices = parallel_ * stride_ * outer_;
    layers_ = set_.stages * pick(random_, 1, 2);
    const std::int64_t copies = stride_ * outer_;
    const bool few_keys = parallel_ % 2 == 0 && one_in(random_, 10);
    const std::int64_t groups = few_keys ? parallel_ / 2 : parallel_ * pick(random_, 1, 2);
    const std::int64_t heads = std::max(groups, parallel_) * pick(random_, 1, 2);
    const std::int64_t head_dim = one_of<std::int64_t>(random_, {1, 2, 4, 8});
    const std::int64_t hidden = one_in(random_, 2)
                                    ? heads * head_dim
                                    : copies * one_of<std::int64_t>(random_, {1, 2, 6, 8});
    const std::int64_t ffn = one_in(random_, 4)
                                 ? heads * head_dim
                                 : parallel_ * one_of<std::int64_t>(random_, {1, 2, 4, 6});
    const std::int64_t vocabulary = one_in(random_, 8) ? pick(random_, 2 * parallel_, 90)
                                                       : parallel_ * copies * pick(random_, 1, 3);
    set_sizes(heads, groups, head_dim, hidden, ffn, vocabulary);
    choose_manners();
    for (const Name& name : family_) add_by_code(name);
    Truth counter{"global_step", {1}, whole(1), {}, Values::kConstant};
    for (std::int64_t stage = 0; stage < set_.stages; ++stage) counter.stages.push_back(stage);
    set_.parameters.push_back(std::move(counter));
    if (set_.origin == Origin::kSpoiled) spoil();
  }

  void choose_manners() {
    const std::int64_t copies = stride_ * outer_;
    const std::vector<std::int64_t> settings{0, 0, -1, copies, 2};
    optimizer_ = one_of(random_, settings);
    state_optimizer_ = one_in(random_, 3) ? one_of(random_, settings) : optimizer_;
    threshold_ = one_of<std::int64_t>(random_, {0, 0, 8, 64, 1000});
    cut_vocabulary_ = !one_in(random_, 3);
    cut_head_ = !one_in(random_, 3);
    norms_are_ones_ = one_in(random_, 2);
    states_ = one_in(random_, 3);
    states_are_zero_ = one_in(random_, 2);
    biases_are_zero_ = one_in(random_, 2);
    is_padded_ = one_in(random_, 8);
    weights_ = one_in(random_, 12) ? Values::kPeriodic : Values::kDifferent;
    set_.what = "tensor parallelism " + std::to_string(parallel_) + " x stride " +
                std::to_string(stride_) + " x outer " + std::to_string(outer_);
  }

  static Layout whole(std::size_t dimensions, std::int64_t devices) {
    Layout layout;
    layout.device_matrix = {devices};
    layout.tensor_map.resize(dimensions);
    return layout;
  }
  Layout whole(std::size_t dimensions) const { return whole(dimensions, set_.devices); }

  Layout over_axis(std::size_t dimensions, int cut) const {
    Layout layout = whole(dimensions);
    layout.device_matrix = {outer_, parallel_, stride_};
    if (cut >= 0) layout.tensor_map[static_cast<std::size_t>(cut)] = {1};
    return layout;
  }

  Layout layout_by_code(const Name& name, Shape& full) {
    Layout layout = over_axis(full.size(), name.cut);
    if (name.part == Part::kKey && groups_ % parallel_ != 0) {
      // Half as many heads as ranks: neighbours along the axis, or its halves, hold the same.
      layout.device_matrix = {outer_, parallel_ / 2, 2, stride_};
      layout.tensor_map.front() = {2};
      if (pairs_) return layout;
      layout.device_matrix = {outer_, 2, parallel_ / 2, stride_};
      layout.tensor_map.front() = {1};
      return layout;
    }
    if (name.part != Part::kEmbedding) return layout;
    const bool is_head = name.text.find("head") != std::string_view::npos ||
                         name.text.find("output") != std::string_view::npos;
    if (!(is_head ? cut_head_ : cut_vocabulary_)) return over_axis(full.size(), -1);
    const std::int64_t unit = parallel_ * 4;
    const std::int64_t padded = (full.front() + unit - 1) / unit * unit;
    // Twice the vocabulary of config.json is no padding, but another model's.
    if (is_padded_ && padded < 2 * full.front()) {
      full.front() = padded;
    } else if (full.front() % parallel_ != 0) {
      if (full.front() < parallel_) return over_axis(full.size(), -1);
      layout.uneven.resize(full.size());
      layout.uneven.front().balanced = true;
    }
    return layout;
  }

  /// MindSpore leaves small parameters out, and those that it cannot divide.
  void cut_by_optimizer(Layout& layout, const Shape& full, std::int64_t setting) const {
    const std::int64_t holders = holders_of(layout);
    const std::int64_t wanted = setting < 0 ? holders : setting;
    const std::int64_t elements = product(full) / product(parts_of(layout));
    if (wanted <= 1 || holders % wanted != 0 || elements < threshold_) return;
    if (!layout.uneven.empty() || full.front() / parts_of(layout).front() % wanted != 0) return;
    layout.optimizer_shard_size = setting;
  }

  Values values_of(const Name& name) const {
    if (name.part == Part::kNorm && norms_are_ones_) return Values::kConstant;
    if (name.part == Part::kBias && biases_are_zero_) return Values::kConstant;
    return weights_;
  }

  void add_by_code(const Name& name) {
    const bool in_layer = name.text.find('#') != std::string_view::npos;
    for (std::int64_t layer = 0; layer < (in_layer ? layers_ : 1); ++layer) {
      std::vector<std::int64_t> stages{layer * set_.stages / layers_};
      if (!in_layer && name.part == Part::kEmbedding) stages = {0};
      if (!in_layer &&
          (name.part == Part::kNorm || name.text.find("head") != std::string_view::npos ||
           name.text.find("output") != std::string_view::npos)) {
        stages = {set_.stages - 1};
      }
      Shape full = shape_of(name.shape);
      Layout layout = layout_by_code(name, full);
      const Layout uncut = layout;
      cut_by_optimizer(layout, full, optimizer_);
      const std::string text = with_number(name.text, layer);
      add(text, full, layout, stages, values_of(name));
      if (!states_ || name.part == Part::kEmbedding) continue;
      Layout own = uncut;
      cut_by_optimizer(own, full, state_optimizer_);
      const Values values = states_are_zero_ ? Values::kConstant : Values::kDifferent;
      for (const char* state : {"adam_m.", "adam_v."}) add(state + text, full, own, stages, values);
    }
  }

  static std::string with_number(std::string_view name, std::int64_t layer) {
    std::string text(name);
    const std::size_t hole = text.find('#');
    if (hole != std::string::npos) text.replace(hole, 1, std::to_string(layer));
    return text;
  }

  void add(std::string name, Shape full, Layout layout, std::vector<std::int64_t> stages,
           Values values) {
    if (!fits(layout, full)) throw std::logic_error("a layout that was made does not fit");
    set_.parameters.push_back(
        {std::move(name), std::move(full), std::move(layout), std::move(stages), values});
  }

  // --- what no such code does -----------------------------------------------------------------

  template <typename Change>
  void change(std::string_view part_of_name, const Change& change) {
    for (Truth& truth : set_.parameters) {
      if (truth.name.find(part_of_name) == std::string::npos) continue;
      Truth changed = truth;
      change(changed);
      if (fits(changed.layout, changed.full)) truth = std::move(changed);
    }
  }

  void without_optimizer() {
    for (Truth& truth : set_.parameters) truth.layout.optimizer_shard_size = 0;
  }

  void spoil() {
    switch (pick(random_, 0, 6)) {
      case 0:
        return cut_vocabulary_over_both();
      case 1:
        return cut_norms();
      case 2:
        return cut_two_dimensions();
      case 3:
        set_.what += ", constant weights";
        for (Truth& truth : set_.parameters) truth.values = Values::kConstant;
        return;
      case 4: {
        set_.what += ", drifted copies";
        Truth& truth = set_.parameters[static_cast<std::size_t>(
            pick(random_, 0, static_cast<std::int64_t>(set_.parameters.size()) - 1))];
        // Where no rank holds a copy, whatever they hold are parts.
        const std::vector<Box> held = boxes_of(truth.layout, truth.full);
        truth.has_no_layout = std::set<Box>(held.begin(), held.end()).size() < held.size();
        return;
      }
      case 5:
        return cut_one_in_any_way();
      default:
        set_.what += ", the configuration of another model";
        set_.config_is_wrong = true;
        wrong_number_ = one_of<std::string>(random_, {"hidden_size", "intermediate_size",
                                                      "num_attention_heads", "num_hidden_layers"});
        wrong_factor_ = one_of<std::int64_t>(random_, {2, 3, 4});
    }
  }

  void cut_vocabulary_over_both() {
    set_.what += ", the vocabulary over two axes";
    without_optimizer();
    const bool minor_first = one_in(random_, 2);
    for (const char* name : {"embed", "head", "output_layer"}) {
      change(name, [&](Truth& truth) {
        const int other = outer_ > 1 ? 2 : 0;
        truth.layout = over_axis(truth.full.size(), -1);
        truth.layout.tensor_map.front() =
            minor_first ? std::vector<int>{1, other} : std::vector<int>{other, 1};
        truth.values = Values::kDifferent;
      });
    }
  }

  void cut_norms() {
    set_.what += ", norms cut over the axis";
    without_optimizer();
    change("norm", [&](Truth& truth) {
      truth.layout = over_axis(1, -1);
      truth.layout.tensor_map.front() = {1};
    });
  }

  void cut_two_dimensions() {
    set_.what += ", matrices cut in two dimensions";
    without_optimizer();
    for (const char* name :
         {"wo.weight", "w2.weight", "linear_proj", "linear_fc2", "o_proj", "down_proj"}) {
      change(name, [&](Truth& truth) {
        truth.layout = over_axis(2, 1);
        truth.layout.tensor_map.front() = {outer_ > 1 ? 2 : 0};
      });
    }
  }

  /// Of values that show that it is cut in another way than others, if it is.
  void cut_one_in_any_way() {
    set_.what += ", one matrix whole";
    const std::string name = one_of<std::string>(
        random_, {"wq.weight", "w1.weight", "wo.weight", "linear_fc", "linear_proj", "q_proj"});
    change(name, [&](Truth& truth) { truth.layout = over_axis(truth.full.size(), -1); });
  }

  // --- cuts of any kind -----------------------------------------------------------------------

  void make_any_cuts() {
    const std::vector<std::int64_t> usual{1, 2, 2, 3, 4, 4, 4, 6, 8, 8, 12, 16};
    set_.devices = one_in(random_, 3) ? pick(random_, 1, 64) : one_of(random_, usual);
    set_.what = "any cuts";
    layers_ = 1;
    const auto size = [&] {
      return one_of<std::int64_t>(random_, {1, 2, 2, 4, 4, 6, 8, 12, 16, 24, 48});
    };
    const std::int64_t heads = one_of<std::int64_t>(random_, {1, 2, 4, 8});
    const std::int64_t head_dim = one_of<std::int64_t>(random_, {1, 2, 4});
    const std::int64_t square = heads * head_dim;
    const bool is_square = one_in(random_, 2);
    set_sizes(heads, heads, head_dim, is_square ? square : size(), is_square ? square : size(),
              size());
    const naive::Numbers matrix = property::random_matrix(random_, set_.devices);
    const bool one_matrix = one_in(random_, 2);
    const bool states = one_in(random_, 3);
    for (const Name& name : family_) {
      if (one_in(random_, 2)) continue;
      const Shape full = shape_of(name.shape);
      const Layout layout =
          any_layout(full, one_matrix ? matrix : property::random_matrix(random_, set_.devices));
      const std::string text = with_number(name.text, 0);
      add(text, full, layout, {0}, any_values());
      if (!states) continue;
      // A framework lays out a state like its weight; the optimizer may cut it once more.
      Layout own = layout;
      if (own.optimizer_shard_size == 0 && one_in(random_, 3)) {
        own.optimizer_shard_size = -1;
        if (!fits(own, full)) own = layout;
      }
      add("adam_m." + text, full, own, {0}, any_values());
    }
  }

  Values any_values() {
    constexpr std::array kAll{Values::kDifferent, Values::kDifferent, Values::kDifferent,
                              Values::kConstant,  Values::kPeriodic,  Values::kBits};
    return kAll[static_cast<std::size_t>(pick(random_, 0, kAll.size() - 1))];
  }

  Layout any_layout(const Shape& full, const naive::Numbers& matrix) {
    for (int attempt = 0; attempt < 30; ++attempt) {
      Layout layout = whole(full.size());
      layout.device_matrix = matrix;
      std::vector<int> axes(matrix.size());
      std::iota(axes.begin(), axes.end(), 0);
      std::shuffle(axes.begin(), axes.end(), random_);
      for (const int axis : axes) {
        if (one_in(random_, 4)) continue;
        const auto d = pick(random_, 0, static_cast<std::int64_t>(full.size()) - 1);
        layout.tensor_map[static_cast<std::size_t>(d)].push_back(axis);
      }
      if (one_in(random_, 3)) {
        layout.optimizer_shard_size =
            one_in(random_, 2) ? -1 : pick(random_, 1, holders_of(layout));
      }
      if (one_in(random_, 8)) make_uneven(layout, full);
      const std::vector<std::int64_t> parts = parts_of(layout);
      bool is_even = true;
      for (std::size_t d = 0; d < full.size(); ++d) {
        const bool is_said =
            !layout.uneven.empty() && layout.uneven[d] != reshardfs::DimensionSplit{};
        is_even = is_even && (is_said || full[d] % parts[d] == 0);
      }
      if (is_even && fits(layout, full)) return layout;
    }
    return whole(full.size());
  }

  void make_uneven(Layout& layout, const Shape& full) {
    const auto d =
        static_cast<std::size_t>(pick(random_, 0, static_cast<std::int64_t>(full.size()) - 1));
    const std::int64_t parts = parts_of(layout)[d];
    if (parts < 2 || full[d] < parts) return;
    layout.uneven.resize(full.size());
    if (one_in(random_, 2)) {
      layout.uneven[d].balanced = true;
      return;
    }
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(parts), 1);
    for (std::int64_t rest = full[d] - parts; rest > 0; --rest) {
      ++lengths[static_cast<std::size_t>(pick(random_, 0, parts - 1))];
    }
    layout.uneven[d].lengths = std::move(lengths);
  }

  Random random_;
  TrueSet set_{};
  std::vector<Name> family_{};
  std::map<char, std::int64_t> sizes_{};
  std::int64_t heads_ = 1;
  std::int64_t groups_ = 1;
  std::int64_t vocabulary_ = 1;
  std::int64_t layers_ = 1;
  std::int64_t parallel_ = 1;
  std::int64_t stride_ = 1;
  std::int64_t outer_ = 1;
  std::int64_t optimizer_ = 0;
  std::int64_t state_optimizer_ = 0;
  std::int64_t threshold_ = 0;
  bool cut_vocabulary_ = true;
  bool cut_head_ = true;
  bool norms_are_ones_ = false;
  bool states_ = false;
  bool states_are_zero_ = false;
  bool biases_are_zero_ = false;
  bool is_padded_ = false;
  bool pairs_ = one_in(random_, 2);
  Values weights_ = Values::kDifferent;
  std::string wrong_number_{};
  std::int64_t wrong_factor_ = 1;
};

/// The value of an element: equal numbers are equal bytes.
std::int64_t value_at(const Truth& truth, const std::vector<std::int64_t>& index,
                      std::uint64_t salt) {
  std::uint64_t number = salt;
  for (std::size_t d = 0; d < index.size(); ++d) {
    const std::int64_t at = truth.values == Values::kPeriodic ? index[d] % 4 : index[d];
    number = (number ^ static_cast<std::uint64_t>(at + 1)) * 0x9E3779B97F4A7C15ULL;
    number ^= number >> 29U;
  }
  if (truth.values == Values::kBits) return static_cast<std::int64_t>(number & 1U);
  return static_cast<std::int64_t>(number);
}

/// All elements of a box; of many only those that tell it apart.
std::vector<std::int64_t> content_of(const Truth& truth, const Box& box, std::uint64_t salt) {
  if (truth.values == Values::kConstant) return {0};
  std::vector<std::int64_t> content;
  if (truth.values == Values::kDifferent) {
    for (const Range& range : box) {
      content.push_back(range.begin);
      content.push_back(range.length);
    }
    return content;
  }
  std::vector<std::int64_t> index;
  for (const Range& range : box) index.push_back(range.begin);
  while (true) {
    content.push_back(value_at(truth, index, salt));
    std::size_t d = index.size();
    while (d > 0 && ++index[d - 1] == box[d - 1].begin + box[d - 1].length) {
      index[d - 1] = box[d - 1].begin;
      --d;
    }
    if (d == 0) return content;
  }
}

bool is_blank(const Truth& truth, const Box& box, const std::vector<std::int64_t>& content) {
  std::int64_t elements = 1;
  for (const Range& range : box) elements *= range.length;
  if (truth.values == Values::kConstant || elements == 1) return true;
  if (truth.values == Values::kDifferent) return false;
  return std::all_of(content.begin(), content.end(),
                     [&](std::int64_t value) { return value == content.front(); });
}

}  // namespace

TrueSet random_set(std::uint64_t seed) {
  return Maker(seed).make();
}

reshardfs::SlicedSet sliced(const TrueSet& set, std::uint64_t seed) {
  Random random(seed);
  reshardfs::SlicedSet out;
  out.stages = set.stages;
  out.devices = set.devices;
  for (const Truth& truth : set.parameters) {
    reshardfs::SlicedParameter parameter;
    parameter.name = truth.name;
    parameter.stages = truth.stages;
    std::map<std::vector<std::int64_t>, std::uint32_t> numbers;
    const std::uint64_t salt = random();
    for (const Box& box : boxes_of(truth.layout, truth.full)) {
      std::vector<std::int64_t> content = content_of(truth, box, salt);
      Shape shape;
      for (const Range& range : box) shape.push_back(range.length);
      parameter.slices.blank.push_back(is_blank(truth, box, content));
      if (truth.has_no_layout) content.push_back(static_cast<std::int64_t>(random() >> 1U));
      content.insert(content.end(), shape.begin(), shape.end());
      const auto next = static_cast<std::uint32_t>(numbers.size());
      parameter.slices.contents.push_back(numbers.try_emplace(content, next).first->second);
      parameter.slices.shapes.push_back(std::move(shape));
    }
    auto& shapes = parameter.slices.shapes;
    const bool alike = std::all_of(shapes.begin(), shapes.end(),
                                   [&](const Shape& shape) { return shape == shapes.front(); });
    if (alike) shapes.resize(1);
    out.parameters.push_back(std::move(parameter));
  }
  return out;
}

}  // namespace guess_property
