// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_archive.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "format/torch/torch_crc.h"
#include "pickle_samples.h"
#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs::torch_archive_tests {
namespace {

using test::expect_error;
using test::little;
using test::MemorySource;
using test::zip_file;
using test::ZipEntry;
namespace p = test::pickled;

const std::string kStored(24, 's');

std::vector<ZipEntry> saved_entries(const std::string& pickle) {
  return {{"a/data.pkl", pickle},
          {"a/byteorder", "little"},
          {"a/data/0", kStored},
          {"a/version", "3\n"}};
}

/// States the CRC-32 of an entry in the archive's directory.
void state_crc(std::string& archive, const std::string& name, std::uint32_t crc) {
  const std::size_t at = archive.rfind(name);
  ASSERT_NE(at, std::string::npos);
  constexpr std::size_t kRecordBytes = 46;
  constexpr std::size_t kCrcAt = 16;
  archive.replace(at - kRecordBytes + kCrcAt, 4, little(crc, 4));
}

std::uint32_t crc_of(const std::string& bytes) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

CrcCheck checked(const std::string& bytes) {
  return check_torch_crc(MemorySource(bytes, "model.pt"));
}

TEST(TorchArchive, ReadsValuesOfAnyClass) {
  const std::string value = p::named({{"config", p::new_object(p::global("mylib", "Config"))},
                                      {"w", p::float_tensor("0", {2, 3})}});
  const std::string bytes = p::zip_of(value, {{"0", kStored}});
  const MemorySource source(bytes, "model.pt");
  const TorchArchive archive(source);
  const PickleTree& tree = archive.tree();
  EXPECT_EQ(tree.maker(tree.find(tree.root(), "config")), (PickleGlobal{"mylib", "Config"}));
  EXPECT_FALSE(archive.is_tensor(tree.find(tree.root(), "config")));
  const PickleValue w = tree.find(tree.root(), "w");
  ASSERT_TRUE(archive.is_tensor(w));
  EXPECT_EQ(archive.tensor(w).storage, ByteRange(bytes.find(kStored), 24));
  EXPECT_EQ(&archive.source(), &source);
}

TEST(TorchArchive, TellsWhereAPickleIsWrong) {
  const std::string broken = "\x80\x02K\x01\x97.";
  const std::string bytes = zip_file(saved_entries(broken));
  const MemorySource source(bytes, "model.pt");
  const std::size_t at = bytes.find(broken) + 4;
  expect_error(ErrorKind::kBadInput,
               {"model.pt", "offset " + std::to_string(at) + ":", "NEXT_BUFFER"},
               [&] { const TorchArchive archive(source); });
}

TEST(TorchArchive, RefusesOtherFiles) {
  for (const std::string& other : {std::string(), std::string("P"), std::string("\x80"),
                                   p::pickle("N"), std::string(100, 'x')}) {
    const MemorySource source(other, "other.pt");
    EXPECT_FALSE(begins_like_torch(source));
    EXPECT_FALSE(begins_like_torch_zip(source));
    expect_error(ErrorKind::kBadInput, {"other.pt", "is not a file of torch.save"},
                 [&] { const TorchArchive archive(source); });
  }
  std::vector<ZipEntry> entries = saved_entries(p::pickle("N"));
  entries[0].method = 8;
  const MemorySource compressed(zip_file(entries), "other.pt");
  expect_error(ErrorKind::kUnsupported, {"other.pt", "compressed"},
               [&] { const TorchArchive archive(compressed); });
  entries = saved_entries(p::pickle("N"));
  entries[1].bytes = "big";
  const MemorySource big(zip_file(entries), "other.pt");
  expect_error(ErrorKind::kUnsupported, {"other.pt", "byte order"},
               [&] { const TorchArchive archive(big); });
}

TEST(TorchArchive, IsKnownByItsBeginning) {
  const MemorySource zip(p::zip_of("N"), "model.pt");
  EXPECT_TRUE(begins_like_torch(zip));
  EXPECT_TRUE(begins_like_torch_zip(zip));
  const MemorySource stream(p::stream_of("N"), "model.pt");
  EXPECT_TRUE(begins_like_torch(stream));
  EXPECT_FALSE(begins_like_torch_zip(stream));
}

TEST(TorchCrc, FindsEachChangedByte) {
  std::string good = zip_file(saved_entries(p::pickle("N")));
  state_crc(good, "a/data/0", crc_of(kStored));
  state_crc(good, "a/data.pkl", crc_of(p::pickle("N")));
  EXPECT_EQ(checked(good), CrcCheck::kGood);
  for (const std::string& part : {kStored, p::pickle("N")}) {
    for (const std::size_t within : {std::size_t{0}, part.size() - 1}) {
      std::string bad = good;
      bad[bad.find(part) + within] ^= 1;
      EXPECT_EQ(checked(bad), CrcCheck::kBad);
    }
  }
  std::string wrong = good;
  state_crc(wrong, "a/data/0", crc_of(kStored) ^ 1U);
  EXPECT_EQ(checked(wrong), CrcCheck::kBad);
}

TEST(TorchCrc, IsThereOnlyIfItIsOfTheData) {
  std::string archive = zip_file(saved_entries(p::pickle("N")));
  EXPECT_EQ(checked(archive), CrcCheck::kNoTrailer);
  state_crc(archive, "a/data.pkl", crc_of(p::pickle("N")));
  EXPECT_EQ(checked(archive), CrcCheck::kNoTrailer);
  state_crc(archive, "a/data/0", crc_of(kStored));
  EXPECT_EQ(checked(archive), CrcCheck::kGood);
  EXPECT_EQ(checked(p::stream_of("N")), CrcCheck::kNoTrailer);
  EXPECT_EQ(checked("something else"), CrcCheck::kNoTrailer);
}

TEST(TorchCrc, MayLackForSomeTensors) {
  // torch.serialization.skip_data() leaves 0 for the tensors that it skips.
  std::vector<ZipEntry> entries = saved_entries(p::pickle("N"));
  entries.insert(entries.begin() + 3, {"a/data/1", kStored});
  std::string archive = zip_file(entries);
  state_crc(archive, "a/data.pkl", crc_of(p::pickle("N")));
  state_crc(archive, "a/data/0", crc_of(kStored));
  EXPECT_EQ(checked(archive), CrcCheck::kNoTrailer);
  state_crc(archive, "a/data/1", 1);
  EXPECT_EQ(checked(archive), CrcCheck::kBad);
}

TEST(TorchCrc, OfThePickleIsComparedWhenItIsRead) {
  std::string archive = zip_file(saved_entries(p::pickle("N")));
  state_crc(archive, "a/data.pkl", crc_of(p::pickle("N")) ^ 1U);
  expect_error(ErrorKind::kBadInput, {"model.pt", "does not match its CRC-32", "'data.pkl'"}, [&] {
    const MemorySource source(archive, "model.pt");
    const TorchArchive read(source);
  });
}

TEST(TorchCrc, ReadsEntriesInBlocks) {
  std::string large(3'000'000, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * i >> 7U);
  std::vector<ZipEntry> entries = saved_entries(p::pickle("N"));
  entries[2].bytes = large;
  std::string archive = zip_file(entries);
  state_crc(archive, "a/data.pkl", crc_of(p::pickle("N")));
  state_crc(archive, "a/data/0", crc_of(large));
  EXPECT_EQ(checked(archive), CrcCheck::kGood);
  archive[archive.find("a/data/0") + 8 + (2U << 20U) + 5] ^= 4;
  EXPECT_EQ(checked(archive), CrcCheck::kBad);
}

}  // namespace
}  // namespace reshardfs::torch_archive_tests
