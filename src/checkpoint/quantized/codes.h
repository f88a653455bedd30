// SPDX-License-Identifier: Apache-2.0
/// Decoders of quantized weights: codes and scales to BFloat16.
/// https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf (E2M1,
/// E2M3, E4M3, E8M0)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reshardfs/dtype.h"

#include "checkpoint/quantized/quantized_weight.h"

namespace reshardfs {

/// Codes [first, first + out.size()) of a row, one to a byte.
/// @param row of CodePacking::kStream; one byte behind its end may be read, if it has one.
void unpack_stream(std::span<const std::byte> row, unsigned bits, std::uint64_t first,
                   std::span<std::uint8_t> out) noexcept;
/// The same of CodePacking::kInterleaved.
void unpack_interleaved(std::span<const std::byte> row, std::uint64_t first,
                        std::span<std::uint8_t> out) noexcept;

/// Codes that share a scale and an offset. @param offset only of integers. @param out two bytes for
/// each.
void decode(CodeKind kind, std::span<const std::uint8_t> codes, int offset, float scale,
            std::byte* out) noexcept;
/// Codes with a scale and an offset of each.
void decode_each(CodeKind kind, std::span<const std::uint8_t> codes, const int* offsets,
                 const float* scales, std::byte* out) noexcept;

/// Whether scales may have this type: 32- and 16-bit floats, Float8E4M3, Float8E8M0 and, as the
/// same, UInt8.
bool is_scale_type(DType dtype) noexcept;
/// Scales as float32, all of them exact. E8M0 is a power of two; 255 is NaN.
/// @pre is_scale_type(from)
void scales_as_floats(DType from, std::span<const std::byte> in, float* out) noexcept;

}  // namespace reshardfs
