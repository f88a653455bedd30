// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/engine.h"

namespace reshardfs {

/// A word as a POSIX shell reads it back: as it stands where the shell takes nothing of it, else in
/// quotes. Control characters and bytes that are not UTF-8 become octal escapes of $'...', which
/// bash, zsh and ksh know: the text is safe to show and to paste.
RESHARDFS_ENGINE std::string shell_word(const std::string& word);

/// The words with blanks between them.
std::string shell_line(const std::vector<std::string>& words);

/// A path that no program takes for an option: "./-x" for "-x".
std::string path_word(const std::string& path);

/// A command of this program, ready for a shell: "reshardfs mount ckpt mnt --step 3_100".
/// @param command "mount", "strategy guess"; empty: `options` begin with it.
/// @param arguments of which none is taken for an option.
std::string command_line(const std::string& command, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& options = {});

/// The same for `mount`, which makes the mount point before.
std::string mount_line(const std::string& source, const std::string& mountpoint,
                       const std::vector<std::string>& options);

}  // namespace reshardfs
