// SPDX-License-Identifier: Apache-2.0
/// Decoders of quantized weights, out of memory; the rate counts the bytes of BFloat16 that come
/// out. Beside them the copy of as many bytes, and the same without vectors of AVX2.
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "checkpoint/quantized/codes.h"
#include "checkpoint/quantized/dequantized_content.h"
#include "support/sources.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kSide = 4096;
constexpr std::size_t kAtOnce = 1 << 20;

StoredTensor random_tensor(DType dtype, const Shape& shape) {
  static std::minstd_rand random(1);
  std::string bytes(static_cast<std::size_t>(element_count(shape) * element_size(dtype)), '\0');
  // Scales near 1, of every type.
  for (char& byte : bytes) byte = static_cast<char>(random() >> 8U);
  if (dtype == DType::kFloat8E8M0 || dtype == DType::kFloat32 || dtype == DType::kFloat16 ||
      dtype == DType::kBFloat16) {
    const auto width = static_cast<std::size_t>(element_size(dtype));
    for (std::size_t i = width - 1; i < bytes.size(); i += width) bytes[i] = 0x3f;
  }
  const ByteRange place(0, bytes.size());
  return {std::make_shared<test::MemorySource>(std::move(bytes)), place, dtype, shape};
}

QuantizedWeight floats(CodeKind kind, unsigned bits, BlockShape block, DType scales) {
  QuantizedWeight weight;
  weight.kind = kind;
  weight.bits = bits;
  weight.shape = {kSide, kSide};
  weight.row_bytes = static_cast<std::uint64_t>(kSide * bits / 8);
  weight.codes = random_tensor(DType::kUInt8, {kSide, kSide * bits / 8});
  weight.block = block;
  weight.scales = random_tensor(scales, *scale_shape(weight.shape, block));
  return weight;
}

QuantizedWeight nvfp4() {
  QuantizedWeight weight = floats(CodeKind::kE2M1, 4, {1, 16}, DType::kFloat8E4M3);
  weight.factor = random_tensor(DType::kFloat32, {1});
  weight.divides = true;
  return weight;
}

QuantizedWeight integers(unsigned bits, std::int64_t group, bool has_zeros) {
  QuantizedWeight weight = floats(CodeKind::kUnsigned, bits, {1, group}, DType::kBFloat16);
  weight.offset = 1 << (bits - 1);
  if (has_zeros) {
    weight.zero_packing = ZeroPacking::kColumns;
    weight.zeros = random_tensor(DType::kInt32, {kSide * bits / 32, kSide / group});
  }
  return weight;
}

QuantizedWeight gpt_oss() {
  QuantizedWeight weight = floats(CodeKind::kE2M1, 4, {1, 32}, DType::kFloat8E8M0);
  weight.is_transposed = true;
  return weight;
}

QuantizedWeight words(CodePacking packing) {
  QuantizedWeight weight = floats(CodeKind::kUnsigned, 4, {128, 1}, DType::kFloat16);
  weight.packing = packing;
  weight.is_transposed = true;
  if (packing == CodePacking::kWordsOfRows) weight.row_bytes = kSide * 4;
  weight.zero_packing = ZeroPacking::kRows;
  weight.zeros = random_tensor(DType::kInt32, {kSide / 128, kSide / 8});
  return weight;
}

void dequantize(benchmark::State& state, const QuantizedWeight& weight) {
  const DequantizedContent content(weight, weight.codes.source);
  std::vector<std::byte> out(kAtOnce);
  std::uint64_t offset = 0;
  for (auto _ : state) {
    content.read({offset, out});
    offset = (offset + kAtOnce) % content.size();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kAtOnce));
}

void copy(benchmark::State& state) {
  const std::vector<std::byte> from(2 * kSide * kSide, std::byte{1});
  std::vector<std::byte> out(kAtOnce);
  std::size_t offset = 0;
  for (auto _ : state) {
    std::memcpy(out.data(), from.data() + offset, kAtOnce);
    offset = (offset + kAtOnce) % from.size();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kAtOnce));
}

/// A row of codes that share scales, without reads.
void decode(benchmark::State& state, const Decoder& decoder, CodeKind kind, unsigned bits) {
  constexpr std::size_t kRun = 32;
  const StoredTensor codes = random_tensor(DType::kUInt8, {kSide * bits / 8});
  std::vector<std::byte> packed(static_cast<std::size_t>(kSide * bits / 8));
  codes.source->read_at(0, packed);
  std::vector<std::uint16_t> unpacked(kSide);
  const std::vector<float> scales(kSide / kRun, 0.5F);
  const std::vector<int> offsets(kSide / kRun, 8);
  std::vector<std::byte> out(2 * kSide);
  for (auto _ : state) {
    decoder.unpack({CodePacking::kStream, bits, packed, 0}, unpacked);
    decoder.decode(kind, {unpacked, kRun, kRun, scales.data(), offsets.data(), bits}, out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(out.size()));
}

void register_all() {
  benchmark::RegisterBenchmark("memcpy", copy);
  const auto add = [](const std::string& name, const std::function<QuantizedWeight()>& make) {
    benchmark::RegisterBenchmark(("dequantize/" + name).c_str(),
                                 [make](benchmark::State& state) { dequantize(state, make()); });
  };
  add("nvfp4", nvfp4);
  add("mxfp4", [] { return floats(CodeKind::kE2M1, 4, {1, 32}, DType::kFloat8E8M0); });
  add("mxfp4, gpt-oss", gpt_oss);
  add("int4, groups of 32", [] { return integers(4, 32, false); });
  add("int4, groups of 128, zero points", [] { return integers(4, 128, true); });
  add("int4, channels", [] { return integers(4, kSide, false); });
  add("awq", [] { return words(CodePacking::kInterleaved); });
  add("gptq", [] { return words(CodePacking::kWordsOfRows); });
  add("int3, groups of 32", [] { return integers(3, 32, false); });
  add("mxfp6", [] { return floats(CodeKind::kE2M3, 6, {1, 32}, DType::kFloat8E8M0); });
  add("fp8, blocks", [] { return floats(CodeKind::kE4M3, 8, {128, 128}, DType::kFloat32); });
  add("fp8, channels", [] { return floats(CodeKind::kE4M3, 8, {1, kSide}, DType::kBFloat16); });
  add("mxfp8", [] { return floats(CodeKind::kE4M3, 8, {1, 32}, DType::kFloat8E8M0); });
  add("int8, channels", [] { return floats(CodeKind::kSigned, 8, {1, kSide}, DType::kBFloat16); });
  for (const Decoder& decoder : decoders()) {
    const auto each = [&](const std::string& name, CodeKind kind, unsigned bits) {
      benchmark::RegisterBenchmark(
          ("decode/" + name + ", " + std::string(decoder.name)).c_str(),
          [&decoder, kind, bits](benchmark::State& state) { decode(state, decoder, kind, bits); });
    };
    each("e2m1", CodeKind::kE2M1, 4);
    each("int4", CodeKind::kUnsigned, 4);
    each("e4m3", CodeKind::kE4M3, 8);
  }
}

}  // namespace
}  // namespace reshardfs

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  reshardfs::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
