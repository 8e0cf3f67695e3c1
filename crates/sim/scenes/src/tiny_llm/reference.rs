//! The references of the kernels, in f64 and written from the definitions.

use tensortap_scene::{Element, RefTask};

pub(super) fn embed(task: &mut RefTask) {
    let [token, table, x] = &mut task.tensors[..] else { panic!("embed takes three tensors") };
    let (vocab, hidden) = (table.shape[0], table.shape[1]);
    // Negative values become zero. A float represents every token exactly.
    let token = (u32::from_f64(token.values[0]) as usize).min(vocab - 1);
    x.values = table.values[token * hidden..(token + 1) * hidden].to_vec();
}

pub(super) fn rms_norm(task: &mut RefTask) {
    let epsilon = f64::from(task.scalar::<f32>(3));
    let [x, gain, y] = &mut task.tensors[..] else { panic!("rms_norm takes three tensors") };
    let squares: f64 = x.values.iter().map(|x| x.powi(2)).sum();
    let rms = (squares / x.values.len() as f64 + epsilon).sqrt();
    for (i, y) in y.values.iter_mut().enumerate() {
        *y = gain.values[i] * x.values[i] / rms;
    }
}

pub(super) fn project(task: &mut RefTask) {
    let [x, w, y] = &mut task.tensors[..] else { panic!("a projection takes three tensors") };
    let (rows, columns) = (w.shape[0], w.shape[1]);
    for column in 0..columns {
        y.values[column] = (0..rows).map(|row| x.values[row] * w.values[row * columns + column]).sum();
    }
}

pub(super) fn project_scaled(task: &mut RefTask) {
    let [x, w, scale, y] = &mut task.tensors[..] else { panic!("a scaled projection takes four tensors") };
    let (rows, columns) = (w.shape[0], w.shape[1]);
    for column in 0..columns {
        let weight = |row: usize| w.values[row * columns + column] * scale.values[column];
        y.values[column] = (0..rows).map(|row| x.values[row] * weight(row)).sum();
    }
}

/// Rotates pairs of elements, as complex numbers, by multiplication with `e^(i angle)`.
fn turned(values: &[f64], head_dim: usize, position: u32, base: f32) -> Vec<f64> {
    let half = head_dim / 2;
    let mut out = values.to_vec();
    for (place, out) in out.iter_mut().enumerate() {
        let (head, i) = (place - place % head_dim, place % head_dim);
        let pair = i % half;
        let wavelength = f64::from(base).ln() * (2 * pair) as f64 / head_dim as f64;
        let angle = f64::from(position) / wavelength.exp();
        let (re, im) = (values[head + pair], values[head + pair + half]);
        *out =
            if i < half { re * angle.cos() - im * angle.sin() } else { re * angle.sin() + im * angle.cos() };
    }
    out
}

pub(super) fn rope(task: &mut RefTask) {
    let (position, base) = (task.scalar(1), task.scalar(2));
    let q = &mut task.tensors[0];
    q.values = turned(&q.values, q.shape[1], position, base);
}

pub(super) fn append_kv(task: &mut RefTask) {
    let (position, base) = (task.scalar(4), task.scalar(5));
    let [k, v, k_row, v_row] = &mut task.tensors[..] else { panic!("append_kv takes four tensors") };
    k_row.values = turned(&k.values, k.shape[1], position, base);
    v_row.values.clone_from(&v.values);
}

pub(super) fn attention_scores(task: &mut RefTask) {
    let [q, k, scores] = &mut task.tensors[..] else { panic!("attention_scores takes three tensors") };
    let (group, length, size) = (q.shape[0], k.shape[0], q.shape[1]);
    for g in 0..group {
        for j in 0..length {
            let product: f64 = (0..size).map(|d| q.values[g * size + d] * k.values[j * size + d]).sum();
            scores.values[g * length + j] = product / (size as f64).sqrt();
        }
    }
}

/// Computes each weight as `1 / sum(exp(other - own))`. In f64 this needs no maximum.
pub(super) fn softmax(task: &mut RefTask) {
    let [scores, weights] = &mut task.tensors[..] else { panic!("softmax takes two tensors") };
    let length = scores.shape[1];
    for (place, weight) in weights.values.iter_mut().enumerate() {
        let row = &scores.values[place - place % length..][..length];
        *weight = 1.0 / row.iter().map(|other| (other - scores.values[place]).exp()).sum::<f64>();
    }
}

pub(super) fn attention_values(task: &mut RefTask) {
    let [weights, v, context] = &mut task.tensors[..] else { panic!("attention_values takes three tensors") };
    let (length, size) = (v.shape[0], v.shape[1]);
    for g in 0..weights.shape[0] {
        for d in 0..size {
            let term = |j: usize| weights.values[g * length + j] * v.values[j * size + d];
            context.values[g * size + d] = (0..length).map(term).sum();
        }
    }
}

pub(super) fn add_residual(task: &mut RefTask) {
    let [x, delta] = &mut task.tensors[..] else { panic!("add_residual takes two tensors") };
    for (x, delta) in x.values.iter_mut().zip(&delta.values) {
        *x += delta;
    }
}

pub(super) fn swiglu(task: &mut RefTask) {
    let [gate, up, out] = &mut task.tensors[..] else { panic!("swiglu takes three tensors") };
    for (i, out) in out.values.iter_mut().enumerate() {
        // sigmoid(g) = (1 + tanh(g/2)) / 2
        let sigmoid = (1.0 + (gate.values[i] / 2.0).tanh()) / 2.0;
        *out = gate.values[i] * sigmoid * up.values[i];
    }
}

pub(super) fn argmax(task: &mut RefTask) {
    let [logits, token] = &mut task.tensors[..] else { panic!("argmax takes two tensors") };
    let greatest = logits.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let place = logits.values.iter().position(|&logit| logit == greatest);
    token.values[0] = place.unwrap_or(0) as f64;
}
