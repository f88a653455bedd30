// SPDX-License-Identifier: Apache-2.0
/// Blocks from the cache against the same bytes from a file, both in the kernel's page cache: what
/// the cache's checksums, names and descriptors cost.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "cache/block_cache.h"
#include "cache/checksum.h"
#include "support/block_contents.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

constexpr std::size_t kBlock = BlockCache::kBlockBytes;
constexpr std::uint64_t kBlocks = 256;

/// The same blocks in a cache and in a file.
struct Sources {
  Sources() {
    file = ::open((dir.path() / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      const auto bytes = test::block_contents("object", i, kBlock);
      if (::pwrite(file, bytes.data(), kBlock, static_cast<off_t>(i * kBlock)) != kBlock) {
        throw std::runtime_error("cannot write");
      }
      cache->write(key, i, bytes);
      cache->flush();
    }
  }
  ~Sources() { ::close(file); }
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

  test::TempDir dir;
  ObjectKey key{"object"};
  std::shared_ptr<BlockCache> cache = BlockCache::open({dir.path() / "cache", 1 << 30});
  int file = -1;
};

Sources& sources() {
  static Sources the_sources;
  return the_sources;
}

/// 1 MiB, or less from anywhere in a block.
void read_file(benchmark::State& state) {
  const Sources& from = sources();
  const auto size = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> out(size);
  std::uint64_t i = 0;
  for (auto _ : state) {
    const std::uint64_t offset = i * kBlock + (i * 4567) % (kBlock - size + 1);
    if (::pread(from.file, out.data(), size, static_cast<off_t>(offset)) < 0) std::abort();
    i = (i + 1) % kBlocks;
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void read_cache(benchmark::State& state) {
  const Sources& from = sources();
  const auto size = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> out(size);
  std::uint64_t i = 0;
  for (auto _ : state) {
    const std::uint64_t offset = (i * 4567) % (kBlock - size + 1);
    if (!from.cache->read_part(from.key, i, kBlock, offset, out)) state.SkipWithError("not there");
    i = (i + 1) % kBlocks;
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

/// As a program reads that begins in the middle of a block: requests of a size, one after the
/// other.
void read_cache_in_order(benchmark::State& state) {
  const Sources& from = sources();
  const auto size = static_cast<std::uint64_t>(state.range(0));
  std::vector<std::byte> out(size);
  std::uint64_t at = kBlock / 3;
  for (auto _ : state) {
    for (std::uint64_t done = 0; done < size;) {
      const std::uint64_t offset = (at + done) % kBlock;
      const std::uint64_t part = std::min(size - done, kBlock - offset);
      if (!from.cache->read_part(from.key, (at + done) / kBlock, kBlock, offset,
                                 std::span(out).subspan(done, part))) {
        state.SkipWithError("not there");
      }
      done += part;
    }
    at = (at + size) % ((kBlocks - 2) * kBlock);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void read_of_nothing(benchmark::State& state) {
  const Sources& from = sources();
  std::vector<std::byte> out(kBlock);
  for (auto _ : state) benchmark::DoNotOptimize(from.cache->read(from.key, kBlocks, out));
}

void check_block(benchmark::State& state) {
  const auto bytes = test::block_contents("object", 0, kBlock);
  for (auto _ : state) benchmark::DoNotOptimize(checksum(bytes));
  state.SetBytesProcessed(state.iterations() * std::int64_t{kBlock});
}

void write_cache(benchmark::State& state) {
  const test::TempDir dir;
  const auto cache = BlockCache::open({dir.path(), 128 << 20});
  const ObjectKey key("object");
  const auto bytes = test::block_contents("object", 0, kBlock);
  std::uint64_t i = 0;
  for (auto _ : state) {
    cache->write(key, i++, bytes);
    cache->flush();
  }
  state.SetBytesProcessed(state.iterations() * std::int64_t{kBlock});
}

BENCHMARK(read_file)->Arg(kBlock)->Arg(128 << 10)->Arg(4 << 10);
BENCHMARK(read_cache)->Arg(kBlock)->Arg(128 << 10)->Arg(4 << 10);
BENCHMARK(read_cache_in_order)->Arg(kBlock)->Arg(128 << 10);
BENCHMARK(read_file)->Arg(kBlock)->ThreadRange(2, 4);
BENCHMARK(read_cache)->Arg(kBlock)->ThreadRange(2, 4);
BENCHMARK(read_of_nothing);
BENCHMARK(check_block);
BENCHMARK(write_cache);

}  // namespace
}  // namespace reshardfs

BENCHMARK_MAIN();
