// SPDX-License-Identifier: Apache-2.0
#include "plan/replicas/replica_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/scatter.h"
#include "plan/replicas/replica_cache.h"

namespace reshardfs {

bool content_equal(const Holding& a, const Holding& b, std::uint64_t limit) {
  if (a.entry->dtype != b.entry->dtype || a.entry->shape != b.entry->shape ||
      a.entry->content_bytes != b.entry->content_bytes) {
    return false;
  }
  constexpr std::uint64_t kBlock = 256 << 10;
  const std::uint64_t total = std::min(limit, a.entry->content_bytes);
  const auto block = static_cast<std::size_t>(std::min(kBlock, total));
  std::vector<std::byte> left(block);
  std::vector<std::byte> right(block);
  ReadBatch batch;
  bool equal = true;
  for (std::uint64_t offset = 0; offset < total && equal; offset += block) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(block, total - offset));
    read_content(a, offset, std::span(left).first(count), batch);
    read_content(b, offset, std::span(right).first(count), batch);
    equal = std::memcmp(left.data(), right.data(), count) == 0;
  }
  batch.check();
  return equal;
}

bool are_replicas_equal(const CellGrid& grid) {
  for (std::size_t i = 0; i < grid.replica_count(); ++i) {
    const auto [cell, copy] = grid.replica_at(i);
    if (copy && !content_equal(grid.cell(cell), copy)) return false;
  }
  return true;
}

namespace {

/// Two copies of a slice.
struct Pair {
  Holding one;
  Holding other;
};

/// Some bytes of a pair.
struct ReplicaSample {
  std::size_t parameter = 0;
  Pair pair;
  std::uint64_t offset = 0;
};

enum class ReplicaOutcome : char { kEqual, kDifferent, kUnreadable };

/// The copies of one parameter: each of `others` with the first file that has the same slice.
class SampledCopies {
 public:
  SampledCopies(const SourceTable& table, const ReplicatedParameter& parameter)
      : parameter_(parameter) {
    if (table.states_layouts()) return;
    const Holders& holders = parameter.source->holders;
    // Slices that are to be joined are no copies.
    if (parameter.grid->cell_count() != 1 || holders.size() == 1) return;
    holders_ = {holders.begin(), holders.end()};
  }

  std::size_t pairs() const {
    return holders_.empty() ? parameter_.grid->replica_count() : holders_.size() - 1;
  }

  /// Nothing if the slice does not count, or the file does not have it.
  std::optional<Pair> pair(std::size_t number) const {
    if (!holders_.empty()) return Pair{holders_.front(), holders_[number + 1]};
    const CellGrid::Replica replica = parameter_.grid->replica_at(number);
    const Pair pair{parameter_.grid->cell(replica.cell), replica.holding};
    if (!pair.one || !pair.other) return std::nullopt;
    const bool counts = parameter_.cells == nullptr || parameter_.cells->contains(pair.one.file);
    return counts ? std::optional(pair) : std::nullopt;
  }

 private:
  const ReplicatedParameter& parameter_;
  std::vector<Holding> holders_;  ///< without a strategy
};

std::uint64_t reads_for(const Pair& pair) {
  return 2 * ((pair.one.entry->content_bytes + kReplicaSampleBytes - 1) / kReplicaSampleBytes);
}

std::size_t read_sample(const Holding& holding, std::uint64_t offset,
                        std::array<std::byte, kReplicaSampleBytes>& out) {
  const auto size = static_cast<std::size_t>(
      std::min<std::uint64_t>(out.size(), holding.entry->content_bytes - offset));
  ReadBatch batch;
  if (holding.file->unexamined) {
    RankFile file = *holding.file;
    file.source = file.unexamined;
    read_content({&file, holding.entry}, offset, std::span(out).first(size), batch);
    batch.check();
  } else {
    read_content(holding, offset, std::span(out).first(size), batch);
    batch.check();
  }
  return size;
}

bool compare_at(const Pair& pair, std::uint64_t offset) {
  std::array<std::byte, kReplicaSampleBytes> one{};
  std::array<std::byte, kReplicaSampleBytes> other{};
  if (pair.one.entry->content_bytes != pair.other.entry->content_bytes) return false;
  const std::size_t size = read_sample(pair.one, offset, one);
  read_sample(pair.other, offset, other);
  return std::memcmp(one.data(), other.data(), size) == 0;
}

/// A file that is not like the one whose index it was taken to have has other bytes at any place:
/// reading it as everybody does tells so.
void require_examined(const Pair& pair) {
  for (const Holding& holding : {pair.one, pair.other}) {
    std::array<std::byte, 1> byte{};
    if (holding.file->unexamined) holding.file->source->read_at(0, byte);
  }
}

class Check {
 public:
  /// @param listing nothing is compared, but taken to be equal, and listed there; nullptr: it is
  /// compared.
  Check(const SourceTable& table, const std::vector<ReplicatedParameter>& parameters,
        ComparisonList* listing)
      : table_(table),
        parameters_(parameters),
        listing_(listing),
        first_difference_(parameters.size()) {
    copies_.reserve(parameters.size());
    for (const ReplicatedParameter& parameter : parameters) copies_.emplace_back(table, parameter);
  }

  ReplicaFindings run();

 private:
  bool all_are_few() const;
  bool is_equal_at(const Pair& pair, std::uint64_t offset) const;
  bool is_equal(const Pair& pair) const;
  void for_each_parameter(const std::function<void(std::size_t)>& work) const;
  void compare_all();
  void compare_begins();
  void compare_samples();
  std::vector<ReplicaSample> choose_samples() const;
  std::optional<Pair> least_sampled(std::size_t parameter, std::uint64_t turn,
                                    std::vector<std::size_t>& uses) const;

  const SourceTable& table_;
  const std::vector<ReplicatedParameter>& parameters_;
  ComparisonList* listing_;
  std::vector<SampledCopies> copies_;
  std::vector<std::optional<Pair>> first_difference_;
  ReplicaFindings findings_;
};

bool Check::is_equal_at(const Pair& pair, std::uint64_t offset) const {
  if (listing_ == nullptr) return compare_at(pair, offset);
  listing_->add_sample(pair.one, pair.other, offset);
  return true;
}

bool Check::is_equal(const Pair& pair) const {
  if (listing_ == nullptr) return content_equal(pair.one, pair.other);
  listing_->add_whole(pair.one, pair.other);
  return true;
}

/// In order, if they are listed.
void Check::for_each_parameter(const std::function<void(std::size_t)>& work) const {
  parallel_for(parameters_.size(), work, listing_ == nullptr ? 0 : 1);
}

bool Check::all_are_few() const {
  std::uint64_t reads = 0;
  for (const SampledCopies& copies : copies_) {
    for (std::size_t i = 0; i < copies.pairs(); ++i) {
      if (const auto pair = copies.pair(i)) reads += reads_for(*pair);
      if (reads > kReplicaReads) return false;
    }
  }
  return true;
}

void Check::compare_all() {
  std::vector<ReplicaOutcome> outcomes(parameters_.size(), ReplicaOutcome::kEqual);
  for_each_parameter([&](std::size_t p) {
    for (std::size_t i = 0; i < copies_[p].pairs() && !first_difference_[p]; ++i) {
      const auto pair = copies_[p].pair(i);
      try {
        if (pair && !is_equal(*pair)) first_difference_[p] = pair;
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kInternal) throw;
        if (!table_.states_layouts()) is_equal_at(*pair, 0);  // of which something must be known
        outcomes[p] = ReplicaOutcome::kUnreadable;
      }
    }
  });
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    if (outcomes[p] == ReplicaOutcome::kUnreadable) {
      ++findings_.unreadable;
    } else if (!first_difference_[p] && copies_[p].pairs() > 0) {
      findings_.equal.insert(findings_.equal.end(),
                             parameters_[p].source);  // in this order, mostly
    }
  }
}

/// Of each copy, where nothing but its bytes shows that it is one.
void Check::compare_begins() {
  for_each_parameter([&](std::size_t p) {
    for (std::size_t i = 0; i < copies_[p].pairs(); ++i) {
      const auto pair = copies_[p].pair(i);
      if (!pair || is_equal_at(*pair, 0)) continue;
      require_examined(*pair);
      first_difference_[p] = pair;
      return;
    }
  });
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const bool is_short =
        parameters_[p].source->holders.front().entry->content_bytes <= kReplicaSampleBytes;
    if (is_short && !first_difference_[p]) findings_.equal.insert(parameters_[p].source);
  }
}

/// A pair with a file that few samples are of, so that each file has its share.
/// @param uses by the file's number; counted up.
std::optional<Pair> Check::least_sampled(std::size_t parameter, std::uint64_t turn,
                                         std::vector<std::size_t>& uses) const {
  constexpr std::size_t kMostLookedAt = 512;
  const SampledCopies& copies = copies_[parameter];
  const RankFile* const files = table_.checkpoint().files().data();
  std::optional<Pair> best;
  const std::size_t start = scatter(turn) % copies.pairs();
  for (std::size_t i = 0; i < std::min(copies.pairs(), kMostLookedAt); ++i) {
    const auto pair = copies.pair((start + i) % copies.pairs());
    if (!pair || pair->one.entry->content_bytes == 0) continue;
    if (!best || uses[static_cast<std::size_t>(pair->other.file - files)] <
                     uses[static_cast<std::size_t>(best->other.file - files)]) {
      best = pair;
    }
  }
  if (best) ++uses[static_cast<std::size_t>(best->other.file - files)];
  return best;
}

std::vector<ReplicaSample> Check::choose_samples() const {
  constexpr std::size_t kMost = kReplicaReads / 2;
  std::vector<std::size_t> candidates;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const bool settled = first_difference_[p] || findings_.equal.contains(parameters_[p].source);
    if (!settled && copies_[p].pairs() > 0) candidates.push_back(p);
  }
  std::vector<ReplicaSample> samples;
  if (candidates.empty()) return samples;
  std::vector<std::size_t> uses(table_.checkpoint().files().size(), 0);
  for (std::size_t turn = 0; turn < kMost; ++turn) {
    // All in turn, if they are few; else some, equally far apart.
    const std::size_t count = candidates.size();
    const std::size_t p = candidates[count <= kMost ? turn % count : turn * count / kMost];
    const auto pair = least_sampled(p, turn, uses);
    if (!pair) continue;
    const std::uint64_t last =
        pair->one.entry->content_bytes -
        std::min<std::uint64_t>(pair->one.entry->content_bytes, kReplicaSampleBytes);
    // The place changes with each turn, and with each round over few parameters.
    const std::size_t place = (turn + (count <= kMost ? turn / count : 0)) % 3;
    const std::uint64_t offset = place == 0 ? 0 : place == 1 ? last : scatter(~turn) % (last + 1);
    samples.push_back({p, *pair, offset});
  }
  return samples;
}

void Check::compare_samples() {
  const std::vector<ReplicaSample> samples = choose_samples();
  std::vector<ReplicaOutcome> outcomes(samples.size(), ReplicaOutcome::kEqual);
  const auto compare = [&](std::size_t i) {
    const ReplicaSample& sample = samples[i];
    try {
      if (is_equal_at(sample.pair, sample.offset)) return;
      outcomes[i] = ReplicaOutcome::kDifferent;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInternal) throw;
      outcomes[i] = ReplicaOutcome::kUnreadable;
      return;
    }
    require_examined(sample.pair);
  };
  parallel_for(samples.size(), compare, listing_ == nullptr ? 0 : 1);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (outcomes[i] == ReplicaOutcome::kUnreadable) ++findings_.unreadable;
    auto& first = first_difference_[samples[i].parameter];
    if (outcomes[i] == ReplicaOutcome::kDifferent && !first) first = samples[i].pair;
  }
}

ReplicaFindings Check::run() {
  if (all_are_few()) {
    compare_all();
  } else {
    if (!table_.states_layouts()) compare_begins();
    compare_samples();
  }
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const auto& pair = first_difference_[p];
    if (pair) findings_.differing.push_back({parameters_[p].source, pair->one, pair->other});
  }
  return std::move(findings_);
}

}  // namespace

ReplicaFindings check_replicas(const SourceTable& table,
                               const std::vector<ReplicatedParameter>& parameters) {
  const std::optional<ObjectKey>& set = table.checkpoint().identity();
  if (!set) return Check(table, parameters, nullptr).run();
  ComparisonList list(table.checkpoint());
  ReplicaFindings equal = Check(table, parameters, &list).run();
  const ReplicaCache cache(*set, list);
  if (cache.has()) return equal;
  ReplicaFindings findings = Check(table, parameters, nullptr).run();
  if (findings.differing.empty() && findings.unreadable == 0) cache.keep();
  return findings;
}

}  // namespace reshardfs
