// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <string_view>

#include "cli/options/groups.h"
#include "conversion/option_words.h"

namespace reshardfs {
namespace {

/// Of one side, which {} stands for.
std::vector<Option> rows_of_a_side() {
  return {
      {.name = "strategy",
       .takes = Takes::kText,
       .type = "FILE|DIR|SIZES|none",
       .help =
           "The strategy that {} was saved with, or sizes that shapes prove; none if every rank "
           "holds whole parameters"},
      {.name = "step",
       .takes = Takes::kText,
       .type = "STEP|latest",
       .help = "The step of {} to read",
       .fallback = "latest"},
      {.name = "pattern",
       .takes = Takes::kText,
       .type = "PATTERN",
       .help = "Where the files of {} are"},
      {.name = "prefix",
       .takes = Takes::kText,
       .type = "PREFIX",
       .help = "Which of several runs or models in the directory of {} to read"},
      {.name = "state-key",
       .takes = Takes::kText,
       .type = "KEY",
       .help = "Of {}: read only what is under this key, and drop the key from the names"},
      {.name = "dequantize", .help = "Compare the quantized weights of {} as BFloat16"},
      {.name = "quantize",
       .takes = Takes::kText,
       .type = "nvfp4",
       .help = "Compare the MXFP4 weights of {} as NVFP4",
       .choices = {"nvfp4"}},
      {.name = "join",
       .takes = Takes::kTexts,
       .type = "GLOB",
       .help = "Without a strategy: join the slices of matching parameters of {} along dimension "
               "0, in rank order (repeatable)"},
      {.name = "rename",
       .takes = Takes::kTexts,
       .type = "OLD=NEW",
       .help = "Give the tensors of {} that match OLD another name, as for mount (repeatable)"},
      {.name = "drop",
       .takes = Takes::kTexts,
       .type = "PATTERN",
       .help = "Leave out the tensors of {} that match (repeatable)"},
      {.name = "replicas",
       .takes = Takes::kText,
       .type = "same|first|own",
       .help = "Replicas of {} that differ: fail, take the lowest rank's copy, or compare rank by "
               "rank",
       .fallback = "same",
       .choices = all_words(kReplicasWords)},
      {.name = "state-prefix",
       .takes = Takes::kTexts,
       .type = "PREFIX",
       .help = "Prefix of optimizer states in {}: PREFIX plus a weight's name is cut like that "
               "weight (repeatable)"},
      {.name = "dec-key-file",
       .takes = Takes::kText,
       .type = "FILE",
       .help = "File with the key of encrypted .ckpt files of {}"},
      {.name = "dec-mode",
       .takes = Takes::kText,
       .type = "AES-GCM|AES-CBC|SM4-CBC",
       .help = "Encryption mode of encrypted .ckpt files",
       .fallback = "AES-GCM",
       .choices = {"AES-GCM", "AES-CBC", "SM4-CBC"}},
  };
}

}  // namespace

std::vector<Option> side_group(char side) {
  const char letter = static_cast<char>(std::toupper(static_cast<unsigned char>(side)));
  std::vector<Option> rows = rows_of_a_side();
  for (Option& row : rows) {
    const std::size_t place = row.help.find("{}");
    if (place != std::string::npos) row.help.replace(place, 2, 1, letter);
  }
  // "For A: show the tensors ..."
  for (Option row : map_group()) {
    if ((row.commands & commands::kVerify) == 0) continue;
    row.help.front() =
        static_cast<char>(std::tolower(static_cast<unsigned char>(row.help.front())));
    row.help.insert(0, std::string("For ") + letter + ": ");
    const std::size_t other = row.help.find("--map");
    if (other != std::string::npos) row.help.insert(other + 2, std::string{side, '-'});
    rows.push_back(std::move(row));
  }
  for (Option& row : rows) {
    row.name.insert(0, std::string{side, '-'});
    row.commands = commands::kDiff;
  }
  return rows;
}

std::vector<Option> comparison_group() {
  return {
      {.name = "atol",
       .takes = Takes::kReal,
       .type = "NUMBER",
       .help = "Absolute tolerance",
       .fallback = "0",
       .commands = commands::kDiff},
      {.name = "rtol",
       .takes = Takes::kReal,
       .type = "NUMBER",
       .help = "Relative tolerance, as a factor of the value in B; added to --atol",
       .fallback = "0",
       .commands = commands::kDiff},
      {.name = "nan-differs", .help = "Treat two NaNs as different", .commands = commands::kDiff},
      {.name = "strict-types",
       .help = "Report different element types even where all values are equal",
       .commands = commands::kDiff},
  };
}

}  // namespace reshardfs
