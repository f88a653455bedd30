# SPDX-License-Identifier: Apache-2.0
"""For what MindFormers imports and no case needs: data sets, tokenizers, metrics, and hyper_parallel, which is in no
package index."""

import absent

absent.stand_in("datasets", "hyper_parallel", "jieba", "mindpet", "pandas", "pyarrow", "rouge_chinese", "tensorboardX",
                "tiktoken")
