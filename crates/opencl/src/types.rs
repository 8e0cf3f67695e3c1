//! What the names of OpenCL C's types say.

use tensortap_record::DType;

/// What an argument's type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// Its elements, or those it points to; none when they are no numbers.
    pub dtype: Option<DType>,
    /// Whether it is a pointer.
    pub is_pointer: bool,
}

/// Reads the name of a type, as `clGetKernelArgInfo` tells it.
///
/// Vectors have the elements of their parts.
pub fn read(name: &str) -> TypeName {
    let is_pointer = name.contains('*');
    let words = name.split(|c: char| c.is_whitespace() || c == '*').filter(|word| !word.is_empty());
    let words: Vec<&str> = words.filter(|word| !QUALIFIERS.contains(word)).collect();
    let dtype = match &words[..] {
        [word] => element(without_lanes(word)),
        ["unsigned", word] => element(&format!("u{word}")),
        ["signed", word] => element(word),
        _ => None,
    };
    TypeName { dtype, is_pointer }
}

/// A vector's type is that of its parts and how many there are; any other number belongs to a name of the program's own.
fn without_lanes(word: &str) -> &str {
    let part = word.trim_end_matches(|c: char| c.is_ascii_digit());
    if ["2", "3", "4", "8", "16"].contains(&&word[part.len()..]) { part } else { word }
}

const QUALIFIERS: [&str; 14] = [
    "const",
    "volatile",
    "restrict",
    "__restrict",
    "__restrict__",
    "global",
    "__global",
    "local",
    "__local",
    "constant",
    "__constant",
    "private",
    "__private",
    "struct",
];

fn element(word: &str) -> Option<DType> {
    Some(match word {
        "char" => DType::Int8,
        "uchar" => DType::UInt8,
        "short" => DType::Int16,
        "ushort" => DType::UInt16,
        "int" => DType::Int32,
        "uint" | "unsigned" => DType::UInt32,
        "long" | "ptrdiff_t" | "intptr_t" => DType::Int64,
        "ulong" | "size_t" | "uintptr_t" => DType::UInt64,
        "half" => DType::Float16,
        "float" => DType::Float32,
        "double" => DType::Float64,
        "bool" => DType::Bool,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_pointers_vectors_and_qualified_types_are_read() {
        let is = |name: &str, dtype: Option<DType>, is_pointer: bool| {
            assert_eq!(read(name), TypeName { dtype, is_pointer }, "{name}");
        };
        is("float*", Some(DType::Float32), true);
        is("const float *", Some(DType::Float32), true);
        is("float4*", Some(DType::Float32), true);
        is("uchar16", Some(DType::UInt8), false);
        is("unsigned int*", Some(DType::UInt32), true);
        is("__global const ushort* restrict", Some(DType::UInt16), true);
        is("half*", Some(DType::Float16), true);
        is("size_t", Some(DType::UInt64), false);
        is("struct thing*", None, true);
        is("image2d_t", None, false);
        is("void*", None, true);
        is("int64*", None, true);
        is("float1", None, false);
        is("double8*", Some(DType::Float64), true);
        is("", None, false);
    }
}
