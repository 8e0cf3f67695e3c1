//! The orchestration. Scopes nest: token, layer, part of the layer.

use tensortap_abi::DType;
use tensortap_scene::{GraphError, KernelDef, Orch, TaskHandle, Tensor};

use super::config::Config;
use super::kernels::{
    ADD_RESIDUAL, APPEND_KV, ARGMAX, ATTENTION_SCORES, ATTENTION_VALUES, EMBED, PROJECT_BF16, PROJECT_F16,
    PROJECT_I8, RMS_NORM, ROPE, SOFTMAX, SWIGLU,
};

/// Decodes `tokens` tokens after the prompt.
pub(super) fn decode(o: &mut Orch<'_>, config: &Config) -> Result<(), GraphError> {
    let model = Model::new(o, config)?;
    let mut written = LastWriters { token: None, cache: vec![None; model.layers.len()] };
    (0..config.positions()).try_for_each(|position| {
        o.scope(format_args!("token {position}"), |o| model.step(o, position, &mut written))
    })
}

/// The last tasks that wrote the data that one step passes to the next.
struct LastWriters {
    token: Option<TaskHandle>,
    /// One per layer. Each append waits for the previous one, so the last one is sufficient.
    cache: Vec<Option<TaskHandle>>,
}

/// A tensor, and the task after which it can be read.
struct TaskOutput {
    tensor: Tensor,
    task: TaskHandle,
}

/// A weight matrix `[in, out]` and the kernel for its dtype.
struct Linear {
    task_name: &'static str,
    kernel: &'static KernelDef,
    weight: Tensor,
    /// The scale of each output column, for integer weights.
    scale: Option<Tensor>,
}

struct Layer {
    attention_norm: Tensor,
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    ffn_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
    k_cache: Tensor,
    v_cache: Tensor,
}

impl Layer {
    fn new(o: &Orch<'_>, index: u64) -> Result<Layer, GraphError> {
        let part = |name: &str| o.arg(name)?.select(0, index);
        let linear = |task_name, kernel, name| {
            Ok::<_, GraphError>(Linear { task_name, kernel, weight: part(name)?, scale: None })
        };
        Ok(Layer {
            attention_norm: part("attention_norm")?,
            q: linear("q_proj", &PROJECT_BF16, "w_q")?,
            k: linear("k_proj", &PROJECT_BF16, "w_k")?,
            v: linear("v_proj", &PROJECT_BF16, "w_v")?,
            o: linear("o_proj", &PROJECT_BF16, "w_o")?,
            ffn_norm: part("ffn_norm")?,
            gate: linear("gate_proj", &PROJECT_F16, "w_gate")?,
            up: linear("up_proj", &PROJECT_F16, "w_up")?,
            down: Linear {
                scale: Some(part("w_down_scale")?),
                ..linear("down_proj", &PROJECT_I8, "w_down")?
            },
            k_cache: part("k_cache")?,
            v_cache: part("v_cache")?,
        })
    }
}

struct Model<'c> {
    config: &'c Config,
    embedding: Tensor,
    layers: Vec<Layer>,
    final_norm: Tensor,
    lm_head: Linear,
    prompt: Tensor,
    tokens: Tensor,
    logits: Tensor,
}

impl<'c> Model<'c> {
    fn new(o: &Orch<'_>, config: &'c Config) -> Result<Model<'c>, GraphError> {
        Ok(Model {
            config,
            embedding: o.arg("embedding")?,
            layers: (0..config.layers).map(|index| Layer::new(o, index)).collect::<Result<_, _>>()?,
            final_norm: o.arg("final_norm")?,
            lm_head: Linear {
                task_name: "lm_head",
                kernel: &PROJECT_BF16,
                weight: o.arg("lm_head")?,
                scale: None,
            },
            prompt: o.arg("prompt")?,
            tokens: o.arg("tokens")?,
            logits: o.arg("logits")?,
        })
    }

    /// Runs the model on the token at a position. From the end of the prompt on, decodes the next token.
    fn step(&self, o: &mut Orch<'_>, position: u64, written: &mut LastWriters) -> Result<(), GraphError> {
        let x = o.tensor(DType::Float32, &[self.config.hidden])?;
        let mut last = o
            .task(&EMBED)
            .input(&self.token_at(position)?)
            .input(&self.embedding)
            .output(&x)
            .after_all(written.token)
            .submit()?;
        for (index, (layer, appended)) in self.layers.iter().zip(&mut written.cache).enumerate() {
            last = o.scope(format_args!("layer {index}"), |o| {
                let attended =
                    o.scope("attention", |o| self.attention(o, layer, &x, position, last, appended))?;
                o.scope("feed_forward", |o| self.feed_forward(o, layer, &x, attended))
            })?;
        }
        if let Some(number) = self.config.decoded_at(position) {
            written.token = Some(self.predict(o, &x, number, last)?);
        }
        Ok(())
    }

    fn token_at(&self, position: u64) -> Result<Tensor, GraphError> {
        match position.checked_sub(self.config.prompt) {
            None => self.prompt.slice(0, position, 1),
            Some(number) => self.tokens.slice(0, number, 1),
        }
    }

    /// Adds attention over all positions so far to the stream. Returns the task that did so.
    fn attention(
        &self,
        o: &mut Orch<'_>,
        layer: &Layer,
        x: &Tensor,
        position: u64,
        last: TaskHandle,
        appended: &mut Option<TaskHandle>,
    ) -> Result<TaskHandle, GraphError> {
        let &Config { heads, kv_heads, hidden, .. } = self.config;
        let (head_dim, group, length) = (self.config.head_dim(), self.config.group(), position + 1);
        let normed = self.rms_norm(o, "attention_norm", [x, &layer.attention_norm], last)?;
        let append = self.append(o, layer, &normed, position, *appended)?;
        *appended = Some(append);
        let queries = self.queries(o, layer, &normed, position)?;

        let context = o.tensor(DType::Float32, &[heads, head_dim])?;
        let mut attended = Vec::new();
        for kv_head in 0..kv_heads {
            let q = queries.tensor.slice(0, kv_head * group, group)?;
            let k = layer.k_cache.slice(0, 0, length)?.select(1, kv_head)?;
            let v = layer.v_cache.slice(0, 0, length)?.select(1, kv_head)?;
            let out = context.slice(0, kv_head * group, group)?;
            attended.push(attend(o, [&q, &k, &v], &out, [append, queries.task])?);
        }
        let delta = o.tensor(DType::Float32, &[hidden])?;
        let ready = self.project(o, &layer.o, &context.reshape(&[hidden])?, &delta, &attended)?;
        o.task(&ADD_RESIDUAL).inout(x).input(&delta).after_all(ready).submit()
    }

    /// Writes key and value of a position to the layer's caches. Returns the task that did so.
    fn append(
        &self,
        o: &mut Orch<'_>,
        layer: &Layer,
        normed: &TaskOutput,
        position: u64,
        previous: Option<TaskHandle>,
    ) -> Result<TaskHandle, GraphError> {
        let shape = [self.config.kv_heads, self.config.head_dim()];
        let (k, v) = (o.tensor(DType::Float32, &shape)?, o.tensor(DType::Float32, &shape)?);
        let k_ready = self.project(o, &layer.k, &normed.tensor, &k, &[normed.task])?;
        let v_ready = self.project(o, &layer.v, &normed.tensor, &v, &[normed.task])?;
        o.task(&APPEND_KV)
            .input(&k)
            .input(&v)
            .output(&layer.k_cache.select(0, position)?)
            .output(&layer.v_cache.select(0, position)?)
            .scalar(rope_position(position))
            .scalar(Config::ROPE_BASE)
            .after_all(k_ready)
            .after_all(v_ready)
            .after_all(previous)
            .submit()
    }

    /// Computes the rotated queries of a position, `[heads, head_dim]`.
    fn queries(
        &self,
        o: &mut Orch<'_>,
        layer: &Layer,
        normed: &TaskOutput,
        position: u64,
    ) -> Result<TaskOutput, GraphError> {
        let q = o.tensor(DType::Float32, &[self.config.heads, self.config.head_dim()])?;
        let projected = self.project(o, &layer.q, &normed.tensor, &q, &[normed.task])?;
        let task = o
            .task(&ROPE)
            .inout(&q)
            .scalar(rope_position(position))
            .scalar(Config::ROPE_BASE)
            .after_all(projected)
            .submit()?;
        Ok(TaskOutput { tensor: q, task })
    }

    /// Adds the feed-forward layer to the stream. Returns the task that did so.
    fn feed_forward(
        &self,
        o: &mut Orch<'_>,
        layer: &Layer,
        x: &Tensor,
        last: TaskHandle,
    ) -> Result<TaskHandle, GraphError> {
        let &Config { hidden, ffn, .. } = self.config;
        let gate = o.tensor(DType::Float32, &[ffn])?;
        let up = o.tensor(DType::Float32, &[ffn])?;
        let activated = o.tensor(DType::Float32, &[ffn])?;
        let normed = self.rms_norm(o, "ffn_norm", [x, &layer.ffn_norm], last)?;
        let gate_ready = self.project(o, &layer.gate, &normed.tensor, &gate, &[normed.task])?;
        let up_ready = self.project(o, &layer.up, &normed.tensor, &up, &[normed.task])?;
        let swiglu = o
            .task(&SWIGLU)
            .input(&gate)
            .input(&up)
            .output(&activated)
            .after_all(gate_ready)
            .after_all(up_ready)
            .submit()?;
        let delta = o.tensor(DType::Float32, &[hidden])?;
        let ready = self.project(o, &layer.down, &activated, &delta, &[swiglu])?;
        o.task(&ADD_RESIDUAL).inout(x).input(&delta).after_all(ready).submit()
    }

    /// Computes the logits and the decoded token with this number. Returns the task that wrote the token.
    fn predict(
        &self,
        o: &mut Orch<'_>,
        x: &Tensor,
        number: u64,
        last: TaskHandle,
    ) -> Result<TaskHandle, GraphError> {
        let logits = self.logits.select(0, number)?;
        let normed = self.rms_norm(o, "final_norm", [x, &self.final_norm], last)?;
        let ready = self.project(o, &self.lm_head, &normed.tensor, &logits, &[normed.task])?;
        let token = self.tokens.slice(0, number, 1)?;
        o.task(&ARGMAX).input(&logits).output(&token).after_all(ready).dump(..).submit()
    }

    fn rms_norm(
        &self,
        o: &mut Orch<'_>,
        task_name: &str,
        [x, gain]: [&Tensor; 2],
        last: TaskHandle,
    ) -> Result<TaskOutput, GraphError> {
        let normed = o.tensor(DType::Float32, &[self.config.hidden])?;
        let task = o
            .task(&RMS_NORM)
            .task_name(task_name)
            .input(x)
            .input(gain)
            .output(&normed)
            .scalar(Config::NORM_EPSILON)
            .after(last)
            .submit()?;
        Ok(TaskOutput { tensor: normed, task })
    }

    /// `y = x · weight`, with a task per tile of columns. `y` may have any shape with one element per column.
    fn project(
        &self,
        o: &mut Orch<'_>,
        linear: &Linear,
        x: &Tensor,
        y: &Tensor,
        after: &[TaskHandle],
    ) -> Result<Vec<TaskHandle>, GraphError> {
        let (columns, tile) = (linear.weight.shape()[1], self.config.tile);
        let y = y.reshape(&[columns])?;
        let submit = |index| {
            let first = index * tile;
            let weight = linear.weight.slice(1, first, tile)?;
            let mut task = o.task(linear.kernel).task_name(linear.task_name).input(x).input(&weight);
            if let Some(scale) = &linear.scale {
                task = task.input(&scale.slice(0, first, tile)?);
            }
            task.output(&y.slice(0, first, tile)?).after_all(after.iter().copied()).submit()
        };
        (0..columns / tile).map(submit).collect()
    }
}

/// Attention for one key and value head with the query heads that share it: `q [group, head_dim]`, `k` and `v
/// [length, head_dim]` to `context [group, head_dim]`.
fn attend(
    o: &mut Orch<'_>,
    [q, k, v]: [&Tensor; 3],
    context: &Tensor,
    ready: [TaskHandle; 2],
) -> Result<TaskHandle, GraphError> {
    let shape = [q.shape()[0], k.shape()[0]];
    let (scores, weights) = (o.tensor(DType::Float32, &shape)?, o.tensor(DType::Float32, &shape)?);
    let scored = o.task(&ATTENTION_SCORES).input(q).input(k).output(&scores).after_all(ready).submit()?;
    let weighed = o.task(&SOFTMAX).input(&scores).output(&weights).after(scored).submit()?;
    o.task(&ATTENTION_VALUES).input(&weights).input(v).output(context).after(weighed).submit()
}

fn rope_position(position: u64) -> u32 {
    u32::try_from(position).expect("a run has fewer than 2^32 positions")
}
