// SPDX-License-Identifier: Apache-2.0
/// Strategy files for tests: temporary directories, the bytes of protobuf fields written by hand
/// (so that the tests do not depend on the code they test), and what loading refuses.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

namespace reshardfs::testing {

using Lists = std::vector<std::vector<std::int64_t>>;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "reshardfs-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string varint(std::uint64_t number) {
  std::string out;
  for (; number >= 0x80; number >>= 7U) out += static_cast<char>((number & 0x7fU) | 0x80U);
  return out + static_cast<char>(number);
}

inline std::string number_field(int field, std::int64_t number) {
  return varint(static_cast<std::uint64_t>(field) << 3U) +
         varint(static_cast<std::uint64_t>(number));
}

inline std::string bytes_field(int field, const std::string& bytes) {
  return varint((static_cast<std::uint64_t>(field) << 3U) | 2U) + varint(bytes.size()) + bytes;
}

inline std::string lists_field(int field, const Lists& lists) {
  std::string out;
  for (const auto& list : lists) {
    std::string message;
    for (const std::int64_t number : list) message += number_field(1, number);
    out += bytes_field(field, message);
  }
  return out;
}

/// A layout as the messages of a protobuf file have it.
struct LayoutMessages {
  Lists dev_matrix;
  Lists tensor_map;
  std::int64_t step = 0;
  std::int64_t size = 0;
  Lists param_split_shape = {{}};
  Lists indices_offset = {{}};
  std::int64_t field = 0;
};

inline std::string layout_item(const std::string& name, const LayoutMessages& layout) {
  return bytes_field(
      3,
      bytes_field(1, name) +
          bytes_field(2, lists_field(1, layout.dev_matrix) + lists_field(2, layout.tensor_map) +
                             lists_field(3, layout.param_split_shape) +
                             lists_field(4, layout.indices_offset) + number_field(5, layout.field) +
                             number_field(6, layout.step) + number_field(7, layout.size)));
}

inline std::string operator_item(const std::string& name, std::int64_t stage) {
  return bytes_field(
      2, bytes_field(1, name) + bytes_field(2, number_field(1, stage) + lists_field(2, {{1, 1}})));
}

inline std::string current_stage() {
  return number_field(1, 1);
}

/// A file of one parameter, laid out [0, -1] over `devices`.
inline std::string simple_file(const std::string& name, std::int64_t stage, std::int64_t devices) {
  return current_stage() + operator_item("MatMul-op0", stage) +
         layout_item(name, {{{devices}}, {{0, -1}}});
}

inline Strategy load_bytes(const std::string& bytes, const std::string& name = "s.ckpt") {
  const TemporaryDirectory directory;
  return Strategy::load(directory.write(name, bytes));
}

inline Layout load_layout(const LayoutMessages& messages) {
  return load_bytes(current_stage() + layout_item("w", messages)).stage(0).at("w");
}

/// The error of loading `path`.
inline std::optional<Error> error_of(const std::filesystem::path& path) {
  try {
    Strategy::load(path);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// What loading a file of these bytes says, after the name of the file, which must come first.
inline std::string refusal(const std::string& bytes, const std::string& name = "s.ckpt") {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.write(name, bytes);
  const std::optional<Error> error = error_of(path);
  if (!error) return "accepted";
  EXPECT_EQ(error->kind(), ErrorKind::kBadInput);
  EXPECT_EQ(error->file(), path.string());
  const std::string text = error->what();
  return text.substr(std::min(text.size(), path.string().size() + 2));
}

inline std::vector<StageLayouts> stages_of(const Strategy& strategy) {
  std::vector<StageLayouts> stages;
  for (std::int64_t i = 0; i < strategy.stage_count(); ++i) stages.push_back(strategy.stage(i));
  return stages;
}

/// The layouts without what only JSON files have.
inline std::vector<StageLayouts> without_shapes(std::vector<StageLayouts> stages) {
  for (StageLayouts& stage : stages) {
    for (const auto& [name, layout] : StageLayouts(stage)) {
      Layout without = layout;
      without.tensor_shape.clear();
      stage.insert_or_assign(name, without);
    }
  }
  return stages;
}

}  // namespace reshardfs::testing
