// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "format/mindformers/saved_cut.h"

namespace reshardfs {

enum class MetadataForm : std::uint8_t {
  kIndented,  ///< as releases up to 2.0 write it
  kOneLine,   ///< as 2.1 does
};

/// A parameter in a metadata.json that is to be written.
struct SavedParameter {
  std::string_view name;  ///< lives as long as the text; UTF-8
  DType dtype = DType::kFloat32;
  Shape global_shape;
  std::shared_ptr<const SavedCut> cut;
  bool of_optimizer = false;
};

/// metadata.json as MindSpore Transformers writes it where every rank saves what it has
/// (mindformers/checkpoint/metadata.py, save_metadata): byte for byte, with an entry for each rank
/// that saves a slice, in which all others that save it are named. So it grows with the square of
/// the replicas, to gigabytes for thousands of ranks, and is made piece by piece when it is read:
/// what is kept is a few words for each parameter, rank, and place of each kind of cut.
class IterationMetadataText {
 public:
  /// @param parameters in the order in which they are to stand.
  /// @param prefix of the files' names, with the '-' at its end if there is one.
  /// @param ranks of the whole set: their number is in the names of the files.
  /// @throws Error kUnsupported with the parameter: a name that is not UTF-8, a layout of more axes
  ///         than there are letters.
  IterationMetadataText(std::vector<SavedParameter> parameters, const std::string& prefix,
                        std::int64_t ranks, MetadataForm form);

  std::uint64_t size() const noexcept { return size_; }
  /// @throws Error kBadInput if the range leaves the text.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  class Window;
  struct Pieces;
  static const Pieces kIndented;
  static const Pieces kOneLine;
  /// What is needed again and again to find a place in the text.
  struct Sizes {
    std::uint64_t end = 0;      ///< where its member of state_dict_metadata ends, from the first on
    std::uint32_t id_head = 0;  ///< bytes of shard_id_head() in JSON
  };

  std::uint64_t slice_size(std::size_t number, std::int64_t slice) const;
  void write_states(Window& window) const;
  void write_slices(Window& window) const;
  void write_slices_of(Rank rank, Window& window) const;
  void write_slice(std::size_t number, std::int64_t slice, bool first, Window& window) const;

  std::uint64_t separator_size(bool first) const noexcept;

  const Pieces& pieces_;
  std::vector<SavedParameter> parameters_;
  std::vector<Sizes> sizes_;  ///< of each parameter
  std::string prefix_;        ///< as it stands in JSON
  std::int64_t ranks_;
  std::array<std::uint64_t, 2> file_name_bytes_{};  ///< a model's, an optimizer's
  /// Where what each rank is the first to save ends, from the first on.
  std::vector<std::uint64_t> slice_ends_;
  std::uint64_t size_ = 0;
};

/// "qwen3-model-0000003-0000008.safetensors".
/// @param prefix see above.
std::string iteration_file_name(std::string_view prefix, bool of_optimizer, Rank rank,
                                std::int64_t ranks);

}  // namespace reshardfs
