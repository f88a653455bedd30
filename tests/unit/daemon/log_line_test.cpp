// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/log_line.h"

#include <unistd.h>

#include <cerrno>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace reshardfs {
namespace {

using namespace std::chrono_literals;

const MountName kMount{.place = "/mnt/a", .source = "/data/m.ckpt"};

std::string line_of(std::string_view text, const std::vector<LogField>& fields) {
  return json_line({.time = std::chrono::system_clock::time_point(1'700'000'000s + 42ms),
                    .level = spdlog::level::warn,
                    .text = text},
                   fields);
}

std::vector<LogField> all_fields() {
  const LogScope scope(LogEvent::kRequestFailed, {.operation = "read",
                                                  .file = "rank_0/a",
                                                  .source_file = "/data/m.ckpt",
                                                  .parameter = "w",
                                                  .error = ESTALE,
                                                  .client_pid = 7,
                                                  .client_cgroup = "/job",
                                                  .duration = 1234567us,
                                                  .repeated = 3});
  return log_fields(LogScope::current(), kMount);
}

TEST(JsonLine, HasAllThatIsKnown) {
  const std::string pid = std::to_string(::getpid());
  EXPECT_EQ(line_of("text", all_fields()),
            "{\"time\":\"2023-11-14T22:13:20.042Z\",\"level\":\"warning\","
            "\"event\":\"request_failed\",\"mount\":\"/mnt/a\",\"source\":\"/data/m.ckpt\","
            "\"operation\":\"read\",\"file\":\"rank_0/a\",\"source_file\":\"/data/m.ckpt\","
            "\"parameter\":\"w\",\"errno\":116,\"errno_name\":\"ESTALE\",\"client_pid\":7,"
            "\"client_cgroup\":\"/job\",\"duration_seconds\":1.234567,\"repeated\":3,\"pid\":" +
                pid + ",\"message\":\"text\"}");
}

TEST(JsonLine, LeavesOutWhatIsNotKnown) {
  const auto json = nlohmann::json::parse(line_of("text", log_fields(nullptr, {})));
  EXPECT_EQ(json.size(), 5U) << json;
  EXPECT_EQ(json.at("event"), "message");
}

TEST(JsonLine, IsOneLineOfJsonWhateverTheTextsHold) {
  for (int first = 0; first < 256; ++first) {
    std::string bytes("a\"\\\n\r\0\x1b\xc3", 8);
    bytes += static_cast<char>(first);
    bytes += "\xf0\x9f\xe2\x80\xa8}";
    const LogScope scope(LogEvent::kRequestFailed,
                         {.file = bytes, .source_file = bytes, .client_cgroup = bytes});
    const std::string line = line_of(bytes, log_fields(LogScope::current(), {bytes, bytes}));
    EXPECT_EQ(line.find_first_of(std::string("\n\r\0", 3)), std::string::npos);
    const auto json = nlohmann::json::parse(line);  // which takes well-formed UTF-8 alone
    EXPECT_TRUE(json.at("file").get<std::string>().starts_with("a\"\\\n"));
    EXPECT_EQ(json.at("file"), json.at("mount"));
  }
}

TEST(JournalEntry, HasTheFieldsByTheirNamesInTheJournal) {
  EXPECT_EQ(journal_entry(spdlog::level::err, "text", all_fields()),
            "MESSAGE=text\nPRIORITY=3\nSYSLOG_IDENTIFIER=reshardfs\n"
            "RESHARDFS_EVENT=request_failed\nRESHARDFS_MOUNT=/mnt/a\n"
            "RESHARDFS_SOURCE=/data/m.ckpt\nRESHARDFS_OPERATION=read\nRESHARDFS_FILE=rank_0/a\n"
            "RESHARDFS_SOURCE_FILE=/data/m.ckpt\nRESHARDFS_PARAMETER=w\nERRNO=116\n"
            "RESHARDFS_ERRNO=116\nRESHARDFS_ERRNO_NAME=ESTALE\nRESHARDFS_CLIENT_PID=7\n"
            "RESHARDFS_CLIENT_CGROUP=/job\nRESHARDFS_DURATION_SECONDS=1.234567\n"
            "RESHARDFS_REPEATED=3\n");
}

TEST(JournalEntry, KeepsAValueWithLineFeedsTogether) {
  const LogScope scope(LogEvent::kRequestFailed, {.file = "a\nMESSAGE=forged"});
  const std::string entry =
      journal_entry(spdlog::level::info, "text", log_fields(LogScope::current(), {}));
  const std::string length("\x10\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(entry,
            "MESSAGE=text\nPRIORITY=6\nSYSLOG_IDENTIFIER=reshardfs\n"
            "RESHARDFS_EVENT=request_failed\nRESHARDFS_FILE\n" +
                length + "a\nMESSAGE=forged\n");
}

}  // namespace
}  // namespace reshardfs
