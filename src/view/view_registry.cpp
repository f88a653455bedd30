// SPDX-License-Identifier: Apache-2.0
#include "view/view.h"

namespace reshardfs {

const std::vector<ViewBuilder>& view_registry() {
  static const std::vector<ViewBuilder> views{
      rank_files_view,
      merged_view,
  };
  return views;
}

}  // namespace reshardfs
