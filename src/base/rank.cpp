// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/rank.h"

#include "reshardfs/error.h"

namespace reshardfs {

void Rank::refuse(std::int64_t number) {
  throw Error(ErrorKind::kBadInput, std::to_string(number) + " is not a rank: ranks count from 0");
}

void Rank::refuse_sum(std::int64_t number, std::int64_t distance) {
  throw Error(ErrorKind::kBadInput, "the rank " + std::to_string(distance) + " above rank " +
                                        std::to_string(number) +
                                        " exceeds the range of 64-bit numbers");
}

void RankRange::refuse(std::int64_t count) {
  throw Error(ErrorKind::kBadInput,
              "there are no " + std::to_string(count) + " ranks: their number counts from 0");
}

}  // namespace reshardfs
