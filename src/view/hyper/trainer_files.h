// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "format/torch/dcp_table.h"
#include "plan/target/target_table.h"
#include "view/dcp/passed_objects.h"
#include "view/files/safetensors_file.h"
#include "view/view.h"

namespace reshardfs {

/// What the program calls it, of its place in nested dictionaries.
std::string dotted_name(const DcpPath& path);

/// A tensor of a step, whole.
struct TrainerTensor {
  DcpPath path;
  const TargetParameter* parameter = nullptr;
  DType dtype = DType::kFloat32;  ///< as it is shown
  std::string name{};             ///< made of the path by TrainerFiles
};

struct TrainerContent {
  /// A further name of a tensor.
  struct Alias {
    DcpPath path;
    std::size_t tensor = 0;
  };
  struct Object {
    DcpPath path;
    PassedObject object;
  };

  std::vector<TrainerTensor> tensors;
  std::size_t weights = 0;  ///< so many of them, the first ones, are weights
  std::vector<Alias> aliases;
  /// States that are scalars in float32 with one value, the number of steps.
  std::vector<DcpPath> steps;
  std::int64_t step = 0;
  std::vector<Object> objects;
};

/// The files of a step of hyper-parallel's Trainer, but for the directory's name: safetensors files
/// of whole tensors, weights apart from states, so that who loads weights alone opens no others; a
/// file of objects; and their table. Source: mindspore-ai/hyper-parallel
/// hyper_parallel/core/distributed_checkpoint/.
class TrainerFiles {
 public:
  /// @param limit most bytes of tensors in a file; a larger tensor has one of its own.
  /// @throws Error kBadInput for two of one name; kUnsupported for a type that the program cannot
  ///         load.
  TrainerFiles(std::shared_ptr<const TargetTable> whole, TrainerContent content,
               std::uint64_t limit, std::shared_ptr<const SafetensorsFile::Common> common);

  /// All of them, the table last, as the program writes it.
  /// @param directory with '/' at its end.
  static std::vector<OutputFile> all(const std::shared_ptr<const TrainerFiles>& self,
                                     const std::string& directory);
  /// The bytes of .metadata.
  std::string table() const;

 private:
  class TensorsFile;
  class ObjectsFile;
  struct Part {
    std::string file;
    std::size_t begin = 0;  ///< in the tensors
    std::size_t end = 0;
  };

  void name_tensors();
  void require_names() const;
  void require_types() const;
  void add_parts(std::string_view stem, std::size_t begin, std::size_t end, std::uint64_t limit);
  void add_tensor(const std::string& name, DType dtype, const Shape& shape, const DcpPlace& place,
                  DcpTable& table) const;
  /// The scalar that all `steps` share.
  std::string steps_file() const;

  std::shared_ptr<const TargetTable> whole_;
  TrainerContent content_;
  std::shared_ptr<const SafetensorsFile::Common> common_;
  std::vector<Part> parts_;
};

}  // namespace reshardfs
