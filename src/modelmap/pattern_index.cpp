// SPDX-License-Identifier: Apache-2.0
#include "modelmap/pattern_index.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace reshardfs::modelmap {
namespace {

/// For what is needed while a name is looked up, which next to never needs more.
struct ScratchMemory {
  static constexpr std::size_t kBytes = 1024;
  std::array<std::byte, kBytes> bytes;
  std::pmr::monotonic_buffer_resource memory{bytes.data(), bytes.size()};
};

}  // namespace

void PatternIndex::add(Entry entry) {
  const std::size_t number = entries_.size();
  const Pattern& pattern = *entry.pattern;
  entries_.push_back(std::move(entry));
  if (pattern.is_literal()) {
    literals_[pattern.text()].push_back(number);
    return;
  }
  const std::string start(pattern.literal_start());
  const auto add_to = [&](Bucket& bucket) {
    bucket.lengths.insert(start.size());
    bucket.entries[start].push_back(number);
  };
  const std::vector<std::string> shapes = pattern.shapes();
  for (const std::string& shape : shapes) add_to(by_shape_[shape]);
  if (shapes.empty()) add_to(others_);
}

void PatternIndex::find_in(const Bucket& bucket, std::string_view name,
                           std::pmr::vector<std::size_t>& out) {
  const auto add = [&](const std::vector<std::size_t>& entries) {
    out.insert(out.end(), entries.begin(), entries.end());
  };
  if (bucket.entries.size() == 1) {
    const auto& [start, entries] = *bucket.entries.begin();
    if (name.starts_with(start)) add(entries);
    return;
  }
  for (const std::size_t length : bucket.lengths) {
    if (length > name.size()) break;
    const auto found = bucket.entries.find(name.substr(0, length));
    if (found != bucket.entries.end()) add(found->second);
  }
}

std::pmr::vector<std::size_t> PatternIndex::candidates_for(
    std::string_view name, std::pmr::memory_resource& memory) const {
  std::pmr::vector<std::size_t> candidates(&memory);
  if (const auto found = literals_.find(name); found != literals_.end()) {
    candidates.assign(found->second.begin(), found->second.end());
  }
  if (!by_shape_.empty()) {
    std::pmr::string shape(&memory);
    Pattern::make_shape(name, shape);
    const auto bucket = by_shape_.find(std::string_view(shape));
    if (bucket != by_shape_.end()) find_in(bucket->second, name, candidates);
  }
  find_in(others_, name, candidates);
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

std::vector<PatternIndex::Match> PatternIndex::matches(std::string_view name) const {
  ScratchMemory scratch;
  std::vector<Match> matches;
  for (const std::size_t candidate : candidates_for(name, scratch.memory)) {
    const Entry& entry = entries_[candidate];
    std::optional<std::vector<CaptureValue>> values = entry.pattern->match(name, entry.numberings);
    if (values) matches.push_back({&entry, *std::move(values)});
  }
  return matches;
}

bool PatternIndex::takes(std::string_view name) const {
  ScratchMemory scratch;
  const auto candidates = candidates_for(name, scratch.memory);
  return std::any_of(candidates.begin(), candidates.end(), [&](std::size_t candidate) {
    const Entry& entry = entries_[candidate];
    return entry.pattern->match(name, entry.numberings).has_value();
  });
}

}  // namespace reshardfs::modelmap
