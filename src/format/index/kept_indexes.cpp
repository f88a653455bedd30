// SPDX-License-Identifier: Apache-2.0
#include "format/index/kept_indexes.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "reshardfs/error.h"

#include "format/index/name_orders.h"
#include "kept_indexes.pb.h"

namespace reshardfs {
namespace {

void put(const FileIndex& index, kept::Index& out) {
  for (const TensorEntry& entry : index.entries()) {
    kept::Entry& kept = *out.add_entries();
    kept.set_name(entry.name);
    kept.set_dtype(static_cast<std::uint32_t>(entry.dtype));
    kept.set_encoding(static_cast<std::uint32_t>(entry.encoding));
    kept.mutable_shape()->Add(entry.shape.begin(), entry.shape.end());
    for (const ByteRange& extent : entry.extents) {
      kept.add_extents(extent.offset());
      kept.add_extents(extent.length());
    }
    kept.set_content_bytes(entry.content_bytes);
    if (const auto offsets = index.box_offsets(entry)) {
      kept.set_is_box(true);
      kept.mutable_box_offsets()->Add(offsets->begin(), offsets->end());
    }
  }
  for (const RefusedTensor& tensor : index.refused()) {
    kept::Refused& kept = *out.add_refused();
    kept.set_name(tensor.name);
    kept.set_reason(tensor.reason);
    kept.set_content_bytes(tensor.bytes);
  }
  out.set_checksum_bytes(index.checksum_bytes());
}

TensorEntry entry_of(const kept::Entry& kept) {
  TensorEntry entry;
  entry.name = kept.name();
  entry.dtype = static_cast<DType>(kept.dtype());
  entry.encoding = static_cast<ContentEncoding>(kept.encoding());
  entry.shape = KeptShape(Shape(kept.shape().begin(), kept.shape().end()));
  for (int i = 0; i + 1 < kept.extents_size(); i += 2) {
    entry.extents.emplace_back(kept.extents(i), kept.extents(i + 1));
  }
  entry.content_bytes = kept.content_bytes();
  return entry;
}

std::shared_ptr<const FileIndex> index_of(const kept::Index& kept, NameOrders& orders) {
  std::vector<TensorEntry> entries;
  entries.reserve(static_cast<std::size_t>(kept.entries_size()));
  BoxOffsets boxes;
  for (const kept::Entry& entry : kept.entries()) {
    if (entry.is_box()) {
      boxes.add(entries.size(), Shape(entry.box_offsets().begin(), entry.box_offsets().end()));
    }
    entries.push_back(entry_of(entry));
  }
  IndexHints hints;
  hints.known = &orders;
  hints.checksum_bytes = kept.checksum_bytes();
  std::vector<RefusedTensor> refused;
  for (const kept::Refused& tensor : kept.refused()) {
    refused.push_back({tensor.name(), tensor.reason(), tensor.content_bytes()});
  }
  auto index = std::make_shared<const FileIndex>(std::move(entries), hints, std::move(boxes),
                                                 std::move(refused));
  orders.add(index);
  return index;
}

/// Whether the numbers are those of files and indexes that there are.
bool is_consistent(const kept::Set& kept) {
  const auto is_right = [&](const kept::File& file) {
    if (file.index() >= static_cast<std::uint32_t>(kept.indexes_size())) return false;
    if (file.like() == 0) return true;
    if (file.like() > static_cast<std::uint32_t>(kept.files_size())) return false;
    const kept::File& leader = kept.files(static_cast<int>(file.like()) - 1);
    return leader.like() == 0 && leader.index() == file.index();
  };
  return std::all_of(kept.files().begin(), kept.files().end(), is_right);
}

}  // namespace

std::string encode_indexes(const KeptIndexes& kept) {
  kept::Set set;
  for (const auto& index : kept.indexes) put(*index, *set.add_indexes());
  for (const KeptIndexes::File& file : kept.files) {
    kept::File& out = *set.add_files();
    out.set_index(static_cast<std::uint32_t>(file.index));
    if (file.like) out.set_like(static_cast<std::uint32_t>(*file.like) + 1);
  }
  return set.SerializeAsString();
}

std::optional<KeptIndexes> decode_indexes(const std::string& bytes) {
  kept::Set set;
  if (!set.ParseFromString(bytes) || !is_consistent(set)) return std::nullopt;
  KeptIndexes kept;
  try {
    NameOrders orders;
    for (const kept::Index& index : set.indexes()) kept.indexes.push_back(index_of(index, orders));
  } catch (const Error&) {
    return std::nullopt;
  }
  for (const kept::File& file : set.files()) {
    kept.files.push_back({file.index(), file.like() == 0
                                            ? std::nullopt
                                            : std::optional<std::size_t>(file.like() - 1)});
  }
  return kept;
}

}  // namespace reshardfs
