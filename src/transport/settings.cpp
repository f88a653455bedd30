// SPDX-License-Identifier: Apache-2.0
#include "transport/settings.h"

namespace reshardfs {

TransportSettings& transport_settings() noexcept {
  static TransportSettings settings;
  return settings;
}

S3Settings& s3_settings() noexcept {
  static S3Settings settings;
  return settings;
}

}  // namespace reshardfs
