// SPDX-License-Identifier: Apache-2.0
/// Restores what programs rely on, because a caller may have started this one without it. main()
/// calls this first, in this order, before starting threads.
#pragma once

namespace reshardfs {

/// Programs that start others (cron, init, containers) may do so with standard descriptors closed.
/// The next files that are opened would take their numbers, and with them what is printed, or
/// what a daemon does to its standard streams. So their numbers are taken, by something that can be
/// neither read nor written. To be called before anything is opened.
void occupy_standard_streams() noexcept;

/// Whether the standard stream was closed when the program was started.
bool is_unused(int stream) noexcept;

/// Keeps some memory back, and gives it up when there is no other: what cleans up behind a
/// std::bad_alloc may need a little (a destructor of a JSON value does), and must not fail.
/// @return false if there is not even that: then no exception could be thrown either.
bool keep_memory_for_cleaning_up() noexcept;

/// One line on standard error with the limits of memory, for which it needs none.
void complain_of_memory() noexcept;

/// Sees to it that this thread and those that it starts have the stack that they need, which a
/// limit may deny them.
/// @return whether they have; without it the program would end somewhere, by a signal.
bool has_enough_stack() noexcept;

}  // namespace reshardfs
