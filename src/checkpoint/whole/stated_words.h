// SPDX-License-Identifier: Apache-2.0
/// What a set states beside its tensors: `__metadata__` in the headers of safetensors files, and
/// the metadata of an index.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/source_tree.h"

namespace reshardfs {

class CheckpointSet;

/// Without what is about one file or one save alone, and is written anew with each: the format, a
/// checksum, places of parts, whether redundant slices are left out, total_size.
struct StatedWords {
  /// The texts of all headers, but for types of tensors: the files' indexes have these.
  std::map<std::string, std::string> header{};
  /// Keys that have another text in each of several files.
  std::vector<std::string> ambiguous{};
  /// Members of the index's metadata, as JSON, in its order.
  std::vector<std::pair<std::string, std::string>> index{};
  /// Why there are no words, although the files have some; empty otherwise.
  std::string refused{};
};

/// The most bytes that the words of a set may have: half of what a header can hold.
inline constexpr std::size_t kMostWordBytes = 50'000'000;

/// Reads the beginnings of the files' headers (of files with one index, of one of them), and the
/// index that names them.
/// @param tree of the source's directory, if symbolic links are refused or it is on a server.
/// @throws Error what reading the files throws.
StatedWords read_stated_words(const CheckpointSet& set, const SourceTreePtr& tree);

/// In the metadata of an index: of how many elements the model has.
inline constexpr std::string_view kParameterCount = "total_parameters";

/// torchao's list of the tensors that a header describes; nothing if it is not such a list.
inline constexpr const char* kDescribedTensors = "tensor_names";
std::optional<std::vector<std::string>> described_tensors(const std::string& key,
                                                          const std::string& value);
std::string described_tensors_text(const std::vector<std::string>& names);

/// Whether a text states the class of the tensor that its key names, as torchao writes them:
/// {"_type": "Float8Tensor", ...}.
bool states_class(const std::string& value);

}  // namespace reshardfs
