//! Metadata keys, as the GGUF specification and llama.cpp name them.

#![allow(missing_docs)] // Each constant is its key in capitals.

pub const GENERAL_ALIGNMENT: &str = "general.alignment";
pub const GENERAL_ARCHITECTURE: &str = "general.architecture";
pub const GENERAL_AUTHOR: &str = "general.author";
pub const GENERAL_BASENAME: &str = "general.basename";
pub const GENERAL_DESCRIPTION: &str = "general.description";
pub const GENERAL_FILE_TYPE: &str = "general.file_type";
pub const GENERAL_FINETUNE: &str = "general.finetune";
pub const GENERAL_LICENSE: &str = "general.license";
pub const GENERAL_NAME: &str = "general.name";
pub const GENERAL_QUANTIZATION_VERSION: &str = "general.quantization_version";
pub const GENERAL_SIZE_LABEL: &str = "general.size_label";
pub const GENERAL_TYPE: &str = "general.type";
pub const GENERAL_URL: &str = "general.url";
pub const GENERAL_VERSION: &str = "general.version";

pub const LLAMA_ATTENTION_HEAD_COUNT: &str = "llama.attention.head_count";
pub const LLAMA_ATTENTION_HEAD_COUNT_KV: &str = "llama.attention.head_count_kv";
pub const LLAMA_ATTENTION_KEY_LENGTH: &str = "llama.attention.key_length";
pub const LLAMA_ATTENTION_LAYER_NORM_RMS_EPSILON: &str = "llama.attention.layer_norm_rms_epsilon";
pub const LLAMA_ATTENTION_VALUE_LENGTH: &str = "llama.attention.value_length";
pub const LLAMA_BLOCK_COUNT: &str = "llama.block_count";
pub const LLAMA_CONTEXT_LENGTH: &str = "llama.context_length";
pub const LLAMA_EMBEDDING_LENGTH: &str = "llama.embedding_length";
pub const LLAMA_EXPERT_COUNT: &str = "llama.expert_count";
pub const LLAMA_FEED_FORWARD_LENGTH: &str = "llama.feed_forward_length";
pub const LLAMA_ROPE_DIMENSION_COUNT: &str = "llama.rope.dimension_count";
pub const LLAMA_ROPE_FREQ_BASE: &str = "llama.rope.freq_base";
pub const LLAMA_ROPE_SCALE_LINEAR: &str = "llama.rope.scale_linear";
pub const LLAMA_ROPE_SCALING_FACTOR: &str = "llama.rope.scaling.factor";
pub const LLAMA_ROPE_SCALING_TYPE: &str = "llama.rope.scaling.type";
pub const LLAMA_VOCAB_SIZE: &str = "llama.vocab_size";

pub const TOKENIZER_GGML_ADD_BOS_TOKEN: &str = "tokenizer.ggml.add_bos_token";
pub const TOKENIZER_GGML_ADD_EOS_TOKEN: &str = "tokenizer.ggml.add_eos_token";
pub const TOKENIZER_GGML_ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
pub const TOKENIZER_GGML_BOS_TOKEN_ID: &str = "tokenizer.ggml.bos_token_id";
pub const TOKENIZER_GGML_EOS_TOKEN_ID: &str = "tokenizer.ggml.eos_token_id";
pub const TOKENIZER_GGML_MODEL: &str = "tokenizer.ggml.model";
pub const TOKENIZER_GGML_PADDING_TOKEN_ID: &str = "tokenizer.ggml.padding_token_id";
pub const TOKENIZER_GGML_SCORES: &str = "tokenizer.ggml.scores";
pub const TOKENIZER_GGML_SEPARATOR_TOKEN_ID: &str = "tokenizer.ggml.seperator_token_id";
pub const TOKENIZER_GGML_TOKENS: &str = "tokenizer.ggml.tokens";
pub const TOKENIZER_GGML_TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
pub const TOKENIZER_GGML_UNKNOWN_TOKEN_ID: &str = "tokenizer.ggml.unknown_token_id";

pub const SPLIT_COUNT: &str = "split.count";
pub const SPLIT_NO: &str = "split.no";
pub const SPLIT_TENSORS_COUNT: &str = "split.tensors.count";

/// What [`SamplerSettings::temperature`](crate::sampler::SamplerSettings) is if nothing else is said.
pub const SMIDGEN_RUN_TEMP: &str = "smidgen.run.temp";
/// The same for `top_k`.
pub const SMIDGEN_RUN_TOP_K: &str = "smidgen.run.top_k";
/// The same for `top_p`.
pub const SMIDGEN_RUN_TOP_P: &str = "smidgen.run.top_p";
/// The same for `min_p`.
pub const SMIDGEN_RUN_MIN_P: &str = "smidgen.run.min_p";
/// The same for `repeat_penalty`.
pub const SMIDGEN_RUN_REPEAT_PENALTY: &str = "smidgen.run.repeat_penalty";

/// Where each token's text begins in the array of tokens, counted from the first byte after that
/// array's element count; one entry more than there are tokens.
pub const SMIDGEN_TOKENIZER_OFFSETS: &str = "smidgen.tokenizer.offsets";
/// Token ids in the order of their texts' bytes, ties by id.
pub const SMIDGEN_TOKENIZER_SORTED: &str = "smidgen.tokenizer.sorted";
