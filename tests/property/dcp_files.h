// SPDX-License-Identifier: Apache-2.0
/// Writes checkpoints of torch.distributed.checkpoint with a few lines of its own, independently of
/// reshardfs: .metadata and archives, in the smallest form that PyTorch reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "naive.h"
#include "random_layout.h"

namespace property {

struct DcpBox {
  naive::Numbers offsets;
  naive::Numbers sizes;
};

struct DcpTensor {
  std::string name;
  std::string type;  ///< as MindSpore names it; Int4 is stored as int8
  std::size_t element_size = 0;
  naive::Numbers shape;
  std::string content;
  std::vector<DcpBox> boxes;
};

/// Cuts a shape into boxes that need not form a grid: uneven, and in several dimensions.
std::vector<DcpBox> random_boxes(Random& random, const naive::Numbers& shape);

/// Writes the boxes in any order to files of any number, with several of one tensor in a file;
/// their elements in any order of the dimensions, some in larger storages; some tensors in the
/// other shape in which releases of Megatron-Core until 2025 stored states of optimizers.
void write_dcp(const std::vector<DcpTensor>& tensors, const std::filesystem::path& directory,
               Random& random);

}  // namespace property
