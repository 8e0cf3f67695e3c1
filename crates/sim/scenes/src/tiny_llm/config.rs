use tensortap_scene::{ParamSpec, Params, SceneError};

use super::NAME;
use crate::inputs;
use crate::limits::check_tasks;

pub(super) static PARAMS: [ParamSpec; 10] = [
    ParamSpec::int("layers", "2", 1, 16, "transformer layers"),
    ParamSpec::int("hidden", "128", 2, 1024, "size of the residual stream; a multiple of heads and tile"),
    ParamSpec::int("heads", "4", 1, 64, "query heads; hidden/heads must be even"),
    ParamSpec::int("kv_heads", "2", 1, 64, "key and value heads; divides heads"),
    ParamSpec::int("ffn", "256", 1, 4096, "size of the feed-forward layer; a multiple of tile"),
    ParamSpec::int("vocab", "512", 2, 8192, "vocabulary; a multiple of tile"),
    ParamSpec::int("tokens", "24", 1, 1024, "tokens to decode"),
    ParamSpec::int("prompt", "4", 1, 256, "tokens of the prompt"),
    ParamSpec::int("tile", "32", 1, 1024, "output columns of one projection task"),
    inputs::SEED,
];

/// Sizes of the model and of the run.
pub(super) struct Config {
    pub layers: u64,
    pub hidden: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub ffn: u64,
    pub vocab: u64,
    pub tokens: u64,
    pub prompt: u64,
    pub tile: u64,
}

impl Config {
    /// Keeps RMSNorm finite if the stream is zero.
    pub const NORM_EPSILON: f32 = 1e-5;
    /// Base of the RoPE wavelengths.
    pub const ROPE_BASE: f32 = 10_000.0;

    pub fn new(params: &Params) -> Config {
        let int = |name| params.int(name);
        Config {
            layers: int("layers"),
            hidden: int("hidden"),
            heads: int("heads"),
            kv_heads: int("kv_heads"),
            ffn: int("ffn"),
            vocab: int("vocab"),
            tokens: int("tokens"),
            prompt: int("prompt"),
            tile: int("tile"),
        }
    }

    pub fn head_dim(&self) -> u64 {
        self.hidden / self.heads
    }

    /// Number of query heads that share one key and value head.
    pub fn group(&self) -> u64 {
        self.heads / self.kv_heads
    }

    /// Size of a key or value over all heads.
    pub fn kv_dim(&self) -> u64 {
        self.kv_heads * self.head_dim()
    }

    /// Number of positions that the model processes. The last decoded token is not fed back.
    pub fn positions(&self) -> u64 {
        self.prompt + self.tokens - 1
    }

    /// The index of the token that is decoded at a position, or `None` before the end of the prompt.
    pub fn decoded_at(&self, position: u64) -> Option<u64> {
        (position + 1).checked_sub(self.prompt)
    }

    pub fn check(&self) -> Result<(), SceneError> {
        divides("hidden", self.hidden, "heads", self.heads)?;
        divides("heads", self.heads, "kv_heads", self.kv_heads)?;
        if !self.head_dim().is_multiple_of(2) {
            let (heads, next) = (self.heads, self.hidden.next_multiple_of(2 * self.heads));
            let expected =
                format!("hidden/heads must be even for RoPE; with heads={heads}, hidden={next} works");
            return Err(refuse("hidden", self.hidden, expected));
        }
        divides("hidden", self.hidden, "tile", self.tile)?;
        if !self.kv_dim().is_multiple_of(self.tile) {
            let (kv_dim, works) = (self.kv_dim(), common_divisor(self.kv_dim(), self.tile));
            let expected = format!("it must divide kv_heads*hidden/heads = {kv_dim}; {works} does");
            return Err(refuse("tile", self.tile, expected));
        }
        divides("ffn", self.ffn, "tile", self.tile)?;
        divides("vocab", self.vocab, "tile", self.tile)?;
        check_tasks(NAME, ("tile", self.tile), self.tasks())
    }

    /// Number of tasks that the orchestration submits.
    pub fn tasks(&self) -> u64 {
        let tiles = |columns: u64| columns / self.tile;
        // Norm, append, RoPE, residual, and three tasks per key and value head.
        let attention = 4 + 2 * tiles(self.kv_dim()) + 2 * tiles(self.hidden) + 3 * self.kv_heads;
        // Norm, SwiGLU and residual.
        let feed_forward = 3 + 2 * tiles(self.ffn) + tiles(self.hidden);
        // Norm and argmax.
        let predict = 2 + tiles(self.vocab);
        self.positions() * (1 + self.layers * (attention + feed_forward)) + self.tokens * predict
    }
}

fn divides(name: &str, value: u64, by: &str, divisor: u64) -> Result<(), SceneError> {
    if value.is_multiple_of(divisor) {
        return Ok(());
    }
    let next = value.next_multiple_of(divisor);
    Err(refuse(
        name,
        value,
        format!("it must be a multiple of {by}, which is {divisor}; the next one is {next}"),
    ))
}

fn refuse(name: &str, value: u64, expected: String) -> SceneError {
    SceneError::BadParam { scene: NAME, name: name.into(), value: value.to_string(), expected }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}
