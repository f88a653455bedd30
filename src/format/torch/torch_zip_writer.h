// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "format/torch/zip_writer.h"

namespace reshardfs {

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

/// Appends the entries that such an archive begins with: data.pkl, byteorder and version.
/// @param out empty. @return the entries.
std::vector<ZipEntry> add_torch_head(std::string& out, std::string_view pickle);
/// The name of the entry with a storage's bytes.
std::string torch_data_name(std::size_t storage);
/// A whole archive of torch.save with an object that contains no tensors.
/// @param pickle of the object.
std::string torch_archive(std::string_view pickle);

}  // namespace reshardfs
