// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "reshardfs/virtual_file.h"

#include "base/retry_once.h"
#include "view/recent_texts.h"

namespace reshardfs {

/// A file of bytes in memory.
class TextFile final : public VirtualFile {
 public:
  explicit TextFile(std::string text) : text_(std::move(text)) {}

  std::uint64_t size() const override { return text_.size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::string text_;
};

/// A file whose text is made when it is made, to know its size, and again when it is read.
class MadeFile final : public VirtualFile {
 public:
  /// @param make what it refers to must live as long as the file; the same text every time.
  explicit MadeFile(std::function<std::string()> make)
      : make_(std::move(make)), size_(make_().size()) {}
  ~MadeFile() override { recent_texts().forget(this); }

  std::uint64_t size() const override { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::function<std::string()> make_;
  std::uint64_t size_;
};

/// A file whose text is made anew each time that it is opened.
class LiveFile : public VirtualFile {
 public:
  explicit LiveFile(std::function<std::string()> make) : make_(std::move(make)) {}

  std::uint64_t size() const override { return 0; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  std::shared_ptr<const VirtualFile> snapshot() const override {
    return std::make_shared<const TextFile>(made());
  }

 protected:
  std::string made() const { return make_(); }

 private:
  std::function<std::string()> make_;
};

/// As LiveFile, for programs that go by the size of a file: newlines at the end make all the texts
/// equally long.
class PaddedFile final : public LiveFile {
 public:
  /// @param growth bytes by which a text may be longer than the first one.
  PaddedFile(std::function<std::string()> make, std::size_t growth)
      : LiveFile(std::move(make)), growth_(growth) {}

  std::uint64_t stat_size() const override { return padded_size(nullptr); }
  std::shared_ptr<const VirtualFile> snapshot() const override;

 private:
  /// Found out when it is first asked for: nothing is made for a mount that nobody asks.
  std::uint64_t padded_size(const std::string* text) const;

  std::size_t growth_;
  mutable RetryOnce once_;
  mutable std::uint64_t padded_size_ = 0;
};

}  // namespace reshardfs
