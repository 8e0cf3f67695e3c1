//! Attributes of tasks: names with values.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::record::dump_record;
use crate::DType;

/// Values in one [`AttributeRecord`]. A longer list continues in further records.
pub const VALUES_PER_ATTRIBUTE: usize = 16;
/// Values of a list that are recorded. Further values are only counted.
pub const MAX_ATTRIBUTE_VALUES: u32 = 1024;

/// Type of a value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AttributeType {
    /// No value.
    None = 1,
    /// 0 or 1.
    Bool = 2,
    /// A signed 64-bit integer.
    Integer = 3,
    /// The bits of a 64-bit float.
    Float = 4,
    /// The string id of a text.
    Text = 5,
    /// The tag of a [`DType`].
    DType = 6,
    /// A value that the recorder cannot represent: the string id of the name of its type.
    Uncaptured = 7,
}

impl AttributeType {
    /// Every type.
    pub const ALL: [AttributeType; 7] = [
        AttributeType::None,
        AttributeType::Bool,
        AttributeType::Integer,
        AttributeType::Float,
        AttributeType::Text,
        AttributeType::DType,
        AttributeType::Uncaptured,
    ];

    /// The type of a tag; `None` if the tag is damaged.
    pub fn from_tag(tag: u8) -> Option<AttributeType> {
        AttributeType::ALL.into_iter().find(|&ty| ty as u8 == tag)
    }

    /// The type with this name in JSON.
    pub fn named(name: &str) -> Option<AttributeType> {
        AttributeType::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            AttributeType::None => "none",
            AttributeType::Bool => "bool",
            AttributeType::Integer => "int",
            AttributeType::Float => "float",
            AttributeType::Text => "text",
            AttributeType::DType => "dtype",
            AttributeType::Uncaptured => "uncaptured",
        }
    }

    /// Whether these bits are a value of this type.
    pub fn allows(self, bits: u64) -> bool {
        match self {
            AttributeType::None => bits == 0,
            AttributeType::Bool => bits <= 1,
            AttributeType::Integer | AttributeType::Float => true,
            AttributeType::Text | AttributeType::Uncaptured => bits <= u32::MAX.into(),
            AttributeType::DType => u8::try_from(bits).is_ok_and(|tag| DType::from_tag(tag).is_some()),
        }
    }
}

dump_record! {
    /// Values of one attribute of the task in the head. A list with more values than one record holds
    /// continues in further records of the same name.
    AttributeRecord = Attribute {
        /// String id of the attribute's name.
        name: u32 = 16,
        /// Position of the first value in the list.
        first: u32 = 20,
        /// Number of values of the attribute, also of those that are not recorded. 1 unless it is a list.
        total: u32 = 24,
        /// Number of values in this record.
        count: u8 = 28,
        /// 1 for a list, 0 for a single value.
        is_list: u8 = 29,
        /// Zero.
        reserved0: u16 = 30,
        /// [`AttributeType`] tag of each value.
        types: [u8; 16] = 32,
        /// Bits of each value.
        values: [u64; 16] = 48,
        /// Zero.
        reserved: [u64; 2] = 176,
    }
}

impl AttributeRecord {
    /// Bytes of its values.
    pub const fn value_bytes(&self) -> usize {
        let count = self.count as usize;
        (if count > VALUES_PER_ATTRIBUTE { VALUES_PER_ATTRIBUTE } else { count }) * size_of::<u64>()
    }

    /// Its values, as far as their types are known.
    pub fn values(&self) -> impl Iterator<Item = (AttributeType, u64)> + '_ {
        let typed = self.types.iter().zip(self.values).take(self.count.into());
        typed.filter_map(|(&tag, bits)| Some((AttributeType::from_tag(tag)?, bits)))
    }

    /// Whether its fields fit together. Unused bytes are checked like those of every record.
    pub fn is_sound(&self) -> bool {
        let &AttributeRecord { name, first, total, count, is_list, types, .. } = self;
        let used = usize::from(count);
        if name == 0 || used > VALUES_PER_ATTRIBUTE || types[used..] != [0; VALUES_PER_ATTRIBUTE][used..] {
            return false;
        }
        let end = first.saturating_add(count.into());
        let place = match is_list {
            0 => (first, total, count) == (0, 1, 1),
            1 => end <= total.min(MAX_ATTRIBUTE_VALUES) && (count > 0 || total == 0),
            _ => false,
        };
        let allows =
            |(&tag, bits): (&u8, u64)| AttributeType::from_tag(tag).is_some_and(|ty| ty.allows(bits));
        place && types.iter().zip(self.values).take(used).all(allows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(ty: u8, bits: u64) -> AttributeRecord {
        let mut record = AttributeRecord { name: 1, total: 1, count: 1, ..AttributeRecord::default() };
        (record.types[0], record.values[0]) = (ty, bits);
        record
    }

    #[test]
    fn types_round_trip_and_their_values_are_checked() {
        for ty in AttributeType::ALL {
            assert_eq!(AttributeType::from_tag(ty as u8), Some(ty));
            assert_eq!(AttributeType::named(ty.name()), Some(ty));
        }
        assert!([0, 8, 255].into_iter().all(|tag| AttributeType::from_tag(tag).is_none()));
        for (ty, good, bad) in [
            (AttributeType::None, 0, Some(1)),
            (AttributeType::Bool, 1, Some(2)),
            (AttributeType::Integer, u64::MAX, None),
            (AttributeType::Float, u64::MAX, None),
            (AttributeType::Text, 7, Some(1 << 32)),
            (AttributeType::DType, DType::Float32.tag().into(), Some(0)),
            (AttributeType::Uncaptured, 7, Some(1 << 32)),
        ] {
            assert!(one(ty as u8, good).is_sound(), "{ty:?}");
            assert!(bad.is_none_or(|bad| !one(ty as u8, bad).is_sound()), "{ty:?}");
        }
        assert!(!one(9, 0).is_sound());
    }

    #[test]
    fn a_list_stays_within_its_bounds() {
        let list = |first, total, count| {
            let mut record =
                AttributeRecord { name: 1, first, total, count, is_list: 1, ..AttributeRecord::default() };
            record.types.iter_mut().take(count.into()).for_each(|ty| *ty = AttributeType::Integer as u8);
            record.is_sound()
        };
        assert!(list(0, 0, 0) && list(0, 16, 16) && list(16, 17, 1) && list(1008, 5000, 16));
        assert!(!list(0, 0, 1) && !list(0, 1, 0) && !list(16, 17, 2) && !list(1009, 5000, 16));
        assert!(!list(u32::MAX, u32::MAX, 16) && !list(0, 17, 17));
        let single = one(AttributeType::Bool as u8, 1);
        for bad in [
            AttributeRecord { first: 1, ..single },
            AttributeRecord { total: 2, ..single },
            AttributeRecord { count: 0, ..single },
            AttributeRecord { is_list: 2, ..single },
            AttributeRecord { name: 0, ..single },
            AttributeRecord { types: [2; 16], ..single },
        ] {
            assert!(!bad.is_sound(), "{bad:?}");
        }
    }
}
