# SPDX-License-Identifier: Apache-2.0
"""The tests that mount which judge mutants, by the names that ctest and unittest have for them.

Together they reach nearly all that any test with a mount reaches of fuse/ and storage/, and each takes
less than five seconds: most take one.
"""

# What they run.
PROGRAMS = ["reshardfs", "fault_fs", "reshardfs_stand_in", "storage_conformance"]
MOUNTED = {
    "change_time": ["LowerLayer.test_written_below_the_overlay"],
    "conformance": ["Conformance.test_list_of_urls"],
    "crash": ["Crash.test_a_changed_source_is_shown_to_who_opens_it_then",
              "Crash.test_a_text_that_was_open_is_stale_and_not_empty",
              "Crash.test_signals_reach_the_process_through_the_supervisor"],
    "directories": ["Directories.test_all_steps_are_shown",
                    "Directories.test_parts_of_a_rank"],
    "endings": ["Endings.test_a_killed_daemon_leaves_errors_and_no_more",
                "Endings.test_a_slow_end_leaves_the_next_mount_alone"],
    "faulty": ["Faults.test_a_replica_stands_in",
               "Faults.test_a_stalled_source_holds_up_only_its_readers",
               "Faults.test_random_errors_never_give_wrong_bytes"],
    "handover": ["EachStep.test_the_new_process_takes_a_request_and_ends",
                 "Leaving.test_the_end_of_a_foreground_mount",
                 "Upgrade.test_texts_that_are_open_stay_as_they_were"],
    "lifecycle": ["Unmounting.test_reshardfs_umount"],
    "links": ["NoSymlinks.test_configuration",
              "Refused.test_what_is_no_file"],
    "names": ["Shown.test_no_file_for_a_path_that_cannot_be_opened"],
    "outage": ["Outage.test_files_without_a_descriptor_of_their_own_too",
               "Outage.test_steps_go_on"],
    "passthrough": ["Passthrough.test_the_kernel_reads_an_equal_file"],
    "readonly": ["Unchangeable.test_all_steps"],
    "reload": ["AtOnce.test_one_that_comes_during_another_is_not_taken_for_it"],
    "remote": ["Changes.test_a_server_that_tells_no_version_is_refused",
               "Faults.test_a_storm_of_faults_gives_no_wrong_byte",
               "Lists.test_a_list_may_be_on_a_server",
               "Refusals.test_names_that_are_none"],
    "remote_cache": ["Indexes.test_no_header_of_a_web_server_is_read_again"],
    "replace": ["MountPoint.test_another_one_in_the_configuration_is_refused",
                "Replace.test_a_cache_of_a_hub_of_which_refs_main_moves",
                "Replace.test_a_listing_under_way_goes_on_as_it_began"],
    "run": ["Command.test_a_source_that_is_missing",
            "Command.test_the_command_begins_with_the_third_word",
            "CommandWithoutRights.test_a_machine_without_user_namespaces",
            "WithoutDevice.test_a_mount_and_a_run"],
    "series": ["Series.test_from_a_server"],
    "slow_files": ["Cache.test_what_is_kept_is_not_read_again",
                   "SlowFiles.test_a_changed_file_is_an_error",
                   "WaitingForSlowFiles.test_killed_readers_are_gone"],
    "source_changed": ["SourceChanged.test_of_an_object_on_a_server"],
    "unreadable": ["Unreadable.test_from_the_start",
                   "Unreadable.test_other_permissions_are_no_change"],
    "wait_for_source": ["Waiting.test_what_no_waiting_mends_is_told_at_once"],
    "waiting": ["Starting.test_of_mounts_at_once_one_is_made"],
    "warm": ["Warm.test_progress"],
}
