// SPDX-License-Identifier: Apache-2.0
#include "dcp_files.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace property {
namespace {

using naive::Numbers;

/// Of so many dimensions at most.
constexpr std::size_t kMostReformulated = 8;

std::string little(std::uint64_t value, std::size_t width) {
  std::string bytes;
  for (std::size_t i = 0; i < width; ++i) {
    bytes += static_cast<char>(value & 0xffU);
    value >>= 8U;
  }
  return bytes;
}

// Python's pickle, protocol 2.

std::string text(const std::string& value) {
  return "X" + little(value.size(), 4) + value;
}

std::string number(std::int64_t value) {
  return "\x8a\x08" + little(static_cast<std::uint64_t>(value), 8);
}

std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

std::string tuple(const std::vector<std::string>& values) {
  std::string out = "(";
  for (const std::string& value : values) out += value;
  return out + "t";
}

std::string call(const std::string& callee, const std::vector<std::string>& arguments) {
  return callee + tuple(arguments) + "R";
}

std::string numbers(const Numbers& values) {
  std::vector<std::string> all;
  for (const std::int64_t value : values) all.push_back(number(value));
  return tuple(all);
}

std::string torch_size(const Numbers& values) {
  return call(global("torch", "Size"), {numbers(values)});
}

struct TorchType {
  std::string name;
  std::string storage;  ///< empty: none of its own
};

const TorchType& torch_type(const std::string& type) {
  static const std::map<std::string, TorchType> kTypes = {
      {"Bool", {"bool", "BoolStorage"}},        {"Int4", {"int8", "CharStorage"}},
      {"Int8", {"int8", "CharStorage"}},        {"UInt8", {"uint8", "ByteStorage"}},
      {"Int16", {"int16", "ShortStorage"}},     {"UInt16", {"uint16", ""}},
      {"Int32", {"int32", "IntStorage"}},       {"UInt32", {"uint32", ""}},
      {"Int64", {"int64", "LongStorage"}},      {"UInt64", {"uint64", ""}},
      {"Float16", {"float16", "HalfStorage"}},  {"BFloat16", {"bfloat16", "BFloat16Storage"}},
      {"Float32", {"float32", "FloatStorage"}}, {"Float64", {"float64", "DoubleStorage"}},
  };
  return kTypes.at(type);
}

std::string zip(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out;
  std::string directory;
  for (const auto& [name, bytes] : entries) {
    const std::string sizes = little(bytes.size(), 4) + little(bytes.size(), 4);
    const std::string common = little(20, 2) + little(0, 12) + sizes + little(name.size(), 2);
    directory +=
        "PK\x01\x02" + little(20, 2) + common + little(0, 12) + little(out.size(), 4) + name;
    out += "PK\x03\x04" + common + little(0, 2) + name + bytes;
  }
  const std::uint64_t at = out.size();
  return out + directory + "PK\x05\x06" + little(0, 4) + little(entries.size(), 2) +
         little(entries.size(), 2) + little(directory.size(), 4) + little(at, 4) + little(0, 2);
}

std::string bytes_of_box(const DcpTensor& tensor, const DcpBox& box,
                         const std::vector<std::size_t>& order) {
  std::string out;
  // `order` lists the dimensions, the slowest first.
  Numbers index(box.sizes.size(), 0);
  const std::int64_t count = naive::product(box.sizes);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      at = at * tensor.shape[d] + box.offsets[d] + index[d];
    }
    out += tensor.content.substr(static_cast<std::size_t>(at) * tensor.element_size,
                                 tensor.element_size);
    for (std::size_t k = order.size(); k-- > 0;) {
      if (++index[order[k]] < box.sizes[order[k]]) break;
      index[order[k]] = 0;
    }
  }
  return out;
}

/// What torch.save writes of one tensor.
std::string archive(const DcpTensor& tensor, const DcpBox& box, Random& random) {
  std::vector<std::size_t> order(box.sizes.size());
  std::iota(order.begin(), order.end(), 0U);
  if (one_in(random, 2)) std::shuffle(order.begin(), order.end(), random);
  Numbers strides(order.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = stride;
    stride *= box.sizes[order[k]];
  }
  std::string storage = bytes_of_box(tensor, box, order);
  const std::int64_t first = one_in(random, 4) ? pick(random, 1, 5) : 0;
  const std::int64_t behind = one_in(random, 4) ? pick(random, 1, 5) : 0;
  storage.insert(0, static_cast<std::size_t>(first) * tensor.element_size, '\x7f');
  storage.append(static_cast<std::size_t>(behind) * tensor.element_size, '\x7f');

  const TorchType& type = torch_type(tensor.type);
  const bool untyped = type.storage.empty() || one_in(random, 4);
  const auto elements = static_cast<std::int64_t>(storage.size() / tensor.element_size);
  const std::string id =
      tuple({text("storage"),
             untyped ? global("torch.storage", "UntypedStorage") : global("torch", type.storage),
             text("0"), text("cpu"),
             number(untyped ? static_cast<std::int64_t>(storage.size()) : elements)});
  std::vector<std::string> arguments = {
      id + "Q",         number(first), numbers(box.sizes),
      numbers(strides), "\x89",        call(global("collections", "OrderedDict"), {})};
  if (untyped) arguments.push_back(global("torch", type.name));
  const std::string pickle =
      "\x80\x02" +
      call(global("torch._utils", untyped ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2"),
           arguments) +
      ".";
  std::vector<std::pair<std::string, std::string>> entries = {
      {"a/data.pkl", pickle}, {"a/data/0", storage}, {"a/version", "3\n"}};
  if (one_in(random, 2)) entries.insert(entries.begin() + 1, {"a/byteorder", "little"});
  return zip(entries);
}

std::int64_t random_divisor(Random& random, std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return divisors[static_cast<std::size_t>(
      pick(random, 0, static_cast<std::int64_t>(divisors.size()) - 1))];
}

/// As the distributed optimizer of older releases of Megatron-Core stores its states: each block of
/// the tensor is one row, and the rows are cut anywhere.
DcpTensor reformulated(const DcpTensor& tensor, Random& random) {
  DcpTensor out{tensor.name, tensor.type, tensor.element_size, {}, {}, {}};
  Numbers block;
  for (const std::int64_t length : tensor.shape) {
    out.shape.push_back(random_divisor(random, length));
    block.push_back(length / out.shape.back());
  }
  const std::int64_t elements = naive::product(block);
  const std::int64_t rows = naive::product(out.shape);
  out.content.resize(tensor.content.size());
  Numbers index(block.size(), 0);
  for (std::int64_t i = 0; i < elements * rows; ++i) {
    std::int64_t row = 0;
    std::int64_t within = 0;
    for (std::size_t d = 0; d < block.size(); ++d) {
      row = row * out.shape[d] + index[d] / block[d];
      within = within * block[d] + index[d] % block[d];
    }
    const auto to = static_cast<std::size_t>(row * elements + within) * tensor.element_size;
    out.content.replace(to, tensor.element_size, tensor.content,
                        static_cast<std::size_t>(i) * tensor.element_size, tensor.element_size);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < tensor.shape[d]) break;
      index[d] = 0;
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    DcpBox box;
    std::int64_t rest = row;
    for (std::size_t d = block.size(); d-- > 0;) {
      box.offsets.insert(box.offsets.begin(), rest % out.shape[d]);
      rest /= out.shape[d];
    }
    box.sizes.assign(block.size(), 1);
    box.offsets.push_back(0);
    std::int64_t& begin = box.offsets.back();
    while (begin < elements) {
      box.sizes.push_back(one_in(random, 3) ? elements - begin : pick(random, 1, elements - begin));
      out.boxes.push_back(box);
      begin += box.sizes.back();
      box.sizes.pop_back();
    }
  }
  std::shuffle(out.boxes.begin(), out.boxes.end(), random);
  out.shape.push_back(elements);
  return out;
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << bytes).flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

std::vector<DcpBox> random_boxes(Random& random, const Numbers& shape) {
  std::vector<DcpBox> done;
  std::vector<DcpBox> open = {{Numbers(shape.size(), 0), shape}};
  const auto most = static_cast<std::size_t>(pick(random, 1, 12));
  while (!open.empty()) {
    DcpBox box = std::move(open.back());
    open.pop_back();
    std::vector<std::size_t> dimensions;
    for (std::size_t d = 0; d < box.sizes.size(); ++d) {
      if (box.sizes[d] > 1) dimensions.push_back(d);
    }
    if (dimensions.empty() || done.size() + open.size() + 1 >= most || one_in(random, 5)) {
      done.push_back(std::move(box));
      continue;
    }
    const auto last = static_cast<std::int64_t>(dimensions.size()) - 1;
    const std::size_t d = dimensions[static_cast<std::size_t>(pick(random, 0, last))];
    const std::int64_t cut = pick(random, 1, box.sizes[d] - 1);
    DcpBox behind = box;
    behind.offsets[d] += cut;
    behind.sizes[d] -= cut;
    box.sizes[d] = cut;
    open.push_back(std::move(box));
    open.insert(open.begin(), std::move(behind));
  }
  std::shuffle(done.begin(), done.end(), random);
  return done;
}

void write_dcp(const std::vector<DcpTensor>& tensors, const std::filesystem::path& directory,
               Random& random) {
  const std::string module = "torch.distributed.checkpoint.metadata";
  std::filesystem::create_directories(directory);
  std::vector<std::string> files(static_cast<std::size_t>(pick(random, 1, 6)));
  const auto name_of = [](std::size_t file) { return "__" + std::to_string(file) + "_0.distcp"; };
  std::string listed = "}(";
  std::string places = "}(";
  std::string original_shapes = "}(";
  for (const DcpTensor& given : tensors) {
    const bool is_empty = naive::product(given.shape) == 0;
    const bool changed = !is_empty && given.shape.size() <= kMostReformulated && one_in(random, 3);
    if (changed) {
      original_shapes += text(given.name) + "}" + text("nd_reformulated_orig_global_shape") +
                         numbers(given.shape) + "s";
    }
    const DcpTensor tensor = changed ? reformulated(given, random) : given;
    std::string chunks = "](";
    for (const DcpBox& box : tensor.boxes) {
      const auto file =
          static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(files.size()) - 1));
      const std::string item = archive(tensor, box, random);
      // Items are one behind the other, at any byte.
      files[file].append(static_cast<std::size_t>(pick(random, 0, 3)), '\x7f');
      chunks += call(global(module, "ChunkStorageMetadata"),
                     {torch_size(box.offsets), torch_size(box.sizes)});
      places += call(global(module, "MetadataIndex"),
                     {text(tensor.name), torch_size(box.offsets), number(0)}) +
                call(global("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
                     {text(name_of(file)), number(static_cast<std::int64_t>(files[file].size())),
                      number(static_cast<std::int64_t>(item.size()))});
      files[file] += item;
    }
    chunks += tensor.boxes.empty() ? "" : "e";
    const std::string properties =
        call(global("torch.distributed._shard.sharded_tensor.metadata", "TensorProperties"),
             {global("torch", torch_type(tensor.type).name)});
    listed += text(tensor.name) + call(global(module, "TensorStorageMetadata"),
                                       {properties, torch_size(tensor.shape), chunks});
  }
  const std::string metadata =
      original_shapes.size() == 2
          ? call(global(module, "Metadata"), {listed + "u", "N", places + "u"})
          : global("megatron.core.dist_checkpointing.strategies.torch", "MCoreMetadata") +
                ")\x81}(" + text("state_dict_metadata") + listed + "u" + text("planner_data") +
                "N" + text("storage_data") + places + "u" + text("mcore_data") + original_shapes +
                "u" + "ub";
  write(directory / ".metadata", "\x80\x02" + metadata + ".");
  for (std::size_t i = 0; i < files.size(); ++i) write(directory / name_of(i), files[i]);
}

}  // namespace property
