// SPDX-License-Identifier: Apache-2.0
#include "format/safetensors/safetensors_writer.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "format/safetensors/safetensors.h"
#include "safetensors_samples.h"
#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs::safetensors {
namespace {

using test::expect_error;
using test::MemorySource;
using test::safetensors_file;
using test::tensor_json;

const Metadata kFormatMs{{"format", "ms"}};

TEST(SafetensorsWriter, WritesTheCompactHeader) {
  const std::vector<HeaderTensor> tensors{
      {"b", DType::kInt8, {5}}, {"w", DType::kFloat32, {2, 3}}, {"s", DType::kInt32, {}}};
  const Header header = make_header(tensors, kFormatMs);
  const std::string text =
      R"({"__metadata__":{"format":"ms"},)" + tensor_json("w", "F32", "[2,3]", 0, 24) + "," +
      tensor_json("s", "I32", "[]", 24, 28) + "," + tensor_json("b", "I8", "[5]", 28, 33) + "}";
  ASSERT_NE(text.size() % 8, 0U) << "a sample that needs padding";
  EXPECT_EQ(header.bytes, safetensors_file(text + std::string(8 - text.size() % 8, ' ')));
  EXPECT_EQ(header.order, (std::vector<std::size_t>{1, 2, 0}));
  EXPECT_EQ(header.data_offsets, (std::vector<std::uint64_t>{28, 0, 24}));
  EXPECT_EQ(header.data_bytes, 33U);
  EXPECT_EQ(header.file_bytes(), header.bytes.size() + 33);
}

TEST(SafetensorsWriter, PutsSomeBeforeOthersOfTheirType) {
  const std::vector<HeaderTensor> tensors{{"a", DType::kInt8, {1}},
                                          {"b", DType::kFloat32, {1}},
                                          {"c", DType::kFloat32, {1}, true},
                                          {"d", DType::kInt8, {1}, true},
                                          {"e", DType::kFloat32, {1}, true}};
  EXPECT_EQ(make_header(tensors, {}).order, (std::vector<std::size_t>{2, 4, 1, 3, 0}));
}

TEST(SafetensorsWriter, LeavesOutEmptyMetadataAndKeepsTheGivenOrder) {
  EXPECT_EQ(make_header({}, {}).bytes, safetensors_file("{}      "));
  const Metadata metadata{{"z", "1"}, {"a", "2"}};
  EXPECT_EQ(make_header({}, metadata).bytes,
            safetensors_file(R"({"__metadata__":{"z":"1","a":"2"}} )" + std::string(5, ' ')));
}

TEST(SafetensorsWriter, SortsByTypeThenByTheBytesOfTheName) {
  const std::vector<std::string> order{"U64",     "I64",     "F64", "F32", "U32",
                                       "I32",     "BF16",    "F16", "U16", "I16",
                                       "F8_E4M3", "F8_E5M2", "I8",  "U8",  "BOOL"};
  std::deque<std::string> names;
  std::vector<HeaderTensor> tensors;
  for (const std::string name : {"é", "z", "a", "Z", "a.b"}) {
    for (auto type = order.rbegin(); type != order.rend(); ++type) {
      names.push_back(*type + name);
      tensors.push_back({names.back(), *dtype_from_safetensors(*type), {2}});
    }
  }
  std::vector<std::string> expected;
  for (const std::string& type : order) {
    for (const std::string name : {"Z", "a", "a.b", "z", "é"}) expected.push_back(type + name);
  }
  std::vector<std::string> found;
  for (const std::size_t at : make_header(tensors, {}).order) found.emplace_back(tensors[at].name);
  EXPECT_EQ(found, expected);
}

TEST(SafetensorsWriter, TakesTheOrderOfNamesFromWhoeverKnowsIt) {
  const std::vector<HeaderTensor> tensors{
      {"b", DType::kUInt8, {1}}, {"c", DType::kFloat32, {1}}, {"a", DType::kUInt8, {2}}};
  const std::vector<std::uint32_t> by_name{2, 0, 1};
  EXPECT_EQ(make_header(tensors, kFormatMs, 8, by_name).bytes,
            make_header(tensors, kFormatMs).bytes);
  for (const std::vector<std::uint32_t>& wrong :
       {std::vector<std::uint32_t>{0, 1, 2}, {2, 0}, {2, 2, 1}, {2, 0, 3}}) {
    expect_error(ErrorKind::kInternal, {"order"},
                 [&] { make_header(tensors, kFormatMs, 8, wrong); });
  }
  const std::vector<HeaderTensor> twice{{"w", DType::kUInt8, {}}, {"w", DType::kInt8, {}}};
  expect_error(ErrorKind::kBadInput, {"'w'", "twice"}, [&] {
    make_header(twice, {}, 8, std::vector<std::uint32_t>{0, 1});
  });
}

TEST(SafetensorsWriter, WritesInt4AsInt8AmongThem) {
  const std::vector<HeaderTensor> tensors{{"c", DType::kInt8, {1}},
                                          {"b", DType::kInt4, {1}},
                                          {"a", DType::kInt8, {1}},
                                          {"u", DType::kUInt8, {1}}};
  const Header header = make_header(tensors, {{"b", "Int4"}});
  EXPECT_EQ(header.order, (std::vector<std::size_t>{2, 1, 0, 3}));
  const FileIndex index = read_index(MemorySource(header.bytes + "abcd"));
  EXPECT_EQ(index.find("b")->dtype, DType::kInt4);
  EXPECT_EQ(index.find("a")->dtype, DType::kInt8);
}

TEST(SafetensorsWriter, EscapesWhatTheLibraryEscapes) {
  const auto name_text = [](const std::string& name) {
    const std::string bytes =
        make_header(std::vector<HeaderTensor>{{name, DType::kUInt8, {1}}}, {}).bytes;
    return bytes.substr(9, bytes.find(R"(:{"dtype")") - 9);
  };
  EXPECT_EQ(name_text("a\"b\\c/d"), R"("a\"b\\c/d")");
  EXPECT_EQ(name_text("\b\f\n\r\t"), R"("\b\f\n\r\t")");
  EXPECT_EQ(name_text(std::string("\0\x01\x0b\x1f", 4)), R"("\u0000\u0001\u000b\u001f")");
  EXPECT_EQ(name_text("\x7f层é\u2028😀"), "\"\x7f层é\u2028😀\"");
}

TEST(SafetensorsWriter, AlignsTheData) {
  const std::vector<HeaderTensor> tensors{{"w", DType::kUInt8, {3}}, {"v", DType::kFloat32, {1}}};
  for (std::uint64_t align = 8; align <= 65536; align *= 2) {
    const Header header = make_header(tensors, kFormatMs, align);
    EXPECT_EQ(header.bytes.size() % align, 0U);
    const FileIndex index = read_index(MemorySource(header.bytes + "1234567"));
    EXPECT_EQ(index.find("v")->extents.front().offset(), header.bytes.size());
    EXPECT_EQ(index.find("w")->extents.front().offset(), header.bytes.size() + 4);
  }
  for (const std::uint64_t align : {0ULL, 4ULL, 12ULL}) {
    expect_error(ErrorKind::kInternal, {"aligned"}, [&] { make_header(tensors, {}, align); });
  }
}

TEST(SafetensorsWriter, RefusesWhatTheFormatCannotHold) {
  const auto one = [](const std::string& name, DType dtype = DType::kUInt8, Shape shape = {}) {
    make_header(std::vector<HeaderTensor>{{name, dtype, std::move(shape)}}, {});
  };
  expect_error(ErrorKind::kUnsupported, {"UTF-8", "\\xff"}, [&] { one("a\xff"); });
  expect_error(ErrorKind::kUnsupported, {"'__metadata__'"}, [&] { one("__metadata__"); });
  expect_error(ErrorKind::kUnsupported, {"name"}, [&] { one(""); });
  expect_error(ErrorKind::kInternal, {"'s'"}, [&] { one("s", DType::kString); });
  expect_error(ErrorKind::kInternal, {"'m'"}, [&] { one("m", DType::kMap); });
  expect_error(ErrorKind::kBadInput, {"'w'", "64-bit"},
               [&] { one("w", DType::kFloat32, {std::int64_t{1} << 62}); });
  expect_error(ErrorKind::kUnsupported, {"UTF-8"}, [&] { make_header({}, {{"k", "\xff"}}); });
  const std::vector<HeaderTensor> twice{{"w", DType::kUInt8, {}}, {"w", DType::kInt8, {}}};
  expect_error(ErrorKind::kBadInput, {"'w'", "twice"}, [&] { make_header(twice, {}); });
  const std::int64_t half = std::int64_t{1} << 62;
  const std::vector<HeaderTensor> huge{{"a", DType::kUInt8, {half}}, {"b", DType::kUInt8, {half}}};
  expect_error(ErrorKind::kBadInput, {"'b'", "64-bit"}, [&] { make_header(huge, {}); });
  expect_error(ErrorKind::kUnsupported, {"134217720 bytes", "100000000"},
               [&] { make_header({}, {}, 1ULL << 27U); });
}

TEST(SafetensorsWriter, AgreesWithTheReaderForRandomTensors) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::vector<HeaderTensor> tensors(1 + random() % 20);
    std::vector<std::string> names(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      names[i] = std::string(random() % 5, static_cast<char>(1 + random() % 127)) + "é" +
                 std::to_string(i);
      tensors[i].name = names[i];
      tensors[i].dtype = static_cast<DType>(random() % static_cast<unsigned>(DType::kString));
      tensors[i].shape.resize(random() % 4);
      for (std::int64_t& dim : tensors[i].shape) dim = static_cast<std::int64_t>(random() % 4);
    }
    const Header header = make_header(tensors, kFormatMs);
    EXPECT_EQ(file_bytes(tensor_bytes(tensors), kFormatMs), header.file_bytes());
    EXPECT_EQ(file_bytes(tensor_bytes(tensors), {}, 4096),
              make_header(tensors, {}, 4096).file_bytes());
    const FileIndex index =
        read_index(MemorySource(header.bytes + std::string(header.data_bytes, 'x')));
    ASSERT_EQ(index.entries().size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const TensorEntry* entry = index.find(tensors[i].name);
      ASSERT_NE(entry, nullptr);
      EXPECT_EQ(safetensors_name(entry->dtype), safetensors_name(tensors[i].dtype));
      EXPECT_EQ(entry->shape, tensors[i].shape);
      if (entry->content_bytes == 0) continue;
      EXPECT_EQ(entry->extents.front().offset(), header.bytes.size() + header.data_offsets[i]);
    }
  }
}

TEST(SafetensorsWriter, ReproducesGoldenFilesByteForByte) {
  std::size_t files = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(RESHARDFS_GOLDEN_DIR)) {
    const std::string path = file.path().string();
    if (file.path().extension() != ".safetensors") continue;
    SCOPED_TRACE(path);
    const ByteSourcePtr source = open_local_file(file.path());
    const FileIndex index = read_index(*source);
    std::vector<HeaderTensor> tensors;
    for (const TensorEntry& entry : index.entries()) {
      tensors.push_back({entry.name, entry.dtype, entry.shape});
    }
    // What is given in file order would hide that nothing is sorted.
    std::reverse(tensors.begin(), tensors.end());
    Metadata metadata;
    for (const auto& pair : read_metadata(*source)) metadata.emplace_back(pair);
    if (metadata.size() > 1) continue;
    const Header header = make_header(tensors, metadata);
    std::string expected(header.bytes.size(), '\0');
    ASSERT_EQ(header.file_bytes(), source->size());
    source->read_at(0, std::as_writable_bytes(std::span(expected)));
    EXPECT_EQ(header.bytes, expected);
    ++files;
  }
  EXPECT_GE(files, 50U);
}

}  // namespace
}  // namespace reshardfs::safetensors
