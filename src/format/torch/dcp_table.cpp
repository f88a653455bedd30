// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dcp_table.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/text/utf8.h"
#include "format/torch/dcp_reformulated.h"
#include "format/torch/pickle_globals.h"
#include "format/torch/pickle_tree.h"
#include "format/torch/torch_tensor.h"
#include "layout/box_set.h"

namespace reshardfs {
namespace {

constexpr std::uint32_t kNoIndex = 0xffffffff;
/// As the first form of hyper-parallel tells where a tensor is: somewhere in its file.
constexpr std::int64_t kWholeFile = -1;
constexpr std::string_view kHyperPackage = "hyper_parallel.";
constexpr std::string_view kKeyedHyperPackage = "hyper_parallel.core.distributed_checkpoint.";

/// What is wrong with one tensor.
struct Refusal {
  std::string reason;
};

/// An entry of storage_data: what it is for, and where that is.
struct Stored {
  std::string_view name;
  PickleValue offsets;  ///< kUnset of what is no tensor
  PickleValue info;
  std::optional<std::int64_t> index;  ///< which of the tensor's chunks
  std::uint32_t next = kNoIndex;      ///< of those with one hash
};

class TableReader {
 public:
  TableReader(const PickleTree& tree, DcpTableKind kind) : tree_(tree), kind_(kind) {}

  DcpTable read();

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    throw Error(ErrorKind::kBadInput, "is not the table of a distributed checkpoint: " + what);
  }

  bool is_a(PickleValue value, std::string_view name) const {
    const auto maker = tree_.maker(value);
    return maker && maker->name == name;
  }
  PickleValue field(PickleValue object, std::string_view name, std::size_t position) const;
  bool sizes_of(PickleValue value, Shape& out) const;

  std::size_t hash(std::string_view name, const Shape& offsets) const;
  void collect_places(PickleValue storage);
  const Stored* find(std::string_view name, const Shape& offsets, std::int64_t index = -1);
  DcpPlace place_of(PickleValue info);
  DcpPlace keyed_place(PickleValue info, std::string_view path);
  std::uint32_t file_number(std::string_view path);

  void read_entry(std::string_view name, PickleValue value);
  using Names = std::unordered_set<std::string_view>;
  void read_paths(PickleValue paths, const Names& names);
  void read_tensor(std::string_view name, PickleValue value);
  DType dtype_of(PickleValue properties) const;
  void require_strided(PickleValue layout) const;
  void read_boxes(std::string_view name, PickleValue chunks, DcpTensor& tensor);
  static void require_countable(DType dtype, const Shape& shape);
  void collect_original_shapes(PickleValue data);
  void restore_shape(PickleValue original, DcpTensor& tensor);

  const PickleTree& tree_;
  DcpTableKind kind_;
  DcpTable out_;
  std::vector<Stored> stored_;
  std::vector<std::uint32_t> buckets_;
  std::unordered_map<std::string_view, std::uint32_t> files_;
  std::unordered_map<std::string_view, PickleValue> original_shapes_;
  bool is_keyed_ = false;  ///< of hyper-parallel, since 2026
  std::size_t seen_ = 0;   ///< boxes
  std::size_t added_ = 0;  ///< boxes that restore_shape() has made beyond those in the table
  Shape scratch_;
};

/// A field by its name in the state, or by its position among the arguments.
PickleValue TableReader::field(PickleValue object, std::string_view name,
                               std::size_t position) const {
  const PickleValue state = tree_.state(object);
  if (state.is(PickleKind::kDict)) return tree_.find(state, name);
  const auto values = tree_.tuple(state.is(PickleKind::kTuple) ? state : tree_.arguments(object));
  return position < values.size() ? values[position] : PickleValue();
}

/// @return whether it is a torch.Size or a tuple of possible sizes.
bool TableReader::sizes_of(PickleValue value, Shape& out) const {
  out.clear();
  if (const auto maker = tree_.maker(value)) {
    const auto arguments = tree_.tuple(tree_.arguments(value));
    if (maker->name != "Size" || arguments.size() > 1) return false;
    if (arguments.empty()) return true;
    value = arguments[0];
  }
  const auto add = [&](PickleValue element) {
    const auto number = tree_.integer(element);
    if (!number || *number < 0 || *number >= kMostTorchElements ||
        out.size() == kMostTorchDimensions) {
      return false;
    }
    out.push_back(*number);
    return true;
  };
  if (value.is(PickleKind::kTuple)) {
    const auto values = tree_.tuple(value);
    return std::all_of(values.begin(), values.end(), add);
  }
  if (!value.is(PickleKind::kList)) return false;
  bool good = true;
  tree_.for_each(value, [&](PickleValue element) { return good = add(element); });
  return good;
}

std::size_t TableReader::hash(std::string_view name, const Shape& offsets) const {
  std::size_t value = std::hash<std::string_view>()(name);
  for (const std::int64_t offset : offsets) {
    value = (value ^ static_cast<std::size_t>(offset)) * 0x9e3779b97f4a7c15ULL;
    value ^= value >> 29U;
  }
  return value & (buckets_.size() - 1);
}

void TableReader::collect_places(PickleValue storage) {
  const std::size_t count = tree_.count(storage);
  std::size_t buckets = 16;
  while (buckets < count) buckets *= 2;
  buckets_.assign(buckets, kNoIndex);
  stored_.reserve(count);
  tree_.for_each_pair(storage, [&](PickleValue key, PickleValue info) {
    const auto name = tree_.text(field(key, "fqn", 0));
    if (!is_a(key, "MetadataIndex") || !name) refuse("a key of storage_data is no MetadataIndex");
    const PickleValue offsets = field(key, "offset", 1);
    const bool whole = offsets.is(PickleKind::kUnset) || offsets.is(PickleKind::kNone);
    Stored entry{*name, whole ? PickleValue() : offsets, info,
                 tree_.integer(field(key, "index", 2))};
    if (whole) {
      scratch_.clear();
    } else if (!sizes_of(offsets, scratch_)) {
      return true;  // the place of a box that cannot be
    }
    std::uint32_t& first = buckets_[hash(*name, scratch_)];
    entry.next = first;
    first = static_cast<std::uint32_t>(stored_.size());
    stored_.push_back(entry);
    return true;
  });
}

/// @param offsets empty: that of a scalar or of what is no tensor.
/// @param index of several with these offsets, the chunk with this number if there is one.
const Stored* TableReader::find(std::string_view name, const Shape& offsets, std::int64_t index) {
  Shape other;
  const Stored* found = nullptr;
  for (std::uint32_t i = buckets_[hash(name, offsets)]; i != kNoIndex; i = stored_[i].next) {
    const Stored& entry = stored_[i];
    if (entry.name != name) continue;
    const bool has_offsets = !entry.offsets.is(PickleKind::kUnset);
    if (has_offsets ? !sizes_of(entry.offsets, other) || other != offsets : !offsets.empty()) {
      continue;
    }
    if (!is_keyed_ || entry.index == index) return &entry;
    if (found == nullptr) found = &entry;
  }
  return found;
}

/// @throws Refusal
DcpPlace TableReader::place_of(PickleValue info) {
  const auto path = tree_.text(field(info, "relative_path", 0));
  const auto offset = tree_.integer(field(info, "offset", 1));
  const auto length = tree_.integer(field(info, "length", 2));
  if (!path || !offset || !length) throw Refusal{"its place is not stated"};
  if (is_keyed_ && !path->ends_with(kObjectExtension)) return keyed_place(info, *path);
  if (out_.by_name && *offset == 0 && *length == kWholeFile) return {file_number(*path), {}};
  if (*offset < 0 || *length < 0 || *offset > kMostTorchElements || *length > kMostTorchElements) {
    throw Refusal{"its place is " + std::to_string(*length) + " bytes at offset " +
                  std::to_string(*offset)};
  }
  const PickleValue transforms =
      is_keyed_ ? PickleValue() : field(info, "transform_descriptors", 3);
  const bool plain = transforms.is(PickleKind::kUnset) || transforms.is(PickleKind::kNone) ||
                     (transforms.is(PickleKind::kList) && tree_.count(transforms) == 0) ||
                     (transforms.is(PickleKind::kTuple) && tree_.tuple(transforms).empty());
  if (!plain) throw Refusal{"its bytes are transformed (compressed, for example)"};
  return {file_number(*path),
          {static_cast<std::uint64_t>(*offset), static_cast<std::uint64_t>(*length)}};
}

/// Of a tensor in a safetensors file. Its offset and length mean nothing.
/// @throws Refusal
DcpPlace TableReader::keyed_place(PickleValue info, std::string_view path) {
  DcpPlace place{file_number(path)};
  const PickleValue told = field(info, "tensor_key", 3);
  if (told.is(PickleKind::kUnset) || told.is(PickleKind::kNone)) return place;
  const auto key = tree_.text(told);
  if (!key) throw Refusal{"its key in the file is no text"};
  place.key = static_cast<std::uint32_t>(out_.keys.size());
  out_.keys.emplace_back(*key);
  return place;
}

/// @throws Refusal if the path may lead out of the directory.
std::uint32_t TableReader::file_number(std::string_view path) {
  const auto known = files_.find(path);
  if (known != files_.end()) return known->second;
  bool good = !path.empty() && path.front() != '/' && path.find('\0') == std::string_view::npos &&
              path.find('\\') == std::string_view::npos;
  for (std::size_t at = 0; good && at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    good = !part.empty() && part != "." && part != "..";
    at = end + 1;
  }
  if (!good) {
    throw Refusal{"its file is '" + printable(std::string(path)) +
                  "', which is no name in the "
                  "checkpoint's directory"};
  }
  const auto number = static_cast<std::uint32_t>(out_.files.size());
  out_.files.emplace_back(path);
  files_.emplace(path, number);
  return number;
}

void TableReader::read_entry(std::string_view name, PickleValue value) {
  const std::size_t places = out_.places.size();
  const std::size_t bounds = out_.bounds.size();
  try {
    if (!is_utf8(name)) throw Refusal{"its name is not valid UTF-8"};
    if (is_a(value, "TensorStorageMetadata")) return read_tensor(name, value);
    if (!is_a(value, "BytesStorageMetadata")) throw Refusal{"it is neither a tensor nor bytes"};
    DcpByteItem item{std::string(name), {kNoIndex, {}}};
    if (const Stored* const stored = find(name, {})) item.place = place_of(stored->info);
    if (is_keyed_ && item.place.file != kNoIndex &&
        !out_.files[item.place.file].ends_with(kObjectExtension)) {
      throw Refusal{"it is an object in a file of tensors"};
    }
    out_.byte_items.push_back(std::move(item));
  } catch (const Refusal& refusal) {
    out_.places.resize(places);
    out_.bounds.resize(bounds);
    out_.refused.push_back({std::string(name), refusal.reason});
  }
}

void TableReader::read_tensor(std::string_view name, PickleValue value) {
  DcpTensor tensor;
  tensor.name = name;
  tensor.first_box = out_.places.size();
  tensor.first_bound = out_.bounds.size();
  const PickleValue properties = field(value, "properties", 0);
  tensor.dtype = dtype_of(properties);
  if (!out_.by_name) require_strided(field(properties, "layout", 1));
  if (!sizes_of(field(value, "size", 1), tensor.shape)) {
    throw Refusal{"its size is no list of possible numbers"};
  }
  require_countable(tensor.dtype, tensor.shape);
  read_boxes(name, field(value, "chunks", 2), tensor);
  if (kind_ == DcpTableKind::kWhole) {
    if (auto problem = cover_problem(out_, tensor, /*replicas=*/is_keyed_)) {
      throw Refusal{*problem};
    }
  }
  const auto original = original_shapes_.find(name);
  if (original != original_shapes_.end()) restore_shape(original->second, tensor);
  out_.tensors.push_back(std::move(tensor));
}

DType TableReader::dtype_of(PickleValue properties) const {
  const PickleValue told = field(properties, "dtype", 0);
  if (const auto text = tree_.text(told); text && out_.by_name) {
    if (const auto dtype = pickle::dtype_from_text(*text)) return *dtype;
    throw Refusal{"its type is '" + printable(std::string(*text)) + "'"};
  }
  const auto type = tree_.global(told);
  if (!type || !pickle::is_torch_type(*type)) throw Refusal{"its type is not stated"};
  if (const auto dtype = pickle::dtype_from_torch(type->name)) return *dtype;
  throw Refusal{"its type is " + to_string(*type)};
}

void TableReader::require_strided(PickleValue layout) const {
  if (layout.is(PickleKind::kUnset) || layout.is(PickleKind::kNone)) return;
  if (const auto global = tree_.global(layout); global && global->name == "strided") return;
  const auto arguments = tree_.tuple(tree_.arguments(layout));
  if (is_a(layout, "_get_layout") && arguments.size() == 1) {
    const auto name = tree_.text(arguments[0]);
    if (name == "torch.strided") return;
    if (name) throw Refusal{"its layout is " + printable(std::string(*name))};
  }
  throw Refusal{"its layout is not torch.strided"};
}

/// @throws Refusal
void TableReader::require_countable(DType dtype, const Shape& shape) {
  std::optional<std::int64_t> bytes = element_size(dtype);
  for (const std::int64_t size : shape) {
    if (bytes) bytes = checked_mul(*bytes, std::max<std::int64_t>(size, 1));
  }
  if (!bytes || *bytes >= kMostTorchElements) {
    throw Refusal{"its size " + to_string(shape) + " is too large"};
  }
}

void TableReader::collect_original_shapes(PickleValue data) {
  std::size_t seen = 0;
  tree_.for_each_pair(data, [&](PickleValue key, PickleValue value) {
    const auto name = tree_.text(key);
    tree_.for_each_pair(value, [&](PickleValue what, PickleValue shape) {
      // One dictionary may be there under many names.
      if (++seen > tree_.size()) refuse("its mcore_data lists more than it can have");
      const bool is_shape = tree_.text(what) == "nd_reformulated_orig_global_shape";
      if (name && is_shape) original_shapes_.insert_or_assign(*name, shape);
      return true;
    });
    return true;
  });
}

/// @throws Refusal
void TableReader::restore_shape(PickleValue original, DcpTensor& tensor) {
  Shape shape;
  if (!sizes_of(original, shape)) {
    throw Refusal{"its original shape in Megatron-Core's table is no list of possible numbers"};
  }
  require_countable(tensor.dtype, shape);
  if (out_.by_name || kind_ != DcpTableKind::kWhole) {
    throw Refusal{"it is stored in another shape than it has, in the table of one rank"};
  }
  const std::size_t before = tensor.boxes;
  if (auto problem = undo_reformulation(out_, tensor, shape)) throw Refusal{*problem};
  added_ += tensor.boxes - before;
}

void TableReader::read_boxes(std::string_view name, PickleValue chunks, DcpTensor& tensor) {
  if (!chunks.is(PickleKind::kList)) throw Refusal{"its chunks are no list"};
  const std::size_t dimensions = tensor.shape.size();
  Shape offsets;
  Shape sizes;
  std::int64_t index = -1;
  std::set<std::tuple<std::uint32_t, std::string, Shape, Shape>> listed;
  tree_.for_each(chunks, [&](PickleValue chunk) {
    ++index;
    // One list may be there under many names: each box takes some bytes of its own.
    if (++seen_ > tree_.size() || out_.places.size() - added_ > stored_.size()) {
      refuse("it lists more boxes than it has places");
    }
    if (!is_a(chunk, "ChunkStorageMetadata") || !sizes_of(field(chunk, "offsets", 0), offsets) ||
        !sizes_of(field(chunk, "sizes", 1), sizes) || offsets.size() != dimensions ||
        sizes.size() != dimensions) {
      throw Refusal{"a chunk has no possible offsets and sizes"};
    }
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
    for (std::size_t d = 0; d < dimensions; ++d) {
      if (offsets[d] > tensor.shape[d] || sizes[d] > tensor.shape[d] - offsets[d]) {
        throw Refusal{"the chunk " + to_string(Box{offsets, sizes}) + " is not inside the tensor " +
                      to_string(tensor.shape)};
      }
    }
    const Stored* const stored = find(name, offsets, index);
    // In the table of another rank.
    if (stored == nullptr && kind_ == DcpTableKind::kOfOneRank) return true;
    if (stored == nullptr) {
      throw Refusal{"the chunk " + to_string(Box{offsets, sizes}) + " has no place"};
    }
    const DcpPlace place = place_of(stored->info);
    if (out_.by_name && place.item.length() > 0) {
      throw Refusal{"its place is part of a file, which should be found by its name"};
    }
    // Each rank lists its copy, and one of them was saved.
    const std::string key = place.key == DcpPlace::kOwnName ? tensor.name : out_.keys[place.key];
    if (is_keyed_ && !listed.emplace(place.file, key, offsets, sizes).second) return true;
    out_.places.push_back(place);
    out_.bounds.insert(out_.bounds.end(), offsets.begin(), offsets.end());
    out_.bounds.insert(out_.bounds.end(), sizes.begin(), sizes.end());
    ++tensor.boxes;
    return true;
  });
}

/// A name is its path, joined by dots (_nested_dict.py). What is anything else does not count: the
/// tensors are read without it.
void TableReader::read_paths(PickleValue paths, const Names& names) {
  tree_.for_each_pair(paths, [&](PickleValue key, PickleValue value) {
    const auto name = tree_.text(key);
    const auto elements = tree_.tuple(value);
    if (!name || elements.size() < 2 || !names.contains(*name) || !is_utf8(*name)) return true;
    DcpPath path;
    std::string joined;
    for (const PickleValue element : elements) {
      const auto number = tree_.integer(element);
      const auto text = tree_.text(element);
      if (!number && !text) return true;
      if (!path.empty()) joined += '.';
      joined += number ? std::to_string(*number) : std::string(*text);
      if (joined.size() > name->size()) return true;
      number ? path.emplace_back(*number) : path.emplace_back(std::string(*text));
    }
    if (joined == *name) out_.paths.insert_or_assign(std::move(joined), std::move(path));
    return true;
  });
}

DcpTable TableReader::read() {
  const PickleValue root = tree_.root();
  const auto maker = tree_.maker(root);
  if (!maker) refuse("it is " + std::string(kind_words(root.kind())));
  out_.by_name = maker->module.starts_with(kHyperPackage);
  is_keyed_ = maker->module.starts_with(kKeyedHyperPackage);
  out_.has_object_files = out_.by_name && !is_keyed_;
  if (maker->name != "Metadata" && maker->name != "MCoreMetadata") {
    refuse("it is a " + printable(to_string(*maker)));
  }
  const PickleValue tensors = field(root, "state_dict_metadata", 0);
  const PickleValue storage = field(root, "storage_data", 2);
  if (!tensors.is(PickleKind::kDict)) refuse("it has no state_dict_metadata");
  if (!storage.is(PickleKind::kDict)) refuse("it has no storage_data");
  const PickleValue state = tree_.state(root);
  if (state.is(PickleKind::kDict)) collect_original_shapes(tree_.find(state, "mcore_data"));
  collect_places(storage);
  Names names;
  names.reserve(tree_.count(tensors));
  tree_.for_each_pair(tensors, [&](PickleValue key, PickleValue value) {
    const auto name = tree_.text(key);
    if (!name) refuse("the name of a tensor is no text");
    names.insert(*name);
    read_entry(*name, value);
    return true;
  });
  read_paths(field(root, "planner_data", 1), names);
  return std::move(out_);
}

}  // namespace

DcpTable read_dcp_table(std::string bytes, DcpTableKind kind) {
  const PickleTree tree(std::move(bytes), pickle::kTableRules);
  return TableReader(tree, kind).read();
}

}  // namespace reshardfs
