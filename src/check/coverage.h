// SPDX-License-Identifier: Apache-2.0
/// Which ranks have no file, and what is lost with them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "check/verify.h"

namespace reshardfs {

/// Every member function but the constructor may be called from any number of threads at once.
class AbsentRanks {
 public:
  explicit AbsentRanks(const std::vector<Rank>& ranks);

  bool contains(Rank rank) const { return losses_.contains(rank); }
  /// Notes that all ranks that hold a part of `parameter` are absent.
  /// @param number of the parameter, so that the first one does not depend on timing.
  void lose(const std::vector<Rank>& ranks, const std::string& parameter, std::size_t number);
  /// Problems of ranks with which something is lost, warnings for the others.
  void report_to(VerifyReport& report) const;

 private:
  struct Loss {
    std::uint64_t parameters = 0;
    std::size_t first_number = 0;
    std::string first;
  };
  mutable std::mutex mutex_;  // guards what is in losses_, not its keys
  std::map<Rank, Loss> losses_;
};

}  // namespace reshardfs
