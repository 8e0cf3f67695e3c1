//! Reads and writes the header of `.npy`: a Python dictionary literal.

mod literal;

use tensortap_abi::DType;

use self::literal::Dictionary;
use crate::order::Order;
use crate::storage::numpy_storage;

pub(crate) const FORMAT: &str = "npy";
const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Alignment of the data.
const ALIGN: usize = 64;
/// Numpy itself rejects headers of more than 10,000 characters.
const MAX_HEADER_BYTES: usize = 1 << 16;
/// The maximum number of dimensions in numpy.
pub(crate) const MAX_NUMPY_DIMS: usize = 64;
/// Bytes of a file that are enough for any header.
pub(crate) const MAX_PREFIX_BYTES: usize = MAX_HEADER_BYTES + 12;

/// A parsed header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NpyHeader {
    pub dtype: DType,
    pub shape: Vec<u64>,
    /// The byte order and dimension order of the file.
    pub order: Order,
    /// Offset of the data.
    pub data_offset: u64,
}

/// Why a header is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NpyRefusal {
    Damaged(String),
    DType(String),
}

impl From<&str> for NpyRefusal {
    fn from(reason: &str) -> NpyRefusal {
        NpyRefusal::Damaged(reason.into())
    }
}

/// The header for an array.
pub(crate) fn encode(dtype: DType, shape: &[u64]) -> Vec<u8> {
    let stored = numpy_storage(dtype, shape);
    let sizes: Vec<String> = stored.shape.iter().map(u64::to_string).collect();
    // A Python tuple with one element needs a comma.
    let comma = if sizes.len() == 1 { "," } else { "" };
    let (descr, sizes) = (stored.dtype.npy_descr().unwrap_or_default(), sizes.join(", "));
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}{comma}), }}");
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(ALIGN) - unpadded));
    text.push('\n');
    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    // At most 8 dimensions of 20 digits: far below 65,536.
    header.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
    header.extend(text.as_bytes());
    header
}

/// Parses the header at the start of a file. `prefix` is the file or its first [`MAX_PREFIX_BYTES`].
pub(crate) fn decode(prefix: &[u8]) -> Result<NpyHeader, NpyRefusal> {
    let rest = prefix.strip_prefix(MAGIC).ok_or("it does not start with the npy magic")?;
    let (version, rest) = rest.split_at_checked(2).ok_or("it ends within its header")?;
    let (length, rest) = match version[0] {
        1 => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or("it ends within its header")?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or("it ends within its header")?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        other => return Err(NpyRefusal::Damaged(format!("its version is {other}; supported are 1 to 3"))),
    };
    if length > MAX_HEADER_BYTES {
        return Err(NpyRefusal::Damaged(format!(
            "its header has {length} bytes, more than the limit of {MAX_HEADER_BYTES}"
        )));
    }
    let data_offset = (prefix.len() - rest.len() + length) as u64;
    let text = rest.get(..length).ok_or("it ends within its header")?;
    let text = str::from_utf8(text).map_err(|_| "its header is not text")?;
    let Dictionary { descr, fortran_order, shape } = literal::parse(text)?;
    let (dtype, big_endian) = parse_descr(&descr).ok_or(NpyRefusal::DType(descr))?;
    Ok(NpyHeader { dtype, shape, order: Order { fortran: fortran_order, big_endian }, data_offset })
}

/// The dtype, and whether it is big endian.
fn parse_descr(text: &str) -> Option<(DType, bool)> {
    let (big_endian, kind) = match text.split_at_checked(1)? {
        ("<" | "|" | "=", kind) => (false, kind),
        (">", kind) => (true, kind),
        _ => return None,
    };
    // Arrays of the `ml_dtypes` package have no type letter of their own; the only one with two bytes is
    // bfloat16.
    let is_kind = |dtype: &DType| dtype.npy_descr().is_some_and(|descr| &descr[1..] == kind);
    let dtype = match kind {
        "V2" => DType::BFloat16,
        _ => DType::ALL.into_iter().find(is_kind)?,
    };
    Some((dtype, big_endian && dtype.bits() > 8))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_read_back(
            dtype in prop::sample::select(&DType::ALL[..]),
            shape in prop::collection::vec(0..u64::MAX >> 3, 0..=8),
        ) {
            let header = encode(dtype, &shape);
            prop_assert_eq!(header.len() % ALIGN, 0);
            let stored = numpy_storage(dtype, &shape);
            let expected = NpyHeader {
                dtype: stored.dtype, shape: stored.shape, order: Order::default(), data_offset: header.len() as u64,
            };
            prop_assert_eq!(decode(&header), Ok(expected));
            for cut in 0..header.len() {
                prop_assert!(decode(&header[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_a_header_or_an_error(version in 0..5u8, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&[MAGIC, &[version, 0][..], &bytes].concat());
            let _ = decode(&bytes);
        }

        #[test]
        fn any_dictionary_is_read_or_an_error(text in r"[{}()\[\]'TrueFalsdcspho_n:, <f4\-0-9]{0,80}") {
            let length = u16::try_from(text.len()).unwrap().to_le_bytes();
            let _ = decode(&[MAGIC, &[1, 0][..], &length, text.as_bytes()].concat());
        }
    }

    fn header(version: u8, text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        let length = if version == 1 { &length[..2] } else { &length[..] };
        [MAGIC, &[version, 0][..], length, text.as_bytes()].concat()
    }

    #[test]
    fn other_spellings_are_accepted() {
        let text = r#"{"shape": (3L, 4), "fortran_order": True, "descr": ">f4"}"#;
        for version in [1, 2, 3] {
            let read = decode(&header(version, text)).unwrap();
            assert_eq!((read.dtype, read.shape), (DType::Float32, vec![3, 4]));
            assert_eq!(read.order, Order { fortran: true, big_endian: true });
        }
        let scalar = decode(&header(1, "{'descr': '|b1', 'fortran_order': False, 'shape': ()}")).unwrap();
        assert_eq!((scalar.dtype, scalar.shape), (DType::Bool, vec![]));
    }

    #[test]
    fn arrays_with_unsupported_types_are_rejected_by_name() {
        let refusal = |descr: &str| {
            decode(&header(1, &format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}")))
                .unwrap_err()
        };
        assert_eq!(refusal("'<c32'"), NpyRefusal::DType("<c32".into()));
        assert_eq!(refusal("'|O'"), NpyRefusal::DType("|O".into()));
        assert_eq!(refusal("[('a', '<f4')]"), NpyRefusal::DType("a structure".into()));
        assert!(matches!(refusal("4"), NpyRefusal::Damaged(_)));
        assert!(matches!(decode(&header(4, "{}")), Err(NpyRefusal::Damaged(_))));
        let huge = [MAGIC, &[2, 0][..], &u32::MAX.to_le_bytes()].concat();
        assert!(matches!(decode(&huge), Err(NpyRefusal::Damaged(reason)) if reason.contains("4294967295")));
    }
}
