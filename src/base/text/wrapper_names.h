// SPDX-License-Identifier: Apache-2.0
/// What wrappers of PyTorch put into the names of a module's parameters: DistributedDataParallel
/// and DataParallel `module`, torch.compile `_orig_mod`, FSDP `_fsdp_wrapped_module`, and
/// activation checkpointing `_checkpoint_wrapped_module`.
#pragma once

#include <string>
#include <string_view>

namespace reshardfs {

/// The part in front of a name, up to its last wrapper: "model.module" of
/// "model.module.layers.0.weight". Empty if the name does not begin with a wrapper, or with `model`
/// and a wrapper.
std::string_view wrapper_key(std::string_view name) noexcept;

/// The first wrapper in a name; empty: there is none.
std::string_view wrapper_in(std::string_view name) noexcept;

/// The name without the words that name nothing else than wrappers, wherever they are: all of the
/// above but `module`.
std::string without_wrappers(std::string_view name);

/// What all of the names given so far begin with.
class CommonWrapper {
 public:
  void add(std::string_view name);
  /// See wrapper_key(); or "model", if that is the key of a dictionary in front of names that begin
  /// with "model." or "lm_head." themselves. Empty if the names do not have the same one, or
  /// without_wrappers() takes it off.
  const std::string& key() const noexcept;
  /// Whether the key is that of a dictionary.
  bool is_of_dictionary() const noexcept { return key_.empty() && !key().empty(); }

 private:
  bool is_first_ = true;
  bool is_saved_below_ = true;  ///< all begin with the dictionary's key
  bool has_own_below_ = false;  ///< some have a model's own beginning behind it
  std::string key_;
};

/// "the names begin with 'module.', which a wrapper of PyTorch adds: --state-key module takes it
/// off"; empty if there is no wrapper.
/// @param takes_key whether the source can be read with --state-key.
std::string wrapper_words(const CommonWrapper& names, bool takes_key);

}  // namespace reshardfs
