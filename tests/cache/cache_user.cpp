// SPDX-License-Identifier: Apache-2.0
#include "cache_user.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cache/block_cache.h"
#include "support/block_contents.h"

namespace reshardfs::test {
namespace {

using Contents = std::vector<std::byte>;

std::string identity(std::uint64_t object) {
  return "object " + std::to_string(object);
}

/// The last block of each object is shorter.
std::size_t block_size(std::uint64_t object, std::uint64_t block) {
  return block + 1 < kBlocksOfObject ? BlockCache::kBlockBytes : 100'000 + 77'777 * object;
}

std::string value_of(std::uint64_t object) {
  const Contents bytes = block_contents(identity(object), 1'000'000, 40'000 + 500'000 * object);
  std::string text(bytes.size(), '\0');
  std::transform(bytes.begin(), bytes.end(), text.begin(),
                 [](std::byte byte) { return static_cast<char>(byte); });
  return text;
}

class User {
 public:
  explicit User(const std::filesystem::path& directory)
      : cache_(BlockCache::open({directory, kMaxBytes})) {
    for (std::uint64_t i = 0; i < kObjects; ++i) keys_.emplace_back(identity(i));
  }

  BlockCache& cache() { return *cache_; }
  const ObjectKey& key(std::uint64_t object) const { return keys_[object]; }
  std::uint64_t wrong() const { return wrong_; }

  void use_block(std::uint64_t object, std::uint64_t block, bool write) {
    const Contents right = block_contents(identity(object), block, block_size(object, block));
    Contents out(right.size());
    if (cache_->read(key(object), block, out)) {
      require(out == right, "block", object, block);
    } else if (write) {
      cache_->write(key(object), block, right);
    }
  }

  void use_part(std::uint64_t object, std::uint64_t block, std::uint64_t from, std::uint64_t to) {
    const Contents right = block_contents(identity(object), block, block_size(object, block));
    from %= right.size();
    to %= right.size();
    if (from > to) std::swap(from, to);
    Contents out(to - from);
    if (!cache_->read_part(key(object), block, right.size(), from, out)) return;
    require(std::equal(out.begin(), out.end(), right.begin() + static_cast<std::ptrdiff_t>(from)),
            "part of block", object, block);
  }

  void use_value(std::uint64_t object, bool write) {
    const std::string right = value_of(object);
    if (const auto found = cache_->load("value", key(object))) {
      require(*found == right, "value", object, 0);
    } else if (write) {
      cache_->store("value", key(object), right);
    }
  }

 private:
  void require(bool is_right, const char* what, std::uint64_t object, std::uint64_t block) {
    if (is_right) return;
    ++wrong_;
    std::fprintf(stderr, "wrong %s: object %lu, block %lu\n", what, object, block);
  }

  std::shared_ptr<BlockCache> cache_;
  std::vector<ObjectKey> keys_;
  std::uint64_t wrong_ = 0;
};

bool is_closed(int file) {
  pollfd waiting{file, POLLIN, 0};
  return ::poll(&waiting, 1, 0) > 0;
}

}  // namespace

int use_cache(const std::filesystem::path& directory, std::uint64_t seed, const KillPoint& point,
              int stop, int events, int report) {
  User user(directory);
  std::mt19937_64 random(seed);
  for (std::uint64_t blocks = 0; !is_closed(stop); ++blocks) {
    if (point.moment != Moment::kAny && blocks == point.blocks) stop_at(point, events);
    const std::uint64_t object = random() % kObjects;
    const std::uint64_t block = random() % kBlocksOfObject;
    user.use_block(object, block, true);
    if (random() % 4 == 0) user.use_part(object, random() % kBlocksOfObject, random(), random());
    if (random() % 16 == 0) user.use_value(object, true);
    if (::write(events, &kUsedBlock, 1) != 1) return 2;
  }
  user.cache().flush();
  const BlockCache::Stats stats = user.cache().stats();
  const UserReport told{stats.hits, stats.misses, stats.evicted_records, stats.bad_records,
                        stats.failures};
  if (::write(report, &told, sizeof(told)) != sizeof(told)) return 2;
  return user.wrong() == 0 ? 0 : 1;
}

std::uint64_t wrong_in(const std::filesystem::path& directory) {
  User user(directory);
  for (std::uint64_t object = 0; object < kObjects; ++object) {
    for (std::uint64_t block = 0; block < kBlocksOfObject; ++block) {
      user.use_block(object, block, false);
    }
    user.use_value(object, false);
  }
  user.cache().flush();
  return user.wrong();
}

void put_wrong_block(const std::filesystem::path& directory) {
  User user(directory);
  Contents bytes = block_contents(identity(0), 0, block_size(0, 0));
  bytes[12345] ^= std::byte{1};
  user.cache().write(user.key(0), 0, bytes);
  user.cache().flush();
}

}  // namespace reshardfs::test
