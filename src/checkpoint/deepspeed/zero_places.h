// SPDX-License-Identifier: Apache-2.0
/// Sequences of bytes that are in several files: see JoinedSource. Lengths are in bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/byte_range.h"
#include "checkpoint/deepspeed/joined_source.h"

namespace reshardfs {

/// Ranges of files, one behind the other.
class RangeList final : public JoinedPlaces {
 public:
  /// @return where the range begins in the sequence.
  std::uint64_t add(std::size_t file, const ByteRange& range);

  std::uint64_t size() const noexcept override { return size_; }
  JoinedPart part_at(std::uint64_t offset) const override;

 private:
  struct Part {
    std::uint64_t begin = 0;
    std::size_t file = 0;
    ByteRange range{};
  };
  std::vector<Part> parts_;  ///< none is empty
  std::uint64_t size_ = 0;
};

/// The parameters of ZeRO's stage 3, whole and one behind the other. Of each, every rank has a
/// piece in its own sequence.
class PieceList final : public JoinedPlaces {
 public:
  /// @param ranks what each rank has: the same number of bytes.
  explicit PieceList(std::vector<std::shared_ptr<const RangeList>> ranks)
      : ranks_(std::move(ranks)) {}

  /// @param length of the whole parameter.
  /// @param start of the rank's piece, in what it has. @param piece length of a piece.
  /// @return where the parameter begins in the sequence.
  std::uint64_t add(std::uint64_t length, std::uint64_t start, std::uint64_t piece);

  std::uint64_t size() const noexcept override { return size_; }
  JoinedPart part_at(std::uint64_t offset) const override;

 private:
  struct Parameter {
    std::uint64_t begin = 0;
    std::uint64_t length = 0;
    std::uint64_t start = 0;
    std::uint64_t piece = 0;
  };
  std::vector<std::shared_ptr<const RangeList>> ranks_;
  std::vector<Parameter> parameters_;  ///< none is empty
  std::uint64_t size_ = 0;
};

/// Sequences, one behind the other.
class PlacesList final : public JoinedPlaces {
 public:
  /// @return where the sequence begins in this one.
  std::uint64_t add(std::shared_ptr<const JoinedPlaces> places);

  std::uint64_t size() const noexcept override { return size_; }
  JoinedPart part_at(std::uint64_t offset) const override;

 private:
  struct Section {
    std::uint64_t begin = 0;
    std::shared_ptr<const JoinedPlaces> places;
  };
  std::vector<Section> sections_;  ///< none is empty
  std::uint64_t size_ = 0;
};

}  // namespace reshardfs
