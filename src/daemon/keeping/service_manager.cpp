// SPDX-License-Identifier: Apache-2.0
#include "daemon/keeping/service_manager.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/posix/descriptor_message.h"
#include "base/text/numbers.h"
#include "fuse/mounting/fuse_descriptor.h"

namespace reshardfs {
namespace {

constexpr const char* kFuseName = "reshardfs-fuse";
constexpr const char* kRequestsName = "reshardfs-requests";
constexpr const char* kStateName = "reshardfs-state";

const char* manager_socket() noexcept {
  return std::getenv("NOTIFY_SOCKET");
}

int number_in(const char* variable) noexcept {
  const char* const text = std::getenv(variable);
  return text == nullptr ? -1 : parse_number<int>(text).value_or(-1);
}

void store(const char* name, int descriptor) noexcept {
  notify_service_manager(std::string("FDSTORE=1\nFDNAME=") + name, {&descriptor, 1});
}

}  // namespace

bool has_service_manager() noexcept {
  return manager_socket() != nullptr;
}

void notify_service_manager(const std::string& state, std::span<const int> descriptors) noexcept {
  const char* name = manager_socket();
  if (name == nullptr) return;
  const std::string_view path = name;
  if (path.empty() || (path[0] != '/' && path[0] != '@')) return;
  const Descriptor socket = connect_datagrams(path);
  if (socket.get() < 0) return;
  static_cast<void>(send_message(socket.get(), state, descriptors));
}

void ServiceManagerKeeper::keep(int fuse, int requests, int state) noexcept {
  // The manager keeps all descriptors that it is given under a name, but none twice.
  store(kFuseName, fuse);
  store(kRequestsName, requests);
  store(kStateName, state);
}

void ServiceManagerKeeper::release() noexcept {
  for (const char* name : {kFuseName, kRequestsName, kStateName}) {
    notify_service_manager(std::string("FDSTOREREMOVE=1\nFDNAME=") + name);
  }
}

std::optional<MountDescriptors> take_kept_mount() noexcept {
  constexpr int kFirst = 3;  // SD_LISTEN_FDS_START
  const char* const names = std::getenv("LISTEN_FDNAMES");
  if (names == nullptr || number_in("LISTEN_PID") != ::getpid()) return std::nullopt;
  const int count = number_in("LISTEN_FDS");
  MountDescriptors kept;
  std::istringstream parts{std::string(names)};
  std::string name;
  for (int i = 0; i < count && std::getline(parts, name, ':'); ++i) {
    static_cast<void>(::fcntl(kFirst + i, F_SETFD, FD_CLOEXEC));
    Descriptor descriptor(kFirst + i);
    if (name == kFuseName && !has_ended(descriptor.get())) {
      kept.fuse = std::move(descriptor);
    } else if (name == kRequestsName) {
      kept.requests = std::move(descriptor);
    } else if (name == kStateName) {
      kept.state = std::move(descriptor);
    }
  }
  for (const char* variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(variable);
  if (kept.fuse.get() < 0 || kept.requests.get() < 0 || kept.state.get() < 0) return std::nullopt;
  return kept;
}

}  // namespace reshardfs
