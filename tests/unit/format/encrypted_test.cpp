// SPDX-License-Identifier: Apache-2.0
#include "format/encrypted/encrypted.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "encrypted_samples.h"
#include "format/ckpt/ckpt.h"
#include "format/encrypted/encrypted_blocks.h"
#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs::encrypted_tests {
namespace {

using test::encrypt;
using test::encrypt_block;
using test::expect_error;
using test::key_of;
using test::little_endian;
using test::MemorySource;
using test::read_text;

constexpr std::size_t kBlock = 512;
const std::string kKey = "a key of 16 byte";
const std::string kOtherKey = "another 16 bytes";
const std::vector<std::string> kModes{"AES-GCM", "AES-CBC", "SM4-CBC"};

std::string sample(std::size_t bytes) {
  std::mt19937 random(7);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

ByteSourcePtr open(const std::string& mode, ByteSourcePtr file, const std::string& key = kKey) {
  return decrypt_blocks(std::move(file), key_of(mode, key), kBlock);
}
ByteSourcePtr open(const std::string& mode, const std::string& file,
                   const std::string& key = kKey) {
  return open(mode, std::make_shared<MemorySource>(file), key);
}

void expect_ranges(const ByteSource& found, const std::string& plain) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  ASSERT_EQ(found.size(), plain.size());
  ASSERT_EQ(read_text(found, 0, plain.size()), plain);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t offset = random() % (plain.size() + 1);
    const std::size_t count = random() % std::min<std::size_t>(plain.size() - offset + 1, 2000);
    ASSERT_EQ(read_text(found, offset, count), plain.substr(offset, count))
        << "at " << offset << ", " << count;
  }
}

TEST(Encrypted, GivesThePlainBytesOfEveryGoldenFile) {
  const std::string golden = std::string(RESHARDFS_GOLDEN_DIR) + "/encrypted/";
  const std::string plain = test::read_whole(golden + "dst/plain.ckpt");
  const auto keys = nlohmann::json::parse(test::read_whole(golden + "case.json"))["keys_hex"];
  ASSERT_EQ(keys.size(), 7U);
  for (const auto& [name, entry] : keys.items()) {
    SCOPED_TRACE(name);
    const auto key = key_of(entry["mode"], entry["key"]);
    const auto file = open_plain(open_local_file(golden + "src/" + name), key);
    expect_ranges(*file, plain);
    EXPECT_FALSE(ckpt::read_index(*file).entries().empty());
  }
}

/// Far away; notes what is foreseen, and what is read that was not.
class FarSource final : public test::Decorator {
 public:
  using Decorator::Decorator;

  bool is_far() const noexcept override { return true; }
  void foresee(std::span<const ByteRange> ranges, Foresight /*when*/) const noexcept override {
    foreseen.insert(foreseen.end(), ranges.begin(), ranges.end());
  }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    const ByteRange read(offset, out.size());
    if (std::none_of(foreseen.begin(), foreseen.end(),
                     [&](const ByteRange& range) { return range.contains(read); })) {
      ++surprises;
    }
    Decorator::read_at(offset, out);
  }

  void read_many(std::span<const ReadRequest> parts) const override {
    for (const ReadRequest& part : parts) {
      if (part.foreseen) ++told;
      read_at(part.offset, part.out);
    }
  }

  mutable std::vector<ByteRange> foreseen;
  mutable int surprises = 0;
  mutable int told = 0;  ///< of reads that they were foreseen
};

TEST(Encrypted, TellsWhatWillBeReadOfItsFile) {
  const std::string plain = sample(5 * kBlock + 77);
  for (const std::string& mode : kModes) {
    SCOPED_TRACE(mode);
    const auto file = std::make_shared<FarSource>(
        std::make_shared<MemorySource>(encrypt(mode, kKey, plain, kBlock)));
    const ByteSourcePtr source = open(mode, file);
    EXPECT_TRUE(source->is_far());
    EXPECT_FALSE(source->is_remote());
    file->surprises = 0;
    if (mode == "AES-GCM") {
      // What verifies the blocks tells it itself.
      read_text(*source, 0, plain.size());
      EXPECT_EQ(file->surprises, 0);
    }
    for (const ByteRange& range :
         {ByteRange(0, 1), ByteRange(15, 2), ByteRange(100, 3 * kBlock), ByteRange(kBlock, kBlock),
          ByteRange(5 * kBlock + 76, 1), ByteRange::whole(plain.size())}) {
      file->foreseen.clear();
      source->foresee(std::span(&range, 1), Foresight::kNow);
      EXPECT_FALSE(file->foreseen.empty());
      EXPECT_EQ(file->told, 0);
      std::string out(range.length(), '\0');
      read_part(*source, {range.offset(), std::as_writable_bytes(std::span(out)), true});
      EXPECT_EQ(out, plain.substr(range.offset(), range.length()));
      EXPECT_GT(std::exchange(file->told, 0), 0);
    }
    EXPECT_EQ(file->surprises, 0);
    file->foreseen.clear();
    const ByteRange beyond(plain.size() - 1, 2);
    source->foresee(std::span(&beyond, 1), Foresight::kNow);
    EXPECT_TRUE(file->foreseen.empty());
  }
}

TEST(Encrypted, ReadsAnyRangeOfSeveralBlocks) {
  for (const std::string& mode : kModes) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{15}, std::size_t{16}, kBlock - 1,
                                    kBlock, kBlock + 1, 3 * kBlock, 5 * kBlock + 77}) {
      SCOPED_TRACE(mode + " " + std::to_string(bytes));
      const std::string plain = sample(bytes);
      expect_ranges(*open(mode, encrypt(mode, kKey, plain, kBlock)), plain);
    }
  }
}

TEST(Encrypted, ReadsBlocksOfFullSize) {
  const std::string plain = sample((64U << 20) + 100'001);
  for (const std::string mode : {"AES-GCM", "AES-CBC"}) {
    const auto file = std::make_shared<MemorySource>(encrypt(mode, kKey, plain, 64U << 20));
    const auto found = decrypt(file, key_of(mode, kKey));
    ASSERT_EQ(found->size(), plain.size());
    const std::size_t begin = (64U << 20) - 700'003;
    EXPECT_EQ(read_text(*found, begin, 750'000), plain.substr(begin, 750'000));
    EXPECT_EQ(read_text(*found, (64U << 20) - 1, 1), plain.substr((64U << 20) - 1, 1));
  }
}

TEST(Encrypted, PassesOnWhatTheFileSays) {
  for (const std::string& mode : kModes) {
    const auto memory =
        std::make_shared<MemorySource>(encrypt(mode, kKey, sample(100), kBlock), "x.ckpt");
    const auto changing = std::make_shared<test::ChangingSource>(memory, 5);
    const auto found = open(mode, changing);
    EXPECT_EQ(found->name(), "x.ckpt");
    EXPECT_NO_THROW(found->check_unchanged());
    for (int i = 0; i < 3; ++i) read_text(*found, 0, 1);
    expect_error(ErrorKind::kChanged, {"x.ckpt"}, [&] { found->check_unchanged(); });
  }
}

TEST(Encrypted, LendsNobodyTheEncryptedFile) {
  const test::TempDir directory;
  const auto path = directory.write("a.ckpt", encrypt("AES-GCM", kKey, sample(100), kBlock));
  const ByteSourcePtr file = open_local_file(path);
  EXPECT_NE(file->descriptor(), nullptr);
  EXPECT_EQ(open("AES-GCM", file)->descriptor(), nullptr);
}

TEST(Encrypted, RefusesReadsThatLeaveTheFile) {
  for (const std::string& mode : kModes) {
    const auto found = open(mode, encrypt(mode, kKey, sample(700), kBlock));
    expect_error(ErrorKind::kBadInput, {"beyond"}, [&] { read_text(*found, 690, 11); });
    expect_error(ErrorKind::kBadInput, {"beyond"}, [&] { read_text(*found, ~0ULL, 1); });
    EXPECT_EQ(read_text(*found, 700, 0), "");
  }
}

TEST(Encrypted, ReadsNoMoreThanAskedForWithCbc) {
  const std::string plain = sample(10 * kBlock);
  const auto file = std::make_shared<test::CountingSource>(
      std::make_shared<MemorySource>(encrypt("AES-CBC", kKey, plain, kBlock)));
  const auto found = open("AES-CBC", file);
  const std::uint64_t before = file->bytes();
  EXPECT_LE(before, 10 * (32 + 32) + 4U);
  read_text(*found, 3 * kBlock + 17, 20);
  EXPECT_EQ(file->bytes() - before, 16U + 32U);
}

TEST(Encrypted, VerifiesEachBlockOfGcmOnceHoweverItIsRead) {
  const std::string plain = sample(10 * kBlock);
  const std::string bytes = encrypt("AES-GCM", kKey, plain, kBlock);
  constexpr std::size_t kFiles = 20;
  std::vector<std::shared_ptr<test::CountingSource>> files;
  std::vector<ByteSourcePtr> opened;
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < kFiles; ++i) {
    files.push_back(std::make_shared<test::CountingSource>(std::make_shared<MemorySource>(bytes)));
    opened.push_back(open("AES-GCM", files.back()));
    expected = files.back()->bytes();
    EXPECT_LE(expected, 10 * 48 + 4U);
  }
  for (std::size_t at = 0; at < plain.size(); at += 30) {
    const std::size_t count = std::min<std::size_t>(20, plain.size() - at);
    expected += count;
    for (const ByteSourcePtr& file : opened) {
      ASSERT_EQ(read_text(*file, at, count), plain.substr(at, count));
    }
  }
  for (const auto& file : files) EXPECT_EQ(file->bytes(), expected + plain.size());
}

TEST(Encrypted, RefusesEveryTruncation) {
  for (const std::string& mode : kModes) {
    const std::string file = encrypt(mode, kKey, sample(kBlock + 40), kBlock);
    const std::string first = encrypt(mode, kKey, sample(kBlock), kBlock);
    for (std::size_t size = 0; size < file.size(); ++size) {
      if (size == first.size()) continue;  // a whole file of one block
      SCOPED_TRACE(mode + " " + std::to_string(size));
      expect_error(ErrorKind::kBadInput, {"memory.ckpt"},
                   [&] { open(mode, file.substr(0, size)); });
    }
  }
}

TEST(Encrypted, RefusesDamageOfEveryHeaderByte) {
  const std::string plain = sample(kBlock + 40);
  for (const std::string& mode : kModes) {
    const std::string good = encrypt(mode, kKey, plain, kBlock);
    const std::size_t header = mode == "AES-GCM" ? 48 : 32;
    const std::size_t second = encrypt(mode, kKey, plain.substr(0, kBlock), kBlock).size();
    for (const std::size_t block : {std::size_t{0}, second}) {
      for (std::size_t at = 0; at < header; ++at) {
        SCOPED_TRACE(mode + " byte " + std::to_string(at) + " of the block at " +
                     std::to_string(block));
        std::string file = good;
        file[block + at] = static_cast<char>(file[block + at] ^ 0x55);
        const bool in_iv = at >= header - 20 && at < header - 4;
        if (mode != "AES-GCM" && in_iv) continue;              // CBC cannot tell
        if (mode == "AES-GCM" && in_iv && at >= 40) continue;  // not used: GCM takes 12 bytes
        expect_error(ErrorKind::kBadInput, {"memory.ckpt"},
                     [&] { read_text(*open(mode, file), 0, plain.size()); });
      }
    }
  }
}

TEST(Encrypted, RefusesEveryChangedByteOfGcm) {
  const std::string plain = sample(kBlock + 40);
  const std::string good = encrypt("AES-GCM", kKey, plain, kBlock);
  for (std::size_t at = 48 + kBlock + 48; at < good.size(); ++at) {
    std::string file = good;
    file[at] = static_cast<char>(file[at] ^ 1);
    const auto found = open("AES-GCM", file);
    EXPECT_EQ(read_text(*found, 0, kBlock), plain.substr(0, kBlock));
    for (int again = 0; again < 2; ++again) {  // a block that failed is not kept
      std::string out(1, 'x');
      expect_error(
          ErrorKind::kBadInput,
          {"memory.ckpt", "offset 608", "block 1", "the key is wrong or the file was changed"},
          [&] { found->read_at(kBlock, std::as_writable_bytes(std::span(out))); });
      EXPECT_EQ(out, "x");
    }
  }
}

TEST(Encrypted, RefusesBlocksAfterAShortOneAndWhatFollowsTheLast) {
  for (const std::string& mode : kModes) {
    const std::string full = encrypt(mode, kKey, sample(kBlock), kBlock);
    const std::string shorter = encrypt(mode, kKey, sample(kBlock - 1), kBlock);
    expect_error(ErrorKind::kBadInput, {"block 0"}, [&] { open(mode, shorter + full); });
    expect_error(ErrorKind::kBadInput, {"block 1"}, [&] { open(mode, full + "x"); });
    expect_error(ErrorKind::kBadInput, {"block 0"},
                 [&] { open(mode, encrypt(mode, kKey, sample(2 * kBlock), 2 * kBlock)); });
  }
}

TEST(Encrypted, ReadsOverTheTrailerOfCrcCheck) {
  const std::string trailer = "crc_num" + std::string(10, '\0');
  for (const std::string& mode : kModes) {
    for (const std::size_t size : {kBlock - 1, kBlock, 2 * kBlock + 3}) {
      const std::string file = encrypt(mode, kKey, sample(size), kBlock);
      EXPECT_EQ(read_text(*open(mode, file + trailer), 0, size), sample(size));
      std::string other = trailer;
      other.back() = '\1';
      expect_error(ErrorKind::kBadInput, {"block"}, [&] { open(mode, file + other); });
      expect_error(ErrorKind::kBadInput, {"block"}, [&] { open(mode, file + trailer + trailer); });
    }
    expect_error(ErrorKind::kBadInput, {}, [&] { open(mode, trailer); });
  }
}

TEST(Encrypted, SaysThatTheKeyMayBeWrong) {
  for (const std::string& mode : kModes) {
    const std::string file = encrypt(mode, kKey, sample(2 * kBlock), kBlock);
    expect_error(ErrorKind::kBadInput,
                 {"memory.ckpt", "block 0 cannot be decrypted", "the key is wrong", "key file"},
                 [&] { read_text(*open(mode, file, kOtherKey), 0, 1); });
  }
}

/// A file of one CBC block whose last two cipher blocks decrypt to `end`, padding and all.
std::string with_end(const std::string& mode, const std::string& end) {
  std::string file = encrypt_block(mode, kKey, std::string(32, 'p') + end, 0);
  file.resize(file.size() - 16);  // the padding that belongs there
  const std::size_t cipher_bytes = file.size() - 32;
  return file.replace(4, 4, little_endian(24 + cipher_bytes))
      .replace(28, 4, little_endian(cipher_bytes));
}

TEST(Encrypted, ChecksEveryByteOfThePaddingOfCbc) {
  for (const std::string mode : {"AES-CBC", "SM4-CBC"}) {
    for (std::size_t n = 0; n <= 32; ++n) {
      SCOPED_TRACE(mode + " " + std::to_string(n));
      const std::string end = std::string(32 - n, 'x') + std::string(n, static_cast<char>(n));
      const bool good = n >= 1 && n <= 16;
      if (good) {
        EXPECT_EQ(open(mode, with_end(mode, end))->size(), 64 - n);
      } else {
        const std::string nothing(32, '\0');
        expect_error(ErrorKind::kBadInput, {"block 0 cannot be decrypted"},
                     [&] { open(mode, with_end(mode, n == 0 ? nothing : end)); });
      }
      for (std::size_t i = 2; good && i <= n; ++i) {
        std::string bad = end;
        bad[bad.size() - i] = '\x7f';
        expect_error(ErrorKind::kBadInput, {"block 0 cannot be decrypted"},
                     [&] { open(mode, with_end(mode, bad)); });
      }
    }
  }
}

TEST(Encrypted, ExplainsWhatCbcCannotTell) {
  const auto broken = [] { return Error(ErrorKind::kBadInput, "has no tag").in_file("f.ckpt"); };
  Error cbc = broken().hint("the file is damaged");
  EXPECT_EQ(&key_of("AES-CBC", kKey)->explain(cbc), &cbc);
  EXPECT_NE(std::string(cbc.what()).find("has no tag"), std::string::npos) << cbc.what();
  EXPECT_NE(std::string(cbc.what()).find("the key is wrong"), std::string::npos) << cbc.what();
  EXPECT_EQ(cbc.file(), "f.ckpt");
  Error gcm = broken();
  EXPECT_STREQ(key_of("AES-GCM", kKey)->explain(gcm).what(), broken().what());
  Error io = io_error("read", "f.ckpt", EIO);
  EXPECT_STREQ(key_of("AES-CBC", kKey)->explain(io).what(), io_error("read", "f.ckpt", EIO).what());
}

TEST(Encrypted, NamesTheModeOfTheFile) {
  for (const std::string& mode : kModes) {
    const auto file = std::make_shared<MemorySource>(encrypt(mode, kKey, sample(100), kBlock));
    EXPECT_TRUE(looks_encrypted(*file));
    expect_error(ErrorKind::kBadInput, {"is encrypted (" + mode + ")", "--dec-key-file"},
                 [&] { open_plain(file, nullptr); });
    for (const std::string& other : kModes) {
      if (other == mode) continue;
      expect_error(ErrorKind::kBadInput, {"encrypted with " + mode, "--dec-mode " + mode},
                   [&] { open(other, file); });
    }
  }
}

TEST(Encrypted, RefusesAPlainFileWhereAKeyIsGiven) {
  for (const char* text : {"", "\x0a", "\x0a\x05plain"}) {
    const auto file = std::make_shared<MemorySource>(text);
    EXPECT_FALSE(looks_encrypted(*file));
    EXPECT_EQ(open_plain(file, nullptr), file);
    expect_error(ErrorKind::kBadInput, {"is not encrypted", "--dec-key-file"},
                 [&] { open_plain(file, key_of("AES-GCM", kKey)); });
  }
}

TEST(Encrypted, CallsAFileThatChangesChanged) {
  for (const int damage : {0, 1}) {
    std::string bytes = encrypt("AES-GCM", kKey, sample(100), kBlock);
    bytes.back() = static_cast<char>(bytes.back() ^ damage);
    const auto file =
        std::make_shared<test::ChangingSource>(std::make_shared<MemorySource>(bytes), 3);
    const auto found = open("AES-GCM", file);
    for (int again = 0; again < 2; ++again) {
      expect_error(ErrorKind::kChanged, {"memory.ckpt"}, [&] { read_text(*found, 0, 1); });
    }
  }
}

TEST(Encrypted, RecoversFromAFailedRead) {
  const std::string plain = sample(100);
  for (const std::string& mode : kModes) {
    const std::uint64_t reads_to_open = mode == "AES-GCM" ? 2 : 3;
    const auto file = std::make_shared<test::FaultSource>(
        std::make_shared<MemorySource>(encrypt(mode, kKey, plain, kBlock)), reads_to_open + 1, EIO);
    const auto found = open(mode, file);
    expect_error(ErrorKind::kIo, {"memory.ckpt"}, [&] { read_text(*found, 0, 100); });
    EXPECT_EQ(read_text(*found, 0, 100), plain);
  }
}

TEST(Encrypted, VerifiesABlockOnceHoweverManyThreadsReadIt) {
  const std::string plain = sample(4 * kBlock);
  for (const std::string& mode : kModes) {
    const auto file = std::make_shared<test::CountingSource>(
        std::make_shared<MemorySource>(encrypt(mode, kKey, plain, kBlock)));
    const auto found = open(mode, file);
    std::atomic<std::uint64_t> expected = file->bytes() + plain.size();
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        for (int i = 0; i < 500; ++i) {
          const std::size_t offset = random() % plain.size();
          const std::size_t count = random() % (plain.size() - offset);
          EXPECT_EQ(read_text(*found, offset, count), plain.substr(offset, count));
          expected += count;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (mode != "AES-GCM") continue;  // CBC reads whole cipher blocks
    EXPECT_EQ(file->bytes(), expected);
  }
}

}  // namespace
}  // namespace reshardfs::encrypted_tests
