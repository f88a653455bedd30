// SPDX-License-Identifier: Apache-2.0
#include "format/torch/storage_types.h"

#include <string>
#include <string_view>
#include <unordered_map>

#include "reshardfs/error.h"

namespace reshardfs {

void require_one_type_each(const PickleTree& tree) {
  std::unordered_map<std::string_view, std::string_view> classes;  // by key
  tree.for_each_persistent([&](PickleValue value) {
    const auto id = tree.tuple(tree.arguments(value));
    if (id.size() < 3 || tree.text(id[0]) != "storage") return;
    const auto storage_class = tree.global(id[1]);
    const auto key = tree.text(id[2]);
    if (!storage_class || !key) return;  // storage_id() refuses it
    const std::string_view known = classes.emplace(*key, storage_class->name).first->second;
    if (known == storage_class->name) return;
    throw Error(ErrorKind::kBadInput, "has a storage of two types: '" +
                                          printable(std::string(*key)) + "' is a " +
                                          printable(std::string(known)) + " and a " +
                                          printable(std::string(storage_class->name)))
        .hint("save the tensors again with PyTorch, which gives a storage one type");
  });
}

}  // namespace reshardfs
