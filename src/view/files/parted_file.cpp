// SPDX-License-Identifier: Apache-2.0
#include "view/files/parted_file.h"

#include <algorithm>
#include <string>

#include "reshardfs/error.h"

namespace reshardfs {

FileImage PartedFile::image_of(const Part& part) const {
  FileImage image;
  append_to(image, part.number);
  const std::uint64_t bytes = end_of(part) - part.begin;
  if (image.size() != bytes) {
    throw Error(ErrorKind::kInternal, "takes " + std::to_string(image.size()) +
                                          " bytes of a file of target rank " + to_string(rank()) +
                                          " instead of " + std::to_string(bytes));
  }
  return image;
}

std::uint64_t PartedFile::end_of(const Part& part) const {
  return &part == &parts_.back() ? size() : (&part + 1)->begin;
}

std::shared_ptr<const ByteSource> PartedFile::equal_source() const {
  listed_.call([this] { parts_ = parts(); });
  compared_.call([this] {
    FileImage image;
    for (const Part& part : parts_) {
      if (part.number != kFrame) {
        append_to(image, part.number);
        continue;
      }
      std::string frame(static_cast<std::size_t>(end_of(part) - part.begin), '\0');
      read_frame(0, std::as_writable_bytes(std::span(frame)));
      image.append_literal(frame);
    }
    equal_source_ = image.equal_source();
  });
  return equal_source_;
}

void PartedFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  require_inside(offset, out.size());
  if (out.empty()) return;
  listed_.call([this] { parts_ = parts(); });
  read_foreseen(
      reads_, size(), offset, out,
      [&](std::uint64_t from, std::span<std::byte> part, ReadBatch& batch) {
        read_parts(from, part, batch);
      },
      [&](const ByteRange& range, SourceSink& sink) { for_each_use(range, sink); });
}

std::vector<const ByteSource*> PartedFile::sources_of(std::uint64_t offset,
                                                      std::uint64_t length) const {
  if (length == 0) return {};
  listed_.call([this] { parts_ = parts(); });
  SourceList sources;
  for_each_use({offset, length}, sources);
  return sources.sources();
}

template <typename Visit>
void PartedFile::for_each_part(const ByteRange& range, Visit&& visit) const {
  auto part = std::upper_bound(parts_.begin(), parts_.end(), range.offset(),
                               [](std::uint64_t o, const Part& p) { return o < p.begin; }) -
              1;
  for (std::uint64_t at = range.offset(); at < range.end(); ++part) {
    const std::uint64_t length = std::min(range.end(), end_of(*part)) - at;
    visit(*part, at - part->begin, length);
    at += length;
  }
}

void PartedFile::read_parts(std::uint64_t offset, std::span<std::byte> out,
                            ReadBatch& batch) const {
  for_each_part({offset, out.size()},
                [&](const Part& part, std::uint64_t from, std::uint64_t length) {
                  const auto place = out.first(static_cast<std::size_t>(length));
                  if (part.number == kFrame) {
                    read_frame(from, place);
                  } else {
                    image_of(part).read(from, place, batch);
                  }
                  out = out.subspan(place.size());
                });
}

void PartedFile::for_each_use(const ByteRange& range, SourceSink& sink) const {
  for_each_part(range, [&](const Part& part, std::uint64_t from, std::uint64_t length) {
    if (part.number != kFrame) image_of(part).for_each_use({from, length}, sink);
  });
}

}  // namespace reshardfs
