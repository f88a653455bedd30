// SPDX-License-Identifier: Apache-2.0
#include "format/json/json_members.h"

#include <algorithm>
#include <string>
#include <vector>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// The bytes of a source, a block at a time.
class SourceInput final : public JsonInput {
 public:
  explicit SourceInput(const ByteSource& source) : source_(source), block_(kBlockBytes) {}

  std::string_view next_bytes() override {
    const std::uint64_t left = source_.size() - at_;
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, block_.size()));
    if (size > 0) source_.read_at(at_, std::as_writable_bytes(std::span(block_).first(size)));
    at_ += size;
    return {block_.data(), size};
  }

 private:
  static constexpr std::size_t kBlockBytes = 256 << 10;

  const ByteSource& source_;
  std::vector<char> block_;
  std::uint64_t at_ = 0;
};

/// The value that the reader stands at: a member.
void read_member(JsonReader& reader, const std::string& name, const JsonLimits& limits,
                 JsonNodes& out) {
  try {
    read_json_value(reader, limits, out);
  } catch (Error& error) {
    if (error.kind() == ErrorKind::kBadInput) error.for_parameter(name);
    throw;
  }
}

}  // namespace

void read_json_members(const ByteSource& source, std::span<const std::string_view> objects,
                       std::span<const std::string_view> unneeded, const TakeMember& take) {
  const JsonLimits limits{kMaxMemberValues, kMaxMemberTextBytes, kMaxMemberKeys, unneeded};
  SourceInput input(source);
  JsonReader reader(input, {.max_depth = kMaxMemberDepth});
  if (reader.kind() != JsonKind::kObject) {
    throw Error(ErrorKind::kBadInput, "holds no JSON object");
  }
  JsonNodes value;
  std::vector<bool> found(objects.size(), false);
  reader.enter();
  while (reader.next()) {
    const auto known = std::find(objects.begin(), objects.end(), reader.key());
    if (known == objects.end()) continue;
    const auto number = static_cast<std::size_t>(known - objects.begin());
    const std::string object(*known);
    if (found[number]) throw Error(ErrorKind::kBadInput, "its " + object + " appears twice");
    found[number] = true;
    if (reader.kind() != JsonKind::kObject) {
      throw Error(ErrorKind::kBadInput, "its " + object + " is not an object");
    }
    reader.enter();
    while (reader.next()) {
      const std::string name(reader.key());
      read_member(reader, name, limits, value);
      take(*known, name, JsonValue(value, 0));
    }
  }
  reader.finish();
  const auto missing = std::find(found.begin(), found.end(), false);
  if (missing == found.end()) return;
  throw Error(ErrorKind::kBadInput,
              "its " + std::string(objects[static_cast<std::size_t>(missing - found.begin())]) +
                  " is missing");
}

}  // namespace reshardfs
