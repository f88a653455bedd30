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
  EXPECT_EQ(what("PK\x03\x04\x2d"s), "a ZIP archive, not a checkpoint");
  EXPECT_EQ(what("\x80\x04\x95\x10"s), "a Python pickle");
  EXPECT_EQ(what("\x93NUMPY\x01"s), "a NumPy array");
  EXPECT_EQ(what("<!DOCTYPE html><html>"), "a web page");
  EXPECT_EQ(what("\x89PNG\r\n\x1a\n"s), "a PNG image, not a checkpoint");
  EXPECT_EQ(what("version of something else\r\n\t\xc3\xa4"), "a text file, not a checkpoint");
}

/// The beginning of an archive whose first file has this name.
std::string zip(const std::string& name) {
  const auto length = static_cast<char>(name.size());
  return "PK\x03\x04"s + std::string(22, '\0') + length + "\0\0\0"s + name + std::string(600, 'x');
}

TEST(ForeignContent, AnArchiveIsKnownByItsFirstFile) {
  EXPECT_EQ(what(zip("archive/data.pkl")), "");  // torch.save
  EXPECT_TRUE(is_checkpoint_content(zip("archive/data.pkl")));
  EXPECT_TRUE(is_checkpoint_content(zip(std::string(200, 'n') + "/data.pkl")));
  EXPECT_EQ(what(zip("x.npy")), "an .npz archive of NumPy");
  EXPECT_EQ(what(zip("metadata.json")), "a .keras archive");
  EXPECT_EQ(what(zip("letter.txt")), "a ZIP archive, not a checkpoint");
}

TEST(ForeignContent, ModelsOfOtherProgramsAreNamed) {
  const std::string stream = "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."s;
  EXPECT_EQ(what(stream), "");  // torch.save before PyTorch 1.6
  EXPECT_TRUE(is_checkpoint_content(stream));
  for (const char version : {'\x02', '\x03', '\x04', '\x05'}) {
    EXPECT_EQ(what("\x80"s + version + "}q\0."s), "a Python pickle");
  }
  EXPECT_EQ(what("GGUF\x03\0\0\0\x01"s), "a GGUF file, as llama.cpp reads them");
  EXPECT_EQ(what("\x08\x07\x12\x07pytorch\x1a\x03"s), "an ONNX model");
  EXPECT_EQ(what("\x08\x09:\x80\x01\x0a\x03"s), "an ONNX model");
  EXPECT_EQ(what("\x81\xa6params\x82\xa5"s), "a msgpack file, as Flax writes them");
  EXPECT_EQ(what("\xde\x00\x20\xa4step\xcd"s), "a msgpack file, as Flax writes them");
  EXPECT_EQ(what("\x1c\0\0\0TFL3\x14\0"s), "a TensorFlow Lite model");
  EXPECT_EQ(what("\x89HDF\r\n\x1a\n"s), "an HDF5 file, as Keras writes them");
  EXPECT_EQ(what("\0\x05\x16\x07\0\x02\0\0Mac OS X"s),
            "a file in which macOS keeps attributes of another one");
  EXPECT_EQ(what("model/"s + std::string(251, '\0') + "ustar\0"s), "a tar archive");
}

/// Whoever has a file of PyTorch cannot save it with MindSpore.
TEST(ForeignContent, TheAdviceFitsTheFramework) {
  for (const std::string& begin :
       {"GGUF\x03"s, "\x93NUMPY\x01"s, zip("x.npy"), "\x80\x04\x95\x10"s, "\x81\xa6params\x82"s}) {
    const auto content = foreign_content(begin);
    ASSERT_TRUE(content);
    EXPECT_EQ(content->advice.find("MindSpore"), std::string_view::npos) << content->what;
    EXPECT_NE(content->advice, "") << content->what;
    EXPECT_TRUE(content->is_model) << content->what;
  }
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

/// A parser's words say nothing of a file that never was for it.
TEST(ForeignContent, WhatBeginsLikeNoCheckpointIsNotParsed) {
  const MemorySource source(std::string(100, '\x9f'), "rank_1/a.ckpt");
  test::expect_error(ErrorKind::kBadInput,
                     {"rank_1/a.ckpt: is no checkpoint file: it begins with the bytes 9f 9f",
                      "MindSpore's .ckpt", "name a .ckpt"},
                     [&] { read_index(input_formats()[0], source); });
}

TEST(ForeignContent, AnEmptyFileIsEmpty) {
  for (const InputFormat& format : input_formats()) {
    const MemorySource source("", "a");
    test::expect_error(ErrorKind::kBadInput, {"a: is not a checkpoint: it is empty; copy it again"},
                       [&] { read_index(format, source); });
  }
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
