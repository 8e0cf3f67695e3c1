//! `tiny_llm`: greedy decoding with a small transformer, entirely on the device.
//!
//! For each token: embedding, then per layer RMSNorm, grouped-query attention with RoPE over an f16 KV cache,
//! RMSNorm and SwiGLU, each added to the residual stream `x`. At the end: RMSNorm, logits and `argmax`. The
//! `embed` task of the next step reads the token that `argmax` writes, so the orchestration never looks at
//! data.
//!
//! Projections are split into tiles of output columns, one AIC task each, over strided views of the weights.
//! Weights are bf16 (attention, embedding, logits), f16 (gate and up) and i8 with an f32 scale per column
//! (down). Activations are f32.

mod config;
mod golden;
mod graph;
mod kernels;
mod reference;
#[cfg(test)]
mod tests;
mod weights;

use tensortap_abi::DType;
use tensortap_scene::{
    ArgSpec, GraphError, HostArgs, HostTensor, Orch, Params, Scene, SceneError, Tolerance, scene_facts,
};

use config::Config;

/// The scene `tiny_llm`.
pub struct TinyLlm;

const NAME: &str = "tiny_llm";

impl Scene for TinyLlm {
    scene_facts! {
        name: NAME,
        about: "a small decoder (RMSNorm, RoPE, grouped-query attention, SwiGLU) that decodes greedily on the device",
        params: &config::PARAMS,
        kernels: &kernels::ALL,
    }

    fn check(&self, params: &Params) -> Result<(), SceneError> {
        Config::new(params).check()
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let c = Config::new(params);
        let (layers, hidden, ffn, vocab) = (c.layers, c.hidden, c.ffn, c.vocab);
        let cache = [layers, c.positions(), c.kv_heads, c.head_dim()];
        let weight = |name, dtype, rows, columns| ArgSpec::input(name, dtype, &[layers, rows, columns]);
        vec![
            ArgSpec::input("prompt", DType::Int32, &[c.prompt]),
            ArgSpec::input("embedding", DType::BFloat16, &[vocab, hidden]),
            ArgSpec::input("attention_norm", DType::Float32, &[layers, hidden]),
            weight("w_q", DType::BFloat16, hidden, hidden),
            weight("w_k", DType::BFloat16, hidden, c.kv_dim()),
            weight("w_v", DType::BFloat16, hidden, c.kv_dim()),
            weight("w_o", DType::BFloat16, hidden, hidden),
            ArgSpec::input("ffn_norm", DType::Float32, &[layers, hidden]),
            weight("w_gate", DType::Float16, hidden, ffn),
            weight("w_up", DType::Float16, hidden, ffn),
            weight("w_down", DType::Int8, ffn, hidden),
            ArgSpec::input("w_down_scale", DType::Float32, &[layers, hidden]),
            ArgSpec::input("final_norm", DType::Float32, &[hidden]),
            ArgSpec::input("lm_head", DType::BFloat16, &[hidden, vocab]),
            ArgSpec::output("k_cache", DType::Float16, &cache),
            ArgSpec::output("v_cache", DType::Float16, &cache),
            ArgSpec::output("logits", DType::Float32, &[c.tokens, vocab]),
            ArgSpec::output("tokens", DType::Int32, &[c.tokens]),
        ]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        weights::fill(params, args);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        graph::decode(o, &Config::new(params))
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        Some(golden::decode(&Config::new(params), inputs))
    }

    /// Keys and values are rounded to f16. If f32 and f64 sums are on different sides of a rounding boundary,
    /// a cached value changes by its spacing, 2^-10 of it, and everything after it by a fraction of that. The
    /// best logit leads by hundreds of times this difference, so tokens stay exact.
    fn tolerance(&self, output: &str) -> Option<Tolerance> {
        match output {
            "k_cache" | "v_cache" => Some(Tolerance { rtol: 2e-3, atol: 3e-3 }),
            "logits" => Some(Tolerance { rtol: 1e-3, atol: 3e-3 }),
            _ => None,
        }
    }
}
