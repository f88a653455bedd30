// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_zip.h"

#include <gtest/gtest.h>

#include "format/torch/torch_zip_tensors.h"
#include "support/errors.h"
#include "support/sources.h"
#include "torch_zip_samples.h"

namespace reshardfs::torch_zip_tests {
namespace {

using test::expect_error;
using test::MemorySource;
using test::tensor_entries;
using test::tensor_pickle;
using test::zip_file;
using test::ZipDamage;
using test::ZipEntry;

const std::string kPlain = tensor_pickle("FloatStorage", 6, 0, "K\x02K\x03\x86", "K\x03K\x01\x86");
const std::string kData(24, 'd');

/// Between other bytes, as an item in a file is.
struct Item {
  explicit Item(const std::string& archive)
      : source("before" + archive + "behind", "x.distcp"), place(6, archive.size()) {}
  MemorySource source;
  ByteRange place;
};

TorchTensor tensor_of(const std::vector<ZipEntry>& entries) {
  const Item item(zip_file(entries));
  return read_torch_tensor(item.source, item.place);
}

void expect_bad(const std::string& archive, const std::string& words,
                ErrorKind kind = ErrorKind::kBadInput) {
  SCOPED_TRACE(words);
  const Item item(archive);
  expect_error(kind, {"x.distcp", "offset", words},
               [&] { read_torch_tensor(item.source, item.place); });
}

void expect_bad_tensor(const std::string& pickle, const std::string& words,
                       ErrorKind kind = ErrorKind::kBadInput) {
  expect_bad(zip_file(tensor_entries(pickle, kData)), words, kind);
}

TEST(TorchZip, FindsEntriesFromTheItemsStart) {
  for (const bool wide : {true, false}) {
    const std::string archive = zip_file(tensor_entries(kPlain, kData), {0, 0, 0, wide});
    const Item item(archive);
    const TorchZip zip(item.source, item.place);
    EXPECT_EQ(zip.entry("data/0"), ByteRange(6 + archive.find(kData), 24));
    EXPECT_EQ(zip.read("version", 10), "3\n");
    expect_error(ErrorKind::kBadInput, {"no entry 'data/1'"}, [&] { zip.entry("data/1"); });
    expect_error(ErrorKind::kBadInput, {"'version' has 2 bytes"}, [&] { zip.read("version", 1); });
  }
}

TEST(TorchZip, ReadsArchivesOfAnyLength) {
  const std::string data(40'000, 'x');
  const Item item(zip_file(tensor_entries(
      tensor_pickle("FloatStorage", 10'000, 0, "M\x10\x27\x85", "K\x01\x85"), data)));
  EXPECT_EQ(read_torch_tensor(item.source, item.place).storage.length(), data.size());
}

TEST(TorchZip, RefusesDamage) {
  const std::string good = zip_file(tensor_entries(kPlain, kData));
  expect_bad("PK", "too short");
  expect_bad(std::string(200, 'x'), "does not begin as a ZIP archive");
  for (std::size_t cut = 1; cut < good.size() - 60; cut += 7) {
    expect_bad(good.substr(0, good.size() - cut), "is not an archive of torch.save here");
  }
  expect_bad(zip_file(tensor_entries(kPlain, kData), {1, 0, 0, true}), "should have 5");
  expect_bad(zip_file(tensor_entries(kPlain, kData), {0, 9, 0, true}), "should end at");
  expect_bad(zip_file(tensor_entries(kPlain, kData), {0, 9, 0, false}), "should end at");
  expect_bad(zip_file(tensor_entries(kPlain, kData), {0, 0, 9, true}), "zip64 end record");
  std::string comment = good;
  comment[comment.size() - 2] = 1;
  expect_bad(comment, "has a comment");
}

/// The length of an item in the table is that of its elements: shorter than any archive, too.
TEST(TorchZip, NamesSafetensorsWhereAnArchiveShouldBe) {
  const std::string file("\x10\0\0\0\0\0\0\0{\"__metadata__\":0123456789", 33);
  for (const std::uint64_t length : {16U, 60U}) {
    const MemorySource source("before" + file + std::string(80, 'd'), "x.distcp");
    expect_error(ErrorKind::kUnsupported, {"x.distcp", "offset 6", "is safetensors here"},
                 [&] { read_torch_tensor(source, ByteRange(6, length)); });
    const MemorySource other(
        "before" + file.substr(0, 7) + "\x01" + file.substr(8) + std::string(80, 'd'), "x.distcp");
    expect_error(ErrorKind::kBadInput, {"is not an archive of torch.save"},
                 [&] { read_torch_tensor(other, ByteRange(6, length)); });
  }
  const MemorySource end("before{{{{{{{{", "x.distcp");
  expect_error(ErrorKind::kBadInput, {"too short"},
               [&] { read_torch_tensor(end, ByteRange(6, 8)); });
}

TEST(TorchZip, RefusesEntriesThatAreNotPlain) {
  const auto with = [](const ZipEntry& entry) {
    std::vector<ZipEntry> entries = tensor_entries(kPlain, kData);
    entries.insert(entries.begin() + 2, entry);
    return zip_file(entries);
  };
  expect_bad(with({"a/x", "x", 8}), "compressed or encrypted", ErrorKind::kUnsupported);
  expect_bad(with({"a/x", "x", 0, 0x0809}), "compressed or encrypted", ErrorKind::kUnsupported);
  expect_bad(with({"b/x", "x"}), "two folders");
  expect_bad(with({"x", "x"}), "in no folder");
  expect_bad(with({"a/data/0", "x"}), "there twice");
  expect_bad(with({"a/x", "x", 0, 0x0808, "", 1000}), "reaches into the next");
}

TEST(TorchZip, RefusesLocalHeadersThatContradict) {
  std::vector<ZipEntry> entries = tensor_entries(kPlain, kData);
  entries[2].local_name = "a/data/1";
  expect_bad(zip_file(entries), "contradicts the directory");
  entries = tensor_entries(kPlain, kData);
  entries[2].more_size = 17;  // into the descriptor and the next header
  expect_bad(zip_file(entries), "reaches into the next");
}

TEST(TorchZip, RefusesWhatTorchWouldNotHaveWritten) {
  std::vector<ZipEntry> entries = tensor_entries(kPlain, kData);
  entries.pop_back();
  expect_bad(zip_file(entries), "no entry 'version'");
  entries = tensor_entries(kPlain, kData);
  entries[1].bytes = "big";
  expect_bad(zip_file(entries), "byte order is 'big'", ErrorKind::kUnsupported);
  const MemorySource source(zip_file(tensor_entries(kPlain, kData)), "x.distcp");
  expect_error(ErrorKind::kBadInput, {"bytes in all"},
               [&] { TorchZip(source, ByteRange(1, source.size())); });
}

TEST(TorchTensor, ReadsShapeStridesAndStorage) {
  const TorchTensor tensor = tensor_of(tensor_entries(
      tensor_pickle("FloatStorage", 6, 1, "K\x02K\x02\x86", "K\x01K\x02\x86"), kData));
  EXPECT_EQ(tensor.dtype, DType::kFloat32);
  EXPECT_EQ(tensor.shape, (Shape{2, 2}));
  EXPECT_EQ(tensor.strides, (Shape{1, 2}));
  EXPECT_EQ(tensor.first, 1);
  EXPECT_EQ(tensor.storage.length(), 24U);
  EXPECT_FALSE(is_contiguous(tensor));
  EXPECT_TRUE(is_contiguous(tensor_of(tensor_entries(kPlain, kData))));
}

TEST(TorchTensor, IsContiguousWhateverTheStridesOfOneElement) {
  TorchTensor tensor;
  tensor.shape = {3, 1, 2};
  tensor.strides = {2, 77, 1};
  EXPECT_TRUE(is_contiguous(tensor));
  tensor.strides = {1, 1, 3};
  EXPECT_FALSE(is_contiguous(tensor));
  tensor.shape = {3, 0, 2};
  EXPECT_TRUE(is_contiguous(tensor));
}

TEST(TorchTensor, RefusesWhatLeavesItsStorage) {
  const auto tensor = [](int elements, int first, const std::string& shape,
                         const std::string& strides) {
    return tensor_pickle("FloatStorage", elements, first, shape, strides);
  };
  expect_bad_tensor(tensor(6, 1, "K\x02K\x03\x86", "K\x03K\x01\x86"), "beyond its storage");
  expect_bad_tensor(tensor(6, 0, "K\x02K\x03\x86", "K\x04K\x01\x86"), "beyond its storage");
  expect_bad_tensor(tensor(6, 0, "K\x07K\x03\x86", std::string("K\0K\x01\x86", 5)),
                    "more elements than its storage");
  expect_bad_tensor(tensor(6, 0, "K\x02K\x03\x86", "K\x01\x85"), "do not fit its size");
  expect_bad_tensor(tensor(7, 0, "K\x02\x85", "K\x01\x85"), "should have 7 elements");
  expect_bad_tensor(tensor(6, 7, std::string("K\0\x85", 3), "K\x01\x85"), "beyond its storage");
  expect_bad_tensor(tensor(6, 0, "J\xff\xff\xff\xff\x85", "K\x01\x85"), "its size should be");
  expect_bad_tensor(tensor(6, 0, "\x88\x85", "K\x01\x85"), "its size should be");
  expect_bad_tensor(tensor(6, 0, "K\x01", "K\x01\x85"), "a tuple of at most");
}

TEST(TorchTensor, RefusesOtherTypes) {
  expect_bad_tensor(tensor_pickle("ComplexFloatStorage", 6, 0, "K\x01\x85", "K\x01\x85"),
                    "ComplexFloatStorage", ErrorKind::kUnsupported);
  expect_bad_tensor("\x80\x02K\x01.", "it is a number");
  expect_bad_tensor("\x80\x02}.", "it is a dictionary");
  expect_bad_tensor(
      "\x80\x02"
      "cposix\nsystem\n.",
      "posix.system");
}

}  // namespace
}  // namespace reshardfs::torch_zip_tests
