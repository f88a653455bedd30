// SPDX-License-Identifier: Apache-2.0
/// The sample of `reshardfs demo`: a small transformer with Adam moments.
///
/// Every element's value is a function of its parameter and its index in the full tensor, and the
/// slices are cut here by plain row and column arithmetic: nothing of the engine that the demo
/// shows is used, so its checksums prove something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

namespace reshardfs {

struct DemoParameter {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;           ///< full; one or two dimensions, or a scalar
  int cut = -1;          ///< the dimension that model parallelism cuts; -1: none
  bool laid_out = true;  ///< whether the strategies have it (learning_rate and the like: no)
};

/// One rank's part of a parameter: rows and columns of the full tensor.
struct DemoSlice {
  std::int64_t row_begin = 0, row_end = 1;
  std::int64_t column_begin = 0, column_end = 1;
};

class DemoModel {
 public:
  static constexpr std::int64_t kModelParallel = 4;
  static constexpr std::int64_t kDataParallel = 2;

  DemoModel();

  const std::vector<DemoParameter>& parameters() const noexcept { return parameters_; }

  /// The slice of one of kModelParallel parts, cut in `optimizer_parts` row blocks more.
  DemoSlice slice(const DemoParameter& parameter, std::int64_t model_part,
                  std::int64_t optimizer_part, std::int64_t optimizer_parts) const;
  DemoSlice whole(const DemoParameter& parameter) const;

  using Sink = std::function<void(std::span<const std::byte>)>;
  using Slicer = std::function<DemoSlice(const DemoParameter&)>;
  /// The bytes of a .ckpt file with the slices that `slicer` chooses.
  void write(const Slicer& slicer, const Sink& sink) const;

  /// Writes rank_0 ... rank_7, src_strategy.ckpt and dst_strategy.ckpt below `directory`.
  /// @return bytes written.
  std::uint64_t write_source(const std::filesystem::path& directory) const;

 private:
  void write_content(std::size_t number, const DemoSlice& slice, const Sink& sink) const;
  std::vector<DemoParameter> parameters_;
};

}  // namespace reshardfs
