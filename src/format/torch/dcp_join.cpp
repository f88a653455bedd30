// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dcp_join.h"

#include <unordered_set>
#include <utility>

#include "reshardfs/error.h"

#include "format/torch/dcp_table.h"

namespace reshardfs {

void DcpJoin::add(DcpTable table) {
  if (!tables_.empty() && (tables_.front().by_name != table.by_name ||
                           tables_.front().has_object_files != table.has_object_files)) {
    throw Error(ErrorKind::kBadInput,
                "is the table of another framework than those of other ranks");
  }
  tables_.push_back(std::move(table));
}

/// Names the file as the joined table does.
void DcpJoin::place(DcpPlace& place, const DcpTable& table) {
  if (place.file >= table.files.size()) return;
  const std::string& file = table.files[place.file];
  const auto [number, is_new] =
      files_.try_emplace(file, static_cast<std::uint32_t>(out_.files.size()));
  if (is_new) out_.files.push_back(file);
  place.file = number->second;
  if (place.key == DcpPlace::kOwnName) return;
  out_.keys.push_back(table.keys[place.key]);
  place.key = static_cast<std::uint32_t>(out_.keys.size() - 1);
}

/// Adds the boxes of one rank.
void DcpJoin::append(const Member& member, DcpTensor& tensor) {
  const DcpTable& table = tables_[member.table];
  const DcpTensor& from = table.tensors[member.tensor];
  for (std::size_t i = 0; i < from.boxes; ++i) {
    out_.places.push_back(table.places[from.first_box + i]);
    place(out_.places.back(), table);
    const auto bounds = table.box_bounds(from, i);
    out_.bounds.insert(out_.bounds.end(), bounds.begin(), bounds.end());
    ++tensor.boxes;
  }
}

void DcpJoin::join(const std::vector<Member>& members) {
  const DcpTensor& first = tables_[members.front().table].tensors[members.front().tensor];
  DcpTensor tensor{first.name, first.dtype, first.shape, out_.places.size(), 0, out_.bounds.size()};
  for (const Member& member : members) {
    const DcpTensor& other = tables_[member.table].tensors[member.tensor];
    if (other.dtype == first.dtype && other.shape == first.shape) continue;
    out_.refused.push_back({first.name, "the ranks state different types or sizes of it: " +
                                            std::string(mindspore_name(first.dtype)) + " " +
                                            to_string(first.shape) + " and " +
                                            std::string(mindspore_name(other.dtype)) + " " +
                                            to_string(other.shape)});
    return;
  }
  for (const Member& member : members) append(member, tensor);
  if (auto problem = cover_problem(out_, tensor, /*replicas=*/true)) {
    out_.refused.push_back({tensor.name, std::move(*problem)});
    return;  // its boxes belong to nothing
  }
  out_.tensors.push_back(std::move(tensor));
}

DcpTable DcpJoin::finish() {
  out_.by_name = tables_.front().by_name;
  out_.has_object_files = tables_.front().has_object_files;
  std::unordered_map<std::string, std::size_t> numbers;
  std::vector<std::vector<Member>> tensors;
  std::unordered_map<std::string, const RefusedTensor*> refused;
  std::unordered_set<std::string> items;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const DcpTable& table = tables_[t];
    for (const RefusedTensor& tensor : table.refused) {
      if (refused.emplace(tensor.name, &tensor).second) out_.refused.push_back(tensor);
    }
    for (const DcpByteItem& item : table.byte_items) {
      if (!items.insert(item.name).second) continue;
      out_.byte_items.push_back(item);
      place(out_.byte_items.back().place, table);
    }
    out_.paths.insert(table.paths.begin(), table.paths.end());
    for (std::size_t i = 0; i < table.tensors.size(); ++i) {
      const auto [number, is_new] = numbers.try_emplace(table.tensors[i].name, tensors.size());
      if (is_new) tensors.emplace_back();
      tensors[number->second].push_back({t, i});
    }
  }
  for (const std::vector<Member>& members : tensors) {
    const Member& first = members.front();
    const std::string& name = tables_[first.table].tensors[first.tensor].name;
    if (refused.contains(name)) continue;
    if (items.contains(name)) {
      out_.refused.push_back({name, "some ranks have it as a tensor, others as another object"});
      continue;
    }
    join(members);
  }
  tables_.clear();
  return std::move(out_);
}

}  // namespace reshardfs
