// SPDX-License-Identifier: Apache-2.0
#include "tally.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "allocations.h"

namespace reshardfs::damage {
namespace {

/// All samples have less than 4 KiB.
constexpr std::size_t kMostAllocated = std::size_t{1} << 20;

bool is_refusal(const Error& error) {
  return error.kind() == ErrorKind::kBadInput || error.kind() == ErrorKind::kUnsupported ||
         error.kind() == ErrorKind::kMissing;
}

}  // namespace

std::string kind_of_change(const Parameters& intact, const Parameters& found) {
  std::vector<const Parameter*> lost;
  std::vector<const Parameter*> more;
  std::vector<std::string> changed;
  for (const auto& [name, parameter] : intact) {
    const auto same = found.find(name);
    if (same == found.end()) {
      lost.push_back(&parameter);
    } else if (!(same->second == parameter)) {
      changed.push_back(name);
    }
  }
  for (const auto& [name, parameter] : found) {
    if (!intact.contains(name)) more.push_back(&parameter);
  }
  if (lost.empty() && more.empty() && changed.empty()) return "";
  if (changed.empty() && lost.size() == 1 && more.size() == 1 && *lost[0] == *more[0]) {
    return "name";
  }
  if (changed.empty() && more.empty()) return "missing";
  if (changed.empty() && lost.empty()) return "more";
  if (changed.size() == 1 && lost.empty() && more.empty()) {
    const Parameter& a = intact.at(changed[0]);
    const Parameter& b = found.at(changed[0]);
    const bool same_type = a.dtype == b.dtype;
    const bool same_shape = a.shape == b.shape;
    const bool same_bytes = a.bytes == b.bytes;
    if (!same_type && same_shape && same_bytes) return "type";
    if (same_type && !same_shape && same_bytes) return "shape";
    if (same_type && same_shape) return "bytes";
  }
  return "several facts";
}

Tally::Tally(std::string what, std::set<std::string> allowed)
    : what_(std::move(what)), allowed_(std::move(allowed)) {}

Tally::~Tally() {
  std::string line;
  for (const auto& [kind, number] : counts_) {
    line += (line.empty() ? "" : ", ") + std::to_string(number) + " " + kind;
  }
  std::printf("%s: %zu, of these %s; at most %zu KiB allocated for one\n", what_.c_str(), total(),
              line.c_str(), most_allocated_ >> 10U);
}

void Tally::add(const std::string& where, const std::function<std::string()>& kind) {
  take_allocated_bytes();
  std::string result;
  try {
    result = kind();
    if (result.empty()) {
      result = "identical";
    } else if (!allowed_.contains(result)) {
      ADD_FAILURE() << what_ << ", " << where << ": " << result;
      result = "WRONG";
    }
  } catch (const Error& error) {
    EXPECT_TRUE(is_refusal(error)) << what_ << ", " << where << ": " << error.what();
    EXPECT_FALSE(error.message().empty()) << what_ << ", " << where;
    result = "refused";
  } catch (const std::exception& error) {
    ADD_FAILURE() << what_ << ", " << where << ": " << error.what();
    result = "WRONG";
  }
  const std::size_t allocated = take_allocated_bytes();
  EXPECT_LE(allocated, kMostAllocated) << what_ << ", " << where;
  most_allocated_ = std::max(most_allocated_, allocated);
  ++counts_[result];
}

std::size_t Tally::count(const std::string& kind) const {
  const auto found = counts_.find(kind);
  return found == counts_.end() ? 0 : found->second;
}

std::size_t Tally::total() const {
  std::size_t sum = 0;
  for (const auto& [kind, number] : counts_) sum += number;
  return sum;
}

void each_cut(const std::string& file,
              const std::function<void(const std::string& cut, const std::string& where)>& use) {
  for (std::size_t size = 0; size < file.size(); ++size) {
    use(file.substr(0, size), "cut at " + std::to_string(size));
  }
}

void each_flip(const std::string& file, const std::vector<Range>& spared,
               const std::function<void(const std::string& flipped, const std::string& where,
                                        std::size_t byte)>& use) {
  std::string flipped = file;
  for (std::size_t byte = 0; byte < file.size(); ++byte) {
    const bool is_spared = std::any_of(spared.begin(), spared.end(), [&](const Range& range) {
      return byte >= range.begin && byte < range.end;
    });
    if (is_spared) continue;
    for (int bit = 0; bit < 8; ++bit) {
      flipped[byte] = static_cast<char>(file[byte] ^ (1 << bit));
      use(flipped, "bit " + std::to_string(bit) + " of byte " + std::to_string(byte), byte);
    }
    flipped[byte] = file[byte];
  }
}

}  // namespace reshardfs::damage
