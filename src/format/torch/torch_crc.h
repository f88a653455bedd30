// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/input_format.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// Compares the entries of an archive of torch.save with their checksums. Files in the form from
/// before PyTorch 1.6 have none, and writers may leave them out.
CrcCheck check_torch_crc(const ByteSource& source);

}  // namespace reshardfs
