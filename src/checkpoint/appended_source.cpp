// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/appended_source.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "base/checked.h"

namespace reshardfs {

ByteRange AppendedSource::append(std::unique_ptr<const ComputedContent> content) {
  const ByteRange place(size_, content->size());
  if (!place.empty()) behind_.push_back({size_, std::move(content)});
  size_ = place.end();
  return place;
}

const AppendedSource::Behind& AppendedSource::behind_at(std::uint64_t offset) const {
  const auto next =
      std::upper_bound(behind_.begin(), behind_.end(), offset,
                       [](std::uint64_t at, const Behind& behind) { return at < behind.begin; });
  return *std::prev(next);
}

void AppendedSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  read({offset, out});
}

void AppendedSource::read(const ReadRequest& request) const {
  auto [offset, out, foreseen] = request;
  require_in_source(*this, offset, out.size());
  const std::uint64_t file = file_->size();
  if (offset < file) {
    const auto part =
        out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), file - offset)));
    read_part(*file_, {offset, part, foreseen});
    offset += part.size();
    out = out.subspan(part.size());
  }
  while (!out.empty()) {
    const Behind& behind = behind_at(offset);
    const std::uint64_t end = behind.begin + behind.content->size();
    const auto part =
        out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), end - offset)));
    behind.content->read({offset - behind.begin, part, foreseen});
    offset += part.size();
    out = out.subspan(part.size());
  }
}

void AppendedSource::read_many(std::span<const ReadRequest> parts) const {
  std::vector<ReadRequest> in_file;
  for (const ReadRequest& part : parts) {
    require_in_source(*this, part.offset, part.out.size());
    if (part.offset + part.out.size() <= file_->size()) {
      in_file.push_back(part);
    } else {
      read(part);
    }
  }
  file_->read_many(in_file);
}

void AppendedSource::foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept {
  if (!is_far()) return;
  try {
    std::vector<ByteRange> in_file;
    for (const ByteRange& range : ranges) {
      if (range.empty() || range.end() > size_) continue;
      if (range.end() <= file_->size()) {
        in_file.push_back(range);
      } else if (range.offset() >= file_->size()) {
        const Behind& behind = behind_at(range.offset());
        const std::uint64_t begin = range.offset() - behind.begin;
        behind.content->foresee(
            ByteRange(begin, std::min(range.length(), behind.content->size() - begin)), when);
      }
    }
    file_->foresee(in_file, when);
  } catch (const std::exception&) {
    // A read of it reports the error.
  }
}

bool AppendedSource::gather(const StridedRanges& ranges, std::byte* out) const {
  if (ranges.span().end() > file_->size()) return false;
  return file_->gather(ranges, out);
}

}  // namespace reshardfs
