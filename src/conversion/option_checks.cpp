// SPDX-License-Identifier: Apache-2.0
#include "conversion/option_checks.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "base/text/utf8.h"

namespace reshardfs {
namespace {

/// @throws Error kUsage
void require_plain_prefix(const std::string& prefix) {
  const bool hostile = std::any_of(prefix.begin(), prefix.end(),
                                   [](char c) { return c == '/' || is_control_byte(c); });
  // 255 bytes for a name, less ".ckpt" and the rank or "merged".
  if (hostile || prefix.size() > 230) {
    throw Error(ErrorKind::kUsage,
                "the prefix '" + printable(prefix) + "' is not a valid file name")
        .hint("use at most 230 bytes without '/' and control characters");
  }
}

bool is_alignment(std::uint64_t bytes) {
  return std::has_single_bit(bytes) && bytes >= 8 && bytes <= 4096;
}

}  // namespace

void check_output_options(const ConversionOptions& options) {
  require_plain_prefix(options.prefix);
  if (options.align && !is_alignment(*options.align)) {
    throw Error(ErrorKind::kUsage,
                "an alignment of " + std::to_string(*options.align) + " bytes is not possible")
        .hint("use 8, 16, 32, ... 4096");
  }
  if (options.safetensors_metadata != "ms" && options.safetensors_metadata != "pt") {
    throw Error(ErrorKind::kUsage, "the metadata format '" +
                                       printable(options.safetensors_metadata) +
                                       "' is neither ms nor pt");
  }
  if (options.dcp_shards < 0 || options.dcp_shards > kMostDcpShards) {
    throw Error(ErrorKind::kUsage,
                std::to_string(options.dcp_shards) + " shards of dcp are not possible")
        .hint("use 1 to " + std::to_string(kMostDcpShards));
  }
  if (options.shard_bytes == 0) throw Error(ErrorKind::kUsage, "a shard size of 0 bytes");
}

void check_stage_layers(const ConversionOptions& options) {
  if (options.stage_layers.empty() || !options.dst_sizes.empty()) return;
  throw Error(ErrorKind::kUsage, "--stage-layers needs sizes for --dst-strategy, such as tp=2,pp=4")
      .hint("a strategy file or rules say which stage has a layer");
}

}  // namespace reshardfs
