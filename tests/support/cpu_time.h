// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

namespace reshardfs::test {

/// The processor time of this process since this was made. A busy machine does not add to it, as it
/// does to the time of a clock.
class CpuTime {
 public:
  double seconds() const noexcept {
    return static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC;
  }

 private:
  std::clock_t begin_ = std::clock();
};

}  // namespace reshardfs::test
