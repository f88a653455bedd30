// SPDX-License-Identifier: Apache-2.0
#include "view/hyper/state_name.h"

#include <array>
#include <string_view>

namespace reshardfs {
namespace {

struct StateForm {
  std::string_view text;
  std::string_view state;
  bool is_of_maps = false;  ///< without a map, a weight may be called so
};

constexpr std::array kStateForms{
    StateForm{"optimizer._mixed_precision_optimizer.fp32_from_fp16_params.", ""},
    StateForm{"optimizer.state.exp_avg.", "exp_avg"},
    StateForm{"optimizer.state.exp_avg_sq.", "exp_avg_sq"},
    StateForm{"optimizer.state.param.", ""},
    StateForm{"optimizer.state.fp32_param.", ""},
    StateForm{"exp_avg.", "exp_avg"},
    StateForm{"exp_avg_sq.", "exp_avg_sq"},
    StateForm{"adam_m.", "exp_avg"},
    StateForm{"adam_v.", "exp_avg_sq"},
    StateForm{"moment1.", "exp_avg"},
    StateForm{"moment2.", "exp_avg_sq"},
    StateForm{"param.", "", true},
    StateForm{"fp32_param.", "", true},
};

}  // namespace

std::optional<StateName> parse_state_name(const std::string& name, bool is_mapped) {
  for (const StateForm& prefix : kStateForms) {
    if (!name.starts_with(prefix.text) || name.size() == prefix.text.size()) continue;
    if (prefix.is_of_maps && !is_mapped) continue;
    return StateName{name.substr(prefix.text.size()), std::string(prefix.state)};
  }
  constexpr std::string_view kState = "state.";
  std::size_t begin = name.starts_with(kState) ? 0 : name.find("." + std::string(kState));
  if (begin == std::string::npos) return std::nullopt;
  begin = name.find(kState, begin) + kState.size();
  const std::size_t dot = name.rfind('.');
  if (dot <= begin || dot + 1 == name.size()) return std::nullopt;
  return StateName{name.substr(begin, dot - begin), name.substr(dot + 1)};
}

}  // namespace reshardfs
