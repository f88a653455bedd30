// SPDX-License-Identifier: Apache-2.0
#include "strategy_oracle.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "format/ckpt/ckpt.h"
#include "naive.h"
#include "support/sources.h"

namespace reshardfs::damage {
namespace {

constexpr std::size_t kElementBytes = 2;

naive::Layout naive_layout(const Layout& layout) {
  naive::Layout out;
  out.device_matrix = layout.device_matrix;
  out.tensor_map = layout.tensor_map;
  out.optimizer_size = layout.optimizer_shard_size;
  out.fields = std::max<std::int64_t>(layout.field, 1);
  for (const DimensionSplit& split : layout.uneven) {
    out.splits.push_back({split.balanced, split.lengths});
  }
  std::vector<std::int64_t> lengths;
  for (const auto& list : layout.param_split_shape) {
    lengths.insert(lengths.end(), list.begin(), list.end());
  }
  if (lengths.empty()) return out;
  // One for each slice; those beside each other in other dimensions have the same rows.
  const auto parts = static_cast<std::size_t>(naive::parts(out)[0]);
  const std::size_t beside = std::max<std::size_t>(lengths.size() / parts, 1);
  out.splits.resize(out.tensor_map.size());
  for (std::size_t i = 0; i < lengths.size(); i += beside) {
    out.splits[0].lengths.push_back(lengths[i]);
  }
  return out;
}

/// The stage that lays a parameter out: the first that does.
const Layout* layout_of(const Strategy& strategy, const std::string& name, std::int64_t& stage) {
  for (stage = 0; stage < strategy.stage_count(); ++stage) {
    if (strategy.stage(stage).contains(name)) return &strategy.stage(stage).at(name);
  }
  return nullptr;
}

std::string unique_elements(std::size_t count, std::size_t& next) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i, ++next) {
    out += static_cast<char>(next & 0xffU);
    out += static_cast<char>(next >> 8U);
  }
  if (next >= 65536) throw std::logic_error("more than 65536 elements");
  return out;
}

std::map<std::string, Layout> layouts_by_key(const Strategy& strategy) {
  std::map<std::string, Layout> out;
  for (std::int64_t stage = 0; stage < strategy.stage_count(); ++stage) {
    const std::string number = std::to_string(stage + strategy.first_stage());
    for (const auto& [name, layout] : strategy.stage(stage)) {
      out.emplace(number + "-" + name, layout);
    }
  }
  return out;
}

std::string without_stage(const std::string& key) {
  return key.substr(key.find('-') + 1);
}

std::size_t differing_fields(const Layout& a, const Layout& b) {
  // No step means no optimizer cut: the two are one fact.
  const bool optimizer = a.optimizer_shard_size != b.optimizer_shard_size ||
                         a.optimizer_shard_step != b.optimizer_shard_step;
  const std::vector<bool> differ{a.device_matrix != b.device_matrix,
                                 a.tensor_map != b.tensor_map,
                                 optimizer,
                                 a.uneven != b.uneven,
                                 a.param_split_shape != b.param_split_shape,
                                 a.indices_offset != b.indices_offset,
                                 a.field != b.field,
                                 a.tensor_shape != b.tensor_shape};
  return static_cast<std::size_t>(std::count(differ.begin(), differ.end(), true));
}

}  // namespace

std::string changed_fact(const Strategy& intact, const Strategy& damaged) {
  const auto before = layouts_by_key(intact);
  const auto after = layouts_by_key(damaged);
  std::vector<std::string> lost;
  std::vector<std::string> more;
  std::vector<std::string> changed;
  for (const auto& [key, layout] : before) {
    const auto found = after.find(key);
    if (found == after.end()) {
      lost.push_back(key);
    } else if (!(found->second == layout)) {
      changed.push_back(key);
      if (differing_fields(layout, found->second) > 1) return "several facts";
    }
  }
  for (const auto& [key, layout] : after) {
    if (!before.contains(key)) more.push_back(key);
  }
  if (changed.size() + std::max(lost.size(), more.size()) == 0) return "";
  if (changed.size() == 1 && lost.empty() && more.empty()) return "layout";
  const bool moved = changed.empty() && lost.size() == more.size();
  if (moved && intact.first_stage() != damaged.first_stage()) return "stage";
  if (moved && lost.size() == 1 && before.at(lost[0]) == after.at(more[0])) {
    return without_stage(lost[0]) == without_stage(more[0]) ? "stage" : "name";
  }
  return changed.empty() && more.empty() ? "missing" : "several facts";
}

CutModel::CutModel(Strategy strategy, std::map<std::string, Shape> shapes)
    : strategy_(std::move(strategy)) {
  std::size_t next = 1;
  for (const auto& [name, shape] : shapes) {
    whole_[name] = {DType::kInt16, shape,
                    unique_elements(static_cast<std::size_t>(element_count(shape)), next)};
  }
  std::vector<RankFile> files;
  for (std::int64_t rank = 0; rank < strategy_.rank_count(); ++rank) {
    Parameters& own = ranks_.emplace_back();
    std::string bytes;
    for (const auto& [name, layout] : strategy_.stage(rank / strategy_.devices_per_stage())) {
      const Parameter& full = whole_.at(name);
      const naive::Held held =
          naive::held_by(full.shape, naive_layout(layout), rank % strategy_.devices_per_stage());
      Parameter& slice = own[name];
      slice = {full.dtype, naive::shape_of(held),
               naive::slice(full.bytes, full.shape, kElementBytes, held)};
      bytes += ckpt::record_header(name, slice.dtype, slice.shape, slice.bytes.size());
      bytes += slice.bytes;
    }
    files.push_back(rank_file(Rank(rank), std::make_shared<test::MemorySource>(bytes), ".ckpt"));
  }
  set_ = set_of(std::move(files));
}

std::string CutModel::kind_as_source(const Strategy& damaged) const {
  const Parameters found = read_whole(set_, damaged);
  const std::string wrong = check_source(damaged, found);
  if (!wrong.empty()) return "WRONG: " + wrong;
  return found == whole_ ? "" : changed_fact(strategy_, damaged);
}

/// Each element must be that of the lowest rank that holds it, by what the damaged strategy says.
std::string CutModel::check_source(const Strategy& damaged, const Parameters& found) const {
  for (const auto& [name, parameter] : found) {
    std::int64_t stage = 0;
    const Layout* layout = layout_of(damaged, name, stage);
    if (layout == nullptr) {
      // Kept as it is, which only what all ranks have alike may be.
      if (parameter == whole_.at(name)) continue;
      return name + " is kept without a layout";
    }
    const naive::Layout cut = naive_layout(*layout);
    std::string expected(parameter.bytes.size(), '\0');
    std::set<std::size_t> covered;
    for (std::int64_t device = damaged.devices_per_stage(); device-- > 0;) {
      const auto rank = static_cast<std::size_t>(stage * damaged.devices_per_stage() + device);
      const naive::Held held = naive::held_by(parameter.shape, cut, device);
      if (rank >= ranks_.size() || !ranks_[rank].contains(name)) continue;
      const Parameter& slice = ranks_[rank].at(name);
      if (slice.shape != naive::shape_of(held)) return name + ": a slice of another shape";
      std::size_t at = 0;
      for (const std::size_t element : naive::elements_of(parameter.shape, held)) {
        expected.replace(element * kElementBytes, kElementBytes, slice.bytes, at, kElementBytes);
        at += kElementBytes;
        covered.insert(element);
      }
    }
    if (covered.size() * kElementBytes != expected.size()) return name + ": a part is on no rank";
    if (expected != parameter.bytes) return name + ": other bytes than its layout says";
  }
  return "";
}

std::string CutModel::kind_as_target(const Strategy& damaged) const {
  const std::vector<Parameters> found = read_target(set_, strategy_, damaged);
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    const std::string wrong = check_rank(damaged, static_cast<std::int64_t>(rank), found[rank]);
    if (!wrong.empty()) return "WRONG: " + wrong;
  }
  return found == ranks_ ? "" : changed_fact(strategy_, damaged);
}

std::string CutModel::check_rank(const Strategy& damaged, std::int64_t rank,
                                 const Parameters& found) const {
  const StageLayouts& layouts = damaged.stage(rank / damaged.devices_per_stage());
  Parameters expected;
  for (const auto& [name, layout] : layouts) {
    const auto full = whole_.find(name);
    if (full == whole_.end()) continue;
    const naive::Held held = naive::held_by(full->second.shape, naive_layout(layout),
                                            rank % damaged.devices_per_stage());
    expected[name] = {full->second.dtype, naive::shape_of(held),
                      naive::slice(full->second.bytes, full->second.shape, kElementBytes, held)};
  }
  return expected == found ? "" : "rank " + std::to_string(rank) + " has something else";
}

}  // namespace reshardfs::damage
