// SPDX-License-Identifier: Apache-2.0
#include "conversion/source_words.h"

#include "conversion/option_words.h"

namespace reshardfs {

const std::vector<SourceOption>& plain_source_options() {
  static const std::vector<SourceOption> options{
      {"src-pattern", &SourceRequest::pattern},
      {"src-prefix", &SourceRequest::prefix},
      {"state-key", &SourceRequest::state_key},
      {"dequantize", &SourceRequest::dequantize},
      {"quantize", &SourceRequest::quantize},
      {"step", &SourceRequest::step},
      {"src-join", &SourceRequest::join},
      {"rename", &SourceRequest::renames},
      {"drop", &SourceRequest::drops},
      {"state-prefix", &SourceRequest::state_prefixes},
      {"dec-key-file", &SourceRequest::dec_key_file},
      {"dec-mode", &SourceRequest::dec_mode},
      {"check-crc", &SourceRequest::check_crc},
      {"no-symlinks", &SourceRequest::no_symlinks},
      {"allow-unmatched", &SourceRequest::allow_unmatched},
  };
  return options;
}

void CommandWords::add(std::string_view option, const std::string& value,
                       const std::string& usual) {
  if (value == usual) return;
  const std::string name = "--" + std::string(option);
  // An option takes no next word that looks like an option itself.
  if (value.starts_with('-')) {
    words_.push_back(name + "=" + value);
  } else {
    words_.push_back(name);
    words_.push_back(value);
  }
}

void CommandWords::add(std::string_view option, const std::vector<std::string>& values) {
  for (const std::string& value : values) add(option, value);
}

void CommandWords::flag(std::string_view option, bool given) {
  if (given) words_.push_back("--" + std::string(option));
}

void add_source_words(const SourceRequest& request, CommandWords& words) {
  const SourceRequest usual;
  words.add("src-strategy", request.strategy ? request.strategy->string() : request.sizes.text);
  for (const SourceOption& option : plain_source_options()) {
    std::visit(
        [&](auto field) {
          using Value = std::remove_cvref_t<decltype(request.*field)>;
          if constexpr (std::is_same_v<Value, bool>) {
            words.flag(option.name, request.*field);
          } else if constexpr (std::is_same_v<Value, std::filesystem::path>) {
            words.add(option.name, (request.*field).string());
          } else if constexpr (std::is_same_v<Value, std::string>) {
            words.add(option.name, request.*field, usual.*field);
          } else {
            words.add(option.name, request.*field);
          }
        },
        option.field);
  }
  words.add("map", request.maps.maps);
  for (const MapDirection direction : request.maps.directions) {
    words.add("map-direction", word_of(kMapDirectionWords, direction));
  }
  words.add("model-config", request.maps.model_config.string());
  words.add("training-config", request.maps.training_config.string());
  words.add("map-var", request.maps.variables);
  words.add("replicas", word_of(kReplicasWords, request.replicas),
            word_of(kReplicasWords, usual.replicas));
}

}  // namespace reshardfs
