// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/tensor.h"

#include "base/engine.h"
#include "plan/reading/foresight.h"
#include "plan/target/target_table.h"
#include "view/files/tensor_file.h"

namespace reshardfs {

/// The sizes of one rank's arrays as .npy files; the next array is mostly like the one before. For
/// one thread.
class NpySizes {
 public:
  /// @param target must outlive it.
  NpySizes(const TargetTable& target, Rank rank) : shapes_(target, rank) {}

  /// Bytes. @throws Error kBadInput beyond 63 bits.
  std::uint64_t of(const TargetParameter& parameter);

 private:
  SliceShapes shapes_;
  std::optional<std::pair<DType, Shape>> known_;
  std::uint64_t bytes_ = 0;  ///< of known_
};

/// One array of one destination rank as a .npy file.
class NpyFile final : public TensorFile {
 public:
  /// @param parameter an array that the rank has.
  /// @param sizes of the same rank.
  NpyFile(std::shared_ptr<const TargetTable> target, Rank rank, const TargetParameter& parameter,
          NpySizes& sizes);

  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;

  /// Also "dtype" ("bfloat16", ...), "shape" (a JSON list) and, if the destination lays it out,
  /// "layout".
  std::vector<std::string> attribute_names() const override;
  std::optional<std::string> attribute(std::string_view name) const override;

 private:
  std::vector<const TargetParameter*> parameters() const override { return {&parameter_}; }
  std::string header() const;
  Tensor tensor() const;

  const TargetParameter& parameter_;
  ForeseenFile reads_;
};

/// "float32", "bfloat16", ...: as NumPy and its extensions spell it.
RESHARDFS_ENGINE std::string plain_dtype_name(DType dtype);

}  // namespace reshardfs
