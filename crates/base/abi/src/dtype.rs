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
    Float8E4M3FNUZ = 18,
    Float8E5M2FNUZ = 19,
    Float8E8M0FNU = 20,
    Complex64 = 21,
    Complex128 = 22,
}

/// Facts about one dtype. This table is the only source of names, widths and spellings in other tools'
/// formats.
///
/// To add a dtype, add a line to the table and a variant above. `values/src/block.rs` defines how its
/// elements are decoded, and `judge/src/metrics/rule.rs` defines its default tolerance.
struct Entry {
    dtype: DType,
    /// The name in JSON. The public project `simpler` writes the same name in upper case.
    name: &'static str,
    /// The name that people type.
    short: &'static str,
    bits: u32,
    kind: DTypeKind,
    /// The name in `.safetensors`, if that format has the dtype.
    safetensors: Option<&'static str>,
    /// The `descr` in `.npy`, little endian, if numpy has the dtype.
    npy: Option<&'static str>,
}

/// Kind of the elements of a dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DTypeKind {
    /// Floating-point numbers.
    Float(FloatFormat),
    /// Integers in two's complement.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// Booleans: any set bit means true.
    Bool,
    /// Complex numbers: two floats of this dtype, the real and the imaginary part.
    Complex(DType),
}

/// A binary float: sign, exponent, mantissa, from the top bit down. [`TopExponent::PowerOfTwo`] has no sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatFormat {
    /// Bits of the exponent.
    pub exponent_bits: u32,
    /// Bits of the mantissa that are stored.
    pub mantissa_bits: u32,
    /// Meaning of the largest exponent.
    pub top: TopExponent,
}

/// Meaning of the largest exponent of a float format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopExponent {
    /// Infinity, and NaN above it.
    Ieee,
    /// Finite numbers, except that the largest mantissa means NaN.
    OneNan,
    /// Finite numbers.
    Finite,
    /// Finite numbers. The pattern of negative zero means NaN, and the exponent's bias is one greater.
    NegativeZeroNan,
    /// A finite number, except that the last pattern means NaN. There is no sign, no zero and no mantissa:
    /// every number is a power of two.
    PowerOfTwo,
}

impl FloatFormat {
    /// The exponent that is stored for numbers from 1 to 2.
    pub const fn bias(self) -> u32 {
        let half = (1 << (self.exponent_bits - 1)) - 1;
        match self.top {
            TopExponent::NegativeZeroNan => half + 1,
            _ => half,
        }
    }

    /// Whether the top bit of an element is a sign.
    pub const fn has_sign(self) -> bool {
        !matches!(self.top, TopExponent::PowerOfTwo)
    }
}

const fn float(exponent_bits: u32, mantissa_bits: u32, top: TopExponent) -> DTypeKind {
    DTypeKind::Float(FloatFormat { exponent_bits, mantissa_bits, top })
}

const fn entry(
    dtype: DType,
    name: &'static str,
    short: &'static str,
    bits: u32,
    kind: DTypeKind,
    safetensors: Option<&'static str>,
    npy: Option<&'static str>,
) -> Entry {
    Entry { dtype, name, short, bits, kind, safetensors, npy }
}

/// In tag order.
#[rustfmt::skip]
const TABLE: [Entry; 22] = {
    use DType::*;
    use DTypeKind::{Complex, Signed, Unsigned};
    use TopExponent::{Finite, Ieee, NegativeZeroNan, OneNan, PowerOfTwo};
    [
        entry(Float64,        "float64",         "f64",      64, float(11, 52, Ieee),          Some("F64"),     Some("<f8")),
        entry(Float32,        "float32",         "f32",      32, float(8, 23, Ieee),           Some("F32"),     Some("<f4")),
        entry(Float16,        "float16",         "f16",      16, float(5, 10, Ieee),           Some("F16"),     Some("<f2")),
        entry(BFloat16,       "bfloat16",        "bf16",     16, float(8, 7, Ieee),            Some("BF16"),    None),
        entry(Float8E4M3FN,   "float8_e4m3fn",   "e4m3",      8, float(4, 3, OneNan),          Some("F8_E4M3"), None),
        entry(Float8E5M2,     "float8_e5m2",     "e5m2",      8, float(5, 2, Ieee),            Some("F8_E5M2"), None),
        entry(Float4E2M1,     "float4_e2m1",     "e2m1",      4, float(2, 1, Finite),          Some("F4"),      None),
        entry(Int64,          "int64",           "i64",      64, Signed,                       Some("I64"),     Some("<i8")),
        entry(Int32,          "int32",           "i32",      32, Signed,                       Some("I32"),     Some("<i4")),
        entry(Int16,          "int16",           "i16",      16, Signed,                       Some("I16"),     Some("<i2")),
        entry(Int8,           "int8",            "i8",        8, Signed,                       Some("I8"),      Some("|i1")),
        entry(Int4,           "int4",            "i4",        4, Signed,                       None,            None),
        entry(UInt64,         "uint64",          "u64",      64, Unsigned,                     Some("U64"),     Some("<u8")),
        entry(UInt32,         "uint32",          "u32",      32, Unsigned,                     Some("U32"),     Some("<u4")),
        entry(UInt16,         "uint16",          "u16",      16, Unsigned,                     Some("U16"),     Some("<u2")),
        entry(UInt8,          "uint8",           "u8",        8, Unsigned,                     Some("U8"),      Some("|u1")),
        entry(Bool,           "bool",            "boolean",   8, DTypeKind::Bool,              Some("BOOL"),    Some("|b1")),
        entry(Float8E4M3FNUZ, "float8_e4m3fnuz", "e4m3fnuz",  8, float(4, 3, NegativeZeroNan), Some("F8_E4M3FNUZ"), None),
        entry(Float8E5M2FNUZ, "float8_e5m2fnuz", "e5m2fnuz",  8, float(5, 2, NegativeZeroNan), Some("F8_E5M2FNUZ"), None),
        entry(Float8E8M0FNU,  "float8_e8m0fnu",  "e8m0",      8, float(8, 0, PowerOfTwo),      Some("F8_E8M0"), None),
        entry(Complex64,      "complex64",       "c64",      64, Complex(Float32),              Some("C64"),     Some("<c8")),
        entry(Complex128,     "complex128",      "c128",    128, Complex(Float64),              None,            Some("<c16")),
    ]
};

impl DType {
    /// Every dtype, in tag order.
    pub const ALL: [DType; TABLE.len()] = {
        let mut all = [DType::Float64; TABLE.len()];
        let mut at = 0;
        while at < TABLE.len() {
            all[at] = TABLE[at].dtype;
            assert!(all[at] as usize == at + 1, "the table is in tag order");
            at += 1;
        }
        all
    };

    const fn entry(self) -> &'static Entry {
        static ENTRIES: [Entry; TABLE.len()] = TABLE;
        &ENTRIES[self as usize - 1]
    }

    /// The dtype of a tag in a descriptor; `None` for an unassigned tag.
    pub fn from_tag(tag: u8) -> Option<DType> {
        DType::ALL.get(usize::from(tag).wrapping_sub(1)).copied()
    }

    /// The tag stored in descriptors and records.
    pub const fn tag(self) -> u8 {
        self as u8
    }

    /// Width of one element. 4-bit elements are packed two to a byte, low nibble first.
    pub const fn bits(self) -> u32 {
        self.entry().bits
    }

    /// Bytes of `numel` packed elements; `None` if that exceeds 64 bits.
    pub const fn packed_bytes(self, numel: u64) -> Option<u64> {
        match numel.checked_mul(self.bits() as u64) {
            Some(bits) => Some(bits.div_ceil(8)),
            None => None,
        }
    }

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The name that people type.
    pub const fn short_name(self) -> &'static str {
        self.entry().short
    }

    /// The dtype with this name, in upper or lower case.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name().eq_ignore_ascii_case(name))
    }

    /// Kind of its elements.
    pub const fn kind(self) -> DTypeKind {
        self.entry().kind
    }

    /// Whether elements are floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), DTypeKind::Float(_))
    }

    /// Whether elements are complex numbers.
    pub const fn is_complex(self) -> bool {
        matches!(self.kind(), DTypeKind::Complex(_))
    }

    /// The dtype of the numbers that an element consists of: that of the parts of a complex number, otherwise
    /// the dtype itself.
    ///
    /// A tensor of complex numbers is measured and compared as a tensor of its parts, with a last dimension of
    /// [`parts`](DType::parts) in addition: real, imaginary.
    pub const fn part(self) -> DType {
        match self.kind() {
            DTypeKind::Complex(part) => part,
            _ => self,
        }
    }

    /// Numbers per element: 2 for complex numbers, otherwise 1.
    pub const fn parts(self) -> u32 {
        if self.is_complex() { 2 } else { 1 }
    }

    /// Whether values of the two dtypes differ only in precision: both are floats, or both are complex.
    pub const fn is_like(self, other: DType) -> bool {
        self.is_float() && other.is_float() || self.is_complex() && other.is_complex()
    }

    /// Whether a scalar of 64 bits holds an element.
    pub const fn fits_scalar(self) -> bool {
        self.bits() <= 64
    }

    /// Whether elements can be NaN.
    pub const fn has_nan(self) -> bool {
        match self.kind() {
            DTypeKind::Float(format) => !matches!(format.top, TopExponent::Finite),
            DTypeKind::Complex(_) => true,
            DTypeKind::Signed | DTypeKind::Unsigned | DTypeKind::Bool => false,
        }
    }

    /// Its name in `.safetensors` files; `None` if that format does not have it.
    pub const fn safetensors_name(self) -> Option<&'static str> {
        self.entry().safetensors
    }

    /// Its `descr` in `.npy` files, little endian; `None` if numpy does not have it.
    pub const fn npy_descr(self) -> Option<&'static str> {
        self.entry().npy
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
    fn tags_and_names_round_trip_and_unknown_tags_are_rejected() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_tag(dtype.tag()), Some(dtype));
            assert_eq!(DType::parse(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::from_tag(0), None);
        assert_eq!(DType::from_tag(23), None);
        assert_eq!(DType::parse("float31"), None);
    }

    #[test]
    fn packed_size_rounds_a_last_odd_nibble_up() {
        assert_eq!(DType::Int4.packed_bytes(3), Some(2));
        assert_eq!(DType::Float64.packed_bytes(3), Some(24));
        assert_eq!(DType::Float64.packed_bytes(u64::MAX), None);
    }

    #[test]
    fn kinds_and_widths_match_the_names() {
        for dtype in DType::ALL {
            let name = dtype.name();
            assert_eq!(dtype.is_float(), name.contains("float"), "{dtype}");
            assert_eq!(dtype.kind() == DTypeKind::Signed, name.starts_with("int"), "{dtype}");
            assert_eq!(dtype.kind() == DTypeKind::Unsigned, name.starts_with("uint"), "{dtype}");
            assert_eq!(dtype.is_complex(), name.starts_with("complex"), "{dtype}");
            assert_eq!(dtype.part().bits() * dtype.parts(), dtype.bits(), "{dtype}");
            assert!(dtype.part().is_float() || !dtype.is_complex(), "{dtype}");
            if let DTypeKind::Float(format) = dtype.kind() {
                let sign = u32::from(format.has_sign());
                assert_eq!(sign + format.exponent_bits + format.mantissa_bits, dtype.bits(), "{dtype}");
            }
            let digits = name.trim_start_matches(char::is_alphabetic).split('_').next().unwrap_or_default();
            assert!(digits.parse().is_ok_and(|bits: u32| bits == dtype.bits()) || name == "bool", "{dtype}");
        }
    }

    #[test]
    fn every_dtype_name_is_unique() {
        for (at, one) in DType::ALL.into_iter().enumerate() {
            for other in &DType::ALL[..at] {
                let alike = |spelled: fn(&DType) -> Option<&'static str>| {
                    spelled(&one).is_some() && spelled(&one) == spelled(other)
                };
                assert!(!alike(|d| Some(d.name())) && !alike(|d| Some(d.short_name())), "{one} {other}");
                assert!(!alike(|d| d.safetensors_name()) && !alike(|d| d.npy_descr()), "{one} {other}");
            }
        }
    }
}
