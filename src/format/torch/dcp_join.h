// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "format/torch/dcp_table.h"

namespace reshardfs {

/// Makes one table of those of all ranks, where each rank has saved one with its own boxes. What is
/// in several of them is a replica, in the order of the ranks.
class DcpJoin {
 public:
  /// In the order of the ranks.
  /// @param table of DcpTableKind::kOfOneRank.
  /// @throws Error kBadInput if it is of another framework than those before.
  void add(DcpTable table);

  /// If a tensor's type or size differs between ranks, or its boxes leave out elements or overlap
  /// without being equal, the table says so once.
  DcpTable finish();

 private:
  struct Member {
    std::size_t table = 0;
    std::size_t tensor = 0;
  };
  void place(DcpPlace& place, const DcpTable& table);
  void append(const Member& member, DcpTensor& tensor);
  void join(const std::vector<Member>& members);

  std::vector<DcpTable> tables_;
  DcpTable out_;
  std::unordered_map<std::string, std::uint32_t> files_;
};

}  // namespace reshardfs
