// SPDX-License-Identifier: Apache-2.0
#include "base/cast.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/glob.h"

namespace reshardfs {
namespace {

/// A binary floating-point type, as the bits of its elements. Conversion is arithmetic on them
/// without branches, so that the loops become vector code.
template <typename BitsType, typename ArithmeticType, int kFractionBits>
struct Format {
  using Bits = BitsType;
  /// What the processor computes in, as wide as Bits; for types that it does not have: Bits.
  using Arithmetic = ArithmeticType;
  static constexpr int kWidth = static_cast<int>(sizeof(Bits)) * 8;
  static constexpr int kFraction = kFractionBits;
  static constexpr int kExponent = kWidth - 1 - kFractionBits;
  static constexpr std::uint64_t kBias = (std::uint64_t{1} << (kExponent - 1)) - 1;
  static constexpr Bits kSign = static_cast<Bits>(std::uint64_t{1} << (kWidth - 1));
  static constexpr Bits kInfinity =
      static_cast<Bits>((std::uint64_t{1} << (kWidth - 1)) - (std::uint64_t{1} << kFractionBits));
  static constexpr Bits kFractionMask = static_cast<Bits>((std::uint64_t{1} << kFractionBits) - 1);
  static constexpr Bits kQuiet = static_cast<Bits>(std::uint64_t{1} << (kFractionBits - 1));
};
using Half = Format<std::uint16_t, std::uint16_t, 10>;
using Brain = Format<std::uint16_t, std::uint16_t, 7>;
using Single = Format<std::uint32_t, float, 23>;
using Double = Format<std::uint64_t, double, 52>;

/// `condition ? yes : no` in arithmetic: the compiler would make a branch of it where `yes` comes
/// from floating-point arithmetic, and no vector code then.
template <typename Bits>
[[gnu::always_inline]] inline Bits select(bool condition, Bits yes, Bits no) noexcept {
  const auto mask = static_cast<Bits>(-static_cast<Bits>(condition));
  return static_cast<Bits>((yes & mask) | (no & ~mask));
}

/// To a type that has every value of `From`: exact.
template <typename From, typename To>
[[gnu::always_inline]] inline typename To::Bits widen(typename From::Bits bits) noexcept {
  using Bits = typename To::Bits;
  using Real = typename To::Arithmetic;
  constexpr int kShift = To::kFraction - From::kFraction;
  constexpr auto kRebias = static_cast<Bits>((To::kBias - From::kBias) << To::kFraction);
  constexpr auto kSpecial = static_cast<Bits>(Bits{From::kInfinity} << kShift);
  const auto sign = static_cast<Bits>(Bits{static_cast<typename From::Bits>(bits & From::kSign)}
                                      << (To::kWidth - From::kWidth));
  const auto size =
      static_cast<Bits>(Bits{static_cast<typename From::Bits>(bits & ~From::kSign)} << kShift);
  Bits result = size + kRebias;
  if constexpr (kRebias != 0) {
    // Subnormal numbers become normal: given the exponent of 1, they have 1 too much.
    constexpr Bits kOne = kRebias + (Bits{1} << To::kFraction);
    const Bits small =
        std::bit_cast<Bits>(std::bit_cast<Real>(size + kOne) - std::bit_cast<Real>(kOne));
    result = select<Bits>(size < (Bits{1} << To::kFraction), small, result);
    result = select<Bits>(size >= kSpecial, size | To::kInfinity, result);
  }
  result = select<Bits>(size > kSpecial, result | To::kQuiet, result);
  return sign | result;
}

/// To a type with fewer bits of fraction and no more of exponent: rounds once, to nearest even.
template <typename From, typename To>
[[gnu::always_inline]] inline typename To::Bits narrow(typename From::Bits bits) noexcept {
  using Bits = typename From::Bits;
  using Real = typename From::Arithmetic;
  constexpr int kShift = From::kFraction - To::kFraction;
  constexpr auto kRebias = static_cast<Bits>((From::kBias - To::kBias) << From::kFraction);
  constexpr Bits kAlmostHalf = (Bits{1} << (kShift - 1)) - 1;
  const Bits size = bits & ~From::kSign;
  const Bits rebiased = size - kRebias;
  Bits result = (rebiased + kAlmostHalf + (rebiased >> kShift & 1)) >> kShift;
  if constexpr (kRebias != 0) {
    // The last bit of this number weighs as much as the smallest number of To: adding it rounds.
    constexpr auto kLastBit = static_cast<Bits>(
        (From::kBias - To::kBias + 1 + static_cast<std::uint64_t>(kShift)) << From::kFraction);
    constexpr auto kSmallestNormal =
        static_cast<Bits>((From::kBias - To::kBias + 1) << From::kFraction);
    const Bits small =
        std::bit_cast<Bits>(std::bit_cast<Real>(size) + std::bit_cast<Real>(kLastBit)) - kLastBit;
    result = select<Bits>(result > To::kInfinity, To::kInfinity, result);
    result = select<Bits>(size < kSmallestNormal, small, result);
  }
  const Bits nan = (size >> kShift & To::kFractionMask) | To::kInfinity | To::kQuiet;
  result = select<Bits>(size > From::kInfinity, nan, result);
  const Bits sign = (bits & From::kSign) >> (From::kWidth - To::kWidth);
  return static_cast<typename To::Bits>(sign | result);
}

// Conversions without a direct way go through Single, which has every value of the two short types.
[[gnu::always_inline]] inline std::uint16_t half_to_brain(std::uint16_t bits) noexcept {
  return narrow<Single, Brain>(widen<Half, Single>(bits));
}
[[gnu::always_inline]] inline std::uint16_t brain_to_half(std::uint16_t bits) noexcept {
  return narrow<Single, Half>(widen<Brain, Single>(bits));
}

/// By tiles of constant length in arrays of their own: then the compiler makes vector code without
/// checks for overlap, and unaligned buffers need no care.
template <typename In, typename Out, Out (*kConvert)(In) noexcept>
void convert(const std::byte* in, std::byte* out, std::size_t elements) noexcept {
  constexpr std::size_t kTile = 256;
  std::array<In, kTile> from{};
  std::array<Out, kTile> to{};
  while (elements > 0) {
    const std::size_t count = std::min(elements, kTile);
    std::memcpy(from.data(), in, count * sizeof(In));
    for (std::size_t i = 0; i < kTile; ++i) to[i] = kConvert(from[i]);
    std::memcpy(out, to.data(), count * sizeof(Out));
    in += count * sizeof(In);
    out += count * sizeof(Out);
    elements -= count;
  }
}

using Conversion = void (*)(const std::byte*, std::byte*, std::size_t) noexcept;

template <typename From, typename To>
constexpr Conversion kWiden = convert<typename From::Bits, typename To::Bits, widen<From, To>>;
template <typename From, typename To>
constexpr Conversion kNarrow = convert<typename From::Bits, typename To::Bits, narrow<From, To>>;
constexpr Conversion kHalfToBrain = convert<std::uint16_t, std::uint16_t, half_to_brain>;
constexpr Conversion kBrainToHalf = convert<std::uint16_t, std::uint16_t, brain_to_half>;

constexpr int kNoFloat = -1;

/// Row and column of the table below.
int position(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat16:
      return 0;
    case DType::kBFloat16:
      return 1;
    case DType::kFloat32:
      return 2;
    case DType::kFloat64:
      return 3;
    default:
      return kNoFloat;
  }
}

constexpr std::array<std::array<Conversion, 4>, 4> kConversions{{
    {nullptr, kHalfToBrain, kWiden<Half, Single>, kWiden<Half, Double>},
    {kBrainToHalf, nullptr, kWiden<Brain, Single>, kWiden<Brain, Double>},
    {kNarrow<Single, Half>, kNarrow<Single, Brain>, nullptr, kWiden<Single, Double>},
    {kNarrow<Double, Half>, kNarrow<Double, Brain>, kNarrow<Double, Single>, nullptr},
}};

}  // namespace

bool can_cast(DType from, DType to) noexcept {
  return from == to || (position(from) != kNoFloat && position(to) != kNoFloat);
}

void cast_elements(DType from, const std::byte* in, DType to, std::byte* out,
                   std::size_t elements) noexcept {
  assert(can_cast(from, to));
  if (elements == 0) return;
  if (from == to) {
    std::memcpy(out, in, elements * static_cast<std::size_t>(element_size(from)));
    return;
  }
  kConversions[static_cast<std::size_t>(position(from))][static_cast<std::size_t>(position(to))](
      in, out, elements);
}

namespace {

constexpr std::array<std::pair<std::string_view, DType>, 13> kNames{{
    {"fp16", DType::kFloat16},
    {"f16", DType::kFloat16},
    {"float16", DType::kFloat16},
    {"half", DType::kFloat16},
    {"bf16", DType::kBFloat16},
    {"bfloat16", DType::kBFloat16},
    {"fp32", DType::kFloat32},
    {"f32", DType::kFloat32},
    {"float32", DType::kFloat32},
    {"fp64", DType::kFloat64},
    {"f64", DType::kFloat64},
    {"float64", DType::kFloat64},
    {"double", DType::kFloat64},
}};

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorKind::kUsage, "cannot understand the cast '" + printable(text) + "': " + why)
      .hint(
          "write [GLOB:]FROM->TO, e.g. 'fp32->bf16' or '*.weight:fp32->fp16'; the types are fp16, "
          "bf16, fp32 and fp64");
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlank = " \t";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

DType type_in(const std::string& text, const std::string& name) {
  if (const auto dtype = dtype_from_cast_name(name)) return *dtype;
  refuse(text, name.empty() ? "a type is missing"
                            : "'" + printable(name) + "' is not a floating-point type");
}

}  // namespace

std::optional<DType> dtype_from_cast_name(std::string_view name) noexcept {
  const auto same = [&](const auto& known) {
    return std::equal(
        name.begin(), name.end(), known.first.begin(), known.first.end(),
        [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
  };
  const auto* const found = std::find_if(kNames.begin(), kNames.end(), same);
  if (found == kNames.end()) return std::nullopt;
  return found->second;
}

CastRule parse_cast(const std::string& text) {
  const std::size_t arrow = text.rfind("->");
  if (arrow == std::string::npos) refuse(text, "'->' is missing");
  const std::string before = text.substr(0, arrow);
  const std::size_t colon = before.rfind(':');
  CastRule rule{"*", {}, {}};
  if (colon != std::string::npos) rule.glob = before.substr(0, colon);
  if (rule.glob.empty()) refuse(text, "the parameters' pattern is empty");
  rule.from =
      type_in(text, trimmed(colon == std::string::npos ? before : before.substr(colon + 1)));
  rule.to = type_in(text, trimmed(text.substr(arrow + 2)));
  return rule;
}

Casts::Casts(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) rules_.push_back(parse_cast(text));
}

DType Casts::target(const std::string& parameter, DType source) const {
  const CastRule* rule = rule_for(parameter, source);
  return rule == nullptr ? source : rule->to;
}

const CastRule* Casts::rule_for(const std::string& parameter, DType source) const {
  const auto found = std::find_if(rules_.begin(), rules_.end(), [&](const CastRule& rule) {
    return rule.from == source && glob_match(rule.glob, parameter);
  });
  return found == rules_.end() ? nullptr : &*found;
}

}  // namespace reshardfs
