// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace reshardfs {

/// Foretells where the headers of a file stand that are only found one after the other: the layers
/// of a model are alike, so the distances between headers repeat. On a server, where each header
/// costs a round trip, they can then be asked for together. A wrong prediction costs a request.
class HopPredictor {
 public:
  /// Headers that are foretold at once.
  static constexpr std::size_t kAhead = 64;
  /// Names have numbers in them, of one digit or of two: distances differ by as many bytes.
  static constexpr std::uint64_t kTolerance = 64;

  /// To be called with the place of each header, in their order.
  /// @param size of the file.
  /// @return places where headers are expected that were not told before; mostly none.
  std::vector<std::uint64_t> hop_to(std::uint64_t place, std::uint64_t size);

 private:
  /// Hops after which the distances have begun to repeat; 0 if they have not.
  std::size_t period() const noexcept;

  static constexpr std::size_t kMaxHops = 4096;

  bool begun_ = false;
  std::uint64_t last_ = 0;
  std::vector<std::uint64_t> hops_;     ///< distances, as they came
  std::deque<std::uint64_t> expected_;  ///< places that were told, and are still to come
};

}  // namespace reshardfs
