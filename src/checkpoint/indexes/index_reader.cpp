// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/indexes/index_reader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "format/index/index_frame.h"
#include "format/index/name_orders.h"

namespace reshardfs {
namespace {

class AssumedSource final : public ByteSource {
 public:
  AssumedSource(LeaderFramePtr leader, ByteSourcePtr file, const InputFormat& format)
      : leader_(std::move(leader)), file_(std::move(file)), format_(format) {}

  const std::string& name() const override { return file_->name(); }
  std::uint64_t size() const override { return file_->size(); }
  std::int64_t mtime_ns() const override { return file_->mtime_ns(); }
  FileStamp stamp() const override { return file_->stamp(); }
  std::string identity() const override { return file_->identity(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    examine_once();
    file_->read_at(offset, out);
  }
  void read_many(std::span<const ReadRequest> parts) const override {
    examine_once();
    file_->read_many(parts);
  }
  bool is_far() const noexcept override { return file_->is_far(); }
  bool is_remote() const noexcept override { return file_->is_remote(); }
  void foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept override {
    file_->foresee(ranges, when);
  }
  bool gather(const StridedRanges& ranges, std::byte* out) const override {
    examine_once();
    return file_->gather(ranges, out);
  }
  void check_unchanged() const override { file_->check_unchanged(); }
  /// It is read without read_at().
  std::shared_ptr<const Descriptor> descriptor() const override {
    examine_once();
    return file_->descriptor();
  }

 private:
  void examine_once() const {
    examined_.call([this] { examine(); });
  }

  void examine() const {
    if (leader_->get().fits(*file_)) return;
    // Reading it describes the damage best.
    read_index(format_, *file_);
    throw Error(ErrorKind::kBadInput, "its parameters differ from those of '" +
                                          printable(leader_->path()) +
                                          "', although both files have one size and equal samples")
        .in_file(name())
        .hint("--check-crc makes mount read every file in full");
  }

  LeaderFramePtr leader_;
  ByteSourcePtr file_;
  const InputFormat& format_;
  mutable RetryOnce examined_;  // a failed examination is made again by the next read
};

using FramePtr = std::shared_ptr<const IndexFrame>;

// The fewest samples of each file, and the number of files that compare the same stretch.
constexpr std::size_t kLeastSamples = 16;
constexpr std::size_t kFilesForAStretch = 4;
// Limits the comparison of files that have one size but all differ.
constexpr int kRounds = 32;

enum class Verdict : char { kOther, kPartly, kSampled, kEqual };

/// Files of one format and size whose indexes are still to be found.
struct Group {
  std::vector<std::size_t> pending;
  std::size_t leader = 0;
  FramePtr frame;
  std::vector<Verdict> verdicts;  ///< of the pending ones

  Verdict judge(std::size_t member, const ByteSource& source, bool sample) const {
    if (!sample) return frame->fits(source) ? Verdict::kEqual : Verdict::kOther;
    const std::size_t most = std::max<std::size_t>(frame->stretches() / kLeastSamples, 1);
    const std::size_t step = std::clamp<std::size_t>(pending.size() / kFilesForAStretch, 1, most);
    // Shifted by one in each turn: ranks that are alike are often equally far apart.
    const std::size_t first = (member + member / step) % step;
    const auto found = frame->compare(source, first, step, /*stop_early=*/false);
    if (found.different == 0) return step == 1 ? Verdict::kEqual : Verdict::kSampled;
    // Another stage has other names throughout. What is different here and there may be different
    // where it was not looked at, too.
    return found.different > found.equal ? Verdict::kOther : Verdict::kPartly;
  }
};

class Reader {
 public:
  Reader(std::vector<RankFile>& files, const CheckpointOptions& options, std::size_t cheap)
      : files_(files), options_(options), cheap_(cheap), likenesses_(files.size()) {
    std::map<std::pair<const InputFormat*, std::uint64_t>, Group> by_size;
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (files[i].index) continue;  // by the set's metadata
      by_size[{&input_format_of(files[i].path), files[i].source->size()}].pending.push_back(i);
    }
    for (auto& [key, group] : by_size) groups_.push_back(std::move(group));
    if (!files.empty() && files.front().source->is_far()) threads_ = kRequestsAtOnce;
  }

  /// @return of each file, the one that it was taken to be like by samples.
  Likenesses run() {
    for (int round = 0; !groups_.empty() && round < kRounds; ++round) {
      parallel_for(
          groups_.size(), [this](std::size_t i) { read_leader(groups_[i]); }, threads_);
      compare_with_leaders();
      for (Group& group : groups_) settle(group);
      std::erase_if(groups_, [](const Group& group) { return group.pending.empty(); });
    }
    std::vector<std::size_t> rest;
    for (const Group& group : groups_) {
      rest.insert(rest.end(), group.pending.begin(), group.pending.end());
    }
    parallel_for(
        rest.size(), [&](std::size_t i) { read_whole(files_[rest[i]]); }, threads_);
    return std::move(likenesses_);
  }

 private:
  /// Names the file in what `work` throws.
  template <typename Work>
  void with(const RankFile& file, Work&& work) const {
    try {
      work();
    } catch (Error& error) {
      if (options_.decryption) options_.decryption->explain(error);
      error.in_file(file.path.string());
      throw;
    }
  }

  void read_whole(RankFile& file) {
    with(file, [&] {
      file.index = std::make_shared<const FileIndex>(
          read_index(input_format_of(file.path), *file.source, &orders_));
    });
    orders_.add(file.index);
  }

  /// The first pending file. Without a frame it is like no other.
  void read_leader(Group& group) {
    group.leader = group.pending.front();
    group.pending.erase(group.pending.begin());
    RankFile& file = files_[group.leader];
    read_whole(file);
    group.frame = nullptr;
    if (group.pending.empty()) return;
    with(file, [&] { group.frame = IndexFrame::of(*file.source, file.index); });
  }

  void compare_with_leaders() {
    std::size_t parameters = 0;
    for (const Group& group : groups_) {
      if (group.frame) parameters += group.pending.size() * group.frame->stretches();
    }
    const bool all = options_.check_crc || options_.examine_all || parameters <= cheap_;
    compare(all ? Verdict::kEqual : Verdict::kSampled, [](const Group&) { return true; });
    if (all) return;
    compare(Verdict::kEqual, [](const Group& group) {
      return std::find(group.verdicts.begin(), group.verdicts.end(), Verdict::kPartly) !=
             group.verdicts.end();
    });
  }

  /// @param wanted kSampled or kEqual: how much is compared.
  template <typename Takes>
  void compare(Verdict wanted, Takes&& takes) {
    std::vector<std::pair<Group*, std::size_t>> work;
    for (Group& group : groups_) {
      if (!takes(group)) continue;
      group.verdicts.assign(group.pending.size(), Verdict::kOther);
      for (std::size_t i = 0; group.frame && i < group.pending.size(); ++i) {
        work.emplace_back(&group, i);
      }
    }
    parallel_for(
        work.size(),
        [&](std::size_t i) {
          Group* const group = work[i].first;
          const std::size_t member = work[i].second;
          const RankFile& file = files_[group->pending[member]];
          with(file, [&] {
            group->verdicts[member] =
                group->judge(member, *file.source, wanted == Verdict::kSampled);
          });
        },
        threads_);
  }

  /// Those that are like the leader get its index; the others stay pending.
  void settle(Group& group) {
    std::vector<std::size_t> others;
    LeaderFramePtr frame;
    for (std::size_t i = 0; i < group.pending.size(); ++i) {
      RankFile& file = files_[group.pending[i]];
      const Verdict verdict = group.verdicts[i];
      if (verdict != Verdict::kEqual && verdict != Verdict::kSampled) {
        others.push_back(group.pending[i]);
        continue;
      }
      file.index = group.frame->index();
      if (verdict == Verdict::kEqual) continue;
      if (!frame) {
        // A mount would hold the frame of a million parameters for long.
        const bool is_small = group.frame->stretches() <= kCheapParameters;
        frame = std::make_shared<const LeaderFrame>(files_[group.leader],
                                                    is_small ? group.frame : nullptr);
      }
      file.unexamined = file.source;
      file.source = assume_like(frame, file.source, input_format_of(file.path));
      likenesses_[group.pending[i]] = group.leader;
    }
    group.pending = std::move(others);
  }

  std::vector<RankFile>& files_;
  const CheckpointOptions& options_;
  std::size_t cheap_;
  std::size_t threads_ = 0;
  std::vector<Group> groups_;
  Likenesses likenesses_;
  NameOrders orders_;
};

}  // namespace

LeaderFrame::LeaderFrame(const RankFile& file, std::shared_ptr<const IndexFrame> frame)
    : file_(file.source), index_(file.index), path_(file.path.string()), frame_(std::move(frame)) {}

const IndexFrame& LeaderFrame::get() const {
  read_.call([this] {
    if (!frame_) frame_ = IndexFrame::of(*file_, index_);
  });
  if (!frame_) {
    throw Error(ErrorKind::kBadInput,
                "has changed since other files were found to have the same header")
        .in_file(path_)
        .hint("mount it again");
  }
  return *frame_;
}

ByteSourcePtr assume_like(const LeaderFramePtr& leader, ByteSourcePtr file,
                          const InputFormat& format) {
  return std::make_shared<AssumedSource>(leader, std::move(file), format);
}

Likenesses read_indexes(std::vector<RankFile>& files, const CheckpointOptions& options,
                        std::size_t cheap_parameters) {
  return Reader(files, options, cheap_parameters).run();
}

}  // namespace reshardfs
