// SPDX-License-Identifier: Apache-2.0
#include "format/foreign_content.h"

#include <string>

#include <gtest/gtest.h>

#include "format/input_format.h"
#include "support/errors.h"
#include "support/sources.h"
#include "support/wire.h"

using namespace std::string_literals;

namespace reshardfs {
namespace {

using test::MemorySource;

std::string what(const std::string& begin) {
  const auto content = foreign_content(begin);
  return content ? std::string(content->what) : "";
}

TEST(ForeignContent, IsKnownByItsBeginning) {
  EXPECT_NE(what("version https://git-lfs.github.com/spec/v1\noid").find("Git LFS"),
            std::string::npos);
  EXPECT_EQ(what("\x1f\x8b\x08\0\0"s), "compressed with gzip");
  EXPECT_EQ(what("\x28\xb5\x2f\xfd\x24"s), "compressed with zstd");
  EXPECT_EQ(what("\xfd\x37zXZ\0\0"s), "compressed with xz");
  EXPECT_NE(what("PK\x03\x04\x2d"s).find("PyTorch"), std::string::npos);
  EXPECT_EQ(what("\x80\x04\x95\x10"s), "a Python pickle");
  EXPECT_EQ(what("\x93NUMPY\x01"s), "a NumPy array");
  EXPECT_EQ(what("<!DOCTYPE html><html>"), "a web page");
  EXPECT_EQ(what("\x89PNG\r\n\x1a\n"s), "a PNG image, not a checkpoint");
  EXPECT_EQ(what("version of something else\r\n\t\xc3\xa4"), "a text file, not a checkpoint");
}

TEST(ForeignContent, AStrategyBeginsWithItsStage) {
  EXPECT_NE(what("\x08\x00\x12\x05"s).find("strategy"), std::string::npos);
  EXPECT_NE(what("\x08\x00\x1a\x05"s).find("strategy"), std::string::npos);
  EXPECT_NE(what("\x08\x80\x01\x1a\x05"s).find("strategy"), std::string::npos);
  EXPECT_EQ(what("\x08\x00\x0a\x05"s), "");
  EXPECT_EQ(what("\x08\x80\x80"s), "");
  EXPECT_EQ(what("\x08\x00"s), "");
}

TEST(ForeignContent, ZeroBytesAreNoFinishedCopy) {
  EXPECT_NE(what(std::string(64, '\0')).find("zero bytes"), std::string::npos);
  EXPECT_EQ(what(std::string(63, '\0') + 'x'), "");
  EXPECT_EQ(what(std::string(63, '\0')), "");
}

TEST(ForeignContent, OtherBeginningsAreNotNamed) {
  EXPECT_EQ(what(""), "");
  EXPECT_EQ(what("\x1f"), "");
  EXPECT_EQ(what(test::record("w", {1}, "Int8", "x")), "");
  EXPECT_EQ(what("version of\x01something else"), "");
  EXPECT_EQ(what("\nversion of something else"), "");  // as a record begins
}

TEST(ForeignContent, IsSaidInPlaceOfWhatTheFormatFinds) {
  for (const InputFormat& format : input_formats()) {
    const MemorySource source("\x1f\x8b\x08"s + std::string(100, 'x'), "rank_1/a.ckpt");
    test::expect_error(ErrorKind::kBadInput, {"rank_1/a.ckpt: is compressed with gzip; unpack it"},
                       [&] { read_index(format, source); });
  }
}

TEST(ForeignContent, ADamagedFileIsStillToldByTheFormat) {
  const MemorySource source("\x0a\x7fxx", "rank_1/a.ckpt");
  test::expect_error(ErrorKind::kBadInput,
                     {"rank_1/a.ckpt: is not a MindSpore checkpoint: at offset 2"},
                     [&] { read_index(input_formats()[0], source); });
}

TEST(ForeignContent, WhatHasBegunAsARecordIsDamaged) {
  const std::string record = test::record("w", {4}, "Float32", std::string(16, 'x'));
  const MemorySource source(record.substr(0, record.size() - 1), "rank_1/a.ckpt");
  test::expect_error(ErrorKind::kBadInput, {"rank_1/a.ckpt: offset", "parameter 'w'"},
                     [&] { read_index(input_formats()[0], source); });
}

TEST(CheckpointContent, IsKnownInEachFormat) {
  EXPECT_TRUE(is_checkpoint_content(test::record("w", {1}, "Int8", "x")));
  // Of a long name no end is seen; a map stands where a tensor may.
  EXPECT_TRUE(is_checkpoint_content(test::record(std::string(200, 'w'), {1}, "Int8", "x")));
  EXPECT_TRUE(is_checkpoint_content(test::bytes(1, test::bytes(1, "w") + test::bytes(3, "x"))));
  EXPECT_TRUE(is_checkpoint_content("\x02\0\0\0\0\0\0\0{}"s));
}

TEST(CheckpointContent, OthersAreNone) {
  EXPECT_FALSE(is_checkpoint_content(""));
  EXPECT_FALSE(is_checkpoint_content("\x0a"));
  EXPECT_FALSE(is_checkpoint_content("\n\nA text that begins with empty lines"));
  EXPECT_FALSE(is_checkpoint_content("\x08\x00\x12\x05"s));  // a strategy
  EXPECT_FALSE(is_checkpoint_content(test::bytes(1, test::bytes(2, "no name"))));
  EXPECT_FALSE(is_checkpoint_content(test::bytes(1, test::bytes(1, ""))));
  EXPECT_FALSE(is_checkpoint_content("\x02\0\0\0\0\0\0\0[]"s));
  EXPECT_FALSE(is_checkpoint_content("\x02\0\0\0\0\0\0\x01{}"s));
  EXPECT_FALSE(is_checkpoint_content(std::string(64, '\x8a')));
}

TEST(ForeignContent, AGoodFileIsRead) {
  const MemorySource source(test::record("w", {1}, "Int8", "x"));
  EXPECT_EQ(read_index(input_formats()[0], source).entries().size(), 1U);
}

}  // namespace
}  // namespace reshardfs
