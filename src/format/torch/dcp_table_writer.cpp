// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dcp_table_writer.h"

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "reshardfs/error.h"

#include "format/torch/pickle_globals.h"
#include "format/torch/pickle_writer.h"

namespace reshardfs {
namespace {

constexpr char kSizesKey = '0';
constexpr std::string_view kHyperVersion = "1.0";

/// pytorch/pytorch torch/distributed/checkpoint/metadata.py and filesystem.py.
class TableWriter {
 public:
  TableWriter(const DcpTable& table, const DcpModules& modules)
      : table_(table), modules_(modules) {}

  std::string write() && {
    out_.global({modules_.metadata, "Metadata"});
    out_.mark();
    put_dict([this] { put_contents(); });
    put_dict([this] { put_paths(); });
    put_dict([this] { put_places(); });
    if (table_.by_name) out_.text(kHyperVersion);
    out_.tuple();
    out_.call();
    return std::move(out_).finish();
  }

 private:
  template <typename Put>
  void put_dict(Put&& put) {
    out_.empty_dict();
    out_.mark();
    put();
    out_.set_all();
  }

  void put_name(const std::string& name) {
    try {
      out_.shared_text(name);
    } catch (Error& error) {
      throw error.for_parameter(name);
    }
  }

  /// A torch.Size, which is not everywhere where hyper-parallel is. The same sizes are in many
  /// places.
  void put_sizes(std::span<const std::int64_t> sizes) {
    std::string key(1, kSizesKey);
    for (const std::int64_t size : sizes) key += std::to_string(size) + ',';
    if (out_.recall(key)) return;
    if (!table_.by_name) out_.global({"torch", "Size"});
    out_.mark();
    for (const std::int64_t size : sizes) out_.integer(size);
    out_.tuple();
    if (!table_.by_name) {
      out_.tuple_of_one();
      out_.call();
    }
    out_.remember(key);
  }

  void put_contents() {
    for (const DcpByteItem& item : table_.byte_items) {
      put_name(item.name);
      out_.global({modules_.metadata, "BytesStorageMetadata"});
      out_.empty_tuple();
      out_.call();
    }
    for (const DcpTensor& tensor : table_.tensors) {
      put_name(tensor.name);
      out_.global({modules_.metadata, "TensorStorageMetadata"});
      out_.mark();
      put_properties(tensor.dtype);
      put_sizes(tensor.shape);
      out_.empty_list();
      out_.mark();
      for (std::size_t i = 0; i < tensor.boxes; ++i) put_chunk(tensor, i);
      out_.append_all();
      out_.tuple();
      out_.call();
    }
  }

  /// The class moved in 2.2, but all releases have this one, and read only its type.
  void put_properties(DType dtype) {
    if (table_.by_name) return put_hyper_properties(dtype);
    out_.global({"torch.distributed._shard.sharded_tensor.metadata", "TensorProperties"});
    out_.global({"torch", pickle::torch_name(dtype)});
    out_.tuple_of_one();
    out_.call();
  }

  void put_hyper_properties(DType dtype) {
    out_.global({modules_.metadata, "TensorProperties"});
    out_.mark();
    out_.shared_text(pickle::text_of(dtype));
    out_.boolean(false);  // requires_grad
    out_.none();          // memory_format
    out_.tuple();
    out_.call();
  }

  void put_chunk(const DcpTensor& tensor, std::size_t box) {
    const std::size_t dimensions = tensor.shape.size();
    const auto bounds = table_.box_bounds(tensor, box);
    out_.global({modules_.metadata, "ChunkStorageMetadata"});
    out_.mark();
    put_sizes(bounds.first(dimensions));
    put_sizes(bounds.last(dimensions));
    out_.tuple();
    out_.call();
  }

  void put_paths() {
    const auto put = [this](const std::string& name) {
      put_name(name);
      out_.mark();
      const auto path = table_.paths.find(name);
      if (path == table_.paths.end()) {
        put_name(name);
      } else {
        for (const auto& key : path->second) put_key(name, key);
      }
      out_.tuple();
    };
    for (const DcpByteItem& item : table_.byte_items) put(item.name);
    for (const DcpTensor& tensor : table_.tensors) put(tensor.name);
  }

  void put_key(const std::string& name, const std::variant<std::string, std::int64_t>& key) {
    if (const auto* const number = std::get_if<std::int64_t>(&key)) return out_.integer(*number);
    try {
      out_.shared_text(std::get<std::string>(key));
    } catch (Error& error) {
      throw error.for_parameter(name);
    }
  }

  void put_places() {
    for (const DcpByteItem& item : table_.byte_items) {
      put_index(item.name);
      if (table_.by_name) {
        out_.empty_tuple();
        out_.none();
      }
      out_.tuple();
      out_.call();
      put_place(item.place, /*of_tensor=*/false);
    }
    for (const DcpTensor& tensor : table_.tensors) {
      for (std::size_t i = 0; i < tensor.boxes; ++i) {
        put_index(tensor.name);
        put_sizes(table_.box_bounds(tensor, i).first(tensor.shape.size()));
        out_.integer(static_cast<std::int64_t>(i));
        out_.tuple();
        out_.call();
        put_place(table_.places[tensor.first_box + i], /*of_tensor=*/true);
      }
    }
  }

  /// Begins a MetadataIndex.
  void put_index(const std::string& name) {
    out_.global({modules_.metadata, "MetadataIndex"});
    out_.mark();
    put_name(name);
  }

  void put_place(const DcpPlace& place, bool of_tensor) {
    const bool by_name = table_.by_name && of_tensor;
    out_.global({modules_.filesystem, modules_.place});
    out_.mark();
    out_.shared_text(table_.files[place.file]);
    out_.integer(static_cast<std::int64_t>(place.item.offset()));
    out_.integer(by_name ? -1 : static_cast<std::int64_t>(place.item.length()));
    if (by_name && place.key != DcpPlace::kOwnName) {
      out_.shared_text(table_.keys[place.key]);
    } else if (table_.by_name) {
      out_.none();
    }
    out_.tuple();
    out_.call();
  }

  const DcpTable& table_;
  const DcpModules& modules_;
  PickleWriter out_;
};

}  // namespace

std::string write_dcp_table(const DcpTable& table, const DcpModules& modules) {
  return TableWriter(table, modules).write();
}

}  // namespace reshardfs
