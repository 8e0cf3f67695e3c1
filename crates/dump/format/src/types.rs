//! Types for bytes of an unknown type.

use tensortap_abi::{DType, MAX_DIMS};

use crate::{ArgumentKind, Dump, FormatError, PayloadState, Record, func_ids};

/// Number of kernels or arguments that a message lists.
const SOME: usize = 8;

/// A dtype and optionally a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadType {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension. `None` means one dimension with all elements.
    pub shape: Option<Vec<u64>>,
}

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypedArg {
    /// By its index.
    Place(u16),
    /// By its name.
    Name(String),
}

/// A type for an argument of some kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRule {
    /// Name, pattern or number of the kernels.
    pub kernel: String,
    /// The argument.
    pub arg: TypedArg,
    /// The type of its bytes.
    pub read_as: ReadType,
    /// Where the rule was defined, for messages: `types.toml, line 3`.
    pub said_in: String,
}

/// Rules with the kernels of a dump that they apply to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Types {
    rules: Vec<(Vec<u32>, TypeRule)>,
}

impl ReadType {
    /// The record with its bytes read as this type. If the record's extent is not known, the type may cover
    /// only its first bytes.
    ///
    /// # Errors
    /// A message if the record is not a tensor, if its type is known and not bytes, or if its size does not
    /// fit.
    pub fn apply(&self, record: &Record) -> Result<Record, String> {
        if record.kind != ArgumentKind::Tensor {
            return Err(format!("{record} is a scalar, whose type is known"));
        }
        // A program that declares bytes may use them for anything.
        let is_bytes = record.dtype == DType::UInt8 && record.is_contiguous();
        if record.dtype_known && !is_bytes {
            return Err(format!("{record} is {}, so its type is known", record.dtype.name()));
        }
        let held = record.content_bytes();
        let shape = match &self.shape {
            Some(shape) => shape.clone(),
            None => vec![held.saturating_mul(8) / u64::from(self.dtype.bits())],
        };
        let numel = shape.iter().try_fold(1_u64, |numel, &size| numel.checked_mul(size));
        let wanted = numel.and_then(|numel| Some((numel, self.dtype.packed_bytes(numel)?)));
        let fits = |bytes: u64| bytes == held || bytes < held && !record.extent_known;
        match wanted.filter(|(_, bytes)| shape.len() <= MAX_DIMS && fits(*bytes)) {
            Some((numel, bytes)) => Ok(self.retyped(record, &shape, (numel, bytes))),
            None => {
                let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
                let bytes = wanted.map_or("too many".into(), |(_, bytes)| bytes.to_string());
                let (dtype, bits) = (self.dtype.name(), u64::from(self.dtype.bits()));
                let whole = held.saturating_mul(8) / bits;
                let fits = self.dtype.packed_bytes(whole).filter(|&bytes| bytes == held);
                let remedy = match fits {
                    Some(_) => format!("choose sizes whose product is {whole}, or only `{dtype}`"),
                    None => format!("that is not a whole number of {dtype} elements: choose another dtype"),
                };
                Err(format!(
                    "{record} has {held} bytes, but {dtype}[{}] has {bytes}; {remedy}",
                    sizes.join(",")
                ))
            }
        }
    }

    fn retyped(&self, record: &Record, shape: &[u64], (numel, bytes): (u64, u64)) -> Record {
        let mut read = record.with_shape(self.dtype, shape, numel);
        if bytes < record.content_bytes() {
            // The hash covers all bytes.
            read.hash = None;
            read.bin_size = read.bin_size.min(bytes);
            if read.payload == PayloadState::Truncated && read.bin_size == bytes {
                read.payload = PayloadState::Stored;
            }
        }
        read
    }
}

impl Types {
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The record with the type of the first rule that applies to it.
    pub(crate) fn read(&self, dump: &Dump, record: Record) -> Result<Record, FormatError> {
        if self.is_empty() || record.dtype_known || record.kind != ArgumentKind::Tensor {
            return Ok(record);
        }
        let is_meant = |(kernels, rule): &&(Vec<u32>, TypeRule)| {
            record.func_ids().any(|id| kernels.contains(&id))
                && match &rule.arg {
                    TypedArg::Place(place) => record.arg_index == *place,
                    TypedArg::Name(name) => dump.names(&record).arg_name == Some(name),
                }
        };
        let Some((_, rule)) = self.rules.iter().find(is_meant) else { return Ok(record) };
        rule.read_as
            .apply(&record)
            .map_err(|reason| FormatError::Types { said_in: rule.said_in.clone(), reason })
    }
}

impl Dump {
    /// Why a rule has no effect in this dump: it has no such kernel, or its kernels have no such argument.
    /// The message lists the existing ones.
    #[must_use]
    pub fn idle_rule(&self, rule: &TypeRule) -> Option<String> {
        let kernels = &self.info().kernels;
        let some = |names: Vec<&str>| match names.len() {
            0 => "no kernel with a name".to_owned(),
            1..=SOME => names.join(", "),
            more => format!("{} and {} more", names[..SOME].join(", "), more - SOME),
        };
        let ids = func_ids(kernels, &rule.kernel);
        let meant: Vec<_> = kernels.iter().filter(|kernel| ids.contains(&kernel.func_id)).collect();
        if meant.is_empty() {
            let names = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            return Some(format!("the dump has no kernel `{}`; it has {}", rule.kernel, some(names)));
        }
        let TypedArg::Name(name) = &rule.arg else { return None };
        if meant.iter().any(|kernel| kernel.arg_names.contains(name)) {
            return None;
        }
        let names = meant[0].arg_names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        let remedy = "or use its index, from 0";
        Some(format!("kernel `{}` has no argument `{name}`; it has {}; {remedy}", meant[0].name, some(names)))
    }

    /// Applies these rules to records with unknown types from now on. Rules about kernels that the dump
    /// does not have are ignored ([`Dump::idle_rule`] reports them).
    pub fn read_as(&mut self, rules: &[TypeRule]) {
        let kernels = &self.info().kernels;
        let rules = rules.iter().map(|rule| (func_ids(kernels, &rule.kernel), rule.clone())).collect();
        self.types = Types { rules };
    }
}
