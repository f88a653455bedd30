// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/set_age.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/ranks/discovery.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

class TimedSource final : public ByteSource {
 public:
  TimedSource(std::int64_t mtime_ns, std::uint64_t size) : mtime_ns_(mtime_ns), size_(size) {}
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return size_; }
  std::int64_t mtime_ns() const override { return mtime_ns_; }
  void read_at(std::uint64_t /*offset*/, std::span<std::byte> /*out*/) const override {}
  void check_unchanged() const override {}

 private:
  std::string name_ = "timed";
  std::int64_t mtime_ns_;
  std::uint64_t size_;
};

/// Seconds and sizes of files, against a table of second 1,000.
std::string warning(const std::vector<std::pair<std::int64_t, std::uint64_t>>& files,
                    std::uint64_t sets_since = 0) {
  Discovery found;
  found.written_last.push_back({"dir/.metadata", 1000 * kSecond, sets_since});
  std::vector<RankFile> opened(1);  // one could not be opened
  for (const auto& [seconds, size] : files) {
    RankFile file;
    file.path = "dir/at_" + std::to_string(seconds);
    file.source = std::make_shared<TimedSource>(seconds * kSecond, size);
    opened.push_back(std::move(file));
  }
  return newer_than_table(found, opened).value_or("");
}

TEST(SetAge, WarnsOfTheFirstFileThatIsNewer) {
  EXPECT_EQ(warning({{10, 1}, {990, 1}, {1000, 1}}), "");
  EXPECT_EQ(warning({{10, 1}, {9000, 1}, {5000, 1}}),
            "at_5000 (1970-01-01T01:23:20Z) is newer than .metadata (1970-01-01T00:16:40Z), which "
            "a save writes last: it may be of another save, or was changed later");
}

TEST(SetAge, AllowsForCopies) {
  EXPECT_EQ(warning({{1040, 1}, {1099, 1}, {1150, 1}}), "") << "one after the other";
  EXPECT_NE(warning({{1040, 1}, {1099, 1}, {1160, 1}}), "");
  EXPECT_EQ(warning({{1400, 10'000'000'000}, {1800, 10'000'000'000}}), "") << "large files";
  EXPECT_EQ(warning({{1500, 5'000'000'000}}, 1), "") << "a set of the same size before it";
  EXPECT_NE(warning({{1500, 5'000'000'000}}), "");
}

TEST(SetAge, IsNotGuessed) {
  Discovery found;
  found.written_last.push_back({".metadata", 0});
  RankFile file;
  file.source = std::make_shared<TimedSource>(5000 * kSecond, 1);
  EXPECT_FALSE(newer_than_table(found, std::span(&file, 1)));
  found.written_last.clear();
  EXPECT_FALSE(newer_than_table(found, std::span(&file, 1)));
}

}  // namespace
}  // namespace reshardfs
