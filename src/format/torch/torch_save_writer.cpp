// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_save_writer.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "format/torch/pickle_writer.h"
#include "format/torch/torch_zip_writer.h"

namespace reshardfs {
namespace {

ZipEntry entry_of(std::size_t storage, std::uint64_t bytes, std::uint64_t begin,
                  std::uint32_t checksum) {
  return {torch_data_name(storage), bytes, checksum, begin};
}

void require_type(const SavedTensor& tensor) {
  if (is_torch_dtype(tensor.dtype)) return;
  throw Error(ErrorKind::kUnsupported, "is " + std::string(mindspore_name(tensor.dtype)) +
                                           ", which cannot be written for PyTorch")
      .hint("show it as safetensors, or leave it out with --exclude");
}

/// An OrderedDict, as Module.state_dict() returns.
std::string dictionary_of(std::span<const SavedTensor> tensors) {
  PickleWriter out;
  out.global({"collections", "OrderedDict"});
  out.empty_tuple();
  out.call();
  out.mark();
  for (const SavedTensor& tensor : tensors) {
    try {
      require_type(tensor);
      out.text(tensor.name);
      put_tensor(out, tensor.dtype, tensor.shape, std::to_string(tensor.storage));
    } catch (Error& error) {
      throw error.for_parameter(std::string(tensor.name));
    }
  }
  out.set_all();
  return std::move(out).finish();
}

}  // namespace

std::string torch_storage_header(std::size_t storage, std::uint64_t bytes, std::uint64_t begin,
                                 std::uint32_t checksum) {
  std::string header;
  add_zip_local(header, entry_of(storage, bytes, begin, checksum), kTorchArchiveAlign);
  return header;
}

TorchSaveFrame::TorchSaveFrame(std::span<const SavedTensor> tensors) {
  head_entries_ = add_torch_head(head_, dictionary_of(tensors));
  directory_ = head_.size();
  for (const SavedTensor& tensor : tensors) {
    if (tensor.storage < storages_.size()) continue;
    if (tensor.storage > storages_.size()) {
      throw Error(ErrorKind::kInternal, "the storages of a torch.save file are not in order");
    }
    const std::uint64_t bytes = torch_bytes(tensor.dtype, tensor.shape);
    const std::uint64_t header = torch_storage_header(tensor.storage, bytes, directory_, 0).size();
    storages_.push_back({directory_, bytes});
    directory_ =
        add_or_throw(directory_, add_or_throw(header, bytes, "a file's size"), "a file's size");
  }
  file_bytes_ = add_or_throw(directory_, tail({}).size(), "a file's size");
}

std::string TorchSaveFrame::tail(std::span<const std::uint32_t> checksums) const {
  std::string tail;
  for (const ZipEntry& entry : head_entries_) add_zip_record(tail, entry);
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    add_zip_record(tail, entry_of(i, storages_[i].bytes, storages_[i].begin,
                                  checksums.empty() ? 0 : checksums[i]));
  }
  add_zip_end(tail, head_entries_.size() + storages_.size(), directory_, tail.size());
  return tail;
}

}  // namespace reshardfs
