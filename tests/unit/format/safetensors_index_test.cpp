// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>

#include <gtest/gtest.h>

#include "base/content_size.h"
#include "format/index/name_orders.h"
#include "format/input_format.h"
#include "format/safetensors/safetensors.h"
#include "safetensors_samples.h"
#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs::safetensors {
namespace {

using test::ChangingSource;
using test::expect_error;
using test::MemorySource;
using test::safetensors_file;
using test::tensor_json;

FileIndex index_of(const std::string& header, const std::string& data = {}) {
  return read_index(MemorySource(safetensors_file(header, data), "m.safetensors"));
}

std::vector<std::string> names_of(const FileIndex& index) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : index.entries()) names.push_back(entry.name);
  return names;
}

/// A file of one tensor "w" whose description is `value`.
void expect_refused(const std::string& value, std::initializer_list<std::string> words,
                    ErrorKind kind = ErrorKind::kBadInput) {
  SCOPED_TRACE(value);
  expect_error(kind, {"m.safetensors", "'w'"},
               [&] { index_of(R"({"w":)" + value + "}", std::string(8, 'x')); });
  expect_error(kind, words, [&] { index_of(R"({"w":)" + value + "}", std::string(8, 'x')); });
}

void expect_bad(const std::string& file, std::initializer_list<std::string> words) {
  SCOPED_TRACE(file);
  expect_error(ErrorKind::kBadInput, {"m.safetensors"},
               [&] { read_index(MemorySource(file, "m.safetensors")); });
  expect_error(ErrorKind::kBadInput, words,
               [&] { read_index(MemorySource(file, "m.safetensors")); });
}

TEST(SafetensorsIndex, FindsTypesShapesAndPlaces) {
  const std::string header = "{" + tensor_json("layer.weight", "F32", "[2,3]", 0, 24) + "," +
                             tensor_json("step", "I32", "[]", 24, 28) + "}   ";
  const FileIndex index = index_of(header, std::string(28, 'x'));
  ASSERT_EQ(names_of(index), (std::vector<std::string>{"layer.weight", "step"}));
  const TensorEntry& weight = index.entries().front();
  EXPECT_EQ(weight.dtype, DType::kFloat32);
  EXPECT_EQ(weight.shape, (Shape{2, 3}));
  EXPECT_EQ(weight.content_bytes, 24U);
  EXPECT_EQ(weight.extents, (FileExtents{{8 + header.size(), 24}}));
  const TensorEntry* step = index.find("step");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->shape, Shape{});
  EXPECT_EQ(step->extents, (FileExtents{{8 + header.size() + 24, 4}}));
}

TEST(SafetensorsIndex, OrdersByDataAndKeepsTheHeadersOrderAtOnePlace) {
  const std::string header =
      "{" + tensor_json("last", "U8", "[2]", 4, 6) + "," + tensor_json("z", "U8", "[0]", 4, 4) +
      "," + tensor_json("a", "F32", "[0,7]", 4, 4) + "," +
      tensor_json("first", "F32", "[1]", 0, 4) + "," + tensor_json("end", "U8", "[0]", 6, 6) + "}";
  const FileIndex index = index_of(header, "abcdef");
  EXPECT_EQ(names_of(index), (std::vector<std::string>{"first", "z", "a", "last", "end"}));
  EXPECT_TRUE(index.find("a")->extents.empty());
  EXPECT_EQ(index.find("a")->content_bytes, 0U);
}

TEST(SafetensorsIndex, TakesInt4FromTheMetadataWhereverItStands) {
  const std::string tensors = tensor_json("q", "I8", "[2]", 0, 2) + "," +
                              tensor_json("i", "I8", "[2]", 2, 4) + "," +
                              tensor_json("u", "U8", "[2]", 4, 6);
  const std::string metadata = R"("__metadata__":{"format":"ms","q":"Int4","u":"Int4","i":"Int8"})";
  for (const std::string& header :
       {"{" + metadata + "," + tensors + "}", "{" + tensors + "," + metadata + "}"}) {
    const FileIndex index = index_of(header, "abcdef");
    EXPECT_EQ(index.find("q")->dtype, DType::kInt4);
    EXPECT_EQ(index.find("i")->dtype, DType::kInt8);
    EXPECT_EQ(index.find("u")->dtype, DType::kUInt8);
  }
}

TEST(SafetensorsIndex, ReadsMetadata) {
  const std::string header = R"({"__metadata__":{"format":"ms","k\u00e9\n":"\"v\""},)" +
                             tensor_json("w", "U8", "[1]", 0, 1) + "}";
  const auto metadata = read_metadata(MemorySource(safetensors_file(header, "x")));
  EXPECT_EQ(metadata,
            (std::map<std::string, std::string>{{"format", "ms"}, {"k\u00e9\n", "\"v\""}}));
  EXPECT_TRUE(read_metadata(MemorySource(safetensors_file(
                                "{" + tensor_json("w", "U8", "[1]", 0, 1) + "}", "x")))
                  .empty());
}

TEST(SafetensorsIndex, ReadsMetadataWhereverItStands) {
  const std::string long_name(3000, 'n');
  std::string tensors;
  for (int i = 0; i < 50; ++i) {
    tensors += tensor_json(long_name + std::to_string(i), "U8", "[0]", 0, 0) + ",";
  }
  const std::string metadata = R"("__metadata__":{"a":"b"})";
  const std::string last = tensor_json("w", "U8", "[1]", 0, 1);
  const std::map<std::string, std::string> want{{"a", "b"}};
  EXPECT_EQ(read_metadata(
                MemorySource(safetensors_file("{" + metadata + "," + tensors + last + "}", "x"))),
            want);
  EXPECT_EQ(read_metadata(
                MemorySource(safetensors_file("{" + tensors + last + "," + metadata + "}", "x"))),
            want);
  const std::string text(200'000, 't');
  const MemorySource large(
      safetensors_file(R"({"__metadata__":{"a":")" + text + "\"}," + last + "}", "x"));
  EXPECT_EQ(read_metadata(large).at("a"), text);
  expect_error(ErrorKind::kBadInput, {"appears twice"}, [] {
    read_metadata(MemorySource(safetensors_file(R"({"__metadata__":{"a":"1","a":"2"}})", "")));
  });
}

TEST(SafetensorsIndex, ReadsEscapedAndRawNames) {
  const FileIndex index =
      index_of("{" + tensor_json(R"(\u5c42\/\"\ud83d\ude00)", "U8", "[1]", 0, 1) + "," +
                   tensor_json("层.é", "U8", "[1]", 1, 2) + "}",
               "ab");
  EXPECT_EQ(names_of(index), (std::vector<std::string>{"层/\"😀", "层.é"}));
}

TEST(SafetensorsIndex, KnowsEveryElementType) {
  for (int i = 0; i <= static_cast<int>(DType::kComplex64); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!is_array(dtype) || dtype == DType::kInt4) continue;
    const auto bytes = static_cast<std::uint64_t>(content_size({4}, dtype, "size"));
    const FileIndex index = index_of(
        "{" + tensor_json("w", std::string(safetensors_name(dtype)), "[4]", 0, bytes) + "}",
        std::string(bytes, 'x'));
    EXPECT_EQ(index.entries().front().dtype, dtype);
  }
  expect_refused(R"({"dtype":"F4","shape":[3],"data_offsets":[0,8]})",
                 {"3 elements of Float4E2M1 do not fill whole bytes"});
  expect_refused(R"({"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,8]})",
                 {"hold 8 bytes, but F6_E2M3 [4] needs 3"});
}

TEST(SafetensorsIndex, ListsTensorsOfUnknownTypesApart) {
  for (const std::string name : {"F4_E2M1", "F8_E9M0", "C128", "f32", "", "Float32"}) {
    const FileIndex index = index_of("{" + tensor_json("a", "U8", "[2]", 0, 2) + "," +
                                         tensor_json("odd", name, "[3]", 2, 9) + "," +
                                         tensor_json("z", "U8", "[1]", 9, 10) + "}",
                                     "aaoooooooz");
    EXPECT_EQ(names_of(index), (std::vector<std::string>{"a", "z"}));
    ASSERT_EQ(index.refused().size(), 1U);
    EXPECT_EQ(index.refused()[0].name, "odd");
    EXPECT_EQ(index.refused()[0].reason, "its element type '" + name + "' is not known");
  }
  // Where it stands and what it is called is checked all the same.
  expect_bad(safetensors_file("{" + tensor_json("odd", "Q4", "[3]", 1, 5) + "}", "abcde"),
             {"begins at byte 1"});
  expect_bad(safetensors_file("{" + tensor_json("odd", "Q4", "[3]", 0, 2) + "," +
                                  tensor_json("odd", "U8", "[2]", 2, 4) + "}",
                              "abcd"),
             {"appears twice"});
}

TEST(SafetensorsIndex, RefusesWhatIsNoSafetensorsFile) {
  expect_bad("", {"has only 0 bytes"});
  expect_bad(std::string(7, '\0'), {"has only 7 bytes"});
  expect_bad(std::string(8, '\0'), {"does not begin with {"});
  expect_bad(safetensors_file(" {}"), {"does not begin with {"});
  expect_bad(safetensors_file("[]"), {"does not begin with {"});
  expect_bad(std::string("\x0a\x2c\x0a\x01w\x12\x27\x08\x02\x08\x03", 11),
             {"the limit is 100000000"});
}

TEST(SafetensorsIndex, ChecksTheHeadersLengthBeforeItAllocates) {
  const auto length = [](std::uint64_t value) {
    std::string bytes;
    for (unsigned i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
    return bytes;
  };
  expect_bad(length(100'000'001) + "{}", {"100000001", "the limit is 100000000"});
  expect_bad(length(~0ULL) + "{}", {"18446744073709551615"});
  expect_bad(length(100'000'000) + "{}", {"100000000 bytes, but only 2 are left", "not complete"});
  expect_bad(length(3) + "{}", {"3 bytes, but only 2 are left"});
}

TEST(SafetensorsIndex, RefusesAFileWithoutParameters) {
  expect_bad(safetensors_file("{}"), {"holds no parameter"});
  expect_bad(safetensors_file(R"({"__metadata__":{"format":"ms"}})"), {"holds no parameter"});
}

TEST(SafetensorsIndex, RefusesWrongJson) {
  const std::string good = "{" + tensor_json("w", "U8", "[1]", 0, 1) + "}";
  for (const std::string& text :
       {good + "{}", good + ",}", "{" + good + "}", good.substr(0, 20) + "}",
        std::string("{\"\xff\":1}"), std::string(R"({"\ud800":1})"), std::string("{/**/}"),
        std::string("{\"a\nb\":1}")}) {
    expect_bad(safetensors_file(text, "x"), {"offset", "its header is not valid JSON"});
  }
}

TEST(SafetensorsIndex, TakesNothingButSpacesForPadding) {
  const std::string good = "{" + tensor_json("w", "U8", "[1]", 0, 1) + "}";
  EXPECT_EQ(index_of(good + std::string(100, ' '), "x").entries().size(), 1U);
  for (const std::string padding : {"\n", "\t", "\r", " \n ", "x"}) {
    expect_bad(safetensors_file(good + padding, "x"), {"does not end with }"});
  }
  expect_bad(safetensors_file(good + std::string(8, '\0'), "x"), {"holds a NUL byte"});
  expect_bad(safetensors_file(good + std::string("\0}", 2), "x"), {"holds a NUL byte"});
}

TEST(SafetensorsIndex, RefusesWrongMetadata) {
  const auto with = [](const std::string& metadata) {
    return safetensors_file(
        R"({"__metadata__":)" + metadata + "," + tensor_json("w", "U8", "[1]", 0, 1) + "}", "x");
  };
  expect_bad(with("null"), {"'__metadata__' is null, expected an object"});
  expect_bad(with("[]"), {"'__metadata__' is a list"});
  expect_bad(with(R"("text")"), {"'__metadata__' is a text"});
  expect_bad(with("7"), {"'__metadata__' is the number 7"});
  expect_bad(with(R"({"a":1})"), {"key 'a' is the number 1, expected a text"});
  expect_bad(with(R"({"a":{}})"), {"key 'a' is an object, expected a text"});
  expect_bad(with(R"({"a":["b"]})"), {"key 'a' is a list, expected a text"});
  expect_bad(with(R"({"a":true})"), {"key 'a' is a boolean"});
  expect_bad(with(R"({"a":"b","a":"b"})"), {"key 'a' appears twice"});
  expect_bad(with(R"({},"__metadata__":{})"), {"'__metadata__' appears twice"});
}

TEST(SafetensorsIndex, RefusesWrongDescriptions) {
  const std::string dtype = R"("dtype":"F32")";
  const std::string shape = R"("shape":[2])";
  const std::string offsets = R"("data_offsets":[0,8])";
  const auto refused = [](const std::string& members, std::initializer_list<std::string> words) {
    expect_refused("{" + members + "}", words);
  };
  EXPECT_EQ(index_of(R"({"w":{)" + offsets + "," + shape + "," + dtype + "}}", "12345678")
                .entries()
                .size(),
            1U);
  refused("", {"'dtype' is missing"});
  refused(dtype + "," + offsets, {"'shape' is missing"});
  refused(dtype + "," + shape, {"'data_offsets' is missing"});
  refused(dtype + "," + shape + "," + offsets + "," + shape, {"'shape' appears twice"});
  refused(dtype + "," + shape + "," + offsets + R"(,"strides":[1])", {"unknown key 'strides'"});
  refused(shape + "," + offsets + R"(,"dtype":4)", {"its dtype is the number 4, expected a text"});
  refused(shape + "," + offsets + R"(,"dtype":["F32"])", {"its dtype is a list"});
  refused(shape + "," + offsets + R"(,"dtype":{})", {"its dtype is an object"});
  refused(dtype + "," + offsets + R"(,"shape":2)", {"its shape is the number 2, expected a list"});
  refused(dtype + "," + offsets + R"(,"shape":"[2]")", {"its shape is a text"});
  refused(dtype + "," + offsets + R"(,"shape":[[2]])", {"its shape has a list"});
  refused(dtype + "," + offsets + R"(,"shape":[{}])", {"its shape has an object"});
  refused(dtype + "," + offsets + R"(,"shape":["2"])", {"its shape has a text"});
  refused(dtype + "," + offsets + R"(,"shape":[-2])", {"has -2, expected non-negative"});
  refused(dtype + "," + offsets + R"(,"shape":[2.0])", {"its shape has the number 2.0"});
  refused(dtype + "," + offsets + R"(,"shape":[null])", {"its shape has null"});
  refused(dtype + "," + shape + R"(,"data_offsets":[0])", {"has 1 numbers, expected two"});
  refused(dtype + "," + shape + R"(,"data_offsets":[])", {"has 0 numbers, expected two"});
  refused(dtype + "," + shape + R"(,"data_offsets":[0,8,8])", {"more than two numbers"});
  refused(dtype + "," + shape + R"(,"data_offsets":[0,-8])", {"has -8"});
  refused(dtype + "," + shape + R"(,"data_offsets":[0,8e0])", {"the number 8e0"});
  refused(dtype + "," + shape + R"(,"data_offsets":{})", {"its data_offsets is an object"});
  expect_refused("null", {"is null, expected an object"});
  expect_refused("[]", {"is a list, expected an object"});
  expect_refused("3", {"is the number 3, expected an object"});
}

TEST(SafetensorsIndex, RefusesNumbersBeyondTheirRange) {
  const auto refused = [](const std::string& shape, const std::string& offsets,
                          std::initializer_list<std::string> words) {
    expect_refused(R"({"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}",
                   words);
  };
  refused("[18446744073709551615]", "[0,8]", {"dimension 18446744073709551615"});
  refused("[18446744073709551616]", "[0,8]", {"the number 18446744073709551616"});
  refused("[4611686018427387904,2]", "[0,8]", {"elements"});
  refused("[4611686018427387904]", "[0,8]", {"64-bit"});
  refused("[2]", "[0,18446744073709551616]", {"the number 18446744073709551616"});
  refused("[2]", "[8,0]", {"[8, 0] end before they begin"});
  refused("[2]", "[18446744073709551608,0]", {"end before they begin"});
  refused("[2]", "[0,4]", {"hold 4 bytes, but F32 [2] needs 8"});
  refused("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", "[0,8]", {"more than 16 dimensions"});
}

TEST(SafetensorsIndex, RefusesHolesOverlapsAndBytesTooManyOrTooFew) {
  const auto two = [](std::uint64_t begin, std::uint64_t bytes) {
    return safetensors_file("{" + tensor_json("w", "F32", "[2]", begin, begin + 8) + "," +
                                tensor_json("v", "U8", "[4]", 0, 4) + "}",
                            std::string(bytes, 'x'));
  };
  EXPECT_EQ(read_index(MemorySource(two(4, 12))).entries().size(), 2U);
  expect_bad(two(5, 13), {"'w'", "begins at byte 5", "ends at 4"});
  expect_bad(two(3, 11), {"'w'", "begins at byte 3", "overlaps another tensor up to 4"});
  expect_bad(two(4, 13), {"1 bytes follow the last tensor"});
  expect_bad(two(4, 11), {"'w'", "ends at byte 12", "only 11", "not complete"});
  expect_refused(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", {"begins at byte 4"});
}

TEST(SafetensorsIndex, RefusesWrongNames) {
  const auto two = [](const std::string& a, const std::string& b) {
    return safetensors_file(
        "{" + tensor_json(a, "U8", "[1]", 0, 1) + "," + tensor_json(b, "U8", "[1]", 1, 2) + "}",
        "xy");
  };
  expect_bad(two("", "w"), {"empty name"});
  expect_bad(two("w", "w"), {"'w'", "appears twice"});
  expect_bad(two("w", R"(\u0077)"), {"'w'", "appears twice"});
  const MemorySource same_place(safetensors_file(
      "{" + tensor_json("w", "U8", "[1]", 0, 1) + "," + tensor_json("w", "U8", "[1]", 0, 1) + "}",
      "x"));
  expect_error(ErrorKind::kBadInput, {"'w'", "appears twice"}, [&] { read_index(same_place); });
  expect_bad(two("w", std::string(4097, 'n')), {"4097 bytes", "4096"});
  EXPECT_EQ(read_index(MemorySource(two("w", std::string(4096, 'n')))).entries().size(), 2U);
}

TEST(SafetensorsIndex, SaysThatAFileChangedRatherThanThatItIsDamaged) {
  for (const std::string& data : {std::string("x"), std::string()}) {
    const std::string file =
        safetensors_file("{" + tensor_json("w", "U8", "[1]", 0, 1) + "}", data);
    const ChangingSource source(std::make_shared<MemorySource>(file), 2);
    expect_error(ErrorKind::kChanged, {"changed"}, [&] { read_index(source); });
    expect_error(ErrorKind::kChanged, {"changed"}, [&] { read_metadata(source); });
  }
}

TEST(SafetensorsIndex, SharesTheOrderByNameOfFilesWithTheSameNames) {
  const MemorySource source(safetensors_file(
      "{" + tensor_json("w", "U8", "[1]", 0, 1) + "," + tensor_json("b", "U8", "[1]", 1, 2) + "}",
      "xy"));
  NameOrders known;
  const auto first = std::make_shared<const FileIndex>(read_index(source, &known));
  known.add(first);
  EXPECT_EQ(read_index(source, &known).name_order(), first->name_order());
}

TEST(SafetensorsIndex, IsFoundByTheFilesName) {
  EXPECT_EQ(input_format_of("a/b.safetensors").name, "safetensors");
  EXPECT_EQ(input_format_of("a/b.ckpt").name, "ckpt");
}

TEST(SafetensorsCrc, IsOverNamesAndContentsInTheOrderOfNames) {
  const std::filesystem::path dir = std::filesystem::path(RESHARDFS_GOLDEN_DIR) / "crc_files/src";
  EXPECT_EQ(check_crc(*open_local_file(dir / "good.safetensors")), CrcCheck::kGood);
  EXPECT_EQ(check_crc(*open_local_file(dir / "bad.safetensors")), CrcCheck::kBad);
  EXPECT_EQ(read_metadata(*open_local_file(dir / "bad.safetensors")).at("format"), "ms");
}

TEST(SafetensorsCrc, ReadsContentsThatAreLongerThanABlock) {
  // The CRC-32 of "w" and 3000000 bytes 'x', worked out with Python's zlib.
  const auto checked = [](const std::string& number) {
    return check_crc(
        MemorySource(safetensors_file(R"({"__metadata__":{"crc_num":")" + number + R"("},)" +
                                          tensor_json("w", "U8", "[3000000]", 0, 3'000'000) + "}",
                                      std::string(3'000'000, 'x'))));
  };
  EXPECT_EQ(checked("1162550760"), CrcCheck::kGood);
  for (const std::string wrong :
       {"0", "", "x", " 1162550760", "1162550760 ", "-1", "4294967296", "99999999999999999999"}) {
    EXPECT_EQ(checked(wrong), CrcCheck::kBad) << wrong;
  }
}

TEST(SafetensorsCrc, IsAbsentInMostFiles) {
  const MemorySource source(safetensors_file("{" + tensor_json("w", "U8", "[1]", 0, 1) + "}", "x"));
  EXPECT_EQ(check_crc(source), CrcCheck::kNoTrailer);
}

}  // namespace
}  // namespace reshardfs::safetensors
