// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_zip_writer.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "format/torch/pickle_globals.h"
#include "format/torch/pickle_writer.h"
#include "format/torch/zip_writer.h"

namespace reshardfs {
namespace {

void put_sizes(PickleWriter& out, const Shape& sizes) {
  out.mark();
  for (const std::int64_t size : sizes) out.integer(size);
  out.tuple();
}

/// Of a tensor in C order; as torch counts them where a dimension is 0.
Shape strides_of(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step = mul_or_throw(step, std::max<std::int64_t>(shape[d], 1), "the size of a tensor");
  }
  return strides;
}

}  // namespace

bool is_torch_dtype(DType dtype) noexcept {
  return pickle::dtype_from_torch(pickle::torch_name(dtype)) == dtype;
}

std::uint64_t torch_bytes(DType dtype, const Shape& shape) {
  return static_cast<std::uint64_t>(
      mul_or_throw(element_count(shape), element_size(dtype), "the size of a tensor"));
}

/// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks), or _v3 with the type
/// behind it, for types that have no class of storage (torch/_utils.py).
void put_tensor(PickleWriter& out, DType dtype, const Shape& shape, std::string_view key) {
  const std::uint64_t bytes = torch_bytes(dtype, shape);
  const std::string_view storage = pickle::storage_of(dtype);
  const bool typed = !storage.empty();
  const auto width = static_cast<std::uint64_t>(element_size(dtype));
  out.global({"torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3"});
  out.mark();
  out.mark();
  out.text("storage");
  out.global(typed ? PickleGlobal{"torch", storage}
                   : PickleGlobal{"torch.storage", "UntypedStorage"});
  out.text(key);
  out.text("cpu");
  out.integer(static_cast<std::int64_t>(typed ? bytes / width : bytes));
  out.tuple();
  out.persistent();
  out.integer(0);
  put_sizes(out, shape);
  put_sizes(out, strides_of(shape));
  out.boolean(false);
  out.global({"collections", "OrderedDict"});
  out.empty_tuple();
  out.call();
  if (!typed) out.global({"torch", pickle::torch_name(dtype)});
  out.tuple();
  out.call();
}

namespace {

std::string data_pickle(DType dtype, const Shape& shape) {
  PickleWriter out;
  put_tensor(out, dtype, shape, "0");
  return std::move(out).finish();
}

}  // namespace

std::vector<ZipEntry> add_torch_head(std::string& out, std::string_view pickle) {
  std::vector<ZipEntry> entries;
  // In the order in which torch.load reads them: a step back makes Python fill its buffer anew.
  for (const auto& [name, content] :
       {std::pair<std::string_view, std::string_view>{"version", "3\n"},
        {"byteorder", "little"},
        {"data.pkl", pickle}}) {
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
