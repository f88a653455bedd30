// SPDX-License-Identifier: Apache-2.0
#include "view/text_file.h"

#include <cstring>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

void require_inside(std::uint64_t size, std::uint64_t offset, std::size_t count) {
  if (offset <= size && count <= size - offset) return;
  throw Error(ErrorKind::kBadInput, "a read leaves the file").at_offset(offset);
}

}  // namespace

void TextFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  require_inside(text_.size(), offset, out.size());
  if (!out.empty()) std::memcpy(out.data(), text_.data() + offset, out.size());
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
  std::string text = made();
  const std::uint64_t size = padded_size(&text);
  if (text.size() < size) text.resize(size, '\n');
  return std::make_shared<const TextFile>(std::move(text));
}

std::uint64_t PaddedFile::padded_size(const std::string* text) const {
  once_.call([&] { padded_size_ = (text != nullptr ? text->size() : made().size()) + growth_; });
  return padded_size_;
}

}  // namespace reshardfs
