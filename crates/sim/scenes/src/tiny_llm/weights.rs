//! Seeded weights, scaled so that activations are near one and greedy decoding is never close.
//!
//! With independent random weights, the two best logits are sometimes nearly equal, and rounding would decide
//! the token. So the head is tied to the embedding: column `v` of `lm_head` is the embedding of the token
//! that precedes `v` on a random cycle through the vocabulary. The embedding of a step is still the largest
//! part of its residual stream at the end, so the successor on the cycle leads clearly. Layers and context
//! still influence all logits.

use half::{bf16, f16};
use tensortap_scene::{Element, HostArgs, Params};

use super::config::Config;
use crate::inputs;

/// Standard deviation of queries and keys. The one of scores is its square.
const QUERY_STD: f64 = 1.4;
/// Share of the attention output in the residual stream, before division by sqrt(layers).
const ATTENTION_STD: f64 = 1.0;
/// Share of the feed-forward layer. silu(gate)*up has a standard deviation near 0.6.
const FFN_STD: f64 = 0.8;
/// Standard deviation of uniform integers in -127..=127.
const I8_STD: f64 = 73.6;

pub(super) fn fill(params: &Params, args: &mut HostArgs) {
    let config = Config::new(params);
    let (hidden, ffn) = (config.hidden as f64, config.ffn as f64);
    // Inputs with deviation one give each projection outputs with the given deviation. The residual
    // contributions of all layers add up to the same for any depth.
    let depth = (config.layers as f64).sqrt();
    fill_spread::<bf16>(params, args, "w_q", QUERY_STD / hidden.sqrt());
    fill_spread::<bf16>(params, args, "w_k", QUERY_STD / hidden.sqrt());
    fill_spread::<bf16>(params, args, "w_v", 1.0 / hidden.sqrt());
    fill_spread::<bf16>(params, args, "w_o", ATTENTION_STD / (hidden.sqrt() * depth));
    fill_spread::<f16>(params, args, "w_gate", 1.0 / hidden.sqrt());
    fill_spread::<f16>(params, args, "w_up", 1.0 / hidden.sqrt());
    inputs::fill_uniform::<i8>(params, args, "w_down", -128.0..128.0);
    let step = FFN_STD / (I8_STD * ffn.sqrt() * depth);
    inputs::fill_uniform::<f32>(params, args, "w_down_scale", 0.7 * step..1.3 * step);
    for norm in ["attention_norm", "ffn_norm", "final_norm"] {
        inputs::fill_uniform::<f32>(params, args, norm, 0.8..1.2);
    }
    fill_spread::<bf16>(params, args, "embedding", 1.0);
    tie_head(&config, params, args);
    inputs::fill_uniform::<i32>(params, args, "prompt", 0.0..config.vocab as f64);
}

/// Fills with uniform values around zero that have this standard deviation.
fn fill_spread<T: Element>(params: &Params, args: &mut HostArgs, name: &str, std: f64) {
    let reach = std * 3_f64.sqrt();
    inputs::fill_uniform::<T>(params, args, name, -reach..reach);
}

fn tie_head(config: &Config, params: &Params, args: &mut HostArgs) {
    let (hidden, vocab) = (inputs::size(params, "hidden"), inputs::size(params, "vocab"));
    let embedding = args.get("embedding").get::<bf16>();
    let mut cycle: Vec<usize> = (0..vocab).collect();
    inputs::rng(params, "lm_head").shuffle(&mut cycle);
    // Logits are near one for any size of the stream.
    let scale = 1.0 / (config.hidden as f64).sqrt();
    let mut head = vec![bf16::ZERO; hidden * vocab];
    for (place, &token) in cycle.iter().enumerate() {
        let successor = cycle[(place + 1) % vocab];
        for (row, &value) in embedding[token * hidden..][..hidden].iter().enumerate() {
            head[row * vocab + successor] = bf16::from_f64(value.to_f64() * scale);
        }
    }
    args.get_mut("lm_head").set(&head);
}
