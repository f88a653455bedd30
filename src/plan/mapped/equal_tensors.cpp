// SPDX-License-Identifier: Apache-2.0
#include "plan/mapped/equal_tensors.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/scatter.h"
#include "plan/replicas/replica_check.h"

namespace reshardfs {
namespace {

struct Sample {
  std::size_t pair = 0;
  std::uint64_t offset = 0;
};

/// More of one pair tell little more.
constexpr std::size_t kSamplesOfPair = 64;

enum class Outcome : char { kEqual, kDifferent, kUnreadable };

class PairCheck {
 public:
  explicit PairCheck(const std::vector<TensorPair>& pairs) {
    for (const TensorPair& pair : pairs) {
      views_.push_back({ShownTensor(pair.grid), ShownTensor(pair.other), pair.has_fill});
    }
  }

  PairFindings run() {
    const std::vector<Sample> samples = choose();
    std::vector<Outcome> outcomes(samples.size(), Outcome::kEqual);
    parallel_for(samples.size(), [&](std::size_t i) { outcomes[i] = compare(samples[i]); });
    PairFindings findings;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (outcomes[i] == Outcome::kUnreadable) ++findings.unreadable;
      if (outcomes[i] == Outcome::kDifferent) findings.differing.push_back(samples[i].pair);
    }
    std::sort(findings.differing.begin(), findings.differing.end());
    findings.differing.erase(std::unique(findings.differing.begin(), findings.differing.end()),
                             findings.differing.end());
    return findings;
  }

 private:
  struct Views {
    ShownTensor one;
    ShownTensor other;
    bool has_fill = false;
  };

  static std::uint64_t blocks_of(const Views& views) {
    return (views.one.size() + kReplicaSampleBytes - 1) / kReplicaSampleBytes;
  }

  std::vector<Sample> choose() const {
    constexpr std::size_t kMost = kReplicaReads / 2;  // each is a read of both
    std::uint64_t blocks = 0;
    for (const Views& views : views_) blocks += blocks_of(views);
    std::vector<Sample> samples;
    if (blocks <= kMost) {
      for (std::size_t i = 0; i < views_.size(); ++i) {
        for (std::uint64_t block = 0; block < blocks_of(views_[i]); ++block) {
          samples.push_back({i, block * kReplicaSampleBytes});
        }
      }
      return samples;
    }
    const std::size_t count = views_.size();
    const std::size_t turns = std::min(kMost, kSamplesOfPair * count);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      const std::size_t i = count <= kMost ? turn % count : turn * count / kMost;
      const std::uint64_t size = views_[i].one.size();
      if (size == 0) continue;
      const std::uint64_t last = size - std::min<std::uint64_t>(size, kReplicaSampleBytes);
      const std::size_t round = count <= kMost ? turn / count : turn;
      const std::uint64_t offset = round == 0 ? 0 : round == 1 ? last : scatter(turn) % (last + 1);
      samples.push_back({i, offset});
    }
    return samples;
  }

  Outcome compare(const Sample& sample) const {
    const Views& views = views_[sample.pair];
    const ByteRange range{sample.offset, std::min<std::uint64_t>(kReplicaSampleBytes,
                                                                 views.one.size() - sample.offset)};
    try {
      const auto bytes = differing_bytes(views.one, views.other, range, views.has_fill);
      return bytes == 0 ? Outcome::kEqual : Outcome::kDifferent;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInternal) throw;
      return Outcome::kUnreadable;
    }
  }

  std::vector<Views> views_;
};

}  // namespace

std::uint64_t differing_bytes(const ShownTensor& one, const ShownTensor& other,
                              const ByteRange& range, bool has_fill) {
  std::vector<std::byte> left(static_cast<std::size_t>(range.length()));
  std::vector<std::byte> right(left.size());
  ReadBatch batch;
  one.read(range.offset(), left, batch);
  other.read(range.offset(), right, batch);
  batch.check();
  // What a map pads with need not be in the source.
  other.for_each_run(range, [&](const StridedRun& run) {
    if (run.literal == nullptr || has_fill) return;
    const std::uint64_t at = run.destination_offset - range.offset();
    std::memcpy(right.data() + at, left.data() + at, static_cast<std::size_t>(run.length));
  });
  std::uint64_t different = 0;
  for (std::size_t i = 0; i < left.size(); ++i) different += left[i] == right[i] ? 0U : 1U;
  return different;
}

PairFindings compare_pairs(const std::vector<TensorPair>& pairs) {
  return PairCheck(pairs).run();
}

}  // namespace reshardfs
