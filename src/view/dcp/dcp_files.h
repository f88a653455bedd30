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
#include "format/torch/dcp_path.h"
#include "storage/byte_source.h"
#include "view/dcp/box_plan.h"
#include "view/files/parted_file.h"

namespace reshardfs {

/// What a directory of torch.distributed.checkpoint has beside its tensors: see SavedObject.
struct PassedObject {
  std::string name;
  ByteSourcePtr source;
  ByteRange place;
};

/// Where everything is in the files of such a directory. Each file has archives of torch.save, one
/// for each box; the first file has the objects before them. Nothing depends on the tensors' bytes.
class DcpFiles {
 public:
  /// @param paths see DcpTable::paths.
  /// @throws Error kUnsupported with the parameter, for what that release of torch does not have;
  ///         kBadInput if an object has the name of a tensor.
  DcpFiles(BoxPlan plan, std::vector<PassedObject> objects,
           std::unordered_map<std::string, DcpPath> paths, TorchRelease release);

  const BoxPlan& plan() const noexcept { return plan_; }
  std::size_t count() const noexcept { return plan_.file_count(); }
  /// "__0_0.distcp"
  static std::string name(std::size_t file);
  /// None if the file has nothing, and need not be there.
  std::uint64_t size(std::size_t file) const;

  /// How many of the objects stand in a file.
  std::size_t object_count(std::size_t file) const { return file == 0 ? objects_.size() : 0; }
  const PassedObject& object(std::size_t number) const { return objects_[number]; }
  /// Where an object is in the first file.
  const ByteRange& object_place(std::size_t number) const { return object_places_[number]; }
  /// Where the archive of an item of the plan is, in its file.
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

  /// None of a source's: theirs have other archives.
  std::shared_ptr<const ByteSource> equal_source() const override { return nullptr; }
  std::optional<std::string> attribute(std::string_view name) const override;

 private:
  std::vector<Stretch> stretches() const override;
  void append_to(FileImage& image, std::size_t number) const override;
  void read_frame(std::uint64_t offset, std::span<std::byte> out) const override;
  std::vector<const TargetParameter*> parameters() const override;

  std::shared_ptr<const DcpFiles> files_;
  std::size_t number_;
};

}  // namespace reshardfs
