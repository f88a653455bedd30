// SPDX-License-Identifier: Apache-2.0
/// What the names of a source prove of switches: variables of which conditions of a map consist.
/// Private to the proofs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {

/// The tensors of a source, for a map.
struct SourceNames {
  const ModelMap& map;
  const std::vector<SourceTensor>& tensors;
  std::vector<std::string_view> bare{};  ///< by tensor, without the prefixes of states
  bool is_forward = true;
};

/// Values that a source proves; unknown where two tensors say different ones.
using Claims = std::map<std::string, Known<std::int64_t>>;

void claim(Claims& claims, const std::string& name, std::int64_t value, const std::string& origin);
/// @return whether any is new.
bool settle(Claims claims, Variables& variables);

bool is_unknown(const std::string& name, const Variables& variables);

/// Nothing if the conditions depend on captures or on what is unknown.
std::optional<bool> holds(const Conditions& conditions, const Variables& variables);

/// The patterns of a rule that take names of the source.
void add_patterns(PatternIndex& index, const SourceNames& names, const Variables& variables,
                  std::size_t rule);

class SwitchProofs {
 public:
  /// Both must outlive it.
  SwitchProofs(const SourceNames& names, Variables& variables);

  const std::set<std::string>& names() const noexcept { return switches_; }
  bool any_open() const;
  /// @return whether a value was found.
  bool prove();

 private:
  enum class Use : std::uint8_t {
    kNone,
    kTaken,   ///< by a rule
    kHidden,  ///< by an alias
  };

  /// What a value of a switch makes of the source.
  struct Reading {
    std::int64_t value = 0;
    std::vector<Use> uses{};  ///< by tensor
  };

  void add(const Conditions& conditions, const MapRule* rule);
  bool is_shown(const std::string& name) const;
  bool is_open(const std::string& name) const;
  Reading read(const std::string& name, std::int64_t value) const;
  bool takes(const PatternIndex& rules, std::size_t tensor) const;
  bool takes(const PatternIndex& rules, std::size_t tensor, std::string_view name) const;
  const std::vector<bool>& taken_always() const;
  std::vector<std::int64_t> values_of(const std::string& name) const;
  void prove_switch(const std::string& name, Claims& claims) const;

  const SourceNames& names_;
  Variables& variables_;
  std::set<std::string> switches_{};
  mutable std::vector<bool> always_{};  ///< see taken_always(), once it was needed
};

}  // namespace reshardfs::modelmap
