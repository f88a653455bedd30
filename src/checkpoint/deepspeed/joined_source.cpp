// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/joined_source.h"

#include <algorithm>
#include <exception>
#include <map>
#include <set>

namespace reshardfs {

JoinedSource::JoinedSource(std::string name, std::vector<ByteSourcePtr> files,
                           std::shared_ptr<const JoinedPlaces> places)
    : name_(std::move(name)), files_(std::move(files)), places_(std::move(places)) {
  mtime_ns_ = files_.front()->mtime_ns();
  for (const ByteSourcePtr& file : files_) mtime_ns_ = std::max(mtime_ns_, file->mtime_ns());
}

template <typename Visit>
void JoinedSource::for_each_part(std::uint64_t offset, std::uint64_t length, Visit&& visit) const {
  for (std::uint64_t done = 0; done < length;) {
    JoinedPart part = places_->part_at(offset + done);
    part.length = std::min(part.length, length - done);
    visit(part, done);
    done += part.length;
  }
}

void JoinedSource::for_each_file(
    const ByteRange& range,
    const std::function<void(const ByteSource& file, std::uint64_t bytes)>& visit) const {
  for_each_part(range.offset(), range.length(), [&](const JoinedPart& part, std::uint64_t) {
    visit(*files_[part.file], part.length);
  });
}

void JoinedSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  const ReadRequest request{offset, out};
  read_many({&request, 1});
}

void JoinedSource::read_many(std::span<const ReadRequest> parts) const {
  std::map<std::size_t, std::vector<ReadRequest>> by_file;
  for (const ReadRequest& request : parts) {
    require_in_source(*this, request.offset, request.out.size());
    for_each_part(
        request.offset, request.out.size(), [&](const JoinedPart& part, std::uint64_t within) {
          by_file[part.file].push_back({part.offset,
                                        request.out.subspan(static_cast<std::size_t>(within),
                                                            static_cast<std::size_t>(part.length)),
                                        request.foreseen});
        });
  }
  for (const auto& [file, requests] : by_file) files_[file]->read_many(requests);
  for (const auto& [file, requests] : by_file) files_[file]->check_unchanged();
}

void JoinedSource::foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept {
  if (!is_far()) return;
  try {
    std::map<std::size_t, std::vector<ByteRange>> by_file;
    for (const ByteRange& range : ranges) {
      if (range.end() > size()) continue;
      for_each_part(range.offset(), range.length(), [&](const JoinedPart& part, std::uint64_t) {
        by_file[part.file].emplace_back(part.offset, part.length);
      });
    }
    for (const auto& [file, there] : by_file) files_[file]->foresee(there, when);
  } catch (const std::exception&) {
    // A read of it reports the error.
  }
}

bool JoinedSource::gather(const StridedRanges& ranges, std::byte* out) const {
  const ByteRange span = ranges.span();
  require_in_source(*this, span.offset(), span.length());
  if (span.empty()) return false;
  const JoinedPart part = places_->part_at(span.offset());
  if (part.length < span.length()) return false;
  const ByteSource& file = *files_[part.file];
  if (!file.gather(ranges.moved_to(part.offset), out)) return false;
  file.check_unchanged();
  return true;
}

}  // namespace reshardfs
