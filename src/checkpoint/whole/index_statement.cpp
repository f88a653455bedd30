// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/index_statement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_reader.h"
#include "base/text/text.h"
#include "checkpoint/whole/counted_name.h"
#include "checkpoint/whole/model_shapes.h"
#include "checkpoint/whole/placed_names.h"

namespace reshardfs {
namespace {

/// What the tensors of a model amount to.
struct Sums {
  std::uint64_t bytes = 0;
  std::uint64_t named_bytes = 0;  ///< of those that the index names
  std::uint64_t elements = 0;
  std::uint64_t named_elements = 0;
  bool counts_all_elements = true;  ///< not where a tensor's type is not known
  std::set<std::uint64_t> sizes;    ///< of elements
  std::uint64_t file_bytes = 0;
  std::vector<std::uint64_t> tables;  ///< bytes of embeddings and outputs
  std::vector<std::string> unnamed;   ///< in the files, but not in the index
};

Sums sums_of(const NameMapDirectory& index, const std::vector<RankFile>& files) {
  std::unordered_set<std::string_view> named;
  const bool all_named = are_all_in_place(index.places, files);
  if (!all_named) {
    named.reserve(index.places.size());
    for (const auto& [name, number] : index.places) named.insert(name);
  }
  Sums sums;
  for (const RankFile& file : files) {
    sums.file_bytes += file.bytes();
    for (const RefusedTensor& tensor : file.index->refused()) {
      sums.bytes += tensor.bytes;
      if (named.contains(tensor.name)) {
        sums.named_bytes += tensor.bytes;
      } else {
        sums.unnamed.push_back(tensor.name);
      }
      sums.counts_all_elements = false;
    }
    for (const TensorEntry& entry : file.index->entries()) {
      const auto size = static_cast<std::uint64_t>(
          std::max<std::int64_t>(1, is_array(entry.dtype) ? element_size(entry.dtype) : 1));
      const std::uint64_t elements = entry.content_bytes / size;
      sums.bytes += entry.content_bytes;
      sums.elements += elements;
      sums.sizes.insert(size);
      if (has_row_for_each_word(entry.name)) sums.tables.push_back(entry.content_bytes);
      if (all_named || named.contains(entry.name)) {
        sums.named_bytes += entry.content_bytes;
        sums.named_elements += elements;
      } else {
        sums.unnamed.push_back(entry.name);
      }
    }
  }
  return sums;
}

/// Whether the number is that of all elements in another type. Where all have one type, the same
/// number may be that of a model of which a half is missing.
bool counts_another_type(std::uint64_t total, const Sums& sums) {
  constexpr std::array<std::uint64_t, 4> kSizes{1, 2, 4, 8};
  return sums.counts_all_elements && sums.sizes.size() > 1 &&
         std::any_of(kSizes.begin(), kSizes.end(), [&](auto size) {
           return total == sums.elements * size || total == sums.named_elements * size;
         });
}

/// Whether the number counts twice an embedding that the output has no copy of.
bool may_count_twice(std::uint64_t total, const Sums& sums) {
  return sums.tables.size() == 1 && total == sums.bytes + sums.tables.front();
}

/// A name with all numbers alike.
std::string without_numbers(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) {
      out += c;
    } else if (out.empty() || out.back() != '#') {
      out += '#';
    }
  }
  return out;
}

/// The number that the reader stands at.
std::optional<std::uint64_t> whole_number(JsonReader& reader) {
  if (reader.kind() != JsonKind::kOtherNumber) return reader.unsigned_integer();
  if (const auto number = reader.unsigned_integer()) return number;
  // Some writers divide on the way.
  constexpr double kMost = 9e15;
  const double number = reader.real();
  const bool whole = number >= 0 && number < kMost && std::floor(number) == number;
  return whole ? std::optional(static_cast<std::uint64_t>(number)) : std::nullopt;
}

std::string name_of(const NameMapDirectory& index) {
  return printable(index.map_file.filename().string());
}

}  // namespace

std::optional<std::uint64_t> read_total_size(const std::string& json) {
  std::optional<std::uint64_t> total;
  try {
    JsonReader reader(json);
    reader.require(JsonKind::kObject);
    reader.enter();
    while (reader.next()) {
      if (reader.key() != "metadata") continue;
      total.reset();
      if (reader.kind() != JsonKind::kObject) continue;
      reader.enter();
      while (reader.next()) {
        if (reader.key() == "total_size") total = whole_number(reader);
      }
    }
    reader.finish();
  } catch (const Error&) {
    return std::nullopt;  // reading the map itself reports what is wrong
  }
  return total;
}

void state_index(const NameMapDirectory& index, Completeness& out) {
  std::set<std::string> numbered;
  for (const std::filesystem::path& file : index.files) {
    const std::string name = file.filename().string();
    // Those that count each other are told by their counts.
    if (!parse_counted_name(name)) numbered.insert(without_numbers(name));
  }
  std::vector<std::string> others;
  for (const std::string& name : index.beside) {
    const auto counted_name = parse_counted_name(name);
    const bool is_of_them =
        counted_name && std::any_of(index.files.begin(), index.files.end(), [&](const auto& file) {
          const auto other = parse_counted_name(file.filename().string());
          return other && other->before == counted_name->before &&
                 other->after == counted_name->after;
        });
    if (is_of_them) continue;  // state_names() has it
    const std::string kind = without_numbers(name);
    if (counted_name || kind == name || !numbered.contains(kind)) {
      others.push_back(name);
      continue;
    }
    out.missing.push_back(
        Error(ErrorKind::kMissing, "names no tensor of '" + printable(name) +
                                       "', which lies beside it and is numbered like its files")
            .in_file(index.map_file.string())
            .hint("bring the index that was saved with these files, or remove the file"));
  }
  if (!others.empty()) {
    out.doubts.push_back("not read, because " + name_of(index) +
                         " names no tensor of them: " + name_list(others));
  }
  if (!index.other_indexes.empty()) {
    out.doubts.push_back("other sets in this directory are not read: name " +
                         name_list(index.other_indexes) + " as the source to read them");
  }
  out.grounds.insert(out.grounds.begin(), "the index " + name_of(index));
  out.unstated.clear();
}

void state_total(const NameMapDirectory& index, const std::vector<RankFile>& files,
                 const std::filesystem::path& config, const SourceTreePtr& tree,
                 Completeness& out) {
  // MindSpore counts four bytes for each element, and all replicas.
  if (!index.is_hub_index) return;
  const Sums sums = sums_of(index, files);
  if (!sums.unnamed.empty()) {
    out.doubts.push_back(name_of(index) + " does not name " +
                         counted(sums.unnamed.size(), "tensor") +
                         " of its files: " + name_list(sums.unnamed));
  }
  if (!index.total_bytes) return;
  const std::uint64_t total = *index.total_bytes;
  const bool is_sum = total == sums.bytes || total == sums.named_bytes;
  if (is_sum || total == sums.file_bytes || counts_another_type(total, sums)) return;
  if (may_count_twice(total, sums) &&
      ModelShapes::read(config, tree).ties_embeddings().value_or(false)) {
    return;
  }
  Error error(ErrorKind::kMissing, "states tensors of " + std::to_string(total) +
                                       " bytes (metadata.total_size), but its files have " +
                                       std::to_string(sums.bytes));
  error.in_file(index.map_file.string());
  if (total < sums.bytes) {
    out.differences.push_back(error.hint("bring the index that was saved with these files"));
  } else {
    out.missing.push_back(
        error.hint("bring all files and the index of one save, or correct the number"));
  }
}

}  // namespace reshardfs
