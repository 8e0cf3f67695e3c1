//! The references of the kernels, in f64 and written from the definitions.

use tensortap_scene::RefTask;

pub(super) fn qk(task: &mut RefTask) {
    let scale = f64::from(task.scalar::<f32>(3));
    let [q, k, scores] = &mut task.tensors[..] else { panic!("qk takes three tensors") };
    let (heads, block, size) = (k.shape[0], k.shape[1], k.shape[2]);
    for h in 0..heads {
        for j in 0..block {
            let product = |d: usize| q.values[h * size + d] * k.values[(h * block + j) * size + d];
            scores.values[h * block + j] = (0..size).map(product).sum::<f64>() * scale;
        }
    }
}

pub(super) fn softmax(task: &mut RefTask) {
    let valid = task.scalar::<u32>(4) as usize;
    let [scores, p, m, l] = &mut task.tensors[..] else { panic!("softmax takes four tensors") };
    let block = scores.shape[1];
    for h in 0..scores.shape[0] {
        let first = h * block;
        m.values[h] = f64::NEG_INFINITY;
        for j in 0..valid {
            m.values[h] = m.values[h].max(scores.values[first + j]);
        }
        l.values[h] = 0.0;
        for j in 0..block {
            let weight = if j < valid { (scores.values[first + j] - m.values[h]).exp() } else { 0.0 };
            p.values[first + j] = weight;
            l.values[h] += weight;
        }
    }
}

pub(super) fn pv(task: &mut RefTask) {
    let [p, v, partial] = &mut task.tensors[..] else { panic!("pv takes three tensors") };
    let (heads, block, size) = (v.shape[0], v.shape[1], v.shape[2]);
    for h in 0..heads {
        for d in 0..size {
            let term = |j: usize| p.values[h * block + j] * v.values[(h * block + j) * size + d];
            partial.values[h * size + d] = (0..block).map(term).sum();
        }
    }
}

pub(super) fn online_update(task: &mut RefTask) {
    let (is_first, is_last) = (task.scalar::<u8>(7) != 0, task.scalar::<u8>(8) != 0);
    let [m, l, partial, max, sum, acc, out] = &mut task.tensors[..] else {
        panic!("online_update takes seven tensors")
    };
    let size = out.shape[1];
    for h in 0..out.shape[0] {
        let old_max = if is_first { f64::NEG_INFINITY } else { max.values[h] };
        let new_max = old_max.max(m.values[h]);
        // The weights of both sides relative to the new maximum. Nothing precedes the first block.
        let before = if is_first { 0.0 } else { (old_max - new_max).exp() };
        let here = (m.values[h] - new_max).exp();
        let kept = |running: f64| if is_first { 0.0 } else { before * running };
        max.values[h] = new_max;
        sum.values[h] = kept(sum.values[h]) + here * l.values[h];
        for i in h * size..(h + 1) * size {
            acc.values[i] = kept(acc.values[i]) + here * partial.values[i];
            if is_last {
                out.values[i] = acc.values[i] / sum.values[h];
            }
        }
    }
}
