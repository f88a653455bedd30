// SPDX-License-Identifier: Apache-2.0
/// From what targets read of a source to where each element of the source went: the inverse of a
/// form, and the proof that every element is read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "layout/normal_form.h"

namespace reshardfs::modelmap {

/// A form, and its boxes by source.
class IndexedForm {
 public:
  explicit IndexedForm(NormalForm form);

  const NormalForm& form() const noexcept { return form_; }
  /// The numbers of the boxes that read a source.
  std::span<const std::uint32_t> boxes_of(std::int64_t source) const;

 private:
  NormalForm form_;
  std::vector<std::uint32_t> order_;  ///< boxes that are no literals, by source
};

/// What one target reads of the source.
struct Reading {
  const IndexedForm* form = nullptr;
  std::int64_t source = 0;  ///< the number that the source has in the form
  /// It may read elements several times, of which the first in C order of the target counts.
  bool repeats = false;
};

enum class InverseParts : std::uint8_t {
  kAll,
  kCoverage,  ///< `undefined` and `overlap` alone
};

struct Inverse {
  /// The source, made from the targets: the number of a source is that of its reading. Meaningful
  /// if nothing is undefined and nothing overlaps.
  NormalForm form{};
  /// Elements that are not read.
  std::int64_t undefined = 0;
  /// Two readings, perhaps the same one, that read an element both.
  std::optional<std::pair<std::size_t, std::size_t>> overlap{};
};

/// Costs O(n log n) in the number of boxes, if these do not interleave.
/// @param shape of the source.
/// @param wanted what is asked for: without the form, fewer boxes may be needed.
/// @throws Error kUnsupported if the result exceeds the limits of normal forms.
Inverse invert(const Shape& shape, std::span<const Reading> readings,
               InverseParts wanted = InverseParts::kAll);

}  // namespace reshardfs::modelmap
