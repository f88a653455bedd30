// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "format/ckpt/ckpt.h"
#include "format/ckpt/ckpt_scanner.h"
#include "support/errors.h"
#include "support/sources.h"
#include "support/wire.h"

namespace reshardfs::ckpt {
namespace {

using test::expect_error;
using test::MemorySource;
using test::record;
using test::record_of;
using test::small_record;

FileIndex index_of(const std::string& file) {
  return read_index(MemorySource(file));
}

void expect_bad(const std::string& file, std::initializer_list<std::string> words) {
  expect_error(ErrorKind::kBadInput, words, [&] { index_of(file); });
  expect_error(ErrorKind::kBadInput, {"memory.ckpt"}, [&] { index_of(file); });
}

TEST(CkptIndex, FindsWhatFormatsDescribes) {
  const std::string content(24, 'x');
  const std::string text("a\0\0\0b\0\0\0", 8);
  const std::string file = record("w", {2, 3}, "Float32", content) + record("s", {0}, "str", text);
  const FileIndex index = index_of(file);
  ASSERT_EQ(index.entries().size(), 2U);
  const TensorEntry* w = index.find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->dtype, DType::kFloat32);
  EXPECT_EQ(w->shape, (Shape{2, 3}));
  EXPECT_EQ(w->content_bytes, 24U);
  EXPECT_EQ(w->encoding, ContentEncoding::kPlain);
  EXPECT_EQ(w->extents, (FileExtents{{file.find(content), 24}}));
  const TensorEntry* s = index.find("s");
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(s->dtype, DType::kString);
  EXPECT_EQ(s->shape, Shape{});
  EXPECT_EQ(s->content_bytes, 8U);
  EXPECT_EQ(s->extents, (FileExtents{{file.size() - 8, 8}}));
  EXPECT_EQ(index.find("x"), nullptr);
  EXPECT_EQ(index.find(""), nullptr);
}

TEST(CkptIndex, ReadsBothWaysOfWritingAScalar) {
  for (const std::vector<std::int64_t>& dims : {std::vector<std::int64_t>{}, {0}}) {
    const FileIndex index = index_of(record("n", dims, "Int32", "abcd"));
    EXPECT_EQ(index.find("n")->shape, Shape{});
    EXPECT_EQ(index.find("n")->content_bytes, 4U);
  }
  EXPECT_EQ(index_of(record("n", {1}, "Int32", "abcd")).find("n")->shape, Shape{1});
  expect_bad(record("n", {0}, "Int32", "abcdefgh"), {"'n'", "8 bytes", "needs 4"});
}

TEST(CkptIndex, ReadsParametersWithoutElements) {
  EXPECT_EQ(index_of(record("e", {0}, "Int32", "")).find("e")->shape, Shape{0});
  const FileIndex index = index_of(record("e", {4, 0}, "Int32", ""));
  EXPECT_EQ(index.find("e")->shape, (Shape{4, 0}));
  EXPECT_EQ(index.find("e")->content_bytes, 0U);
  EXPECT_TRUE(index.find("e")->extents.empty());
  expect_bad(record("e", {4, 0}, "Int32", "abcd"), {"'e'", "4 bytes", "needs 0"});
}

TEST(CkptIndex, AcceptsAnyFieldOrder) {
  const std::string unknown = test::number(9, 5) + test::bytes(15, "abc") +
                              "\x5d"
                              "1234"
                              "\x51"
                              "12345678";
  const std::string tensor = unknown + test::bytes(3, "abcdefgh") + test::number(1, 2) +
                             test::bytes(2, "Float16") + unknown + test::bytes(1, test::varint(2));
  const std::string file =
      unknown + test::bytes(1, test::bytes(2, tensor) + unknown + test::bytes(1, "w")) + unknown;
  const FileIndex index = index_of(file);
  EXPECT_EQ(index.find("w")->shape, (Shape{2, 2}));
  EXPECT_EQ(index.find("w")->extents, (FileExtents{{file.find("abcdefgh"), 8}}));
}

TEST(CkptIndex, MergesRepeatedFieldsAsProtobufDoes) {
  const std::string first = test::dims({2}) + test::bytes(2, "Int8") + test::bytes(3, "zz");
  const std::string second = test::dims({3}) + test::bytes(2, "Bool") + test::bytes(3, "abcdef");
  const std::string file = test::bytes(1, test::bytes(1, "old") + test::bytes(2, first) +
                                              test::bytes(2, second) + test::bytes(1, "new"));
  const FileIndex index = index_of(file);
  EXPECT_EQ(index.find("old"), nullptr);
  EXPECT_EQ(index.find("new")->dtype, DType::kBool);
  EXPECT_EQ(index.find("new")->shape, (Shape{2, 3}));
  EXPECT_EQ(index.find("new")->extents, (FileExtents{{file.find("abcdef"), 6}}));
}

TEST(CkptIndex, SkipsKnownFieldsOfAnotherWireType) {
  const std::string value =
      test::number(1, 7) + test::number(2, 7) + test::bytes(1, "w") +
      test::bytes(2, test::number(2, 1) + test::number(3, 1) + test::tensor({1}, "Int8", "x"));
  EXPECT_EQ(index_of(test::number(1, 3) + test::bytes(1, value)).find("w")->content_bytes, 1U);
}

TEST(CkptIndex, AcceptsLongVarints) {
  const std::string tensor =
      "\x08" + test::varint(2, 10) + test::bytes(2, "Int8") + "\x1a" + test::varint(2, 5) + "ab";
  const std::string value =
      test::varint(0x0a, 5) + test::varint(1, 9) + "w" + test::bytes(2, tensor);
  EXPECT_EQ(index_of(test::bytes(1, value)).find("w")->shape, Shape{2});
}

TEST(CkptIndex, RefusesBrokenWireFormat) {
  const std::string good = small_record("a");
  const std::string at = "offset " + std::to_string(good.size());
  expect_bad(good + "\x0b", {at, "group"});
  expect_bad(good + "\x0c", {at, "group"});
  expect_bad(good + "\x0e", {at, "wire type 6"});
  expect_bad(good + std::string("\x02\x00", 2), {at, "field number 0"});
  expect_bad(good + "\x80\x80\x80\x80\x7f", {at, "field number", "impossible"});
  expect_bad(good + "\x50" + std::string(9, '\xff') + "\x02", {"more than 64 bits"});
  expect_bad(good + "\x50" + std::string(10, '\x80') + std::string(1, '\0'), {"more than 64 bits"});
  expect_bad(good +
                 "\x0d"
                 "123",
             {at, "4 bytes is cut off"});
  expect_bad(good +
                 "\x09"
                 "1234567",
             {at, "8 bytes is cut off"});
  expect_bad(good + "\x50\x80", {"the file ends inside a number", "not complete"});
  const std::string inside = test::bytes(1,
                                         "\x0a\x01"
                                         "b"
                                         "\x12\x02\x08\x80");
  expect_bad(good + inside + good, {"'b'", "crosses the end"});
}

TEST(CkptIndex, NamesTheParameterThatIsCutOff) {
  const std::string good = small_record("a");
  const std::string second = record("long.weight", {100}, "Float32", std::string(400, 'x'));
  const std::string file = good + second.substr(0, second.size() - 100);
  expect_bad(file, {"'long.weight'", "offset", "are left in the file", "not complete"});
  expect_bad(good + "\x0a" + test::varint(~0ULL) +
                 "\x0a\x01"
                 "b",
             {"'b'", "offset 24"});
  expect_bad(test::bytes(1,
                         "\x0a\x01"
                         "b"
                         "\x12\x09\x1a"),
             {"'b'", "9 bytes", "1 are left"});
  const std::string inner = test::bytes(1, test::bytes(1, "b") + test::bytes(2,
                                                                             "\x1a\x10"
                                                                             "1234"));
  expect_bad(inner + good, {"'b'", "16 bytes", "4 are left in the enclosing message"});
}

TEST(CkptIndex, RefusesARecordThatLacksSomething) {
  const std::string good = small_record("a");
  expect_bad(good + test::bytes(1, test::bytes(2, test::tensor({1}, "Int8", "x"))), {"no name"});
  expect_bad(good + record("", {1}, "Int8", "x"), {"empty name"});
  expect_bad(good + test::bytes(1, ""), {"no name"});
  expect_bad(test::bytes(1, test::bytes(1, "w")), {"'w'", "no tensor_type"});
  expect_bad(record_of("w", test::dims({1}) + test::bytes(3, "x")), {"'w'", "no tensor_type"});
  expect_bad(record_of("w", test::dims({1}) + test::bytes(2, "Int8")),
             {"'w'", "no tensor_content"});
}

TEST(CkptIndex, RefusesBadNames) {
  const std::string good = small_record("a");
  expect_bad(good + small_record(std::string(4097, 'n')), {"4097 bytes", "limit is 4096"});
  EXPECT_EQ(index_of(small_record(std::string(4096, 'n'))).entries().size(), 1U);
  for (const std::string name : {"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                 "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xe2\x82(", "\x80"}) {
    expect_bad(good + small_record(name), {"not valid UTF-8", "\\x"});
  }
  for (const std::string name : {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf"}) {
    EXPECT_NE(index_of(small_record(name)).find(name), nullptr);
  }
}

TEST(CkptIndex, RefusesBadDimensions) {
  expect_bad(record("w", {-1}, "Int8", "x"), {"'w'", "dimension -1 is negative"});
  expect_bad(record("w", {1LL << 31}, "Int8", "x"), {"'w'", "2147483648 exceeds 2147483647"});
  const std::vector<std::int64_t> sixteen(16, 1);
  EXPECT_EQ(index_of(record("w", sixteen, "Int8", "x")).find("w")->shape.size(), 16U);
  expect_bad(record("w", std::vector<std::int64_t>(17, 1), "Int8", "x"), {"'w'", "more than 16"});
  const std::string packed = test::bytes(1, std::string(100'000, '\x01'));
  expect_bad(record_of("w", packed + test::bytes(2, "Int8") + test::bytes(3, "x")), {"16"});
  expect_bad(record("w", {2147483647, 2147483647, 2147483647}, "Int8", "x"),
             {"'w'", "number of elements"});
  expect_bad(record("w", {2147483647, 2147483647, 2}, "Float64", "x"), {"'w'", "content's size"});
}

// A bit of a key that is wrong makes a record an unknown field, which would be passed over.
TEST(CkptIndex, RefusesARecordInAFieldThatNobodyKnows) {
  const std::string good = small_record("w");
  const std::string value = test::bytes(1, "v") + test::bytes(2, test::tensor({1}, "Int8", "x"));
  for (const std::uint32_t field : {2U, 3U, 5U, 9U, 1000U}) {
    expect_bad(good + test::bytes(field, value),
               {"'v'", "a record appears in field " + std::to_string(field)});
    expect_bad(good + test::bytes(field, test::tensor({1}, "Int8", "x")), {"a tensor appears in"});
    EXPECT_EQ(index_of(good + test::bytes(field, "something")).entries().size(), 1U);
  }
  expect_bad(good + test::bytes(17, "0123456789"),
             {"field 17", "would be a record's but for one bit"});
}

TEST(CkptIndex, LimitsTheFieldsThatNobodyKnows) {
  const MemorySource three(small_record("w") + test::bytes(5, "x") + test::bytes(5, "y") +
                           test::bytes(5, "z"));
  const auto scan = [&](std::uint64_t most) {
    RecordScanner scanner(three, most);
    while (scanner.next()) {
    }
  };
  EXPECT_NO_THROW(scan(3));
  expect_error(ErrorKind::kBadInput, {"more than 2 unknown fields"}, [&] { scan(2); });
}

TEST(CkptIndex, TakesFloat32ForBFloat16OnlyIfAllFieldsAreKnown) {
  const std::string content = test::bytes(2, "BFloat16") + test::bytes(3, "12345678");
  const auto file = [&](const std::string& dims) { return record_of("w", dims + content); };
  EXPECT_EQ(index_of(file(test::number(1, 2))).find("w")->encoding,
            ContentEncoding::kFloat32AsBFloat16);
  // [2, 2] with a wrong bit in the second key.
  expect_bad(file(test::number(1, 2) + test::number(3, 2)), {"8 bytes", "needs 4"});
  EXPECT_EQ(index_of(file(test::number(1, 4) + test::number(3, 2))).find("w")->encoding,
            ContentEncoding::kPlain);
}

TEST(CkptIndex, ListsTensorsOfUnknownTypesApart) {
  for (const std::string type :
       {"Complex64", "float32", "", "Float32\n", "Float8E4M3FN", "\x1b[", "HiFloat8"}) {
    const FileIndex index =
        index_of(record("a", {1}, "Int8", "a") + record("w", {2}, type, "abcd") +
                 record("w", {2}, type, "efgh") + record("z", {1}, "Int8", "z"));
    EXPECT_EQ(index.entries().size(), 2U);
    ASSERT_EQ(index.refused().size(), 1U);
    EXPECT_EQ(index.refused()[0].name, "w");
    EXPECT_EQ(index.refused()[0].reason, "its element type '" + printable(type) + "' is not known");
  }
  const FileIndex index = index_of(record("w", {1}, std::string(1'000'000, 'x'), "x"));
  EXPECT_TRUE(index.entries().empty());
  EXPECT_LT(index.refused().at(0).reason.size(), 100U);
  for (const std::string& twice : {record("w", {1}, "Int8", "a") + record("w", {1}, "odd", "b"),
                                   record("w", {1}, "odd", "a") + record("w", {1}, "Int8", "b"),
                                   record("w", {1}, "odd", "a") + record("v", {1}, "Int8", "b") +
                                       record("w", {1}, "odd", "c")}) {
    expect_bad(twice, {"'w'", "appears twice"});
  }
  expect_bad(record("w", {4}, "Int8", "ab") + record("v", {4}, "odd", "b"), {"'w'", "needs 4"});
}

std::string map_record(int parts) {
  std::string map;
  for (int i = 0; i < parts; ++i) map += test::bytes(1, test::bytes(3, "whatever"));
  return test::bytes(1, test::bytes(1, "table") + test::bytes(3, map));
}

TEST(CkptIndex, TakesAMapAsItIs) {
  const std::string file = small_record("a") + map_record(3);
  const FileIndex index = index_of(file);
  const TensorEntry* entry = index.find("table");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->dtype, DType::kMap);
  EXPECT_EQ(entry->shape, Shape{});
  ASSERT_EQ(entry->extents.size(), 1U);
  EXPECT_EQ(entry->content_bytes, entry->extents[0].length());
  const std::string content = file.substr(entry->extents[0].offset(), entry->extents[0].length());
  EXPECT_EQ(small_record("a") + record_header("table", DType::kMap, {}, content.size()) + content,
            file);
  EXPECT_EQ(record_header_bytes("table", DType::kMap, {}, content.size()),
            record_header("table", DType::kMap, {}, content.size()).size());
}

TEST(CkptIndex, RefusesABrokenMap) {
  expect_bad(map_record(2), {"'table'", "2 tensors", "expected 3"});
  expect_bad(map_record(4), {"'table'", "4 tensors"});
  expect_bad(map_record(3) + map_record(3), {"'table'", "appears twice"});
}

TEST(CkptIndex, RefusesContentOfTheWrongLength) {
  expect_bad(record("w", {2}, "Float32", "1234567"), {"'w'", "7 bytes", "Float32 [2]", "needs 8"});
  expect_bad(record("w", {2}, "Float32", "123456789"), {"'w'", "9 bytes", "needs 8"});
  expect_bad(record("w", {2}, "Float32", ""), {"'w'", "0 bytes", "needs 8"});
  expect_bad(record("w", {2}, "Float32", "1234") + small_record("a"),
             {"offset 0", "'w'", "4 bytes", "needs 8"});
}

TEST(CkptIndex, ChecksStrings) {
  expect_bad(record("s", {0}, "str", ""), {"'s'", "0 bytes", "multiple of 4"});
  expect_bad(record("s", {0}, "str", "abc"), {"'s'", "3 bytes", "multiple of 4"});
  expect_bad(record("s", {1}, "str", "abcd"), {"'s'", "dims [1]", "expected [0]"});
  expect_bad(record("s", {}, "str", "abcd"), {"'s'", "expected [0]"});
  expect_bad(record("s", {0}, "str", "abcd") + record("s", {0}, "str", "abcd"), {"appears twice"});
}

TEST(CkptIndex, JoinsRecordsWhileContentIsMissing) {
  const std::string parts = record("w", {4}, "Int16", "ab") + record("w", {4}, "Int16", "cdef") +
                            record("w", {4}, "Int16", "gh");
  const FileIndex index = index_of(small_record("a") + parts + small_record("b"));
  const TensorEntry& w = *index.find("w");
  ASSERT_EQ(w.extents.size(), 3U);
  EXPECT_EQ(w.content_bytes, 8U);
  EXPECT_EQ(w.extents[1].length(), 4U);
  EXPECT_EQ(index.entries().size(), 3U);

  expect_bad(parts + record("w", {4}, "Int16", "xx"), {"'w'", "appears twice", "offset 0"});
  expect_bad(record("w", {4}, "Int16", "ab") + record("w", {4}, "Int16", "1234567"),
             {"'w'", "9 bytes", "needs 8"});
  expect_bad(record("w", {4}, "Int16", "ab") + record("w", {4}, "Int16", ""), {"2 bytes"});
  expect_bad(record("w", {4}, "Int16", "ab") + record("w", {5}, "Int16", "cd"),
             {"'w'", "records differ", "[4]", "[5]"});
  expect_bad(record("w", {4}, "Int16", "ab") + record("w", {4}, "UInt16", "cd"),
             {"'w'", "records differ", "Int16", "UInt16"});
}

TEST(CkptIndex, RefusesARepeatedNameWithBothOffsets) {
  const std::string a = small_record("a");
  const std::string file = small_record("x") + a + small_record("b") + a;
  expect_bad(file, {"'a'", "offset " + std::to_string(3 * a.size()), "appears twice",
                    "at offset " + std::to_string(a.size())});
}

TEST(CkptIndex, SaysThatANameIsRepeatedRatherThanThatItsContentIsWrong) {
  const std::string a = record("a", {2}, "Int8", "xy");
  const std::string at = "offset " + std::to_string(a.size());
  expect_bad(a + record("a", {2}, "Int8", "xyz"), {"'a'", at, "appears twice"});
  expect_bad(a + record("a", {2}, "Int8", "x"), {"'a'", at, "appears twice"});
  expect_bad(a + record("a", {2}, "Int8", "x") + small_record("b"), {"'a'", at, "appears twice"});
}

TEST(CkptIndex, ReadsBFloat16StoredAsFloat32) {
  const FileIndex index = index_of(record("w", {3}, "BFloat16", std::string(12, 'x')));
  EXPECT_EQ(index.find("w")->encoding, ContentEncoding::kFloat32AsBFloat16);
  EXPECT_EQ(index.find("w")->content_bytes, 6U);
  EXPECT_EQ(index.find("w")->extents[0].length(), 12U);
  EXPECT_EQ(index_of(record("w", {3}, "BFloat16", "123456")).find("w")->encoding,
            ContentEncoding::kPlain);
  const FileIndex parts = index_of(record("w", {3}, "BFloat16", std::string(8, 'x')) +
                                   record("w", {3}, "BFloat16", std::string(4, 'x')));
  EXPECT_EQ(parts.find("w")->encoding, ContentEncoding::kFloat32AsBFloat16);
  EXPECT_EQ(parts.find("w")->extents.size(), 2U);
  expect_bad(record("w", {3}, "BFloat16", std::string(8, 'x')), {"'w'", "8 bytes", "needs 6"});
  expect_bad(record("w", {3}, "BFloat16", std::string(13, 'x')), {"'w'", "13 bytes"});
  expect_bad(record("w", {3}, "Float16", std::string(12, 'x')), {"'w'", "12 bytes", "needs 6"});
}

TEST(CkptIndex, RefusesWhatIsNoCheckpoint) {
  expect_bad("", {"is empty"});
  expect_bad("PK\x03\x04 a zip file", {"is not a MindSpore checkpoint", "offset"});
  expect_bad("\nsome text", {"is not a MindSpore checkpoint"});
  expect_bad(std::string(100, '\0'), {"is not a MindSpore checkpoint", "field number 0"});
  expect_bad(test::number(5, 1), {"is not a MindSpore checkpoint", "no parameter"});
  expect_bad(test::trailer(0), {"no parameter"});
  for (const char first : {'\xd8', '\xd9', '\xda'}) {
    expect_error(ErrorKind::kUnsupported, {"memory.ckpt", "is encrypted", "key"},
                 [&] { index_of(std::string(1, first) + "\x5e\x3a\x7f and more"); });
  }
}

TEST(CkptIndex, LimitsTheNumberOfRecords) {
  std::string file;
  for (int i = 0; i < 4; ++i) file += small_record(std::to_string(i));
  const MemorySource source(file);
  RecordScanner four(source, 4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(four.next());
  EXPECT_FALSE(four.next());
  RecordScanner three(source, 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(three.next());
  const std::string at = "offset " + std::to_string(file.size() / 4 * 3);
  expect_error(ErrorKind::kBadInput, {at, "more than 3 records"}, [&] { three.next(); });
}

TEST(CkptIndex, RefusesMillionsOfEmptyMessages) {
  std::string file("\x0a\0", 2);
  while (file.size() < 8'000'000) file += file;
  expect_bad(file, {"no name"});
}

TEST(CkptIndex, ReadsLittle) {
  std::string small;
  for (int i = 0; i < 1000; ++i) small += small_record("layer." + std::to_string(i));
  const auto counted =
      std::make_shared<test::CountingSource>(std::make_shared<MemorySource>(small));
  read_index(*counted);
  EXPECT_LE(counted->reads(), small.size() / 4096 + 2);

  std::string large;
  for (int i = 0; i < 100; ++i) {
    large += record(std::to_string(i), {100'000}, "Int8", std::string(100'000, 'x'));
  }
  const auto counted_large =
      std::make_shared<test::CountingSource>(std::make_shared<MemorySource>(large));
  read_index(*counted_large);
  EXPECT_LE(counted_large->reads(), 101U);
  EXPECT_LE(counted_large->bytes(), 101U * 4096U);
}

TEST(CkptIndex, PassesOnEveryReadError) {
  std::string file;
  for (int i = 0; i < 20; ++i) {
    file += record(std::to_string(i), {10'000}, "Int8", std::string(10'000, 'x'));
  }
  file += test::trailer(0);
  const auto memory = std::make_shared<MemorySource>(file);
  const test::CountingSource counted(memory);
  read_index(counted);
  ASSERT_GT(counted.reads(), 20U);
  for (std::uint64_t n = 1; n <= counted.reads(); ++n) {
    try {
      read_index(test::FaultSource(memory, n, EIO));
      ADD_FAILURE() << "read " << n << " failed unnoticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_EQ(error.os_error(), EIO);
      EXPECT_EQ(error.file(), "memory.ckpt");
    }
  }
}

TEST(CkptIndex, SaysThatTheFileChangedRatherThanThatItIsBroken) {
  for (const std::string& file : {small_record("a"), small_record("a") + "\x0b"}) {
    expect_error(ErrorKind::kChanged, {"memory.ckpt", "changed"}, [&] {
      read_index(test::ChangingSource(std::make_shared<MemorySource>(file), 1));
    });
  }
}

#ifdef RESHARDFS_GOLDEN_DIR
TEST(CkptIndex, ReadsAllGoldenSources) {
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(RESHARDFS_GOLDEN_DIR)) {
    const std::string path = entry.path().string();
    const bool in_source =
        path.find("/src/rank_x/") == std::string::npos && path.find("/src/") != std::string::npos;
    if (!in_source || !entry.is_regular_file() || !path.ends_with(".ckpt")) continue;
    SCOPED_TRACE(path);
    const ByteSourcePtr source = open_local_file(path);
    if (path.find("/encrypted/") != std::string::npos) {
      expect_error(ErrorKind::kUnsupported, {"encrypted"}, [&] { read_index(*source); });
      continue;
    }
    try {
      EXPECT_FALSE(read_index(*source).entries().empty());
      ++read;
    } catch (const Error& error) {
      EXPECT_NE(path.find("/err_corrupt_file/"), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(read, 100U);
}
#endif

}  // namespace
}  // namespace reshardfs::ckpt
