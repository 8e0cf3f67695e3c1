//! One record of a manifest, unchanged, from any version.

use std::fmt;

use serde::{
    Deserialize,
    de::{self, Deserializer, MapAccess, Visitor},
};
use serde_json::{Map, Value};
use tensortap_abi::{DumpStage, MemorySpace, Role, SimplerElements, TensorStats};

use super::fields::{Dims, Hash, Id, Kernels, Spelling, Word};
use crate::{ArgumentKind, PayloadState};

/// The fields of a record. All are optional, because no version has all of them.
#[derive(Default)]
pub(super) struct RawRecord {
    pub(super) task_id: Option<Id>,
    pub(super) func_id: Option<Kernels>,
    pub(super) subtask_id: Option<u64>,
    pub(super) role: Option<Role>,
    pub(super) stage: Option<DumpStage>,
    pub(super) arg_index: Option<u16>,
    pub(super) kind: Option<ArgumentKind>,
    pub(super) dtype: Option<SimplerElements>,
    pub(super) dtype_known: Option<bool>,
    pub(super) local_memory: Option<bool>,
    pub(super) role_known: Option<bool>,
    pub(super) extent_known: Option<bool>,
    pub(super) host_writable: Option<bool>,
    pub(super) space: Option<MemorySpace>,
    pub(super) marked: Option<bool>,
    pub(super) ndims: Option<u64>,
    pub(super) shape: Option<Dims<u64>>,
    pub(super) strides: Option<Dims<i64>>,
    pub(super) start_offset: Option<u64>,
    pub(super) raw_shape: Option<Dims<u64>>,
    pub(super) offsets: Option<Dims<u64>>,
    pub(super) numel: Option<u64>,
    pub(super) is_contiguous: Option<bool>,
    pub(super) truncated: Option<bool>,
    pub(super) overwritten: Option<bool>,
    pub(super) in_flight: Option<bool>,
    pub(super) payload: Option<PayloadState>,
    pub(super) hash: Option<Option<Hash>>,
    pub(super) scalar_value: Option<Id>,
    pub(super) value: Option<Spelling>,
    pub(super) bin_offset: Option<u64>,
    pub(super) bin_size: Option<u64>,
    pub(super) address: Option<Id>,
    pub(super) stats: Option<Option<TensorStats>>,
    pub(super) arg_name: Option<Option<String>>,
    pub(super) task_name: Option<Option<String>>,
    pub(super) scope: Option<Option<String>>,
    pub(super) step: Option<u32>,
    pub(super) run_epoch: Option<Option<Id>>,
    /// Keys that no known version has.
    pub(super) unknown: Map<String, Value>,
}

impl<'de> Deserialize<'de> for RawRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawRecord, D::Error> {
        deserializer.deserialize_map(RawRecordVisitor)
    }
}

struct RawRecordVisitor;

impl<'de> Visitor<'de> for RawRecordVisitor {
    type Value = RawRecord;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawRecord, A::Error> {
        let mut record = RawRecord::default();
        while let Some(key) = map.next_key::<Key>()? {
            record.take(key, &mut map)?;
        }
        Ok(record)
    }
}

/// Keys that are interpreted.
#[derive(Clone, Copy)]
enum KnownKey {
    TaskId,
    FuncId,
    SubtaskId,
    Role,
    Stage,
    ArgIndex,
    Kind,
    DType,
    HasDType,
    LocalMemory,
    HasRole,
    HasExtent,
    HostWritable,
    Space,
    Marked,
    Ndims,
    Shape,
    Strides,
    StartOffset,
    RawShape,
    Offsets,
    Numel,
    IsContiguous,
    Truncated,
    Overwritten,
    InFlight,
    Payload,
    Hash,
    ScalarValue,
    Value,
    BinOffset,
    BinSize,
    Address,
    Stats,
    ArgName,
    TaskName,
    Scope,
    Step,
    RunEpoch,
}

const KEYS: [(&str, KnownKey); 39] = [
    ("task_id", KnownKey::TaskId),
    ("func_id", KnownKey::FuncId),
    ("subtask_id", KnownKey::SubtaskId),
    ("role", KnownKey::Role),
    ("stage", KnownKey::Stage),
    ("arg_index", KnownKey::ArgIndex),
    ("kind", KnownKey::Kind),
    ("dtype", KnownKey::DType),
    ("dtype_known", KnownKey::HasDType),
    ("local_memory", KnownKey::LocalMemory),
    ("role_known", KnownKey::HasRole),
    ("extent_known", KnownKey::HasExtent),
    ("host_writable", KnownKey::HostWritable),
    ("space", KnownKey::Space),
    ("marked", KnownKey::Marked),
    ("ndims", KnownKey::Ndims),
    ("shape", KnownKey::Shape),
    ("strides", KnownKey::Strides),
    ("start_offset", KnownKey::StartOffset),
    ("raw_shape", KnownKey::RawShape),
    ("offsets", KnownKey::Offsets),
    ("numel", KnownKey::Numel),
    ("is_contiguous", KnownKey::IsContiguous),
    ("truncated", KnownKey::Truncated),
    ("overwritten", KnownKey::Overwritten),
    ("in_flight", KnownKey::InFlight),
    ("payload", KnownKey::Payload),
    ("hash", KnownKey::Hash),
    ("scalar_value", KnownKey::ScalarValue),
    ("value", KnownKey::Value),
    ("bin_offset", KnownKey::BinOffset),
    ("bin_size", KnownKey::BinSize),
    ("address", KnownKey::Address),
    ("stats", KnownKey::Stats),
    ("arg_name", KnownKey::ArgName),
    ("task_name", KnownKey::TaskName),
    ("scope", KnownKey::Scope),
    ("step", KnownKey::Step),
    ("run_epoch", KnownKey::RunEpoch),
];

enum Key {
    Known(KnownKey, &'static str),
    Unknown(String),
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E>(self, text: &str) -> Result<Key, E> {
                let known = KEYS.iter().find(|(name, _)| *name == text);
                Ok(known.map_or_else(|| Key::Unknown(text.to_owned()), |(name, key)| Key::Known(*key, name)))
            }
        }
        deserializer.deserialize_identifier(Name)
    }
}

impl RawRecord {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: Key, map: &mut A) -> Result<(), A::Error> {
        let (key, name) = match key {
            Key::Known(key, name) => (key, name),
            Key::Unknown(name) => {
                let value = map.next_value()?;
                return once(self.unknown.insert(name.clone(), value).is_none(), &name);
            }
        };
        match key {
            KnownKey::TaskId => put(&mut self.task_id, name, map),
            KnownKey::FuncId => put(&mut self.func_id, name, map),
            KnownKey::SubtaskId => put(&mut self.subtask_id, name, map),
            KnownKey::ArgIndex => put(&mut self.arg_index, name, map),
            KnownKey::Ndims => put(&mut self.ndims, name, map),
            KnownKey::Shape => put(&mut self.shape, name, map),
            KnownKey::Strides => put(&mut self.strides, name, map),
            KnownKey::StartOffset => put(&mut self.start_offset, name, map),
            KnownKey::RawShape => put(&mut self.raw_shape, name, map),
            KnownKey::Offsets => put(&mut self.offsets, name, map),
            KnownKey::Numel => put(&mut self.numel, name, map),
            KnownKey::IsContiguous => put(&mut self.is_contiguous, name, map),
            KnownKey::Truncated => put(&mut self.truncated, name, map),
            KnownKey::Overwritten => put(&mut self.overwritten, name, map),
            KnownKey::InFlight => put(&mut self.in_flight, name, map),
            KnownKey::Hash => put(&mut self.hash, name, map),
            KnownKey::ScalarValue => put(&mut self.scalar_value, name, map),
            KnownKey::Value => put(&mut self.value, name, map),
            KnownKey::BinOffset => put(&mut self.bin_offset, name, map),
            KnownKey::BinSize => put(&mut self.bin_size, name, map),
            KnownKey::Address => put(&mut self.address, name, map),
            KnownKey::ArgName => put(&mut self.arg_name, name, map),
            KnownKey::TaskName => put(&mut self.task_name, name, map),
            KnownKey::Scope => put(&mut self.scope, name, map),
            KnownKey::Step => put(&mut self.step, name, map),
            KnownKey::RunEpoch => put(&mut self.run_epoch, name, map),
            KnownKey::Role => put_word(&mut self.role, name, Role::parse, map),
            KnownKey::Stage => put_word(&mut self.stage, name, DumpStage::parse, map),
            KnownKey::Kind => put_word(&mut self.kind, name, parse_kind, map),
            KnownKey::DType => put_word(&mut self.dtype, name, SimplerElements::of_name, map),
            KnownKey::HasDType => put(&mut self.dtype_known, name, map),
            KnownKey::LocalMemory => put(&mut self.local_memory, name, map),
            KnownKey::HasRole => put(&mut self.role_known, name, map),
            KnownKey::HasExtent => put(&mut self.extent_known, name, map),
            KnownKey::HostWritable => put(&mut self.host_writable, name, map),
            KnownKey::Space => put_word(&mut self.space, name, MemorySpace::named, map),
            KnownKey::Marked => put(&mut self.marked, name, map),
            KnownKey::Payload => put_word(&mut self.payload, name, PayloadState::parse, map),
            KnownKey::Stats => {
                let stats: Option<RawStats> = map.next_value()?;
                once(self.stats.replace(stats.map(TensorStats::from)).is_none(), name)
            }
        }
    }
}

fn put<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    place: &mut Option<T>,
    name: &str,
    map: &mut A,
) -> Result<(), A::Error> {
    let value = map.next_value().map_err(|error| named::<A::Error>(name, &error))?;
    once(place.replace(value).is_none(), name)
}

fn put_word<'de, T, A: MapAccess<'de>>(
    place: &mut Option<T>,
    what: &'static str,
    parse: fn(&str) -> Option<T>,
    map: &mut A,
) -> Result<(), A::Error> {
    once(place.replace(map.next_value_seed(Word { parse, what })?).is_none(), what)
}

fn once<E: de::Error>(is_first: bool, name: &str) -> Result<(), E> {
    if is_first { Ok(()) } else { Err(E::custom(format_args!("duplicate key `{name}`"))) }
}

/// Adds the key to an error.
fn named<E: de::Error>(name: &str, error: &E) -> E {
    E::custom(format_args!("`{name}`: {error}"))
}

fn parse_kind(text: &str) -> Option<ArgumentKind> {
    [ArgumentKind::Tensor, ArgumentKind::Scalar].into_iter().find(|kind| kind.name() == text)
}

#[derive(Deserialize)]
struct RawStats {
    min: Number,
    max: Number,
    mean: Number,
    std: Number,
    zeros: u64,
    nan: u64,
    inf: u64,
}

/// A float that may be written as a word.
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        let spelling = Spelling::deserialize(deserializer)?;
        let float = super::normalize::float_of(&spelling);
        float.map(Number).ok_or_else(|| de::Error::custom("a statistic is not a number"))
    }
}

impl From<RawStats> for TensorStats {
    fn from(raw: RawStats) -> TensorStats {
        let RawStats { min, max, mean, std, zeros, nan, inf } = raw;
        // The number of elements follows from the shape.
        TensorStats { min: min.0, max: max.0, mean: mean.0, std: std.0, zeros, nan, inf, numel: 0 }
    }
}
