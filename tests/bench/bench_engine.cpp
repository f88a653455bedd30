// SPDX-License-Identifier: Apache-2.0
/// The engine's parts alone, without files where possible and without the kernel: overlaying
/// layouts, finding the runs of a range, gathering, converting.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/cast.h"
#include "layout/axis_partition.h"
#include "plan/target/file_image.h"
#include "plan/target/shown_tensor.h"
#include "storage/local/mapped_gather.h"
#include "storage/strided_ranges.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

// --- layouts and plans ---------------------------------------------------------------------------

void overlay_parts(benchmark::State& state) {
  const std::int64_t from = state.range(0);
  const std::int64_t to = state.range(1);
  const AxisPartition source = AxisPartition::even(from * to, from);
  const AxisPartition destination = AxisPartition::even(from * to, to);
  std::int64_t part = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(overlay(destination, part, source));
    part = (part + 1) % to;
  }
}
BENCHMARK(overlay_parts)->Args({8, 4})->Args({4, 8})->Args({512, 1})->Args({512, 384});

/// A tensor [16384, 16384] of float32, its columns cut for `from` ranks, as one of `to` gets it.
ShownTensor column_view(std::int64_t from, std::int64_t to) {
  constexpr std::int64_t kSide = 16384;
  static const TensorEntry entry;
  auto pattern = std::make_shared<CellPattern>();
  pattern->full_shape = {kSide, kSide};
  pattern->partitions = {AxisPartition::even(kSide, 1), AxisPartition::even(kSide, from)};
  pattern->files.resize(static_cast<std::size_t>(from));
  return {std::make_shared<const CellGrid>(std::move(pattern), entry),
          {AxisPartition::even(kSide, 1), AxisPartition::even(kSide, to)},
          {0, to - 1}};
}

/// The runs of a range of 1 MiB that begins within a row.
void find_runs(benchmark::State& state) {
  const ShownTensor view = column_view(state.range(0), state.range(1));
  std::uint64_t offset = 12345;
  std::uint64_t runs = 0;
  for (auto _ : state) {
    view.for_each_run({offset, kMebibyte}, [&](const StridedRun& run) { runs += run.count; });
    offset = (offset + 7 * kMebibyte) % (view.size() - kMebibyte);
  }
  benchmark::DoNotOptimize(runs);
}
BENCHMARK(find_runs)->Args({8, 4})->Args({1, 8})->Args({64, 1})->Args({64, 128});

void build_view(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(column_view(state.range(0), state.range(1)));
}
BENCHMARK(build_view)->Args({8, 4})->Args({64, 1});

/// 64 bytes from anywhere in a file of 3,000 pieces.
void find_piece(benchmark::State& state) {
  FileImage image;
  for (int i = 0; i < 3000; ++i) image.append_literal(std::string(100, 'x'));
  std::vector<std::byte> out(64);
  std::uint64_t offset = 0;
  for (auto _ : state) {
    read_checked([&](ReadBatch& batch) { image.read(offset, out, batch); });
    offset = (offset + 123'457) % (image.size() - out.size());
  }
}
BENCHMARK(find_piece);

// --- gathering -----------------------------------------------------------------------------------

/// 1 MiB of ranges of state.range(0) bytes, which are every state.range(1)-th of their source.
StridedRanges ranges_of(const benchmark::State& state) {
  const auto length = static_cast<std::uint64_t>(state.range(0));
  return {ByteRange::whole(length),
          kMebibyte / length,
          {.source = length * static_cast<std::uint64_t>(state.range(1)), .memory = length}};
}

void piece_arguments(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t length : {32, 256, 2048}) {
    for (const std::int64_t every : {2, 8}) benchmark->Args({length, every});
  }
}

void copy_from_memory(benchmark::State& state) {
  const StridedRanges ranges = ranges_of(state);
  const std::vector<std::byte> from(ranges.span().length());
  std::vector<std::byte> out(kMebibyte);
  for (auto _ : state) {
    copy_ranges(from.data(), ranges, out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kMebibyte);
}
BENCHMARK(copy_from_memory)->Apply(piece_arguments);

/// 64 MiB in the page cache, of which no two gathers in a row use the same pages.
class CachedFile {
 public:
  static constexpr std::uint64_t kBytes = 64 * kMebibyte;

  CachedFile() : fd_(::mkstemp(path_.data())) {
    ::unlink(path_.c_str());
    const std::vector<std::byte> block(kMebibyte, std::byte{1});
    for (std::uint64_t at = 0; at < kBytes; at += block.size()) {
      if (::write(fd_, block.data(), block.size()) != static_cast<ssize_t>(block.size())) {
        throw std::runtime_error("cannot write a temporary file");
      }
    }
  }
  CachedFile(const CachedFile&) = delete;
  CachedFile& operator=(const CachedFile&) = delete;
  ~CachedFile() { ::close(fd_); }
  int fd() const { return fd_; }

 private:
  std::string path_ = "/tmp/reshardfs-bench-XXXXXX";
  int fd_;
};

template <typename Gather>
void gather_from_file(benchmark::State& state, Gather&& gather) {
  const CachedFile file;
  StridedRanges ranges = ranges_of(state);
  std::vector<std::byte> out(kMebibyte);
  for (auto _ : state) {
    if (!gather(file.fd(), ranges, out.data())) state.SkipWithError("cannot read");
    ranges = ranges.moved_to(ranges.offset_of(ranges.count()));
    if (ranges.span().end() > CachedFile::kBytes) ranges = ranges.moved_to(0);
  }
  state.SetBytesProcessed(state.iterations() * kMebibyte);
}

void gather_mapped(benchmark::State& state) {
  gather_from_file(state, gather_from_map);
}
BENCHMARK(gather_mapped)->Apply(piece_arguments);

/// What gathering competes with: everything is read, and the ranges picked out.
void gather_with_gaps(benchmark::State& state) {
  std::vector<std::byte> block(256 << 10);
  gather_from_file(state, [&](int fd, const StridedRanges& ranges, std::byte* out) {
    const std::uint64_t at_once = block.size() / ranges.stride();
    for (std::uint64_t i = 0; i < ranges.count(); i += at_once) {
      const StridedRanges part = ranges.part(i, at_once);
      const std::size_t bytes = part.span().length();
      const ssize_t got = ::pread(fd, block.data(), bytes, static_cast<off_t>(part.offset()));
      if (got != static_cast<ssize_t>(bytes)) return false;
      copy_ranges(block.data(), part, out + ranges.out_offset_of(i));
    }
    return true;
  });
}
BENCHMARK(gather_with_gaps)->Apply(piece_arguments);

void gather_one_by_one(benchmark::State& state) {
  gather_from_file(state, [](int fd, const StridedRanges& ranges, std::byte* out) {
    for (std::uint64_t i = 0; i < ranges.count(); ++i) {
      const auto at = static_cast<off_t>(ranges.offset_of(i));
      if (::pread(fd, out + ranges.out_offset_of(i), ranges.length(), at) < 0) return false;
    }
    return true;
  });
}
BENCHMARK(gather_one_by_one)->Apply(piece_arguments);

// --- element types -------------------------------------------------------------------------------

/// In blocks of 64 Ki elements; the rate counts the bytes that come out.
template <DType from, DType to>
void convert(benchmark::State& state) {
  constexpr std::size_t kElements = 64 << 10;
  const std::vector<std::byte> in(kElements * static_cast<std::size_t>(element_size(from)));
  std::vector<std::byte> out(kElements * static_cast<std::size_t>(element_size(to)));
  for (auto _ : state) {
    cast_elements(from, in.data(), to, out.data(), kElements);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(out.size()));
}
BENCHMARK(convert<DType::kFloat32, DType::kBFloat16>);
BENCHMARK(convert<DType::kBFloat16, DType::kFloat32>);
BENCHMARK(convert<DType::kFloat32, DType::kFloat16>);
BENCHMARK(convert<DType::kFloat16, DType::kFloat32>);
BENCHMARK(convert<DType::kFloat32, DType::kFloat64>);

}  // namespace
}  // namespace reshardfs

BENCHMARK_MAIN();
