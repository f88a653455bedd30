// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp/bucket_space.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/cast.h"
#include "base/text/text.h"
#include "checkpoint/dcp/bucket_parts.h"
#include "layout/regions.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kBucketAlignment = 64;
/// Elements compared at each end of a parameter.
constexpr std::int64_t kComparedEnd = 128;
/// Elements compared at once.
constexpr std::int64_t kComparedBlock = 1 << 16;
constexpr std::string_view kMasterState = "param";
/// One box of a bucket becomes 2n - 1 of a weight, which bounds what a small table can make of
/// itself.
constexpr std::size_t kMostNamedDimensions = 8;

/// The flat vectors of one bucket: tensors of the table, by state.
struct Bucket {
  std::map<std::string, std::size_t> states{};
};

/// Of one group of ranks, with the later ones of its model first.
struct BucketBuffer {
  std::string chain{};
  std::int64_t group = 0;
  std::map<std::int64_t, Bucket> buckets{};
};

/// A run of a flat vector in an item.
struct BucketChunk {
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  std::size_t box = 0;  ///< in DcpTable::places

  std::int64_t end() const noexcept { return begin + elements; }
};

/// A part that was found in a bucket.
struct FoundPart {
  std::size_t part = 0;
  std::size_t bucket = 0;  ///< in the order in which they were walked
  std::int64_t begin = 0;
};

/// The boxes of a state that gets a name.
struct NamedState {
  DType dtype = DType::kFloat32;
  std::vector<DcpPlace> places{};
  std::vector<ItemRange> runs{};
  std::vector<std::int64_t> bounds{};
};

class BucketNaming {
 public:
  /// @param table without names, which it keeps.
  BucketNaming(DcpTable table, ReadItem read) : table_(std::move(table)), read_(std::move(read)) {}

  /// Finds the parameters. @return why that is not possible.
  std::optional<std::string> run();
  /// Gives the table the states' names and shapes.
  void name_states(DcpTable& out) const;
  std::vector<Error> compare(const CopyQuestion& question);

 private:
  void collect();
  std::optional<std::string> walk(const BucketBuffer& buffer, const Bucket& bucket);
  std::optional<std::size_t> next_part(const BucketBuffer& buffer, std::int64_t begin,
                                       std::int64_t length, std::string& reason);
  bool is_candidate(std::size_t part, const BucketBuffer& buffer) const;
  bool has_values_of(const BucketPart& part, std::int64_t begin);
  bool is_equal(const BucketPart& part, std::int64_t first, std::int64_t begin,
                std::int64_t elements);
  bool read_flat(std::int64_t begin, std::span<std::byte> out);
  bool read_part(const BucketPart& part, std::int64_t first, std::span<std::byte> out);
  std::optional<std::string> gap() const;
  void enter(const Bucket& bucket);
  std::optional<std::int64_t> first_difference(const FoundPart& found, Progress& progress);
  void add_boxes(const FoundPart& found, const std::vector<BucketChunk>& chunks,
                 NamedState& out) const;
  std::vector<BucketChunk> chunks_of(std::size_t tensor) const;

  DcpTable table_;
  ReadItem read_;
  std::vector<BucketBuffer> buffers_;
  std::vector<BucketPart> parts_;
  std::vector<bool> used_;
  std::vector<const Bucket*> walked_;
  std::vector<FoundPart> found_;
  const DcpTensor* flat_ = nullptr;  ///< `param` of the bucket that is walked
  std::vector<BucketChunk> chunks_;  ///< of it
};

/// The last stage and the last virtual stage first: they have the last layers.
void BucketNaming::collect() {
  using Key = std::pair<std::string, std::pair<std::int64_t, std::int64_t>>;
  std::map<Key, std::map<std::string, BucketBuffer>> buffers;
  for (std::size_t i = 0; i < table_.tensors.size(); ++i) {
    const auto name = parse_bucket_name(table_.tensors[i].name);
    if (!name) continue;
    BucketBuffer& buffer = buffers[{name->chain, {-name->buffer, -name->group}}][name->types];
    buffer.chain = name->chain;
    buffer.group = name->group;
    buffer.buckets[name->bucket].states[name->state] = i;
  }
  for (auto& [key, by_types] : buffers) {
    for (auto& [types, buffer] : by_types) buffers_.push_back(std::move(buffer));
  }
}

std::vector<BucketChunk> BucketNaming::chunks_of(std::size_t tensor) const {
  const DcpTensor& flat = table_.tensors[tensor];
  std::vector<BucketChunk> chunks;
  for (std::size_t i = 0; i < flat.boxes; ++i) {
    const auto bounds = table_.box_bounds(flat, i);
    chunks.push_back({bounds[0], bounds[1], flat.first_box + i});
  }
  std::sort(chunks.begin(), chunks.end(),
            [](const BucketChunk& a, const BucketChunk& b) { return a.begin < b.begin; });
  return chunks;
}

bool BucketNaming::read_flat(std::int64_t begin, std::span<std::byte> out) {
  const std::int64_t width = element_size(flat_->dtype);
  auto chunk =
      std::upper_bound(chunks_.begin(), chunks_.end(), begin,
                       [](std::int64_t at, const BucketChunk& one) { return at < one.begin; });
  if (chunk == chunks_.begin()) return false;
  for (--chunk; !out.empty(); ++chunk) {
    if (chunk == chunks_.end() || begin >= chunk->end()) return false;
    const std::int64_t wanted = static_cast<std::int64_t>(out.size()) / width;
    const std::int64_t count = std::min(wanted, chunk->end() - begin);
    const auto bytes = static_cast<std::size_t>(count * width);
    if (!read_(chunk->box, *flat_, chunk->elements, begin - chunk->begin, out.first(bytes))) {
      return false;
    }
    out = out.subspan(bytes);
    begin += count;
  }
  return true;
}

bool BucketNaming::read_part(const BucketPart& part, std::int64_t first, std::span<std::byte> out) {
  const DcpTensor& tensor = table_.tensors[part.tensor];
  const std::int64_t width = element_size(tensor.dtype);
  for (const std::size_t box : part.boxes) {
    const std::int64_t elements = box_elements(table_, tensor, box);
    if (first < elements && !out.empty()) {
      const std::int64_t wanted = static_cast<std::int64_t>(out.size()) / width;
      const std::int64_t count = std::min(wanted, elements - first);
      const auto bytes = static_cast<std::size_t>(count * width);
      if (!read_(tensor.first_box + box, tensor, elements, first, out.first(bytes))) return false;
      out = out.subspan(bytes);
      first = elements;
    }
    first -= elements;
  }
  return out.empty();
}

/// @param first of the part's elements, which are those of the bucket from `begin` on.
bool BucketNaming::is_equal(const BucketPart& part, std::int64_t first, std::int64_t begin,
                            std::int64_t elements) {
  const DType of_weight = table_.tensors[part.tensor].dtype;
  const auto bytes_of = [&](DType dtype) {
    return static_cast<std::size_t>(elements * element_size(dtype));
  };
  std::vector<std::byte> flat(bytes_of(flat_->dtype));
  std::vector<std::byte> weight(bytes_of(of_weight));
  std::vector<std::byte> rounded(weight.size());
  if (!read_flat(begin, flat) || !read_part(part, first, weight)) return false;
  cast_elements(flat_->dtype, flat.data(), of_weight, rounded.data(),
                static_cast<std::size_t>(elements));
  return rounded == weight;
}

bool BucketNaming::has_values_of(const BucketPart& part, std::int64_t begin) {
  if (!can_cast(flat_->dtype, table_.tensors[part.tensor].dtype)) return false;
  const std::int64_t count = std::min(part.elements, kComparedEnd);
  const std::int64_t last = part.elements - count;
  return is_equal(part, 0, begin, count) &&
         (last == 0 || is_equal(part, last, begin + last, count));
}

bool BucketNaming::is_candidate(std::size_t part, const BucketBuffer& buffer) const {
  const BucketPart& one = parts_[part];
  return !used_[part] && static_cast<std::size_t>(buffer.group) % one.ranks == one.rank;
}

/// @param length of the bucket. @param reason is set if there is none.
std::optional<std::size_t> BucketNaming::next_part(const BucketBuffer& buffer, std::int64_t begin,
                                                   std::int64_t length, std::string& reason) {
  const auto ends_with_chunk = [&](std::int64_t end) {
    const auto next = std::lower_bound(
        chunks_.begin(), chunks_.end(), end,
        [](const BucketChunk& chunk, std::int64_t at) { return chunk.end() < at; });
    return next != chunks_.end() && next->end() == end;
  };
  std::optional<std::size_t> chosen;
  for (std::size_t i = parts_.size(); i-- > 0;) {
    const BucketPart& part = parts_[i];
    const std::int64_t end = begin + part.elements;
    if (!is_candidate(i, buffer) || end > length || !ends_with_chunk(end)) continue;
    if (!has_values_of(part, begin)) continue;
    if (!chosen) {
      chosen = i;
      if (part.place.is_known) return chosen;
      continue;
    }
    reason = "two weights have the values of a bucket from element " + std::to_string(begin);
    return std::nullopt;
  }
  if (!chosen) {
    reason = "no weight, rounded, has the values of a bucket from element " + std::to_string(begin);
  }
  return chosen;
}

/// @param bucket with the state `param`.
void BucketNaming::enter(const Bucket& bucket) {
  const std::size_t param = bucket.states.at(std::string(kMasterState));
  flat_ = &table_.tensors[param];
  chunks_ = flat_->shape.size() == 1 ? chunks_of(param) : std::vector<BucketChunk>();
}

std::optional<std::string> BucketNaming::walk(const BucketBuffer& buffer, const Bucket& bucket) {
  const auto param = bucket.states.find(std::string(kMasterState));
  if (param == bucket.states.end()) return "there is no state 'param' to compare with the weights";
  enter(bucket);
  for (const auto& [state, tensor] : bucket.states) {
    if (table_.tensors[tensor].shape != flat_->shape || flat_->shape.size() != 1) {
      return "the states of a bucket have different lengths";
    }
  }
  const std::int64_t length = flat_->shape.front();
  std::int64_t begin = 0;
  while (begin < length) {
    std::string reason;
    const auto part = next_part(buffer, begin, length, reason);
    if (!part) return reason;
    used_[*part] = true;
    found_.push_back({*part, walked_.size(), begin});
    const std::int64_t end = begin + parts_[*part].elements;
    if (end == length) break;
    begin = (end + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
    if (begin >= length) return "the last parameter of a bucket does not reach its end";
  }
  walked_.push_back(&bucket);
  return std::nullopt;
}

/// A weight of which some ranks have states, and others none.
std::optional<std::string> BucketNaming::gap() const {
  std::set<std::size_t> named;
  for (const FoundPart& found : found_) named.insert(parts_[found.part].tensor);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (used_[i] || parts_[i].is_copy || !named.contains(parts_[i].tensor)) continue;
    return table_.tensors[parts_[i].tensor].name;
  }
  return std::nullopt;
}

void BucketNaming::add_boxes(const FoundPart& found, const std::vector<BucketChunk>& chunks,
                             NamedState& out) const {
  const BucketPart& part = parts_[found.part];
  const DcpTensor& weight = table_.tensors[part.tensor];
  const std::size_t dimensions = weight.shape.size();
  std::int64_t at = found.begin;
  for (const std::size_t box : part.boxes) {
    const auto bounds = table_.box_bounds(weight, box);
    const auto sizes = bounds.last(dimensions);
    const std::int64_t end = at + box_elements(table_, weight, box);
    for (const BucketChunk& chunk : chunks) {
      const std::int64_t first = std::max(at, chunk.begin);
      const std::int64_t count = std::min(end, chunk.end()) - first;
      if (count <= 0) continue;
      ItemRange run{first - chunk.begin, chunk.elements, /*is_flat=*/true};
      for_each_region(first - at, count, 0, sizes, [&](const Region& region) {
        out.places.push_back(table_.places[chunk.box]);
        out.runs.push_back(run);
        for (std::size_t d = 0; d < dimensions; ++d) {
          out.bounds.push_back(bounds[d] + region.ranges[d].begin);
        }
        for (const IndexRange& range : region.ranges) out.bounds.push_back(range.count);
        run.first += region.elements();
      });
    }
    at = end;
  }
}

void BucketNaming::name_states(DcpTable& out) const {
  std::map<std::pair<std::string, std::size_t>, NamedState> named;  // by state and weight
  for (const FoundPart& found : found_) {
    const BucketPart& part = parts_[found.part];
    if (part.is_copy || part.is_second) continue;
    for (const auto& [state, tensor] : walked_[found.bucket]->states) {
      NamedState& boxes = named[{state, part.tensor}];
      boxes.dtype = table_.tensors[tensor].dtype;
      add_boxes(found, chunks_of(tensor), boxes);
    }
  }
  std::erase_if(out.tensors,
                [](const DcpTensor& tensor) { return parse_bucket_name(tensor.name).has_value(); });
  for (auto& [key, state] : named) {
    const DcpTensor& weight = table_.tensors[key.second];
    out.tensors.push_back({"optimizer.state." + key.first + "." + weight.name, state.dtype,
                           weight.shape, out.places.size(), state.places.size(),
                           out.bounds.size()});
    for (std::size_t i = 0; i < state.places.size(); ++i) {
      out.runs.emplace(out.places.size(), state.runs[i]);
      out.places.push_back(state.places[i]);
    }
    out.bounds.insert(out.bounds.end(), state.bounds.begin(), state.bounds.end());
  }
}

/// An element of the part; nothing if all are equal.
std::optional<std::int64_t> BucketNaming::first_difference(const FoundPart& found,
                                                           Progress& progress) {
  const BucketPart& part = parts_[found.part];
  const std::int64_t width =
      element_size(flat_->dtype) + element_size(table_.tensors[part.tensor].dtype);
  for (std::int64_t at = 0; at < part.elements; at += kComparedBlock) {
    const std::int64_t count = std::min(kComparedBlock, part.elements - at);
    const bool is_same = is_equal(part, at, found.begin + at, count);
    progress.add_bytes(static_cast<std::uint64_t>(count * width));
    if (!is_same) return at;
  }
  return std::nullopt;
}

std::vector<Error> BucketNaming::compare(const CopyQuestion& question) {
  std::vector<Error> errors;
  std::set<std::size_t> different;
  for (const FoundPart& found : found_) {
    const std::size_t tensor = parts_[found.part].tensor;
    const std::string& name = table_.tensors[tensor].name;
    if ((question.takes && !question.takes(name)) || different.contains(tensor)) continue;
    enter(*walked_[found.bucket]);
    question.progress.expect_bytes(static_cast<std::uint64_t>(
        parts_[found.part].elements *
        (element_size(flat_->dtype) + element_size(table_.tensors[tensor].dtype))));
    if (!first_difference(found, question.progress)) continue;
    different.insert(tensor);
    errors.push_back(Error(ErrorKind::kBadInput,
                           "differs from the optimizer's state '" + std::string(kMasterState) +
                               "', rounded: they are not of one save, or one is damaged")
                         .for_parameter(name));
  }
  return errors;
}

std::optional<std::string> BucketNaming::run() {
  collect();
  std::size_t groups = 0;
  for (const BucketBuffer& buffer : buffers_) {
    if (buffer.chain != buffers_.front().chain) continue;
    groups = std::max(groups, static_cast<std::size_t>(buffer.group) + 1);
  }
  std::string reason;
  auto parts = bucket_parts(table_, groups, reason);
  if (!parts) return reason;
  parts_ = std::move(*parts);
  used_.assign(parts_.size(), false);
  for (const BucketPart& part : parts_) {
    const DcpTensor& tensor = table_.tensors[part.tensor];
    if (tensor.shape.size() <= kMostNamedDimensions) continue;
    return "'" + printable(tensor.name) + "' has too many dimensions";
  }
  for (const BucketBuffer& buffer : buffers_) {
    for (const auto& [number, bucket] : buffer.buckets) {
      const auto problem = walk(buffer, bucket);
      if (!problem) continue;
      return "'" + printable(table_.tensors[bucket.states.begin()->second].name) + "': " + *problem;
    }
  }
  if (const auto name = gap()) return "only some ranks have states of '" + printable(*name) + "'";
  return std::nullopt;
}

}  // namespace

bool has_buckets(const DcpTable& table) {
  return std::any_of(table.tensors.begin(), table.tensors.end(), [](const DcpTensor& tensor) {
    return parse_bucket_name(tensor.name).has_value();
  });
}

std::optional<std::string> name_buckets(DcpTable& table, ReadItem read, CompareCopies& compare) {
  const auto naming = std::make_shared<BucketNaming>(table, std::move(read));
  if (auto problem = naming->run()) return problem;
  naming->name_states(table);
  compare = [naming](const CopyQuestion& question) { return naming->compare(question); };
  return std::nullopt;
}

}  // namespace reshardfs
