// SPDX-License-Identifier: Apache-2.0
/// How tensors stand in archives of torch.save: in the pickle, and in the entries of the archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "format/torch/pickle_writer.h"
#include "format/torch/zip_writer.h"

namespace reshardfs {

/// Whether torch has the type, and a pickle can state it.
bool is_torch_dtype(DType dtype) noexcept;

/// Bytes of a tensor. @throws Error kBadInput if they are too many.
std::uint64_t torch_bytes(DType dtype, const Shape& shape);

/// Pushes a tensor in C order, which is all of a storage.
/// @param dtype for which is_torch_dtype().
/// @param key of the storage, which has torch_bytes(): the entry's name behind "data/".
void put_tensor(PickleWriter& out, DType dtype, const Shape& shape, std::string_view key);

/// An archive of torch.save with one tensor in C order, but for the tensor's bytes: these stand
/// between `head` and `tail`. Its entries have their sizes before their contents, and data/0 stands
/// last and has the checksum 0, so that nothing depends on the bytes; PyTorch's library for ZIP is
/// compiled not to look at checksums (caffe2/serialize/inline_container.cc), others complain.
struct TorchArchiveFrame {
  std::string head;  ///< a multiple of kTorchArchiveAlign bytes
  std::string tail;
};

/// Where an archive should begin, so that its tensor begins at such a place, too.
inline constexpr std::uint64_t kTorchArchiveAlign = 64;

/// @param dtype of an array.
/// @throws Error kUnsupported for a type that torch does not have.
TorchArchiveFrame torch_archive_frame(DType dtype, const Shape& shape);

/// Appends the entries that such an archive begins with: version, byteorder and data.pkl.
/// @param out empty. @return the entries.
std::vector<ZipEntry> add_torch_head(std::string& out, std::string_view pickle);
/// The name of the entry with a storage's bytes.
std::string torch_data_name(std::size_t storage);
/// A whole archive of torch.save with an object that contains no tensors.
/// @param pickle of the object.
std::string torch_archive(std::string_view pickle);

}  // namespace reshardfs
