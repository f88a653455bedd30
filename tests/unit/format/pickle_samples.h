// SPDX-License-Identifier: Apache-2.0
/// Pickles and files of torch.save for tests, written without the code that is tested. Each
/// function gives the opcodes that leave one value on the stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "torch_zip_samples.h"

namespace reshardfs::test::pickled {

inline const std::string kNone = "N";
inline const std::string kTrue = "\x88";
inline const std::string kFalse = "\x89";
inline const std::string kEmptyTuple = ")";

using Values = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;
using Numbers = std::vector<std::int64_t>;

inline std::string text(const std::string& value) {
  return "X" + little(value.size(), 4) + value;
}

/// Always LONG1, so that any number fits.
inline std::string number(std::int64_t value) {
  return "\x8a\x08" + little(static_cast<std::uint64_t>(value), 8);
}

inline std::string joined(const Values& values) {
  std::string all;
  for (const std::string& value : values) all += value;
  return all;
}

inline std::string tuple(const Values& values) {
  return values.empty() ? kEmptyTuple : "(" + joined(values) + "t";
}

inline std::string list(const Values& values) {
  return values.empty() ? "]" : "](" + joined(values) + "e";
}

inline std::string set_items(const Pairs& pairs) {
  std::string all;
  for (const auto& [key, value] : pairs) all += key + value;
  return pairs.empty() ? "" : "(" + all + "u";
}

inline std::string dict(const Pairs& pairs) {
  return "}" + set_items(pairs);
}

/// A dictionary whose keys are texts.
inline std::string named(Pairs pairs) {
  for (auto& [key, value] : pairs) key = text(key);
  return dict(pairs);
}

inline std::string numbers(const Numbers& values) {
  Values all;
  for (const std::int64_t value : values) all.push_back(number(value));
  return tuple(all);
}

inline std::string number_list(const Numbers& values) {
  Values all;
  for (const std::int64_t value : values) all.push_back(number(value));
  return list(all);
}

inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

inline std::string reduce(const std::string& callee, const std::string& arguments) {
  return callee + arguments + "R";
}

inline std::string new_object(const std::string& type, const std::string& arguments = kEmptyTuple) {
  return type + arguments + "\x81";
}

inline std::string build(const std::string& object, const std::string& state) {
  return object + state + "b";
}

inline std::string ordered_dict(const Pairs& pairs = {}) {
  return reduce(global("collections", "OrderedDict"), kEmptyTuple) + set_items(pairs);
}

inline std::string pickle(const std::string& value) {
  return "\x80\x02" + value + ".";
}

/// The id of a storage. @param more entries: torch.save of before 1.6 has one, None.
inline std::string storage(const std::string& type, const std::string& key, std::int64_t count,
                           const Values& more = {}) {
  const std::string module = type == "UntypedStorage" ? "torch.storage" : "torch";
  Values id{text("storage"), global(module, type), text(key), text("cpu"), number(count)};
  id.insert(id.end(), more.begin(), more.end());
  return tuple(id) + "Q";
}

inline std::string torch_util(const std::string& name) {
  return global("torch._utils", name);
}

/// Where a tensor is in its storage, in elements.
struct Placed {
  std::int64_t first = 0;
  Numbers shape{};
  Numbers strides{};
};

/// The arguments of _rebuild_tensor_v2.
inline std::string v2_arguments(const std::string& storage_id, const Placed& placed,
                                const Values& more = {}) {
  Values all{storage_id, number(placed.first), numbers(placed.shape), numbers(placed.strides),
             kFalse,     ordered_dict()};
  all.insert(all.end(), more.begin(), more.end());
  return tuple(all);
}

inline std::string v2_tensor(const std::string& storage_id, const Placed& placed,
                             const Values& more = {}) {
  return reduce(torch_util("_rebuild_tensor_v2"), v2_arguments(storage_id, placed, more));
}

inline Numbers c_strides(const Numbers& shape) {
  Numbers strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

/// A tensor of float32 that is all of its storage.
inline std::string float_tensor(const std::string& key, const Numbers& shape,
                                const Values& more_of_id = {}) {
  std::int64_t count = 1;
  for (const std::int64_t length : shape) count *= length;
  return v2_tensor(storage("FloatStorage", key, count, more_of_id), {0, shape, c_strides(shape)});
}

/// Storages by their keys.
using Storages = std::vector<std::pair<std::string, std::string>>;

/// An archive of torch.save.
inline std::string zip_of(const std::string& value, const Storages& storages = {}) {
  std::vector<ZipEntry> entries{{"a/data.pkl", pickle(value)}, {"a/byteorder", "little"}};
  for (const auto& [key, bytes] : storages) entries.push_back({"a/data/" + key, bytes});
  entries.push_back({"a/version", "3\n"});
  return zip_file(entries);
}

struct StreamStorage {
  std::string key;
  std::int64_t count = 0;
  std::string bytes{};
};

/// What a test may set wrong in a file from before 1.6.
struct StreamDamage {
  std::string version = number(1001);
  std::string little_endian = kTrue;
  std::string keys{};  ///< empty: those of the storages
};

inline std::string stream_of(const std::string& value, std::span<const StreamStorage> storages = {},
                             const StreamDamage& damage = {}) {
  const std::string magic("\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12);
  Values keys;
  std::string behind;
  for (const StreamStorage& one : storages) {
    keys.push_back(text(one.key));
    behind += little(static_cast<std::uint64_t>(one.count), 8) + one.bytes;
  }
  const std::string system = named({{"protocol_version", number(1001)},
                                    {"little_endian", damage.little_endian},
                                    {"type_sizes", named({{"long", number(4)}})}});
  return pickle(magic) + pickle(damage.version) + pickle(system) + pickle(value) +
         pickle(damage.keys.empty() ? list(keys) : damage.keys) + behind;
}

}  // namespace reshardfs::test::pickled
