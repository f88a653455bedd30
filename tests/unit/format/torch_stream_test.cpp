// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_stream.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/torch/torch_archive.h"
#include "pickle_samples.h"
#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs::torch_stream_tests {
namespace {

using test::expect_error;
using test::MemorySource;
namespace p = test::pickled;
using namespace std::string_literals;
using Stored = std::vector<p::StreamStorage>;

const std::string kFloats(8, 'f');
const std::string kLongs(24, 'l');

/// Two tensors of the storages "170" and "9".
std::string two_tensors() {
  const p::Values none{p::kNone};
  return p::named({{"a", p::float_tensor("9", {2}, none)},
                   {"b", p::v2_tensor(p::storage("LongStorage", "170", 3, none), {0, {3}, {1}})},
                   {"tied", p::float_tensor("9", {2}, none)}});
}

Stored two_storages() {
  return {{"170", 3, kLongs}, {"9", 2, kFloats}};
}

std::string good_file() {
  return p::stream_of(two_tensors(), two_storages());
}

void expect_bad_stream(const std::string& bytes, const std::string& words,
                       ErrorKind kind = ErrorKind::kBadInput) {
  SCOPED_TRACE(words);
  const MemorySource source(bytes, "old.pt");
  expect_error(kind, {"old.pt", words}, [&] { read_torch_stream(source); });
}

TEST(TorchStream, FindsTheStoragesBehindThePickles) {
  const std::string bytes = good_file();
  const MemorySource source(bytes, "old.pt");
  const TorchStream stream = read_torch_stream(source);
  EXPECT_EQ(stream.tree->count(stream.tree->root()), 3U);
  ASSERT_EQ(stream.storages.size(), 2U);
  EXPECT_EQ(stream.storages.at("170"), ByteRange(bytes.find(kLongs), 24));
  EXPECT_EQ(stream.storages.at("9"), ByteRange(bytes.size() - 8, 8));
}

TEST(TorchStream, ReadsThroughTheArchiveAsAZip) {
  const MemorySource source(good_file(), "old.pt");
  const TorchArchive archive(source);
  const TorchTensor b = archive.tensor(archive.tree().find(archive.tree().root(), "b"));
  EXPECT_EQ(b.dtype, DType::kInt64);
  EXPECT_EQ(b.storage.length(), 24U);
}

TEST(TorchStream, IsKnownByItsBeginning) {
  const std::string bytes = good_file();
  EXPECT_TRUE(is_torch_stream(bytes.substr(0, 32)));
  EXPECT_TRUE(is_torch_stream(bytes.substr(0, 14)));
  for (std::size_t size = 0; size < 14; ++size)
    EXPECT_FALSE(is_torch_stream(bytes.substr(0, size)));
  const std::string framed =
      "\x80\x04\x95" + test::little(13, 8) + bytes.substr(2, 12) + ".rest of the file";
  EXPECT_TRUE(is_torch_stream(framed));
  EXPECT_FALSE(is_torch_stream(p::pickle(two_tensors())));
  std::string other = bytes;
  other[5] ^= 1;
  EXPECT_FALSE(is_torch_stream(other));
}

TEST(TorchStream, PassesOverClassesAndUnneededStorages) {
  const p::Values none{p::kNone};
  const std::string module =
      p::tuple({p::text("module"), p::global("mylib", "Net"), "N", "N"}) + "Q";
  const std::string value =
      p::named({{"net", p::new_object(module)},
                {"a", p::float_tensor("9", {2}, none)},
                {"c", p::v2_tensor(p::storage("ComplexFloatStorage", "5", 1, none), {})}});
  const Stored stored{{"5", 1, kFloats}, {"9", 2, kFloats}};
  const MemorySource source(p::stream_of(value, stored), "old.pt");
  EXPECT_EQ(read_torch_stream(source).storages.size(), 2U);
}

TEST(TorchStream, ReadsPicklesLongerThanTheFirstBytes) {
  p::Pairs many;
  for (int i = 0; i < 2000; ++i) many.emplace_back(p::number(i), p::text(std::string(100, 'n')));
  many.emplace_back(p::text("w"), p::float_tensor("9", {2}, {p::kNone}));
  const Stored stored{{"9", 2, kFloats}};
  const std::string bytes = p::stream_of(p::dict(many), stored);
  const MemorySource source(bytes, "old.pt");
  const TorchStream stream = read_torch_stream(source);
  EXPECT_EQ(stream.tree->count(stream.tree->root()), 2001U);
  EXPECT_EQ(stream.storages.at("9"), ByteRange(bytes.size() - 8, 8));
}

TEST(TorchStream, RefusesEveryTruncation) {
  const std::string bytes = good_file();
  for (std::size_t size = 14; size < bytes.size(); ++size) {
    SCOPED_TRACE(size);
    expect_bad_stream(bytes.substr(0, size), "cut off");
  }
  EXPECT_NO_THROW(read_torch_stream(MemorySource(bytes + "more", "old.pt")));
}

TEST(TorchStream, RefusesOtherVersionsAndMachines) {
  const auto with = [](const p::StreamDamage& damage) {
    return p::stream_of(two_tensors(), two_storages(), damage);
  };
  EXPECT_NO_THROW(read_torch_stream(MemorySource(with({}), "old.pt")));
  expect_bad_stream(with({.version = p::number(1002)}), "version of its format is not 1001");
  expect_bad_stream(with({.version = p::text("1001")}), "version of its format is not 1001");
  expect_bad_stream(with({.little_endian = p::kFalse}), "big-endian machine",
                    ErrorKind::kUnsupported);
}

TEST(TorchStream, RefusesStoragesThatContradict) {
  const auto with = [](const Stored& stored, const std::string& keys = "") {
    return p::stream_of(two_tensors(), stored, {.keys = keys});
  };
  expect_bad_stream(with({{"170", 2, kLongs}, {"9", 2, kFloats}}),
                    "storage 170 has 2 elements, should have 3");
  expect_bad_stream(with({{"170", 3, kLongs}, {"9", -2, kFloats}}), "storage 9 has -2 elements");
  expect_bad_stream(with({{"170", 3, kLongs}, {"8", 2, kFloats}}), "a storage that no tensor has");
  expect_bad_stream(with({{"9", 2, kFloats}, {"9", 2, kFloats}}), "storage 9 is there twice");
  expect_bad_stream(with(two_storages(), p::kNone), "it does not list its storages");
  expect_bad_stream(with(two_storages(), p::list({p::number(9)})), "a storage that no tensor has");
  const std::string different = p::named(
      {{"a", p::float_tensor("9", {2}, {p::kNone})}, {"b", p::float_tensor("9", {3}, {p::kNone})}});
  expect_bad_stream(p::stream_of(different, Stored{{"9", 2, kFloats}}), "different sizes");
  const std::string huge =
      p::v2_tensor(p::storage("LongStorage", "9", 1LL << 61, {p::kNone}), {0, {1}, {1}});
  expect_bad_stream(p::stream_of(huge, Stored{{"9", 1LL << 61, kFloats}}), "cut off in storage 9");
}

TEST(TorchStream, RefusesAFileWhoseStoragesItCannotPassOver) {
  const auto of = [](const std::string& storage) {
    return p::stream_of(p::v2_tensor(storage, {0, {1}, {1}}), Stored{{"9", 2, kFloats}});
  };
  expect_bad_stream(of(p::storage("StrangeStorage", "9", 2, {p::kNone})), "torch.StrangeStorage",
                    ErrorKind::kUnsupported);
  const std::string view = p::tuple({p::text("8"), p::number(0), p::number(2)});
  expect_bad_stream(of(p::storage("FloatStorage", "9", 2, {view})), "a part of another one",
                    ErrorKind::kUnsupported);
  expect_bad_stream(of(p::tuple({p::text("storage")}) + "Q"), "its storage is not stated");
}

TEST(TorchStream, RefusesATensorWhoseStorageIsNotListed) {
  const Stored stored{{"9", 2, kFloats}};
  const MemorySource source(p::stream_of(two_tensors(), stored), "old.pt");
  const TorchArchive archive(source);
  const PickleValue root = archive.tree().root();
  EXPECT_NO_THROW(archive.tensor(archive.tree().find(root, "a")));
  expect_error(ErrorKind::kBadInput, {"its storage is not in the file"},
               [&] { archive.tensor(archive.tree().find(root, "b")); });
}

}  // namespace
}  // namespace reshardfs::torch_stream_tests
