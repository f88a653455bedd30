// SPDX-License-Identifier: Apache-2.0
/// What the values in a pickle of torch.save are.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/byte_range.h"
#include "format/torch/pickle_tree.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

class TorchValues {
 public:
  /// @return where a storage is in the source. @throws Error if no storage has the key.
  using Storages = std::function<ByteRange(std::string_view key)>;

  enum class Views : std::uint8_t {
    kInStorage,  ///< a tensor has no more elements than its storage
    kAny,        ///< elements may stand for several of the tensor's, as expand() makes them
  };

  /// @param tree must outlive it.
  TorchValues(const PickleTree& tree, Storages storages, Views views)
      : tree_(tree), storages_(std::move(storages)), views_(views) {}

  /// Whether a value is a tensor, even one that tensor() refuses.
  bool is_tensor(PickleValue value) const noexcept;

  /// A tensor as it lies in its storage, without a name.
  /// @throws Error kBadInput or kUnsupported that says why it cannot be shown ("it has hooks"),
  ///         without the file; what `storages` throws.
  TorchTensor tensor(PickleValue value) const;

 private:
  TorchTensor parameter(PickleValue value) const;
  TorchTensor of_type(PickleValue value) const;
  TorchTensor made_by(const PickleGlobal& maker, PickleValue arguments) const;
  bool is_empty_dict(PickleValue value) const;
  DType type_of(PickleValue value) const;
  std::int64_t take_storage(PickleValue value, bool typed, TorchTensor& out) const;
  void require_inside(const TorchTensor& tensor, std::int64_t elements) const;

  const PickleTree& tree_;
  Storages storages_;
  Views views_;
};

/// The id that stands for a storage.
struct TorchStorageId {
  PickleGlobal storage_class;
  std::string_view key;
  std::int64_t count = 0;  ///< elements of its class
};

/// @param value of a pickle. @throws Error kBadInput that says what is wrong.
TorchStorageId storage_id(const PickleTree& tree, PickleValue value);
/// Bytes of an element of a storage. @throws Error kUnsupported if its class is not known.
std::int64_t storage_width(const PickleGlobal& storage_class);

/// What a pickle has of a size.
/// @param what "its size"
/// @throws Error kBadInput if it is not a tuple of at most 64 numbers from 0 to 2^62.
Shape torch_sizes(const PickleTree& tree, PickleValue value, std::string_view what);

/// PyTorch would read all tensors of a storage as the type that it reads first.
/// @throws Error kBadInput, without the file, if a storage has two types.
void require_one_type_each(const PickleTree& tree);

}  // namespace reshardfs
