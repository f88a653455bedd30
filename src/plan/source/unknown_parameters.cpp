// SPDX-License-Identifier: Apache-2.0
#include "plan/source/unknown_parameters.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "reshardfs/shape.h"

#include "base/process/parallel.h"
#include "plan/reading/content.h"
#include "plan/target/name_map.h"

namespace reshardfs {
namespace {

enum class Verdict : char { kWhole, kFollows, kDiffers, kConstant, kAlone };

/// Whether all elements have the same bytes.
bool is_constant(const Holding& holding) {
  constexpr std::size_t kBlock = 192 << 10;  // holds whole elements of any type
  const auto element = static_cast<std::size_t>(element_size(holding.entry->dtype));
  const std::uint64_t total = holding.entry->content_bytes;
  std::vector<std::byte> block(static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, total)));
  std::vector<std::byte> first(element);
  ReadBatch batch;
  bool constant = true;
  for (std::uint64_t offset = 0; offset < total && constant; offset += block.size()) {
    const auto part = std::span(block).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), total - offset)));
    read_content(holding, offset, part, batch);
    if (offset == 0) std::copy_n(part.begin(), element, first.begin());
    constant = std::memcmp(part.data(), first.data(), element) == 0 &&
               std::memcmp(part.data(), part.data() + element, part.size() - element) == 0;
  }
  batch.check();
  return constant;
}

class Examination {
 public:
  Examination(const SourceTable& table, const std::vector<std::string>& prefixes)
      : table_(table), prefixes_(prefixes) {}

  UnknownParameters examine(const std::vector<const SourceParameter*>& parameters);

 private:
  using List = std::vector<const SourceParameter*>;

  void judge(const List& parameters);
  Verdict verdict(const SourceParameter& parameter) const;
  bool follows(const SourceParameter& parameter, const SourceParameter& weight) const;
  const SourceParameter* weight(const SourceParameter& parameter) const;
  bool is_alone(const SourceParameter& parameter) const;
  bool is_taken_as_whole(const SourceParameter& parameter) const;

  const SourceTable& table_;
  const std::vector<std::string>& prefixes_;
  UnknownParameters found_;
};

/// Weights first: their states may follow them.
UnknownParameters Examination::examine(const List& parameters) {
  List weights;
  List states;
  for (const SourceParameter* parameter : parameters) {
    (weight(*parameter) == nullptr ? weights : states).push_back(parameter);
  }
  judge(weights);
  judge(states);
  return std::move(found_);
}

void Examination::judge(const List& parameters) {
  std::vector<Verdict> verdicts(parameters.size());
  parallel_for(parameters.size(), [&](std::size_t i) { verdicts[i] = verdict(*parameters[i]); });
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const SourceParameter* parameter = parameters[i];
    switch (verdicts[i]) {
      case Verdict::kWhole:
        found_.whole.push_back(parameter);
        found_.like.emplace(parameter->name, "");
        break;
      case Verdict::kFollows:
        found_.following.push_back(parameter);
        found_.like.emplace(parameter->name, weight(*parameter)->name);
        break;
      case Verdict::kDiffers:
        found_.differing.push_back(parameter);
        break;
      case Verdict::kConstant:
        found_.constant.push_back(parameter);
        break;
      case Verdict::kAlone:
        found_.alone.push_back(parameter);
        break;
    }
  }
}

Verdict Examination::verdict(const SourceParameter& parameter) const {
  if (table_.ranks().devices() == 1) return Verdict::kWhole;
  const SourceParameter* of = weight(parameter);
  const bool like_weight = of != nullptr && follows(parameter, *of);
  const bool weight_is_whole =
      of != nullptr && (of->grid ? of->grid->cell_count() == 1 : is_taken_as_whole(*of));
  if (like_weight && !weight_is_whole) return Verdict::kFollows;
  if (!table_.equal_on_all_ranks(parameter)) return Verdict::kDiffers;
  if (like_weight) return Verdict::kFollows;
  const Holding first = parameter.holders.front();
  if (element_count(first.entry->shape) <= 1) return Verdict::kWhole;
  if (is_alone(parameter)) return Verdict::kAlone;
  return is_constant(first) ? Verdict::kConstant : Verdict::kWhole;
}

bool Examination::is_taken_as_whole(const SourceParameter& parameter) const {
  const auto found = found_.like.find(parameter.name);
  return found != found_.like.end() && found->second.empty();
}

/// Whether each file that holds a state holds a slice of the same shape of its weight.
bool Examination::follows(const SourceParameter& parameter, const SourceParameter& weight) const {
  if (weight.layout != nullptr) return table_.grid_like(parameter, weight) != nullptr;
  return is_taken_as_whole(weight) &&
         parameter.holders.front().entry->shape == weight.holders.front().entry->shape;
}

/// The weight of a state, if the checkpoint has it and something is known of it.
const SourceParameter* Examination::weight(const SourceParameter& parameter) const {
  const std::string name = weight_of(parameter.name, prefixes_);
  return name.empty() ? nullptr : table_.find(name);
}

bool Examination::is_alone(const SourceParameter& parameter) const {
  std::optional<std::int64_t> before;
  for (const Holding& holder : parameter.holders) {
    const std::int64_t stage = table_.ranks().stage_of(holder.file->rank);
    if (stage == before) return false;
    before = stage;
  }
  return true;
}

}  // namespace

UnknownParameters examine_unknown(const SourceTable& table,
                                  const std::vector<const SourceParameter*>& parameters,
                                  const std::vector<std::string>& prefixes) {
  return Examination(table, prefixes).examine(parameters);
}

}  // namespace reshardfs
