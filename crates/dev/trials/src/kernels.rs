//! What generated kernels compute.

use crate::machine::ArgTrace;
use crate::program::{Deviation, Element, Form, Kernel, Launch};

/// Noise of one kernel, far below the tolerances: 1e-5 for `f32`, 1e-7 for `f64`.
const NOISE: f64 = 1e-7;
const NOISE_F64: f64 = 1e-9;

/// A result of a kernel: parameter, logical element, value.
pub type Written = (usize, usize, Vec<u8>);

/// The values that a kernel reads.
pub struct Reads<'a> {
    /// Parameter, its argument and the elements it uses.
    args: Vec<(usize, &'a ArgTrace, std::ops::Range<usize>)>,
    scalars: &'a [u64],
}

impl<'a> Reads<'a> {
    pub fn of(kernel: &Kernel, launch: &Launch, args: &'a [ArgTrace], scalars: &'a [u64]) -> Reads<'a> {
        let used = args.iter().zip(&launch.args).enumerate();
        let args = used
            .filter(|(_, (trace, arg))| trace.access.reads() && !arg.used.is_empty())
            .map(|(param, (trace, arg))| (param, trace, arg.used.clone()))
            .collect();
        let meant = scalars.len() - usize::from(kernel.garbage_scalar);
        Reads { args, scalars: &scalars[..meant] }
    }
}

pub fn random_value(element: Element, random: &mut fastrand::Rng) -> Vec<u8> {
    let value = random.f64() * 8.0 - 4.0;
    match element {
        #[expect(clippy::cast_possible_truncation, reason = "rounds")]
        Element::F32 => (value as f32).to_le_bytes().to_vec(),
        Element::F64 => value.to_le_bytes().to_vec(),
        Element::I32 => random.i32(..).to_le_bytes().to_vec(),
        Element::I64 => random.i64(..).to_le_bytes().to_vec(),
        Element::U8 => vec![random.u8(..)],
    }
}

/// What the host writes, element by element.
pub fn host_data(element: Element, seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random_value(element, &mut random)).collect()
}

/// Makes data of the host depend on what it read: errors become no greater.
pub fn depend(values: &mut [Vec<u8>], element: Element, read: &[u8]) {
    let read: Vec<&[u8]> = read.chunks(element.bytes()).collect();
    for (at, value) in values.iter_mut().enumerate() {
        let from = read[at % read.len()];
        let (here, there) = (value.as_slice(), from);
        let mean = || (element.float(here) + element.float(there)) / 2.0;
        #[expect(clippy::cast_possible_truncation, reason = "rounds")]
        let new = match element {
            Element::F32 => (mean() as f32).to_le_bytes().to_vec(),
            Element::F64 => mean().to_le_bytes().to_vec(),
            Element::I32 | Element::I64 | Element::U8 => {
                let sum = element.integer(here).wrapping_add(element.integer(there));
                sum.to_le_bytes()[..element.bytes()].to_vec()
            }
        };
        *value = new;
    }
}

/// A number that depends on all of `parts`.
pub fn hash(parts: [u64; 3]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |sum: u64, &part| {
        let mixed = (sum ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 29)
    })
}

/// A number between -1 and 1 that depends on all of `parts`.
pub fn unit(parts: [u64; 3]) -> f64 {
    let bits = u32::try_from(hash(parts) >> 32).expect("32 bits");
    f64::from(bits) / f64::from(u32::MAX) * 2.0 - 1.0
}

/// Everything that a kernel writes.
pub fn compute(
    kernel: &Kernel,
    launch: &Launch,
    args: &[ArgTrace],
    reads: &Reads<'_>,
    deviations: &[Deviation],
    noise: Option<u64>,
) -> Vec<Written> {
    let salt = deviations.iter().find_map(|deviation| match deviation {
        Deviation::Code { salt } => Some(*salt),
        _ => None,
    });
    let salt = salt.unwrap_or(kernel.salt);
    let mut results = Vec::new();
    for (param, (trace, arg)) in args.iter().zip(&launch.args).enumerate() {
        if !trace.access.writes() {
            continue;
        }
        for at in arg.used.clone() {
            let seeds = [salt, param as u64, at as u64];
            let value = match trace.element.is_float() {
                true => float(kernel.form, trace, reads, (param, at), seeds, noise),
                false => integer(kernel.form, trace, reads, (param, at), seeds),
            };
            results.push((param, at, value));
        }
    }
    results
}

/// The elements that an output element depends on: the same one of its own argument, and one or two of each
/// other argument.
fn sources<'r>(
    reads: &'r Reads<'_>,
    output: (usize, usize),
    salt: u64,
) -> impl Iterator<Item = (&'r ArgTrace, usize)> {
    reads.args.iter().flat_map(move |(param, trace, used)| {
        let spread = if used.len() > 1 { hash([salt, *param as u64, 7]) % used.len() as u64 } else { 0 };
        let spread = usize::try_from(spread).expect("less than a length");
        let at = |offset: usize| used.start + (output.1 + offset) % used.len();
        let second = (*param != output.0).then(|| at(spread));
        let first = if *param == output.0 { output.1 } else { at(0) };
        [Some(first), second].into_iter().flatten().map(move |at| (*trace, at))
    })
}

fn float(
    form: Form,
    trace: &ArgTrace,
    reads: &Reads<'_>,
    output: (usize, usize),
    seeds: [u64; 3],
    noise: Option<u64>,
) -> Vec<u8> {
    let values: Vec<f64> = sources(reads, output, seeds[0])
        .map(|(from, at)| match from.element.is_float() {
            true => from.element.float(from.before_of(at)),
            false => unit([from.element.integer(from.before_of(at)), 1, 2]),
        })
        .collect();
    let count = values.len().max(1) as f64;
    let signed = values.iter().enumerate().map(|(at, value)| {
        let sign = if hash([seeds[0], at as u64, 3]) & 1 == 0 { 1.0 } else { -1.0 };
        sign * value
    });
    let mean = signed.sum::<f64>() / count;
    let scalars = reads.scalars.iter().map(|&bits| unit([bits, 4, 5]));
    let constant = unit(seeds) * 0.5 + scalars.sum::<f64>();
    let value = match form {
        Form::Mix => mean + constant,
        Form::Greatest => values.iter().copied().fold(f64::MIN, f64::max).max(-8.0) + constant,
        Form::Clamp => (mean + constant).clamp(-1.0, 1.0),
        Form::Amplify => (1000.0 * (mean + constant)).sin(),
    };
    let size = if trace.element == Element::F32 { NOISE } else { NOISE_F64 };
    let noise = noise.map_or(0.0, |seed| unit([seed, seeds[1], seeds[2]]) * size);
    let value = value + noise;
    #[expect(clippy::cast_possible_truncation, reason = "rounds")]
    match trace.element {
        Element::F32 => (value as f32).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

fn integer(
    form: Form,
    trace: &ArgTrace,
    reads: &Reads<'_>,
    output: (usize, usize),
    seeds: [u64; 3],
) -> Vec<u8> {
    let values: Vec<u64> = sources(reads, output, seeds[0])
        .filter(|(from, _)| !from.element.is_float())
        .map(|(from, at)| from.element.integer(from.before_of(at)))
        .collect();
    let scalars = reads.scalars.iter().map(|&bits| hash([bits, 4, 5]));
    let constant = hash(seeds).wrapping_add(scalars.fold(0, u64::wrapping_add));
    let weighted = values.iter().enumerate().map(|(at, value)| value.wrapping_mul(2 * at as u64 + 1));
    let sum = weighted.fold(constant, u64::wrapping_add);
    let value = match form {
        Form::Mix | Form::Amplify => sum,
        Form::Greatest => values.iter().copied().max().unwrap_or(0).wrapping_add(constant),
        Form::Clamp => sum & !3,
    };
    value.to_le_bytes()[..trace.element.bytes()].to_vec()
}

/// Applies the deviations that change single values.
pub fn deviate(results: &mut [Written], args: &[ArgTrace], deviations: &[Deviation]) {
    let Some(last) = results.len().checked_sub(1) else { return };
    for deviation in deviations {
        let (position, by) = match *deviation {
            Deviation::Value { element, by } => (element % results.len(), by),
            Deviation::Last => (last, 1.5),
            Deviation::Stale | Deviation::Code { .. } | Deviation::OutOfBounds { .. } => continue,
        };
        let (param, _, value) = &mut results[position];
        let element = args[*param].element;
        *value = changed(element, value, by);
    }
}

/// A value that differs by `by`, or is not a number if that is 0.
fn changed(element: Element, value: &[u8], by: f64) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, reason = "rounds")]
    match element {
        Element::F32 if by == 0.0 => f32::NAN.to_le_bytes().to_vec(),
        Element::F32 => ((element.float(value) + by) as f32).to_le_bytes().to_vec(),
        Element::F64 if by == 0.0 => f64::NAN.to_le_bytes().to_vec(),
        Element::F64 => (element.float(value) + by).to_le_bytes().to_vec(),
        Element::I32 | Element::I64 | Element::U8 => {
            let mut bytes = value.to_vec();
            bytes[0] ^= 0x10;
            bytes
        }
    }
}
