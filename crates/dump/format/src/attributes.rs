//! Attributes of tasks: names with values.

use std::collections::HashMap;

use serde::{Serialize, Serializer, ser::SerializeMap};
use tensortap_abi::{AttributeRecord, AttributeType, DType, MAX_ATTRIBUTE_VALUES};

use crate::json::{Decimal, Float};

/// A value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttributeValue<'d> {
    /// No value.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// A text; `?` if the dump lost it.
    Text(&'d str),
    /// An element type.
    DType(DType),
    /// A value that was not recorded, with the name of its type.
    Uncaptured(&'d str),
}

impl AttributeValue<'_> {
    /// Its type.
    #[must_use]
    pub const fn ty(&self) -> AttributeType {
        match self {
            AttributeValue::None => AttributeType::None,
            AttributeValue::Bool(_) => AttributeType::Bool,
            AttributeValue::Integer(_) => AttributeType::Integer,
            AttributeValue::Float(_) => AttributeType::Float,
            AttributeValue::Text(_) => AttributeType::Text,
            AttributeValue::DType(_) => AttributeType::DType,
            AttributeValue::Uncaptured(_) => AttributeType::Uncaptured,
        }
    }

    fn serialize_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("type", self.ty().name())?;
        match self {
            AttributeValue::None => map.serialize_entry("value", &()),
            AttributeValue::Bool(value) => map.serialize_entry("value", value),
            AttributeValue::Integer(value) => map.serialize_entry("value", &Decimal(value)),
            AttributeValue::Float(value) => map.serialize_entry("value", &Float(*value)),
            AttributeValue::Text(value) | AttributeValue::Uncaptured(value) => {
                map.serialize_entry("value", value)
            }
            AttributeValue::DType(value) => map.serialize_entry("value", value.name()),
        }
    }
}

impl Serialize for AttributeValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        self.serialize_fields(&mut map)?;
        map.end()
    }
}

/// An attribute of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute<'d> {
    /// Its name; `?` if the dump lost it.
    pub name: &'d str,
    /// Whether it is a list.
    pub is_list: bool,
    /// Number of its values, also of those that were not recorded.
    pub total: u32,
    /// The recorded values; exactly one unless it is a list.
    pub values: Vec<AttributeValue<'d>>,
}

impl Attribute<'_> {
    /// Writes it as the entries `name`, `type`, `value`, and `total` if values are missing.
    pub(crate) fn serialize_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("name", self.name)?;
        if let ([value], false) = (&self.values[..], self.is_list) {
            return value.serialize_fields(map);
        }
        map.serialize_entry("type", "list")?;
        map.serialize_entry("value", &self.values)?;
        if self.values.len() as u64 != u64::from(self.total) {
            map.serialize_entry("total", &self.total)?;
        }
        Ok(())
    }
}

impl Serialize for Attribute<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.serialize_fields(&mut map)?;
        map.end()
    }
}

/// An attribute with string ids instead of texts.
#[derive(Clone, Debug)]
pub(crate) struct RawAttribute {
    pub(crate) task_id: u64,
    name: u32,
    is_list: bool,
    total: u32,
    values: Vec<(AttributeType, u64)>,
    /// A part of the list is missing, so later parts are left out.
    is_broken: bool,
}

impl RawAttribute {
    fn begin(record: &AttributeRecord) -> RawAttribute {
        let &AttributeRecord { task_id, name, is_list, total, .. } = record;
        RawAttribute { task_id, name, is_list: is_list != 0, total, values: Vec::new(), is_broken: false }
    }

    fn is_complete(&self) -> bool {
        self.values.len() as u64 >= u64::from(self.total.min(MAX_ATTRIBUTE_VALUES))
    }

    /// The attribute with its texts.
    pub(crate) fn resolve<'d>(&self, text: impl Fn(u32) -> Option<&'d str>) -> Attribute<'d> {
        let text = |id: u32| text(id).unwrap_or("?");
        // Id 0 is the empty text.
        let string = |bits: u64| if bits == 0 { "" } else { text(u32::try_from(bits).unwrap_or(0)) };
        let value = |&(ty, bits): &(AttributeType, u64)| match ty {
            AttributeType::None => AttributeValue::None,
            AttributeType::Bool => AttributeValue::Bool(bits != 0),
            AttributeType::Integer => AttributeValue::Integer(bits.cast_signed()),
            AttributeType::Float => AttributeValue::Float(f64::from_bits(bits)),
            AttributeType::Text => AttributeValue::Text(string(bits)),
            AttributeType::Uncaptured => AttributeValue::Uncaptured(string(bits)),
            AttributeType::DType => {
                let dtype = u8::try_from(bits).ok().and_then(DType::from_tag);
                dtype.map_or(AttributeValue::Uncaptured("?"), AttributeValue::DType)
            }
        };
        let values = self.values.iter().map(value).collect();
        Attribute { name: text(self.name), is_list: self.is_list, total: self.total, values }
    }
}

/// Joins the records of long lists.
#[derive(Debug, Default)]
pub(crate) struct AttributeJoiner {
    /// Lists whose end has not come yet, by task and name.
    open: HashMap<(u64, u32), RawAttribute>,
}

impl AttributeJoiner {
    /// Takes a record. Returns the attribute if it is complete.
    pub(crate) fn take(&mut self, record: &AttributeRecord) -> Option<RawAttribute> {
        let key = (record.task_id, record.name);
        let mut attribute = self.open.remove(&key).unwrap_or_else(|| RawAttribute::begin(record));
        if attribute.values.len() as u64 == u64::from(record.first) && !attribute.is_broken {
            attribute.values.extend(record.values());
        } else {
            attribute.is_broken = true;
        }
        if attribute.is_complete() {
            return Some(attribute);
        }
        self.open.insert(key, attribute);
        None
    }

    /// Lists of which a part is missing.
    pub(crate) fn finish(self) -> Vec<RawAttribute> {
        let mut rest: Vec<RawAttribute> = self.open.into_values().collect();
        rest.sort_unstable_by_key(|attribute| (attribute.task_id, attribute.name));
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: u32, first: u32, total: u32, count: u8) -> AttributeRecord {
        let mut record =
            AttributeRecord { task_id: 7, name, first, total, count, is_list: 1, ..Default::default() };
        for at in 0..usize::from(count) {
            record.types[at] = AttributeType::Integer as u8;
            record.values[at] = u64::from(first) + at as u64;
        }
        assert!(record.is_sound());
        record
    }

    fn integers(attribute: &Attribute<'_>) -> Vec<i64> {
        let integer = |value: &AttributeValue<'_>| match value {
            AttributeValue::Integer(value) => *value,
            other => panic!("{other:?}"),
        };
        attribute.values.iter().map(integer).collect()
    }

    #[test]
    fn parts_of_lists_are_joined_although_other_records_are_between_them() {
        let mut joiner = AttributeJoiner::default();
        assert!(joiner.take(&part(1, 0, 20, 16)).is_none());
        assert!(joiner.take(&part(2, 0, 17, 16)).is_none());
        let first = joiner.take(&part(1, 16, 20, 4)).unwrap().resolve(|_| Some("shape"));
        assert_eq!((first.name, first.total, integers(&first)), ("shape", 20, (0..20).collect()));
        let cut = joiner.finish();
        let cut = cut[0].resolve(|_| None);
        assert_eq!((cut.name, cut.total, cut.values.len()), ("?", 17, 16));
    }

    #[test]
    fn values_after_a_lost_part_are_left_out() {
        let mut joiner = AttributeJoiner::default();
        for record in [part(1, 0, 50, 16), part(1, 32, 50, 16), part(1, 48, 50, 2)] {
            assert!(joiner.take(&record).is_none());
        }
        let rest = joiner.finish();
        assert_eq!(integers(&rest[0].resolve(|_| None)), (0..16).collect::<Vec<i64>>());
        assert_eq!(rest.len(), 1);
    }

    #[test]
    fn every_type_has_an_unambiguous_form_in_json() {
        let values = vec![
            AttributeValue::None,
            AttributeValue::Bool(true),
            AttributeValue::Integer(i64::MIN),
            AttributeValue::Float(f64::NAN),
            AttributeValue::Text("float32"),
            AttributeValue::DType(DType::Float32),
            AttributeValue::Uncaptured("torch.Generator"),
        ];
        let list = Attribute { name: "a", is_list: true, total: 9, values };
        let expected = serde_json::json!({"name": "a", "type": "list", "total": 9, "value": [
            {"type": "none", "value": null}, {"type": "bool", "value": true},
            {"type": "int", "value": "-9223372036854775808"}, {"type": "float", "value": "NaN"},
            {"type": "text", "value": "float32"}, {"type": "dtype", "value": "float32"},
            {"type": "uncaptured", "value": "torch.Generator"}]});
        assert_eq!(serde_json::to_value(&list).unwrap(), expected);
        let one = Attribute { name: "b", is_list: false, total: 1, values: vec![AttributeValue::Float(0.5)] };
        let expected = serde_json::json!({"name": "b", "type": "float", "value": 0.5});
        assert_eq!(serde_json::to_value(&one).unwrap(), expected);
    }
}
