// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_zip_writer.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "format/torch/pickle_globals.h"
#include "format/torch/pickle_writer.h"
#include "format/torch/zip_format.h"

namespace reshardfs {
namespace {

using namespace std::string_view_literals;

// As in APPNOTE.TXT of the ZIP format.
constexpr std::uint64_t kPlainVersion = 20;
constexpr std::uint64_t kWideVersion = 45;
constexpr std::uint64_t kNamesAreUtf8 = 0x0800;
constexpr std::uint64_t kFirstOfJanuary1980 = 0x0021;
constexpr std::uint64_t kFieldHeadBytes = 4;

void add(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

struct Entry {
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t checksum = 0;
  std::uint64_t header = 0;  ///< where its local header is

  bool is_wide() const noexcept { return size >= kZipWide; }
};

/// What local headers and the directory have in common, from the version on to the name's length.
void add_common(std::string& out, const Entry& entry) {
  const std::uint64_t size = entry.is_wide() ? kZipWide : entry.size;
  add(out, entry.is_wide() ? kWideVersion : kPlainVersion, 2);
  add(out, kNamesAreUtf8, 2);
  add(out, 0, 2);  // stored
  add(out, 0, 2);  // midnight
  add(out, kFirstOfJanuary1980, 2);
  add(out, entry.checksum, 4);
  add(out, size, 4);
  add(out, size, 4);
  add(out, entry.name.size(), 2);
}

std::string wide_field(const Entry& entry) {
  std::string field;
  if (!entry.is_wide()) return field;
  add(field, 1, 2);
  add(field, 16, 2);
  add(field, entry.size, 8);
  add(field, entry.size, 8);
  return field;
}

void add_local(std::string& out, const Entry& entry, std::string_view extra) {
  out += "PK\x03\x04"sv;
  add_common(out, entry);
  add(out, extra.size(), 2);
  out += entry.name;
  out += extra;
}

void add_to_directory(std::string& out, const Entry& entry) {
  const std::string extra = wide_field(entry);
  out += "PK\x01\x02"sv;
  add(out, entry.is_wide() ? kWideVersion : kPlainVersion, 2);  // made by
  add_common(out, entry);
  add(out, extra.size(), 2);
  add(out, 0, 2);  // comment
  add(out, 0, 2);  // disk
  add(out, 0, 2);  // attributes
  add(out, 0, 4);
  add(out, entry.header, 4);
  out += entry.name;
  out += extra;
}

/// The field in which torch.save leaves room (inline_container.cc, getPadding): what follows it
/// begins at a multiple of kTorchArchiveAlign.
std::string padding_field(std::uint64_t begin) {
  const std::uint64_t behind = begin + kFieldHeadBytes;
  const std::uint64_t room =
      (kTorchArchiveAlign - behind % kTorchArchiveAlign) % kTorchArchiveAlign;
  std::string field = "FB";
  add(field, room, 2);
  field.append(static_cast<std::size_t>(room), 'Z');
  return field;
}

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

/// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks), or _v3 with the type
/// behind it, for types that have no class of storage (torch/_utils.py).
std::string data_pickle(DType dtype, const Shape& shape, std::uint64_t bytes) {
  const std::string_view storage = pickle::storage_of(dtype);
  const bool typed = !storage.empty();
  const auto width = static_cast<std::uint64_t>(element_size(dtype));
  PickleWriter out;
  out.global({"torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3"});
  out.mark();
  out.mark();
  out.text("storage");
  out.global(typed ? PickleGlobal{"torch", storage}
                   : PickleGlobal{"torch.storage", "UntypedStorage"});
  out.text("0");
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
  return std::move(out).finish();
}

Entry entry_of(std::string_view name, std::string_view content) {
  const auto* const bytes = reinterpret_cast<const Bytef*>(content.data());
  return {"archive/" + std::string(name), content.size(),
          crc32_z(crc32_z(0, nullptr, 0), bytes, content.size())};
}

/// The zip64 end record and its locator, where the directory is too far away for the usual one.
void add_wide_end(std::string& out, std::size_t entries, std::uint64_t directory,
                  std::uint64_t directory_bytes) {
  const std::uint64_t end = directory + directory_bytes;
  out += "PK\x06\x06"sv;
  add(out, kZipWideEndBytes - 12, 8);
  add(out, kWideVersion, 2);
  add(out, kWideVersion, 2);
  add(out, 0, 4);
  add(out, 0, 4);
  add(out, entries, 8);
  add(out, entries, 8);
  add(out, directory_bytes, 8);
  add(out, directory, 8);
  out += "PK\x06\x07"sv;
  add(out, 0, 4);
  add(out, end, 8);
  add(out, 1, 4);
}

}  // namespace

TorchArchiveFrame torch_archive_frame(DType dtype, const Shape& shape) {
  if (pickle::dtype_from_torch(pickle::torch_name(dtype)) != dtype) {
    throw Error(ErrorKind::kUnsupported,
                "PyTorch has no type " + std::string(mindspore_name(dtype)));
  }
  const auto bytes = static_cast<std::uint64_t>(
      mul_or_throw(element_count(shape), element_size(dtype), "the size of a tensor"));
  const std::string pickle = data_pickle(dtype, shape, bytes);
  TorchArchiveFrame frame;
  std::vector<Entry> entries;
  for (const auto& [name, content] :
       {std::pair<std::string_view, std::string_view>{"data.pkl", pickle},
        {"byteorder", "little"},
        {"version", "3\n"}}) {
    entries.push_back(entry_of(name, content));
    entries.back().header = frame.head.size();
    add_local(frame.head, entries.back(), {});
    frame.head += content;
  }
  Entry data{"archive/data/0", bytes, 0, frame.head.size()};
  std::string extra = wide_field(data);
  extra += padding_field(data.header + kZipLocalBytes + data.name.size() + extra.size());
  add_local(frame.head, data, extra);
  entries.push_back(std::move(data));

  const std::uint64_t directory = frame.head.size() + bytes;
  for (const Entry& entry : entries) add_to_directory(frame.tail, entry);
  const std::uint64_t directory_bytes = frame.tail.size();
  const bool far = directory >= kZipWide;
  if (far) add_wide_end(frame.tail, entries.size(), directory, directory_bytes);
  frame.tail += "PK\x05\x06"sv;
  add(frame.tail, 0, 2);
  add(frame.tail, 0, 2);
  add(frame.tail, entries.size(), 2);
  add(frame.tail, entries.size(), 2);
  add(frame.tail, directory_bytes, 4);
  add(frame.tail, far ? kZipWide : directory, 4);
  add(frame.tail, 0, 2);
  return frame;
}

}  // namespace reshardfs
