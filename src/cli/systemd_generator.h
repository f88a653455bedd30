// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace reshardfs {

/// systemd runs `.../system-generators/reshardfs-generator NORMAL EARLY LATE` at boot and whenever
/// it reads its units again. Called by such a name, writes into NORMAL which file systems each
/// service reshardfs@NAME needs: those of the sources and strategies that [mount.NAME] of
/// /etc/reshardfs.toml names, unless they are URLs. Reads nothing but that file. Complains, and
/// writes nothing, where the file is wrong: the services tell of that, too.
/// @param program argv[0].
/// @param arguments a fourth one stands for /etc/reshardfs.toml.
/// @return whether it was called by such a name.
/// @throws Error kUsage, kIo.
bool run_systemd_generator(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace reshardfs
