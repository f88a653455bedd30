// SPDX-License-Identifier: Apache-2.0
#include "transport/settings.h"

namespace reshardfs {
namespace {

TransportSettings transport;
S3Settings s3;

}  // namespace

TransportSettings& transport_settings() noexcept {
  return transport;
}

S3Settings& s3_settings() noexcept {
  return s3;
}

}  // namespace reshardfs
