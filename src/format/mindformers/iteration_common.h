// SPDX-License-Identifier: Apache-2.0
/// common.json of MindSpore Transformers' Checkpoint 2.0: where training was when it saved.
/// Source: mindformers/checkpoint/checkpoint.py, CommonInfo.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

namespace reshardfs {

/// In the order of the file. Its reader fails at other keys, but for kIgnoredCommonKey.
inline constexpr std::array<std::string_view, 7> kCommonKeys{
    "epoch_num",         "step_num",         "global_step", "loss_scale",
    "global_batch_size", "consumed_samples", "ckpt_status"};

/// Readers of MindSpore Transformers 2.1.0 and later leave it out.
inline constexpr std::string_view kIgnoredCommonKey = "data_plan_state";

using CommonValue = std::variant<std::int64_t, double>;

/// The text of the file; what is not in `values` is null.
std::string common_json(const std::map<std::string, CommonValue, std::less<>>& values);

/// Whether a text is one that the reader takes: an object, with none but these keys.
bool is_common_json(const std::string& text);

}  // namespace reshardfs
