//! The golden: the whole decoder in f64. Only keys and values are rounded, to the f16 of their caches.

use half::f16;
use tensortap_scene::{Element, HostArgs, HostTensor};

use super::config::Config;

fn size(n: u64) -> usize {
    usize::try_from(n).expect("fits in memory")
}

fn values(args: &HostArgs, name: &str) -> Vec<f64> {
    args.get(name).values()
}

/// A matrix `[in, out]` of one layer, in f64.
struct Matrix {
    columns: usize,
    elements: Vec<f64>,
}

impl Matrix {
    /// The matrices of all layers in a stacked argument.
    fn stack(args: &HostArgs, name: &str) -> Vec<Matrix> {
        let (rows, columns) = (size(args.get(name).shape[1]), size(args.get(name).shape[2]));
        let of = |elements: &[f64]| Matrix { columns, elements: elements.to_vec() };
        values(args, name).chunks_exact(rows * columns).map(of).collect()
    }

    fn apply(&self, x: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; self.columns];
        for (row, &x) in x.iter().enumerate() {
            for (column, y) in y.iter_mut().enumerate() {
                *y += x * self.elements[row * self.columns + column];
            }
        }
        y
    }
}

/// The weights, and the caches as they fill.
struct Model<'c> {
    config: &'c Config,
    embedding: Vec<f64>,
    attention_norm: Vec<f64>,
    w_q: Vec<Matrix>,
    w_k: Vec<Matrix>,
    w_v: Vec<Matrix>,
    w_o: Vec<Matrix>,
    ffn_norm: Vec<f64>,
    w_gate: Vec<Matrix>,
    w_up: Vec<Matrix>,
    w_down: Vec<Matrix>,
    w_down_scale: Vec<f64>,
    final_norm: Vec<f64>,
    lm_head: Matrix,
    // Per layer, position by position.
    keys: Vec<Vec<f64>>,
    values: Vec<Vec<f64>>,
}

/// Computes the golden caches, logits and tokens.
pub(super) fn decode(config: &Config, args: &HostArgs) -> Vec<HostTensor> {
    let mut model = Model::new(config, args);
    let mut ids = args.get("prompt").get::<i32>();
    let mut logits: Vec<f64> = Vec::new();
    for position in 0..size(config.positions()) {
        let token = usize::try_from(ids[position]).expect("tokens are indices into the vocabulary");
        let x = model.forward(token, position);
        if position + 1 >= size(config.prompt) {
            let row = model.predict(&x);
            ids.push(i32::try_from(greatest(&row)).expect("a vocabulary has at most 8192 tokens"));
            logits.extend(row);
        }
    }
    let cache = [config.layers, config.positions(), config.kv_heads, config.head_dim()];
    vec![
        rounded::<f16>("k_cache", &cache, &model.keys.concat()),
        rounded::<f16>("v_cache", &cache, &model.values.concat()),
        rounded::<f32>("logits", &[config.tokens, config.vocab], &logits),
        HostTensor::new("tokens", &[config.tokens], &ids[size(config.prompt)..]),
    ]
}

fn rounded<T: Element>(name: &str, shape: &[u64], values: &[f64]) -> HostTensor {
    HostTensor::new(name, shape, &values.iter().map(|&v| T::from_f64(v)).collect::<Vec<_>>())
}

fn greatest(row: &[f64]) -> usize {
    (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}

fn to_f16(values: Vec<f64>) -> impl Iterator<Item = f64> {
    values.into_iter().map(|v| f16::from_f64(v).to_f64())
}

impl<'c> Model<'c> {
    fn new(config: &'c Config, args: &HostArgs) -> Model<'c> {
        Model {
            config,
            embedding: values(args, "embedding"),
            attention_norm: values(args, "attention_norm"),
            w_q: Matrix::stack(args, "w_q"),
            w_k: Matrix::stack(args, "w_k"),
            w_v: Matrix::stack(args, "w_v"),
            w_o: Matrix::stack(args, "w_o"),
            ffn_norm: values(args, "ffn_norm"),
            w_gate: Matrix::stack(args, "w_gate"),
            w_up: Matrix::stack(args, "w_up"),
            w_down: Matrix::stack(args, "w_down"),
            w_down_scale: values(args, "w_down_scale"),
            final_norm: values(args, "final_norm"),
            lm_head: Matrix { columns: size(config.vocab), elements: values(args, "lm_head") },
            keys: vec![Vec::new(); size(config.layers)],
            values: vec![Vec::new(); size(config.layers)],
        }
    }

    /// The residual stream after all layers.
    fn forward(&mut self, token: usize, position: usize) -> Vec<f64> {
        let hidden = size(self.config.hidden);
        let mut x = self.embedding[token * hidden..(token + 1) * hidden].to_vec();
        for layer in 0..size(self.config.layers) {
            let normed = normalise(&x, &self.attention_norm[layer * hidden..(layer + 1) * hidden]);
            let attended = self.attention(layer, &normed, position);
            add(&mut x, &attended);
            let normed = normalise(&x, &self.ffn_norm[layer * hidden..(layer + 1) * hidden]);
            let fed = self.feed_forward(layer, &normed);
            add(&mut x, &fed);
        }
        x
    }

    fn attention(&mut self, layer: usize, normed: &[f64], position: usize) -> Vec<f64> {
        let head_dim = size(self.config.head_dim());
        let mut q = self.w_q[layer].apply(normed);
        let mut k = self.w_k[layer].apply(normed);
        rotate_heads(&mut q, head_dim, position);
        rotate_heads(&mut k, head_dim, position);
        self.keys[layer].extend(to_f16(k));
        self.values[layer].extend(to_f16(self.w_v[layer].apply(normed)));
        let context: Vec<f64> = (0..size(self.config.heads))
            .flat_map(|head| self.attend(layer, &q, head, position + 1))
            .collect();
        self.w_o[layer].apply(&context)
    }

    fn attend(&self, layer: usize, q: &[f64], head: usize, length: usize) -> Vec<f64> {
        let (head_dim, kv_dim) = (size(self.config.head_dim()), size(self.config.kv_dim()));
        let kv_head = head / size(self.config.group());
        let cached =
            |cache: &[f64], position: usize, d: usize| cache[position * kv_dim + kv_head * head_dim + d];
        let mut weights = vec![0.0; length];
        for (position, weight) in weights.iter_mut().enumerate() {
            for d in 0..head_dim {
                *weight += q[head * head_dim + d] * cached(&self.keys[layer], position, d);
            }
            *weight = (*weight / (head_dim as f64).sqrt()).exp();
        }
        let total: f64 = weights.iter().sum();
        let value = |d| (0..length).map(|p| weights[p] / total * cached(&self.values[layer], p, d)).sum();
        (0..head_dim).map(value).collect()
    }

    fn feed_forward(&self, layer: usize, normed: &[f64]) -> Vec<f64> {
        let gate = self.w_gate[layer].apply(normed);
        let up = self.w_up[layer].apply(normed);
        let activated: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
        let down = self.w_down[layer].apply(&activated);
        let hidden = down.len();
        down.iter().enumerate().map(|(i, d)| d * self.w_down_scale[layer * hidden + i]).collect()
    }

    fn predict(&self, x: &[f64]) -> Vec<f64> {
        self.lm_head.apply(&normalise(x, &self.final_norm))
    }
}

fn add(x: &mut [f64], delta: &[f64]) {
    x.iter_mut().zip(delta).for_each(|(x, d)| *x += d);
}

fn normalise(x: &[f64], gain: &[f64]) -> Vec<f64> {
    let mean_square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let norm = (mean_square + f64::from(Config::NORM_EPSILON)).sqrt();
    x.iter().zip(gain).map(|(x, g)| x / norm * g).collect()
}

fn rotate_heads(vector: &mut [f64], head_dim: usize, position: usize) {
    let pairs = head_dim / 2;
    for head in vector.chunks_mut(head_dim) {
        for i in 0..pairs {
            let frequency = f64::from(Config::ROPE_BASE).powf(-2.0 * i as f64 / head_dim as f64);
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            let (a, b) = (head[i], head[i + pairs]);
            (head[i], head[i + pairs]) = (a * cos - b * sin, a * sin + b * cos);
        }
    }
}
