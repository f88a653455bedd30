// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp/dcp_contents.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/dcp/bucket_space.h"
#include "checkpoint/dcp/saved_objects.h"
#include "checkpoint/dcp/torch_items.h"
#include "checkpoint/shaped_catalogue.h"
#include "format/torch/torch_zip_tensors.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

std::uint64_t take_number(std::string_view& text) {
  std::uint64_t number = 0;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    number = number * 10 + static_cast<std::uint64_t>(text.front() - '0');  // wraps: just an order
    text.remove_prefix(1);
  }
  return number;
}

/// As texts, but numbers in them by their value: __2_0 before __10_0.
bool comes_before(std::string_view a, std::string_view b) {
  const auto is_digit = [](std::string_view text) {
    return !text.empty() && text.front() >= '0' && text.front() <= '9';
  };
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a) && is_digit(b)) {
      const std::uint64_t number_a = take_number(a);
      const std::uint64_t number_b = take_number(b);
      if (number_a != number_b) return number_a < number_b;
      continue;
    }
    if (a.front() != b.front()) return a.front() < b.front();
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;
}

/// What a file is to have, while it is collected.
struct Content {
  std::vector<TensorEntry> entries;
  BoxOffsets boxes;
  std::vector<ByteRange> places;
  std::vector<std::string> keys;  ///< empty: all are the names
  TorchItems::Runs runs;

  /// @param key what the file calls it.
  void add(const DcpTensor& tensor, const Shape& offsets, Shape sizes, const ByteRange& place,
           const std::string& key) {
    if (key != tensor.name && keys.empty()) {
      for (const TensorEntry& before : entries) keys.push_back(before.name);
    }
    if (key != tensor.name || !keys.empty()) keys.push_back(key);
    TensorEntry entry;
    entry.name = tensor.name;
    entry.dtype = tensor.dtype;
    entry.shape = std::move(sizes);
    boxes.add(entries.size(), offsets);
    entries.push_back(std::move(entry));
    places.push_back(place);
  }

  std::shared_ptr<const TorchItems> items(bool by_name) && {
    if (by_name) {
      return std::make_shared<const TorchItems>(std::move(entries), std::move(boxes),
                                                std::move(keys));
    }
    return std::make_shared<const TorchItems>(std::move(entries), std::move(boxes),
                                              std::move(places), std::move(runs));
  }
};

const std::string& key_of(const DcpTable& table, const DcpTensor& tensor, const DcpPlace& place) {
  return place.key == DcpPlace::kOwnName ? tensor.name : table.keys[place.key];
}

class ContentsReader {
 public:
  ContentsReader(const std::filesystem::path& directory, const SourceTreePtr& tree)
      : directory_(directory), tree_(tree) {}

  Discovery read(DcpTable table);

 private:
  /// Nothing if all is well.
  std::string problem_of(const std::string& file) const;
  std::string identity_of(const std::string& file) const;
  void join_files(DcpTable& table) const;
  std::string problem_of(const DcpTable& table, const DcpTensor& tensor) const;
  void name_states(DcpTable& table, Discovery& out) const;
  std::optional<std::size_t> file_of_tensors(const DcpTable& table) const;
  void take_tensors(DcpTable& table);
  void record_files_of_objects(const DcpTable& table) const;
  std::shared_ptr<const SavedObjects> take_objects(DcpTable& table) const;
  [[noreturn]] void refuse_all(const DcpTable& table) const;

  const std::filesystem::path& directory_;
  const SourceTreePtr& tree_;
  std::vector<std::string> problems_;  ///< of each file
  std::vector<Content> contents_;
  std::unordered_map<std::string, Shape> shapes_;
};

/// The table names its files, but its author must not choose which other files are read.
std::string ContentsReader::problem_of(const std::string& file) const {
  const std::filesystem::path path = directory_ / file;
  if (path_kind(path, tree_) != PathKind::kOther) {
    return "its file '" + printable(file) + "' is missing";
  }
  if (unrecorded(tree_) || is_url(directory_)) return {};
  std::error_code failed;
  const auto top = std::filesystem::canonical(directory_, failed);
  const auto target = std::filesystem::canonical(path, failed);
  if (!failed && is_inside(target, top)) return {};
  return "its file '" + printable(file) + "' is a link that leads out of the directory";
}

/// Identifies a file, whatever the table calls it.
std::string ContentsReader::identity_of(const std::string& file) const {
  std::filesystem::path path = (directory_ / file).lexically_normal();
  if (is_url(directory_)) return path.string();
  std::error_code failed;
  if (!unrecorded(tree_)) {
    const auto target = std::filesystem::canonical(path, failed);
    if (!failed) path = target;
    if (std::filesystem::hard_link_count(path, failed) == 1 && !failed) return path.string();
  }
  const FileStamp stamp = open_file(path, tree_)->stamp();
  return std::to_string(stamp.device) + ':' + std::to_string(stamp.inode);
}

/// A file with several names is read once.
void ContentsReader::join_files(DcpTable& table) const {
  std::unordered_map<std::string, std::uint32_t> known;
  std::vector<std::uint32_t> number_of;
  for (std::uint32_t file = 0; file < table.files.size(); ++file) {
    const bool is_there = problems_[file].empty();
    number_of.push_back(
        is_there ? known.try_emplace(identity_of(table.files[file]), file).first->second : file);
  }
  const auto join = [&](DcpPlace& place) {
    if (place.file < number_of.size()) place.file = number_of[place.file];
  };
  for (DcpPlace& place : table.places) join(place);
  for (DcpByteItem& item : table.byte_items) join(item.place);
}

std::string ContentsReader::problem_of(const DcpTable& table, const DcpTensor& tensor) const {
  std::set<std::pair<std::uint32_t, std::string>> files;
  for (std::size_t i = 0; i < tensor.boxes; ++i) {
    const DcpPlace& place = table.places[tensor.first_box + i];
    const std::uint32_t file = place.file;
    if (!problems_[file].empty()) return problems_[file];
    if (table.by_name && !files.emplace(file, key_of(table, tensor, place)).second) {
      return "two of its chunks should be in '" + printable(table.files[file]) +
             "', a file that can hold only one tensor of this name";
    }
  }
  return {};
}

/// Items of a table, which it keeps open.
class ItemReader {
 public:
  /// @param problems of each file.
  ItemReader(std::filesystem::path directory, SourceTreePtr tree, const DcpTable& table,
             std::vector<std::string> problems)
      : directory_(std::move(directory)),
        tree_(std::move(tree)),
        names_(table.files),
        places_(table.places),
        problems_(std::move(problems)) {}

  /// See ReadItem.
  bool read(std::size_t box, const DcpTensor& tensor, std::int64_t elements, std::int64_t first,
            std::span<std::byte> out) {
    const DcpPlace& place = places_[box];
    if (!problems_[place.file].empty()) return false;
    try {
      ByteSourcePtr& file = files_[place.file];
      if (file == nullptr) file = open_file(directory_ / names_[place.file], tree_);
      auto item = items_.find(box);
      if (item == items_.end()) {
        item = items_.emplace(box, read_torch_tensor(*file, place.item)).first;
      }
      const TorchTensor& found = item->second;
      const bool is_expected = found.dtype == tensor.dtype && is_contiguous(found) &&
                               element_count(found.shape) == elements;
      if (!is_expected) return false;
      const auto offset = static_cast<std::uint64_t>(first * element_size(found.dtype));
      file->read_at(contiguous_range(found).offset() + offset, out);
      return true;
    } catch (const Error&) {
      return false;  // reading the tensor reports it
    }
  }

 private:
  std::filesystem::path directory_;
  SourceTreePtr tree_;
  std::vector<std::string> names_;
  std::vector<DcpPlace> places_;
  std::vector<std::string> problems_;
  std::unordered_map<std::uint32_t, ByteSourcePtr> files_;
  std::unordered_map<std::size_t, TorchTensor> items_;
};

/// Reads some elements of each weight and of its state.
void ContentsReader::name_states(DcpTable& table, Discovery& out) const {
  if (table.by_name || !has_buckets(table)) return;
  const auto reader = std::make_shared<ItemReader>(directory_, tree_, table, problems_);
  const ReadItem read = [reader](std::size_t box, const DcpTensor& tensor, std::int64_t elements,
                                 std::int64_t first, std::span<std::byte> bytes) {
    return reader->read(box, tensor, elements, first, bytes);
  };
  const auto problem = name_buckets(table, read, out.compare_copies);
  if (!problem) return;
  out.warnings.push_back(
      "states of the optimizer lie in buckets, without names, and no map can carry them: their "
      "order is not proven (" +
      *problem +
      "); Megatron-Core saves them with names by --dist-ckpt-optim-fully-reshardable, and "
      "--weights-only leaves them out");
}

/// One that can be read, and that has more than objects.
std::optional<std::size_t> ContentsReader::file_of_tensors(const DcpTable& table) const {
  std::optional<std::size_t> any;
  for (std::size_t file = 0; file < problems_.size(); ++file) {
    if (!problems_[file].empty()) continue;
    if (!table.by_name || !table.files[file].ends_with(kObjectExtension)) return file;
    if (!any) any = file;
  }
  return any;
}

void ContentsReader::take_tensors(DcpTable& table) {
  contents_.resize(table.files.size());
  for (const DcpTensor& tensor : table.tensors) {
    const std::size_t dimensions = tensor.shape.size();
    std::string problem = problem_of(table, tensor);
    if (!problem.empty()) {
      table.refused.push_back({tensor.name, std::move(problem)});
      continue;
    }
    shapes_.emplace(tensor.name, tensor.shape);
    for (std::size_t i = 0; i < tensor.boxes; ++i) {
      const auto bounds = table.box_bounds(tensor, i);
      const auto offsets = bounds.first(dimensions);
      const auto sizes = bounds.last(dimensions);
      const DcpPlace& place = table.places[tensor.first_box + i];
      Content& content = contents_[place.file];
      const auto run = table.runs.find(tensor.first_box + i);
      if (run != table.runs.end()) content.runs.emplace(content.entries.size(), run->second);
      content.add(tensor, Shape(offsets.begin(), offsets.end()), Shape(sizes.begin(), sizes.end()),
                  place.item, key_of(table, tensor, place));
    }
    if (tensor.boxes > 0) continue;
    // Without elements it is in no file, but has a name and a shape.
    const auto file = file_of_tensors(table);
    if (!file) continue;
    contents_[*file].add(tensor, Shape(dimensions, 0), tensor.shape, {}, tensor.name);
  }
}

/// Files with tensors are source files of the set. Others have bytes that views show, too.
void ContentsReader::record_files_of_objects(const DcpTable& table) const {
  std::set<std::uint32_t> files;
  for (const DcpByteItem& item : table.byte_items) files.insert(item.place.file);
  for (const std::uint32_t file : files) {
    const bool is_there = file < problems_.size() && problems_[file].empty();
    if (!is_there || !contents_[file].entries.empty()) continue;
    const std::filesystem::path path = directory_ / table.files[file];
    try {
      record_open(path, *open_file(path, tree_), tree_);
    } catch (const Error&) {
      // The view that shows it says why it cannot be read.
    }
  }
}

std::shared_ptr<const SavedObjects> ContentsReader::take_objects(DcpTable& table) const {
  auto objects = std::make_shared<SavedObjects>();
  objects->tree = tree_;
  objects->of_torch = !table.by_name;
  objects->of_hyper = table.by_name && !table.has_object_files;
  objects->paths = std::move(table.paths);
  for (const DcpByteItem& item : table.byte_items) {
    SavedObject object{item.name, {}, item.place.item};
    if (item.place.file >= table.files.size()) {
      object.problem = "its place is not stated";
    } else {
      object.file = directory_ / table.files[item.place.file];
      object.problem = problems_[item.place.file];
      if (table.has_object_files && object.problem.empty()) {
        object.place = ByteRange::whole(open_file(object.file, tree_)->size());
      }
    }
    objects->objects.push_back(std::move(object));
  }
  return objects;
}

void ContentsReader::refuse_all(const DcpTable& table) const {
  if (table.refused.empty()) {
    throw Error(ErrorKind::kMissing, "has no tensor").in_file(directory_.string());
  }
  throw Error(ErrorKind::kBadInput,
              "none of its tensors can be shown: " + table.refused.front().reason)
      .in_file(directory_.string())
      .for_parameter(table.refused.front().name);
}

Discovery ContentsReader::read(DcpTable table) {
  for (const std::string& file : table.files) problems_.push_back(problem_of(file));
  join_files(table);
  Discovery out;
  out.applies_state_key = true;
  name_states(table, out);
  take_tensors(table);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < contents_.size(); ++i) {
    if (!contents_[i].entries.empty()) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return comes_before(table.files[a], table.files[b]);
  });
  for (const std::size_t i : order) {
    const auto number = static_cast<std::int64_t>(out.files.size());
    out.files.push_back({Rank(number), {}, directory_ / table.files[i], -1, tree_});
  }
  record_files_of_objects(table);
  parallel_for(order.size(), [&](std::size_t number) {
    out.files[number].content = std::move(contents_[order[number]]).items(table.by_name);
  });
  if (out.files.empty()) refuse_all(table);
  if (!table.byte_items.empty()) {
    std::vector<std::string> names;
    for (const DcpByteItem& item : table.byte_items) names.push_back(item.name);
    const std::string_view view = table.by_name ? "hyper" : "dcp";
    out.notes.push_back("not tensors, and shown only by --views " + std::string(view) + ": " +
                        name_list(names));
  }
  auto objects = take_objects(table);
  out.catalogue = std::make_shared<const ShapedCatalogue>(
      static_cast<std::int64_t>(out.files.size()), std::move(shapes_), std::move(table.refused),
      std::move(objects));
  return out;
}

}  // namespace

Discovery dcp_contents(const std::filesystem::path& directory, DcpTable table,
                       const SourceTreePtr& tree) {
  return ContentsReader(directory, tree).read(std::move(table));
}

}  // namespace reshardfs
