// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/indexes/assumed_source.h"

#include <utility>

#include "reshardfs/error.h"

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
  /// Whoever reads it does so without read_at().
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
    // What is damaged is said best by whoever reads it.
    read_index(format_, *file_);
    throw Error(ErrorKind::kBadInput, "its parameters differ from those of '" +
                                          printable(leader_->path()) +
                                          "', though both have one size and look alike in samples")
        .in_file(name())
        .hint("--check-crc makes mount read every file in full");
  }

  LeaderFramePtr leader_;
  ByteSourcePtr file_;
  const InputFormat& format_;
  mutable RetryOnce examined_;  // a failed examination is made again by the next read
};

}  // namespace

LeaderFrame::LeaderFrame(const RankFile& file, std::shared_ptr<const IndexFrame> frame)
    : file_(file.source), index_(file.index), path_(file.path.string()), frame_(std::move(frame)) {}

const IndexFrame& LeaderFrame::get() const {
  read_.call([this] {
    if (!frame_) frame_ = IndexFrame::of(*file_, index_);
  });
  if (!frame_) {
    throw Error(ErrorKind::kBadInput, "is not what it was when others were taken to be like it")
        .in_file(path_)
        .hint("mount it again");
  }
  return *frame_;
}

ByteSourcePtr assume_like(const LeaderFramePtr& leader, ByteSourcePtr file,
                          const InputFormat& format) {
  return std::make_shared<AssumedSource>(leader, std::move(file), format);
}

}  // namespace reshardfs
