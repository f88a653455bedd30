// SPDX-License-Identifier: Apache-2.0
#include "storage/byte_source.h"

#include "reshardfs/error.h"

namespace reshardfs {

void require_in_source(const ByteSource& source, std::uint64_t offset, std::uint64_t length) {
  if (offset <= source.size() && length <= source.size() - offset) return;
  throw Error(ErrorKind::kBadInput, std::to_string(length) +
                                        " bytes were asked for, but the file has only " +
                                        std::to_string(source.size()))
      .in_file(source.name())
      .at_offset(offset);
}

}  // namespace reshardfs
