// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshardfs/conversion.h"

#include "base/byte_range.h"
#include "format/torch/dcp_table.h"
#include "view/dcp/box_plan.h"
#include "view/dcp/passed_objects.h"
#include "view/files/parted_file.h"

namespace reshardfs {

/// The offsets of all parts of the files in such a directory. Each file contains archives of
/// torch.save, one for each box; in the first file the objects precede them. Offsets do not depend
/// on the tensors' bytes.
class DcpFiles {
 public:
  /// @param paths see DcpTable::paths.
  /// @throws Error kUnsupported with the parameter if that release of torch cannot represent it;
  ///         kBadInput if an object has the name of a tensor.
  DcpFiles(BoxPlan plan, std::vector<PassedObject> objects,
           std::unordered_map<std::string, DcpPath> paths, TorchRelease release);

  const BoxPlan& plan() const noexcept { return plan_; }
  std::size_t count() const noexcept { return plan_.file_count(); }
  /// "__0_0.distcp"
  static std::string name(std::size_t file);
  /// 0 if the file is empty and can be left out.
  std::uint64_t size(std::size_t file) const;

  /// The number of objects in a file.
  std::size_t object_count(std::size_t file) const { return file == 0 ? objects_.size() : 0; }
  const PassedObject& object(std::size_t number) const { return objects_[number]; }
  /// The range of an object in the first file.
  const ByteRange& object_place(std::size_t number) const { return object_places_[number]; }
  /// The range of an item's archive in its file.
  const ByteRange& item_place(std::size_t item) const { return item_places_[item]; }

  /// The bytes of .metadata.
  std::string table() const;

 private:
  void require_types() const;
  void require_names() const;
  void place_all();

  BoxPlan plan_;
  std::vector<PassedObject> objects_;
  std::unordered_map<std::string, DcpPath> paths_;
  TorchRelease release_;
  std::vector<ByteRange> object_places_;
  std::vector<ByteRange> item_places_;
};

/// One of these files.
class DcpFile final : public PartedFile {
 public:
  DcpFile(std::shared_ptr<const DcpFiles> files, std::size_t number);

  /// Always nullptr: the archives in a source differ from these.
  std::shared_ptr<const ByteSource> equal_source() const override { return nullptr; }
  std::optional<std::string> attribute(std::string_view name) const override;
  /// torch.load jumps to and fro between the ends of each archive, in a file of Python.
  std::uint32_t advised_read() const noexcept override { return 8192; }

 private:
  std::vector<Stretch> stretches() const override;
  void append_to(FileImage& image, std::size_t number) const override;
  void read_frame(std::uint64_t offset, std::span<std::byte> out) const override;
  std::vector<const TargetParameter*> parameters() const override;

  std::shared_ptr<const DcpFiles> files_;
  std::size_t number_;
};

}  // namespace reshardfs
