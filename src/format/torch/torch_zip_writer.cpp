// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_zip_writer.h"

#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "format/torch/pickle_writer.h"
#include "format/torch/tensor_pickle.h"
#include "format/torch/zip_writer.h"

namespace reshardfs {
namespace {

std::string data_pickle(DType dtype, const Shape& shape) {
  PickleWriter out;
  put_tensor(out, dtype, shape, "0");
  return std::move(out).finish();
}

}  // namespace

std::vector<ZipEntry> add_torch_head(std::string& out, std::string_view pickle) {
  std::vector<ZipEntry> entries;
  for (const auto& [name, content] :
       {std::pair<std::string_view, std::string_view>{"data.pkl", pickle},
        {"byteorder", "little"},
        {"version", "3\n"}}) {
    entries.push_back(
        {"archive/" + std::string(name), content.size(), zip_checksum(content), out.size()});
    add_zip_local(out, entries.back(), 0);
    out += content;
  }
  return entries;
}

TorchArchiveFrame torch_archive_frame(DType dtype, const Shape& shape) {
  if (!is_torch_dtype(dtype)) {
    throw Error(ErrorKind::kUnsupported,
                "PyTorch has no type " + std::string(mindspore_name(dtype)));
  }
  TorchArchiveFrame frame;
  std::vector<ZipEntry> entries = add_torch_head(frame.head, data_pickle(dtype, shape));
  entries.push_back({torch_data_name(0), torch_bytes(dtype, shape), 0, frame.head.size()});
  add_zip_local(frame.head, entries.back(), kTorchArchiveAlign);
  const std::uint64_t directory = frame.head.size() + entries.back().size;
  for (const ZipEntry& entry : entries) add_zip_record(frame.tail, entry);
  add_zip_end(frame.tail, entries.size(), directory, frame.tail.size());
  return frame;
}

std::string torch_data_name(std::size_t storage) {
  return "archive/data/" + std::to_string(storage);
}

std::string torch_archive(std::string_view pickle) {
  std::string archive;
  const std::vector<ZipEntry> entries = add_torch_head(archive, pickle);
  std::string directory;
  for (const ZipEntry& entry : entries) add_zip_record(directory, entry);
  add_zip_end(directory, entries.size(), archive.size(), directory.size());
  return archive + directory;
}

}  // namespace reshardfs
