//! Values of manifests, in every notation that some version uses.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use tensortap_abi::{MAX_DIMS, NO_KERNEL, SLOTS_PER_TASK};

use crate::json::{parse_hex, parse_hex128};

/// A 64-bit number: a hex string `0x…`, a decimal string, or a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Id(pub(super) u64);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        struct IdVisitor;
        impl Visitor<'_> for IdVisitor {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a 64-bit number: a string `0x…`, a decimal string or a number")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
                Ok(Id(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
                let decimal = || text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?;
                let number = parse_hex(text).or_else(decimal);
                number.map(Id).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(IdVisitor)
    }
}

/// A content hash: a hex string of at most 32 digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash(pub(super) u128);

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        Word { parse: |text| parse_hex128(text).map(Hash), what: "hash" }.deserialize(deserializer)
    }
}

/// A word from a fixed set.
pub(super) struct Word<T> {
    pub(super) parse: fn(&str) -> Option<T>,
    pub(super) what: &'static str,
}

impl<'de, T> DeserializeSeed<'de> for Word<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T> Visitor<'_> for Word<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} as a string", self.what)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text)
            .ok_or_else(|| E::custom(format_args!("unknown {} `{}`", self.what, shortened(text))))
    }
}

/// The start of a text on one line, enough to recognize it.
fn shortened(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// One number per dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dims<T> {
    values: [T; MAX_DIMS],
    len: usize,
}

impl<T: Copy + Default> Dims<T> {
    pub(super) fn of(values: impl IntoIterator<Item = T>) -> Dims<T> {
        let mut dims = Dims { values: [T::default(); MAX_DIMS], len: 0 };
        for (place, value) in dims.values.iter_mut().zip(values) {
            *place = value;
            dims.len += 1;
        }
        dims
    }

    pub(super) fn as_slice(&self) -> &[T] {
        &self.values[..self.len]
    }

    /// All eight dimensions; zero past the last.
    pub(super) fn padded(&self) -> [T; MAX_DIMS] {
        self.values
    }
}

impl<'de, T: Copy + Default + Deserialize<'de>> Deserialize<'de> for Dims<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Dims<T>, D::Error> {
        deserializer.deserialize_seq(DimsVisitor(std::marker::PhantomData))
    }
}

struct DimsVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Copy + Default + Deserialize<'de>> Visitor<'de> for DimsVisitor<T> {
    type Value = Dims<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_DIMS} numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Dims<T>, A::Error> {
        let mut dims = Dims::of([]);
        while let Some(value) = seq.next_element()? {
            let place = dims.values.get_mut(dims.len);
            *place.ok_or_else(|| de::Error::custom(format_args!("more than {MAX_DIMS} dimensions")))? = value;
            dims.len += 1;
        }
        Ok(dims)
    }
}

/// The kernels of a task: a number or a list; -1 for an unknown kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kernels {
    known: [u32; SLOTS_PER_TASK],
    len: usize,
}

impl Kernels {
    fn push(&mut self, number: i64) -> Result<(), &'static str> {
        if number == -1 {
            return Ok(());
        }
        let kernel =
            u32::try_from(number).ok().filter(|id| *id != NO_KERNEL).ok_or("a func_id is out of range")?;
        *self.known.get_mut(self.len).ok_or("more than 3 kernels in one task")? = kernel;
        self.len += 1;
        Ok(())
    }

    pub(super) fn known(&self) -> &[u32] {
        &self.known[..self.len]
    }
}

impl<'de> Deserialize<'de> for Kernels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kernels, D::Error> {
        struct KernelsVisitor;
        impl<'de> Visitor<'de> for KernelsVisitor {
            type Value = Kernels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a kernel's number or a list of them")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Kernels, E> {
                let mut kernels = Kernels::default();
                kernels.push(number).map_err(E::custom)?;
                Ok(kernels)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Kernels, E> {
                self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Kernels, A::Error> {
                let mut kernels = Kernels::default();
                while let Some(number) = seq.next_element()? {
                    kernels.push(number).map_err(de::Error::custom)?;
                }
                Ok(kernels)
            }
        }
        deserializer.deserialize_any(KernelsVisitor)
    }
}

/// A scalar's JSON value; the dtype defines its meaning.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Spelling {
    Integer(i128),
    Float(f64),
    Text(String),
    Bool(bool),
}

impl<'de> Deserialize<'de> for Spelling {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Spelling, D::Error> {
        struct SpellingVisitor;
        impl Visitor<'_> for SpellingVisitor {
            type Value = Spelling;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a scalar's value")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Spelling, E> {
                Ok(Spelling::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Spelling, E> {
                Ok(Spelling::Integer(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Spelling, E> {
                Ok(Spelling::Integer(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Spelling, E> {
                Ok(Spelling::Float(value))
            }

            fn visit_str<E>(self, text: &str) -> Result<Spelling, E> {
                Ok(Spelling::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(SpellingVisitor)
    }
}
