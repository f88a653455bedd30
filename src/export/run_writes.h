// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "export/block_engine.h"
#include "export/exporter.h"
#include "export/target.h"

namespace reshardfs {

/// Does all jobs. After a failure, what has been written of unfinished files stays only where the
/// same command can go on with it, and where what was lacking is not the space that it takes.
/// @param writes the jobs once more.
/// @param stays what to say where something stays.
/// @param at_failure called at the end of a failure; what it throws is dropped.
/// @throws Error of a job; Interrupted.
void run_writes(const std::vector<std::unique_ptr<BlockJob>>& jobs,
                const std::vector<WriteJob*>& writes, const BlockEngineOptions& engine,
                const char* stays, const std::function<void()>& at_failure);

/// Adds to the result what a process before this one had written of a file, and warns if some of it
/// was not right.
void note_resumed(const WriteJob& job, const Target::Words& words, ExportResult& result);

}  // namespace reshardfs
