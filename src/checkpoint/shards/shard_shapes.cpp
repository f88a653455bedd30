// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shards/shard_shapes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

struct ShardBox {
  std::int64_t shard = 0;
  std::int64_t number = 0;  ///< of the shard's file
  Shape offsets{};
  Shape sizes{};
};

std::optional<std::int64_t> elements(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    const auto product = checked_mul(count, size);
    if (!product) return std::nullopt;
    count = *product;
  }
  return count;
}

struct Joined {
  Shape shape{};
  DType dtype = DType::kFloat32;
  std::vector<ShardBox> boxes{};
  /// Its parts have different dimensions, or are too large to count; joining them is refused.
  bool is_wrong = false;
  bool is_proven = false;

  std::optional<std::uint64_t> bytes() const {
    const auto count = elements(shape);
    const auto all = count ? checked_mul(*count, element_size(dtype)) : std::nullopt;
    return all ? std::optional(static_cast<std::uint64_t>(*all)) : std::nullopt;
  }
};

class Extents {
 public:
  Extents(const ShardEvidence& evidence, const std::vector<RankFile>& files, Completeness& out)
      : evidence_(evidence),
        shards_words_(counted(static_cast<std::size_t>(evidence.shards),
                              evidence.numbered ? "shard" : "file")),
        out_(out) {
    for (const RankFile& file : files) add(file);
  }

  void state() {
    find_gaps();
    by_total();
    by_config();
    by_twins();
    by_number_of_shards();
    finish();
  }

 private:
  void add(const RankFile& file) {
    present_.emplace(file.rank.number(), file.part);
    for (const TensorEntry& entry : file.index->entries()) {
      const auto offsets = file.index->box_offsets(entry);
      ShardBox box{file.rank.number(), file.part, Shape(entry.shape.size(), 0), entry.shape};
      if (offsets) box.offsets.assign(offsets->begin(), offsets->end());
      Joined& joined = tensors_[entry.name];
      if (joined.boxes.empty()) {
        joined.shape.assign(entry.shape.size(), 0);
        joined.dtype = entry.dtype;
      }
      grow(joined, box);
      joined.boxes.push_back(std::move(box));
    }
  }

  static void grow(Joined& joined, const ShardBox& box) {
    if (box.sizes.size() != joined.shape.size()) {
      joined.is_wrong = true;
      return;
    }
    for (std::size_t d = 0; d < joined.shape.size(); ++d) {
      const auto end = checked_add(box.offsets[d], box.sizes[d]);
      joined.is_wrong = joined.is_wrong || !end;
      joined.shape[d] = std::max(joined.shape[d], end.value_or(0));
    }
  }

  /// What the file of a rank in the middle had lies between the parts of others. Whoever joins them
  /// refuses that.
  void find_gaps() {
    for (const auto& [name, joined] : tensors_) {
      const auto whole = joined.is_wrong ? std::nullopt : elements(joined.shape);
      if (!whole) continue;
      std::set<std::pair<Shape, Shape>> parts;  // replicas count once
      std::int64_t held = 0;
      for (const ShardBox& box : joined.boxes) {
        if (!parts.emplace(box.offsets, box.sizes).second) continue;
        // No part has more elements than the whole, so that few sums are beyond all numbers.
        const auto sum = checked_add(held, *elements(box.sizes));
        held = sum ? *sum : *whole;
      }
      if (held >= *whole) continue;
      short_.insert(name);
      if (!gap_.empty()) continue;
      gap_ = "where " + std::to_string(*whole - held) + " of " + std::to_string(*whole) +
             " elements of '" + printable(name) + "' are";
    }
  }

  /// The whole cannot have fewer bytes than it should, and each tensor all of its own.
  void by_total() {
    if (!evidence_.total_bytes) return;
    std::uint64_t sum = 0;
    for (const auto& [name, joined] : tensors_) {
      const auto total = checked_add(sum, joined.bytes().value_or(0));
      if (joined.is_wrong || !total) return;
      sum = *total;
    }
    const std::uint64_t stated = *evidence_.total_bytes;
    const std::string index = printable(evidence_.index.filename().string());
    if (sum == stated) {
      for (auto& [name, joined] : tensors_) joined.is_proven = true;
      out_.grounds.push_back("the total size in " + index);
      return;
    }
    const std::string numbers = "states tensors of " + std::to_string(stated) +
                                " bytes (metadata.total_size), but those in " + shards_words_ +
                                " have " + std::to_string(sum);
    if (sum > stated) {
      out_.doubts.push_back(index + " " + numbers);
      return;
    }
    out_.missing.push_back(Error(ErrorKind::kMissing, numbers)
                               .in_file(evidence_.index.string())
                               .hint("bring the files of the last ranks, which are missing, or the "
                                     "index of this version of the model"));
  }

  void by_config() {
    if (evidence_.config.empty()) return;
    bool any = false;
    for (auto& [name, joined] : tensors_) {
      if (joined.is_wrong || joined.is_proven || short_.contains(name)) continue;
      const auto stated = evidence_.config.find(name);
      switch (judge_extent(joined.shape, stated)) {
        case ShapeVerdict::kFits:
          joined.is_proven = true;
          any = true;
          break;
        case ShapeVerdict::kShort:
          fall_short(name, short_words(joined.shape, *stated, shards_words_));
          break;
        case ShapeVerdict::kUnknown:
          break;
      }
    }
    if (any) out_.grounds.emplace_back("config.json");
  }

  void fall_short(const std::string& name, std::string what) {
    if (!short_.insert(name).second) return;
    out_.short_parameters.push_back(
        Error(ErrorKind::kMissing, std::move(what))
            .for_parameter(name)
            .hint("bring the files of the last ranks, which are missing"));
  }

  void by_twins() {
    std::vector<std::string> tables;
    for (const auto& [name, joined] : tensors_) {
      for (const std::string& twin : twin_names(name)) compare_rows(twin, name);
      if (has_row_for_each_word(name)) tables.push_back(name);
    }
    if (tables.size() == 2) compare_rows(tables[0], tables[1]);
  }

  /// @param a_name of a tensor that need not be there.
  void compare_rows(const std::string& a_name, const std::string& b_name) {
    const auto found = tensors_.find(a_name);
    if (found == tensors_.end()) return;
    Joined& a = found->second;
    Joined& b = tensors_.at(b_name);
    if (a.is_wrong || b.is_wrong) return;
    const NamedExtent first{a_name, a.shape};
    const NamedExtent second{b_name, b.shape};
    switch (judge_rows(first, second)) {
      case RowsVerdict::kSame: {
        // Of a weight, its bias proves no more than the rows.
        const bool proven_a = a.is_proven;
        a.is_proven = a.is_proven || (b.is_proven && a.shape.size() <= b.shape.size());
        b.is_proven = b.is_proven || (proven_a && b.shape.size() <= a.shape.size());
        break;
      }
      case RowsVerdict::kFirstIsShort:
        if (!a.is_proven) fall_short(a_name, short_words(first, second, shards_words_));
        break;
      case RowsVerdict::kSecondIsShort:
        if (!b.is_proven) fall_short(b_name, short_words(second, first, shards_words_));
        break;
      case RowsVerdict::kUnknown:
        break;
    }
  }

  /// Whether a whole tensor lies in equal parts on all shards, so that it would have been cut into
  /// smaller ones if there were more.
  bool shows_all_shards(const std::string& name, const Joined& joined) const {
    const auto stated = evidence_.config.find(name);
    const auto count = static_cast<std::size_t>(evidence_.shards);
    if (!stated || joined.boxes.size() != count || joined.shape.empty()) return false;
    if (joined.shape[0] != stated->shape[0]) return false;
    std::set<std::int64_t> shards;
    std::int64_t most = 0;
    std::size_t shorter = 0;
    for (const ShardBox& box : joined.boxes) {
      shards.insert(box.shard);
      most = std::max(most, box.sizes[0]);
      for (std::size_t d = 1; d < joined.shape.size(); ++d) {
        if (box.sizes[d] != joined.shape[d]) return false;
      }
    }
    for (const ShardBox& box : joined.boxes) shorter += box.sizes[0] < most ? 1U : 0U;
    if (shards.size() != count || shorter > 1 || most < 2) return false;
    // One more shard would have had ceil(rows / (shards + 1)) rows.
    const std::int64_t rows = joined.shape[0];
    const std::int64_t others = evidence_.shards + 1;
    return (rows + others - 1) / others < most;
  }

  void by_number_of_shards() {
    const bool all_there =
        !evidence_.config.empty() &&
        std::any_of(tensors_.begin(), tensors_.end(), [&](const auto& tensor) {
          return tensor.second.is_proven && shows_all_shards(tensor.first, tensor.second);
        });
    if (!all_there) return;
    for (auto& [name, joined] : tensors_) {
      if (joined.is_wrong || joined.is_proven || short_.contains(name)) continue;
      joined.is_proven = !lacks_a_file(joined.boxes.front().number);
    }
  }

  /// Whether a shard has no file of this number. It need not have one: it may have no part of what
  /// is in the others'.
  bool lacks_a_file(std::int64_t number) const {
    if (!evidence_.numbered) return false;
    for (std::int64_t shard = 0; shard < evidence_.shards; ++shard) {
      if (!present_.contains({shard, number})) return true;
    }
    return false;
  }

  void finish() {
    for (const auto& [name, joined] : tensors_) {
      const bool is_open =
          !joined.is_proven && !joined.is_wrong && !joined.shape.empty() && !short_.contains(name);
      if (is_open) out_.open_extents.push_back({name, joined.shape});
    }
    if (!gap_.empty()) {
      out_.grounds.clear();
      out_.unstated = gap_;
    }
    if (out_.open_extents.empty()) return;
    out_.unstated = "whether the tensors joined from " + shards_words_ + " are whole";
  }

  const ShardEvidence& evidence_;
  std::string shards_words_;  ///< "2 shards"
  Completeness& out_;
  std::map<std::string, Joined> tensors_;
  std::set<std::pair<std::int64_t, std::int64_t>> present_;  ///< shards and numbers of files
  std::set<std::string> short_;
  std::string gap_;  ///< words for the first
};

}  // namespace

void state_shapes(const ShardEvidence& evidence, const std::vector<RankFile>& files,
                  Completeness& out) {
  Extents(evidence, files, out).state();
}

}  // namespace reshardfs
