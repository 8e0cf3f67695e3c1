use core::fmt;

/// Element type of a tensor or scalar. The number is its tag in descriptors and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the variants are the names")]
pub enum DType {
    Float64 = 1,
    Float32 = 2,
    Float16 = 3,
    BFloat16 = 4,
    Float8E4M3FN = 5,
    Float8E5M2 = 6,
    Float4E2M1 = 7,
    Int64 = 8,
    Int32 = 9,
    Int16 = 10,
    Int8 = 11,
    Int4 = 12,
    UInt64 = 13,
    UInt32 = 14,
    UInt16 = 15,
    UInt8 = 16,
    Bool = 17,
}

impl DType {
    /// Every dtype, in tag order.
    pub const ALL: [DType; 17] = [
        DType::Float64,
        DType::Float32,
        DType::Float16,
        DType::BFloat16,
        DType::Float8E4M3FN,
        DType::Float8E5M2,
        DType::Float4E2M1,
        DType::Int64,
        DType::Int32,
        DType::Int16,
        DType::Int8,
        DType::Int4,
        DType::UInt64,
        DType::UInt32,
        DType::UInt16,
        DType::UInt8,
        DType::Bool,
    ];

    /// The dtype of a tag read from a descriptor; `None` for a tag nobody assigned.
    pub fn from_tag(tag: u8) -> Option<DType> {
        DType::ALL.get(usize::from(tag).wrapping_sub(1)).copied()
    }

    /// The tag stored in descriptors and records.
    pub const fn tag(self) -> u8 {
        self as u8
    }

    /// Width of one element. 4-bit elements are packed two to a byte, low nibble first.
    pub const fn bits(self) -> u32 {
        match self {
            DType::Float64 | DType::Int64 | DType::UInt64 => 64,
            DType::Float32 | DType::Int32 | DType::UInt32 => 32,
            DType::Float16 | DType::BFloat16 | DType::Int16 | DType::UInt16 => 16,
            DType::Float8E4M3FN | DType::Float8E5M2 | DType::Int8 | DType::UInt8 | DType::Bool => 8,
            DType::Float4E2M1 | DType::Int4 => 4,
        }
    }

    /// Bytes that `numel` packed elements take; `None` when that exceeds 64 bits.
    pub const fn packed_bytes(self, numel: u64) -> Option<u64> {
        match numel.checked_mul(self.bits() as u64) {
            Some(bits) => Some(bits.div_ceil(8)),
            None => None,
        }
    }

    /// Spelled as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Float64 => "float64",
            DType::Float32 => "float32",
            DType::Float16 => "float16",
            DType::BFloat16 => "bfloat16",
            DType::Float8E4M3FN => "float8_e4m3fn",
            DType::Float8E5M2 => "float8_e5m2",
            DType::Float4E2M1 => "float4_e2m1",
            DType::Int64 => "int64",
            DType::Int32 => "int32",
            DType::Int16 => "int16",
            DType::Int8 => "int8",
            DType::Int4 => "int4",
            DType::UInt64 => "uint64",
            DType::UInt32 => "uint32",
            DType::UInt16 => "uint16",
            DType::UInt8 => "uint8",
            DType::Bool => "bool",
        }
    }

    /// The dtype of a name in either case.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name().eq_ignore_ascii_case(name))
    }

    /// Whether elements are floating-point numbers.
    pub const fn is_float(self) -> bool {
        self.tag() <= DType::Float4E2M1.tag()
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_names_round_trip_and_unknown_tags_are_refused() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_tag(dtype.tag()), Some(dtype));
            assert_eq!(DType::parse(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::from_tag(0), None);
        assert_eq!(DType::from_tag(18), None);
        assert_eq!(DType::parse("float31"), None);
    }

    #[test]
    fn packed_size_rounds_a_last_odd_nibble_up() {
        assert_eq!(DType::Int4.packed_bytes(3), Some(2));
        assert_eq!(DType::Float64.packed_bytes(3), Some(24));
        assert_eq!(DType::Float64.packed_bytes(u64::MAX), None);
    }

    #[test]
    fn floats_are_exactly_the_float_names() {
        for dtype in DType::ALL {
            assert_eq!(dtype.is_float(), dtype.name().contains("float"), "{dtype}");
        }
    }
}
