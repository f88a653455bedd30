// SPDX-License-Identifier: Apache-2.0
#include "check/slice_contents.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/rank_list.h"
#include "base/scatter.h"
#include "base/sha256.h"
#include "base/text/text.h"
#include "plan/reading/content.h"

namespace reshardfs {
namespace {

constexpr std::size_t kSampleBytes = 4096;
/// A multiple of every element's size.
constexpr std::size_t kSliceBlockBytes = std::size_t{3} << 18U;
constexpr std::size_t kRounds = 4;
/// Reads after which no further round begins.
constexpr std::size_t kMostReads = 1'500'000;

/// A collision makes two contents one, which proves nothing.
std::uint64_t hash_of(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

/// Whether all elements that it was shown have the same bytes.
class OneValue {
 public:
  void take(std::span<const std::byte> elements, std::size_t element_bytes) {
    if (elements.size() < element_bytes || !is_one_) return;
    if (!has_value_) std::copy_n(elements.begin(), element_bytes, value_.begin());
    has_value_ = true;
    is_one_ = std::memcmp(elements.data(), value_.data(), element_bytes) == 0 &&
              std::memcmp(elements.data(), elements.data() + element_bytes,
                          elements.size() - element_bytes) == 0;
  }
  bool is_one() const noexcept { return is_one_; }

 private:
  std::array<std::byte, 8> value_{};
  bool has_value_ = false;
  bool is_one_ = true;
};

/// A parameter of all stages that hold it.
struct Slices {
  std::string name;
  std::vector<std::int64_t> stages{};
  std::vector<Holding> holdings{};    ///< of these stages, by rank
  std::vector<std::uint64_t> keys{};  ///< by holding: equal for equal contents
  std::vector<OneValue> values{};     ///< by holding
  bool settled = false;               ///< further samples would tell nothing
};

class SliceReader {
 public:
  SliceReader(const CheckpointSet& set, Progress& progress) : set_(set), progress_(progress) {}

  SlicedSet read(bool full) {
    require_ranks();
    find_stages();
    collect();
    full ? compare_all() : compare_samples();
    SlicedSet out;
    out.stages = stages_;
    out.devices = devices_;
    for (const Slices& slices : slices_) out.parameters.push_back(sliced(slices));
    return out;
  }

 private:
  void require_ranks() {
    if (set_.catalogue()) {
      throw Error(ErrorKind::kUsage, "it records its layouts itself: no strategy is needed")
          .in_file(set_.root().string());
    }
    const Rank last = set_.files().back().rank;
    ranks_ = last.number() + 1;
    const std::vector<Rank> missing = set_.missing_ranks(RankRange(Rank(0), ranks_));
    if (!missing.empty()) {
      throw Error(ErrorKind::kMissing,
                  rank_words(missing) + (missing.size() == 1 ? " has" : " have") +
                      " no file, and only the slices of all ranks show how they were cut")
          .in_file(set_.root().string())
          .hint("bring the missing files");
    }
    if (ranks_ == 1) {
      throw Error(ErrorKind::kUsage, "it has the file of one rank, which needs no strategy")
          .in_file(set_.root().string())
          .hint("name the directory with the files of all ranks");
    }
  }

  /// A number for the set of names that a rank holds.
  std::size_t names_of(Rank rank) {
    std::vector<const void*> orders;
    for (const RankFile& file : set_.files_of(rank)) orders.push_back(file.index->name_order());
    const auto [known, is_new] = by_order_.try_emplace(orders, 0);
    if (!is_new) return known->second;
    std::set<std::string_view> names;
    for (const RankFile& file : set_.files_of(rank)) {
      for (const TensorEntry& entry : file.index->entries()) names.insert(entry.name);
    }
    known->second = by_names_.try_emplace(std::move(names), by_names_.size()).first->second;
    return known->second;
  }

  void find_stages() {
    std::vector<std::size_t> names;
    for (std::int64_t rank = 0; rank < ranks_; ++rank) names.push_back(names_of(Rank(rank)));
    stages_ = static_cast<std::int64_t>(by_names_.size());
    devices_ = ranks_ / stages_;
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      const auto first = static_cast<std::size_t>(rank / devices_ * devices_);
      const bool fits = names[static_cast<std::size_t>(rank)] == names[first] &&
                        (first == 0 || names[first] != names[first - 1]);
      if (!fits || ranks_ % stages_ != 0) refuse_stages(names);
    }
  }

  [[noreturn]] void refuse_stages(const std::vector<std::size_t>& names) const {
    std::string example;
    for (std::size_t rank = 1; rank < names.size() && example.empty(); ++rank) {
      if (names[rank] != names[0]) example = std::to_string(rank);
    }
    throw Error(ErrorKind::kBadInput,
                "the ranks do not form pipeline stages of equal size: rank 0 and rank " + example +
                    " hold different parameters, and the groups of ranks with the same parameters "
                    "differ in size, or have gaps")
        .in_file(set_.root().string())
        .hint("of a set that was saved without redundancy, only the saved strategy tells the cuts");
  }

  void collect() {
    std::unordered_map<std::string_view, std::size_t> numbers;
    for (std::int64_t stage = 0; stage < stages_; ++stage) {
      const Rank first(stage * devices_);
      for (const RankFile& file : set_.files_of(first)) {
        for (const TensorEntry& entry : file.index->entries()) {
          const auto [known, is_new] = numbers.try_emplace(entry.name, slices_.size());
          if (is_new) slices_.push_back({entry.name});
          add_stage(slices_[known->second], stage);
        }
      }
    }
  }

  void add_stage(Slices& slices, std::int64_t stage) const {
    slices.stages.push_back(stage);
    for (std::int64_t device = 0; device < devices_; ++device) {
      const Rank rank(stage * devices_ + device);
      for (const RankFile& file : set_.files_of(rank)) {
        const TensorEntry* entry = file.index->find(slices.name);
        if (entry == nullptr) continue;
        slices.holdings.push_back({&file, entry});
        slices.keys.push_back(hash_of(to_string(entry->shape)));
        slices.values.emplace_back();
        break;
      }
      const TensorEntry& own = *slices.holdings.back().entry;
      const TensorEntry& first = *slices.holdings.front().entry;
      if (own.dtype == first.dtype) continue;
      throw Error(ErrorKind::kBadInput, "its element type differs between the ranks (rank " +
                                            to_string(slices.holdings.front().file->rank) + ": " +
                                            std::string(mindspore_name(first.dtype)) + ", rank " +
                                            to_string(rank) + ": " +
                                            std::string(mindspore_name(own.dtype)) + ")")
          .for_parameter(slices.name);
    }
  }

  /// Rank by rank: a file is opened once, however many there are, and read from front to back.
  /// @param read(slices, number of the holding, batch)
  template <typename Read>
  void for_each_holding(const Read& read) {
    std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> of_rank(
        static_cast<std::size_t>(ranks_));
    for (std::uint32_t i = 0; i < slices_.size(); ++i) {
      if (slices_[i].settled) continue;
      for (std::uint32_t j = 0; j < slices_[i].holdings.size(); ++j) {
        of_rank[slices_[i].holdings[j].file->rank.index()].emplace_back(i, j);
      }
    }
    parallel_for(of_rank.size(), [&](std::size_t rank) {
      ReadBatch batch;
      for (const auto& [i, j] : of_rank[rank]) read(i, j, batch);
      batch.check();
    });
  }

  void compare_samples() {
    std::size_t reads = 0;
    for (std::size_t round = 0; round < kRounds; ++round) {
      std::size_t wanted = 0;
      for (const Slices& slices : slices_) wanted += slices.settled ? 0 : slices.holdings.size();
      reads += wanted;
      if (wanted == 0 || (round > 0 && reads > kMostReads)) return;
      progress_.expect_bytes(wanted * kSampleBytes);
      for_each_holding([&](std::size_t i, std::size_t j, ReadBatch& batch) {
        sample(i, j, round, batch);
        progress_.add_bytes(kSampleBytes);
      });
      for (Slices& slices : slices_) settle(slices);
    }
  }

  void sample(std::size_t number, std::size_t holding, std::size_t round, ReadBatch& batch) {
    Slices& slices = slices_[number];
    const Holding& held = slices.holdings[holding];
    const std::uint64_t total = held.entry->content_bytes;
    if (total == 0) return;
    const auto element = element_bytes(slices);
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(total, kSampleBytes));
    // The same place in all slices, as slices that are alike are equal everywhere.
    const std::uint64_t last = (total - size) / element;
    const std::array<std::uint64_t, kRounds> places{scatter(number) % (last + 1), 0, last,
                                                    scatter(~number) % (last + 1)};
    std::array<std::byte, kSampleBytes> buffer{};
    const auto part = std::span(buffer).first(size);
    read_content(held, places[round] * element, part, batch);
    slices.values[holding].take(part, element);
    const std::string_view text(reinterpret_cast<const char*>(part.data()), part.size());
    slices.keys[holding] = scatter(slices.keys[holding] ^ hash_of(text));
  }

  static void settle(Slices& slices) {
    const bool is_entire =
        std::all_of(slices.holdings.begin(), slices.holdings.end(),
                    [](const Holding& held) { return held.entry->content_bytes <= kSampleBytes; });
    const std::set<std::uint64_t> distinct(slices.keys.begin(), slices.keys.end());
    slices.settled = is_entire || distinct.size() == slices.keys.size();
  }

  void compare_all() {
    for (const Slices& slices : slices_) {
      for (const Holding& held : slices.holdings) progress_.expect_bytes(held.entry->content_bytes);
    }
    for_each_holding(
        [&](std::size_t i, std::size_t j, ReadBatch& batch) { read_all(slices_[i], j, batch); });
  }

  void read_all(Slices& slices, std::size_t holding, ReadBatch& batch) {
    const Holding& held = slices.holdings[holding];
    const std::uint64_t total = held.entry->content_bytes;
    const auto element = element_bytes(slices);
    std::vector<std::byte> buffer(
        static_cast<std::size_t>(std::min<std::uint64_t>(total, kSliceBlockBytes)));
    Sha256 sum;
    for (std::uint64_t offset = 0; offset < total; offset += buffer.size()) {
      const auto part = std::span(buffer).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), total - offset)));
      read_content(held, offset, part, batch);
      sum.update(part);
      slices.values[holding].take(part, element);
      progress_.add_bytes(part.size());
    }
    slices.keys[holding] = scatter(slices.keys[holding] ^ hash_of(sum.finish()));
  }

  static std::size_t element_bytes(const Slices& slices) {
    return static_cast<std::size_t>(element_size(slices.holdings.front().entry->dtype));
  }

  SlicedParameter sliced(const Slices& slices) const {
    SlicedParameter out;
    out.name = slices.name;
    out.stages = slices.stages;
    std::map<std::uint64_t, std::uint32_t> numbers;
    const auto devices = static_cast<std::size_t>(devices_);
    for (std::size_t i = 0; i < slices.holdings.size(); ++i) {
      const Shape& shape = slices.holdings[i].entry->shape;
      const auto next = static_cast<std::uint32_t>(numbers.size());
      const std::uint32_t content = numbers.try_emplace(slices.keys[i], next).first->second;
      if (i < devices) {
        out.slices.shapes.push_back(shape);
        out.slices.contents.push_back(content);
        out.slices.blank.push_back(slices.values[i].is_one());
      } else if (content != out.slices.contents[i % out.slices.contents.size()]) {
        out.stages_agree = false;
      }
    }
    auto& shapes = out.slices.shapes;
    const bool alike = std::all_of(shapes.begin(), shapes.end(),
                                   [&](const Shape& shape) { return shape == shapes.front(); });
    if (alike) shapes.resize(1);
    return out;
  }

  const CheckpointSet& set_;
  Progress& progress_;
  std::int64_t ranks_ = 0;
  std::int64_t stages_ = 1;
  std::int64_t devices_ = 1;
  std::map<std::vector<const void*>, std::size_t> by_order_{};
  std::map<std::set<std::string_view>, std::size_t> by_names_{};
  std::vector<Slices> slices_{};
};

}  // namespace

SlicedSet read_slices(const CheckpointSet& set, bool full, Progress& progress) {
  return SliceReader(set, progress).read(full);
}

}  // namespace reshardfs
