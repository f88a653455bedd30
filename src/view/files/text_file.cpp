// SPDX-License-Identifier: Apache-2.0
#include "view/files/text_file.h"

#include <algorithm>
#include <cstring>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

void require_inside(std::uint64_t size, std::uint64_t offset, std::size_t count) {
  if (offset <= size && count <= size - offset) return;
  throw Error(ErrorKind::kBadInput, "a read beyond the end of the file").at_offset(offset);
}

}  // namespace

void SharedText::append(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  append(owner, *owner);
}

void SharedText::append(std::shared_ptr<const std::string> owner, std::string_view part) {
  if (part.empty()) return;
  pieces_.push_back({size_, std::move(owner), part});
  size_ += part.size();
}

void SharedText::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  require_inside(size_, offset, out.size());
  if (out.empty()) return;
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                [](std::uint64_t o, const Piece& p) { return o < p.begin; }) -
               1;
  for (; !out.empty(); ++piece) {
    const std::string_view rest = piece->text.substr(offset - piece->begin);
    const std::size_t count = std::min(rest.size(), out.size());
    std::memcpy(out.data(), rest.data(), count);
    out = out.subspan(count);
    offset += count;
  }
}

void MadeFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  require_inside(size_, offset, out.size());
  if (out.empty()) return;
  const auto text = recent_texts().get(this, make_);
  if (text->size() != size_) {
    throw Error(ErrorKind::kInternal, "a text has " + std::to_string(text->size()) +
                                          " bytes instead of " + std::to_string(size_));
  }
  std::memcpy(out.data(), text->data() + offset, out.size());
}

void LiveFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  require_inside(0, offset, out.size());
}

std::shared_ptr<const VirtualFile> PaddedFile::snapshot() const {
  SharedText text = made();
  const std::uint64_t size = padded_size(&text);
  if (text.size() < size) text.append(std::string(size - text.size(), '\n'));
  return std::make_shared<const TextFile>(std::move(text));
}

std::uint64_t PaddedFile::padded_size(const SharedText* text) const {
  once_.call([&] { padded_size_ = (text != nullptr ? text->size() : made().size()) + growth_; });
  return padded_size_;
}

}  // namespace reshardfs
