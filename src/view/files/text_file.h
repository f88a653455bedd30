// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/virtual_file.h"

#include "base/process/retry_once.h"
#include "view/files/recent_texts.h"

namespace reshardfs {

/// A text in pieces. Copies, and other texts that contain the same piece, share the pieces.
class SharedText {
 public:
  SharedText() = default;
  /// Implicit, so that functions that return a std::string can be used, too.
  SharedText(std::string text) { append(std::move(text)); }

  void append(std::string text);
  /// @param part a part of `owner`, which it keeps alive.
  void append(std::shared_ptr<const std::string> owner, std::string_view part);

  std::uint64_t size() const noexcept { return size_; }
  /// @throws Error kBadInput if the range leaves the text.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  struct Piece {
    std::uint64_t begin = 0;
    std::shared_ptr<const std::string> owner;
    std::string_view text;  ///< never empty
  };
  std::vector<Piece> pieces_;
  std::uint64_t size_ = 0;
};

/// A file of bytes in memory.
class TextFile final : public VirtualFile {
 public:
  explicit TextFile(SharedText text) : text_(std::move(text)) {}

  std::uint64_t size() const override { return text_.size(); }
  Effort effort() const noexcept override { return Effort::kNone; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    text_.read_at(offset, out);
  }

 private:
  SharedText text_;
};

/// A file whose text is made when it is read, and by the constructor, if its size is unknown.
class MadeFile final : public VirtualFile {
 public:
  /// @param make returns the same text every time. Objects that it refers to must outlive the file.
  explicit MadeFile(std::function<std::string()> make)
      : make_(std::move(make)), size_(make_().size()) {}
  /// @param size of that text, in bytes.
  MadeFile(std::function<std::string()> make, std::uint64_t size)
      : make_(std::move(make)), size_(size) {}
  ~MadeFile() override { recent_texts().forget(this); }

  std::uint64_t size() const override { return size_; }
  Effort effort() const noexcept override { return Effort::kComputes; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::function<std::string()> make_;
  std::uint64_t size_;
};

/// A file whose text is made anew each time it is opened. Pieces that it shares are not.
class LiveFile : public VirtualFile {
 public:
  /// @param effort what making the text takes.
  explicit LiveFile(std::function<SharedText()> make, Effort effort = Effort::kNone)
      : make_(std::move(make)), effort_(effort) {}

  std::uint64_t size() const override { return 0; }
  Effort effort() const noexcept override { return effort_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  std::shared_ptr<const VirtualFile> snapshot() const override {
    return std::make_shared<const TextFile>(made());
  }

 protected:
  SharedText made() const { return make_(); }

 private:
  std::function<SharedText()> make_;
  Effort effort_;
};

/// A LiveFile for programs that rely on the size of a file: newlines at the end make all its texts
/// equally long.
class PaddedFile final : public LiveFile {
 public:
  /// @param growth by how many bytes later texts may be longer than the first one.
  PaddedFile(std::function<SharedText()> make, std::size_t growth)
      : LiveFile(std::move(make), Effort::kComputes), growth_(growth) {}

  std::uint64_t stat_size() const override { return padded_size(nullptr); }
  std::shared_ptr<const VirtualFile> snapshot() const override;

 private:
  /// Computed on the first call, so that a mount whose file is never used makes no text.
  std::uint64_t padded_size(const SharedText* text) const;

  std::size_t growth_;
  mutable RetryOnce once_;
  mutable std::uint64_t padded_size_ = 0;
};

}  // namespace reshardfs
