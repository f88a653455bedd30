// SPDX-License-Identifier: Apache-2.0
#include "view/parted_file.h"

#include <algorithm>
#include <string>

#include "reshardfs/error.h"

namespace reshardfs {

void PartedFile::read_part(const Part& part, std::uint64_t end, std::uint64_t offset,
                           std::span<std::byte> out, ReadBatch& batch) const {
  if (part.number == kFrame) return read_frame(offset - part.begin, out);
  FileImage image;
  append_to(image, part.number);
  if (image.size() != end - part.begin) {
    throw Error(ErrorKind::kInternal, "takes " + std::to_string(image.size()) +
                                          " bytes of a file of target rank " + to_string(rank()) +
                                          " instead of " + std::to_string(end - part.begin));
  }
  image.read(offset - part.begin, out, batch);
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
  read_foreseen(reads_, size(), offset, out,
                [&](std::uint64_t from, std::span<std::byte> part, ReadBatch& batch) {
                  read_parts(from, part, batch);
                });
}

std::vector<const ByteSource*> PartedFile::sources_of(std::uint64_t offset,
                                                      std::uint64_t length) const {
  if (length == 0) return {};
  listed_.call([this] { parts_ = parts(); });
  return sources_read(
      length, [&](std::span<std::byte> out, ReadBatch& batch) { read_parts(offset, out, batch); });
}

void PartedFile::read_parts(std::uint64_t offset, std::span<std::byte> out,
                            ReadBatch& batch) const {
  auto part = std::upper_bound(parts_.begin(), parts_.end(), offset,
                               [](std::uint64_t o, const Part& p) { return o < p.begin; }) -
              1;
  while (!out.empty()) {
    const std::uint64_t end = end_of(*part);
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), end - offset));
    read_part(*part, end, offset, out.first(count), batch);
    out = out.subspan(count);
    offset += count;
    ++part;
  }
}

}  // namespace reshardfs
