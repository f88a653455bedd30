// SPDX-License-Identifier: Apache-2.0
#include "daemon/process/journal.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/posix/descriptor.h"

namespace reshardfs {
namespace {

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    std::string pattern = testing::TempDir() + "journalXXXXXX";
    directory = ::mkdtemp(pattern.data());
    path = directory / "socket";
  }
  ~JournalTest() override { std::filesystem::remove_all(directory); }

  /// Stands in for the journal.
  void listen() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }

  /// That of a message without bytes.
  Descriptor receive_descriptor() const {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    EXPECT_EQ(::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC), 0);
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    int number = -1;
    if (header != nullptr) std::memcpy(&number, CMSG_DATA(header), sizeof number);
    return Descriptor(number);
  }

  std::filesystem::path directory;
  std::string path;
  Descriptor socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

TEST_F(JournalTest, TakesAnEntryAsOneDatagram) {
  listen();
  const Journal journal(path);
  EXPECT_TRUE(journal.is_there());
  EXPECT_TRUE(journal.send("MESSAGE=a\n"));
  EXPECT_TRUE(journal.send("MESSAGE=b\n"));
  std::array<char, 64> buffer{};
  ASSERT_EQ(::recv(socket.get(), buffer.data(), buffer.size(), 0), 10);
  EXPECT_EQ(std::string(buffer.data(), 10), "MESSAGE=a\n");
}

TEST_F(JournalTest, TakesALargeEntryAsASealedFile) {
  listen();
  const std::string entry = "MESSAGE=" + std::string(std::size_t{4} << 20, 'x') + "\n";
  EXPECT_TRUE(Journal(path).send(entry));
  const Descriptor received = receive_descriptor();
  const int file = received.get();
  struct stat stat {};
  ASSERT_EQ(::fstat(file, &stat), 0);
  ASSERT_EQ(static_cast<std::size_t>(stat.st_size), entry.size());
  std::string found(entry.size(), '\0');
  ASSERT_EQ(::pread(file, found.data(), found.size(), 0), stat.st_size);
  EXPECT_TRUE(found == entry);
  EXPECT_EQ(::fcntl(file, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
}

TEST_F(JournalTest, SaysWhereThereIsNone) {
  EXPECT_FALSE(Journal(path).is_there());
  EXPECT_FALSE(Journal(path).send("MESSAGE=a\n"));
  const std::string too_long = "/" + std::string(200, 'x');
  EXPECT_FALSE(Journal(too_long).is_there());
  EXPECT_FALSE(Journal(too_long).send("MESSAGE=a\n"));
  // What one that has ended leaves.
  listen();
  EXPECT_TRUE(Journal(path).is_there());
  { const Descriptor closed(std::move(socket)); }
  EXPECT_FALSE(Journal(path).is_there());
  EXPECT_FALSE(Journal(path).send("MESSAGE=a\n"));
}

TEST_F(JournalTest, DoesNotWaitForOneThatHangs) {
  listen();
  const Journal journal(path);
  bool sent = true;
  for (int i = 0; i < 10'000 && sent; ++i) sent = journal.send("MESSAGE=a\n");
  EXPECT_FALSE(sent);
}

TEST(ErrorOutputIsJournal, IfSystemdSaysSo) {
  struct stat stat {};
  ASSERT_EQ(::fstat(STDERR_FILENO, &stat), 0);
  ::unsetenv("JOURNAL_STREAM");
  EXPECT_FALSE(error_output_is_journal());
  ::setenv("JOURNAL_STREAM", "1:2", 1);
  EXPECT_FALSE(error_output_is_journal());
  ::setenv("JOURNAL_STREAM", fmt::format("{}:{}", stat.st_dev, stat.st_ino).c_str(), 1);
  EXPECT_TRUE(error_output_is_journal());
  ::unsetenv("JOURNAL_STREAM");
}

}  // namespace
}  // namespace reshardfs
