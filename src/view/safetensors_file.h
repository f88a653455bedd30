// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/safetensors_writer.h"
#include "view/parted_file.h"

namespace reshardfs {

/// Parameters of one destination rank as a .safetensors file.
class SafetensorsFile final : public PartedFile {
 public:
  /// What goes into all files of one table, the tensors aside.
  struct Common {
    safetensors::Metadata metadata;
    std::uint64_t align = 8;
  };

  /// @param parameters arrays that the rank has, in any order.
  /// @throws Error kUnsupported for names that the format cannot hold; kBadInput if the file would
  ///         be too large.
  SafetensorsFile(std::shared_ptr<const TargetTable> target, Rank rank,
                  std::vector<const TargetParameter*> parameters,
                  std::shared_ptr<const Common> common);
  ~SafetensorsFile() override;

 private:
  safetensors::Header header() const;
  std::vector<Part> parts() const override;
  void append_to(FileImage& image, const TargetParameter& parameter) const override;
  void read_frame(std::uint64_t offset, std::span<std::byte> out) const override;
  std::vector<const TargetParameter*> parameters() const override { return parameters_; }

  std::vector<const TargetParameter*> parameters_;
  std::shared_ptr<const Common> common_;
};

/// The arrays of a destination rank, in the table's order.
std::vector<const TargetParameter*> arrays_of(const TargetTable& target, Rank rank);

}  // namespace reshardfs
