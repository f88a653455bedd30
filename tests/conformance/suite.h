// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reshardfs::conformance {

/// Takes the command line of a suite, and runs it. @return the exit code.
int run_suite(int argc, char** argv);

}  // namespace reshardfs::conformance
