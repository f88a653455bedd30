// SPDX-License-Identifier: Apache-2.0
#include "view/files/parted_file.h"

#include <algorithm>
#include <string>

#include "reshardfs/error.h"

namespace reshardfs {

FileImage PartedFile::image_of(const Stretch& stretch) const {
  FileImage image;
  append_to(image, stretch.number);
  const std::uint64_t bytes = end_of(stretch) - stretch.begin;
  if (image.size() != bytes) {
    throw Error(ErrorKind::kInternal, "takes " + std::to_string(image.size()) +
                                          " bytes of a file of target rank " + to_string(rank()) +
                                          " instead of " + std::to_string(bytes));
  }
  return image;
}

std::uint64_t PartedFile::end_of(const Stretch& stretch) const {
  return &stretch == &stretches_.back() ? size() : (&stretch + 1)->begin;
}

std::shared_ptr<const ByteSource> PartedFile::equal_source() const {
  listed_.call([this] { stretches_ = stretches(); });
  compared_.call([this] {
    FileImage image;
    for (const Stretch& stretch : stretches_) {
      if (stretch.number != kFrame) {
        append_to(image, stretch.number);
        continue;
      }
      std::string frame(static_cast<std::size_t>(end_of(stretch) - stretch.begin), '\0');
      read_frame(stretch.begin, std::as_writable_bytes(std::span(frame)));
      image.append_literal(frame);
    }
    equal_source_ = image.equal_source();
  });
  return equal_source_;
}

void PartedFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  require_inside(offset, out.size());
  if (out.empty()) return;
  listed_.call([this] { stretches_ = stretches(); });
  read_foreseen(
      reads_, size(), offset, out,
      [&](std::uint64_t from, std::span<std::byte> stretch, ReadBatch& batch) {
        read_stretches(from, stretch, batch);
      },
      [&](const ByteRange& range, SourceSink& sink) { for_each_use(range, sink); },
      [&] { foresee_next(); });
}

void PartedFile::foresee_next() const noexcept {
  const std::shared_ptr<const PartedFile> next = next_.lock();
  if (next == nullptr) return;
  foresee_beginning(next->size(), [&](const ByteRange& range, SourceSink& sink) {
    next->listed_.call([&] { next->stretches_ = next->stretches(); });
    next->for_each_use(range, sink);
  });
}

std::vector<StoredRange> PartedFile::stored_ranges(std::uint64_t offset, std::uint64_t length,
                                                   std::uint64_t least) const {
  require_inside(offset, length);
  listed_.call([this] { stretches_ = stretches(); });
  std::vector<StoredRange> ranges;
  if (length == 0) return ranges;
  for_each_stretch(
      {offset, length}, [&](const Stretch& stretch, std::uint64_t from, std::uint64_t bytes) {
        if (stretch.number == kFrame) return;
        image_of(stretch).add_unchanged({from, bytes}, stretch.begin + from, least, ranges);
      });
  return joined(std::move(ranges), least);
}

template <typename Visit>
void PartedFile::for_each_stretch(const ByteRange& range, Visit&& visit) const {
  auto stretch = std::upper_bound(stretches_.begin(), stretches_.end(), range.offset(),
                                  [](std::uint64_t o, const Stretch& p) { return o < p.begin; }) -
                 1;
  for (std::uint64_t at = range.offset(); at < range.end(); ++stretch) {
    const std::uint64_t length = std::min(range.end(), end_of(*stretch)) - at;
    visit(*stretch, at - stretch->begin, length);
    at += length;
  }
}

void PartedFile::read_stretches(std::uint64_t offset, std::span<std::byte> out,
                                ReadBatch& batch) const {
  for_each_stretch({offset, out.size()},
                   [&](const Stretch& stretch, std::uint64_t from, std::uint64_t length) {
                     const auto place = out.first(static_cast<std::size_t>(length));
                     if (stretch.number == kFrame) {
                       read_frame(stretch.begin + from, place);
                     } else {
                       image_of(stretch).read(from, place, batch);
                     }
                     out = out.subspan(place.size());
                   });
}

void PartedFile::for_each_use(const ByteRange& range, SourceSink& sink) const {
  for_each_stretch(range, [&](const Stretch& stretch, std::uint64_t from, std::uint64_t length) {
    if (stretch.number != kFrame) image_of(stretch).for_each_use({from, length}, sink);
  });
}

}  // namespace reshardfs
