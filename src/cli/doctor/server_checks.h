// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "cli/doctor/bounded_check.h"
#include "cli/words/given.h"
#include "transport/server_probe.h"

namespace reshardfs {

/// Of a source that is a URL: whether its server answers, its certificate, and for s3:// the clock
/// and the rights to list and to read. Makes requests in child processes.
/// @param given of a command with the options for servers.
Findings check_server(const Given& given, const std::string& source, const BoundedChecks& bounded);

/// What a probe says. @param now seconds since the epoch.
Finding server_answer(const ServerProbe& probe, const std::string& url);
Finding server_certificate(const ServerProbe& probe, const std::string& url, std::int64_t now);
Finding server_clock(const ServerProbe& probe);

}  // namespace reshardfs
