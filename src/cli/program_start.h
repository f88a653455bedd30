// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fuse/handover_options.h"
#include "fuse/takeover.h"

namespace reshardfs {

/// Notes how this process was started. To be called before anything leaves the working directory.
/// @param program as what it was started.
/// @param words without the program's name.
/// @return the words for this process's command, without what start_successor() has added.
std::vector<std::string> note_program_start(const std::string& program,
                                            std::vector<std::string> words);

/// Finds out whether another process has a mount that this one shall go on with, or a service
/// manager has kept one. Before the configuration file is read: after a crash it does not matter.
/// @throws Error as Takeover does.
void meet_predecessor();
/// nullptr: there is none.
const Takeover* predecessor() noexcept;
std::unique_ptr<Takeover> take_predecessor() noexcept;

/// Tells whoever has the mount that this process cannot take it over. Nothing if there is nobody.
void tell_predecessor(const std::string& why) noexcept;

/// What the command line says with nothing left to be looked up in a configuration file.
void note_plain_words(std::vector<std::string> words);
const std::vector<std::string>& plain_words() noexcept;

/// The program that is installed where this one was, with the same command line. To be called soon:
/// an upgrade may replace it.
ProgramStart program_start();

}  // namespace reshardfs
