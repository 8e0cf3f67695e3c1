//! Reads the names of OpenCL C types.

use tensortap_record::DType;

/// What the type of an argument says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// Type of its elements, or of those it points to. None if they are no numbers.
    pub dtype: Option<DType>,
    /// Number of elements in a vector. A vector of three elements has room for four.
    pub lanes: u64,
    /// Whether it is a pointer.
    pub is_pointer: bool,
    /// Whether it is an OpenCL object such as a sampler. A launch gets its handle.
    pub is_object: bool,
    /// Whether it points to const or constant memory.
    pub is_const: bool,
}

/// Reads the name of a type as `clGetKernelArgInfo` reports it.
pub fn read(name: &str) -> TypeName {
    let is_pointer = name.contains('*');
    let words = name.split(|c: char| c.is_whitespace() || c == '*').filter(|word| !word.is_empty());
    let words: Vec<&str> = words.filter(|word| !QUALIFIERS.contains(word)).collect();
    let (dtype, lanes) = match &words[..] {
        [word] => {
            let (word, lanes) = parts(word);
            (element(word), lanes)
        }
        ["unsigned", word] => (element(&format!("u{word}")), 1),
        ["signed", word] => (element(word), 1),
        _ => (None, 1),
    };
    let is_object = !is_pointer && words.iter().any(|word| is_object(word));
    // After the `*`, the pointer is const and not its memory.
    let memory = name.split_once('*').map_or("", |(memory, _)| memory);
    let is_const = memory.split_whitespace().any(|word| ["const", "constant", "__constant"].contains(&word));
    let lanes = if dtype.is_some() { lanes } else { 1 };
    TypeName { dtype, lanes, is_pointer, is_object, is_const }
}

/// Whether a type is a built-in object type. Any other type that is no number is a struct or a typedef.
fn is_object(word: &str) -> bool {
    let objects = ["sampler_t", "event_t", "clk_event_t", "queue_t", "reserve_id_t", "pipe"];
    objects.contains(&word) || (word.starts_with("image") && word.ends_with("_t"))
}

/// Splits the name of a vector type into its element type and the number of elements. Other names that end
/// with a number are no vector types.
fn parts(word: &str) -> (&str, u64) {
    let part = word.trim_end_matches(|c: char| c.is_ascii_digit());
    match &word[part.len()..] {
        "2" => (part, 2),
        "3" | "4" => (part, 4),
        "8" => (part, 8),
        "16" => (part, 16),
        _ => (word, 1),
    }
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
    fn type_names_of_pointers_vectors_and_qualified_types_are_read() {
        let vector = |name: &str, dtype: Option<DType>, lanes: u64, is_pointer: bool| {
            let is_const = name.contains("const");
            assert_eq!(
                read(name),
                TypeName { dtype, lanes, is_pointer, is_object: false, is_const },
                "{name}"
            );
        };
        assert!(!read("float *const").is_const && read("__constant float*").is_const);
        let is = |name: &str, dtype: Option<DType>, is_pointer: bool| vector(name, dtype, 1, is_pointer);
        is("float*", Some(DType::Float32), true);
        is("const float *", Some(DType::Float32), true);
        vector("float4*", Some(DType::Float32), 4, true);
        vector("int3*", Some(DType::Int32), 4, true);
        vector("uchar16", Some(DType::UInt8), 16, false);
        is("unsigned int*", Some(DType::UInt32), true);
        is("__global const ushort* restrict", Some(DType::UInt16), true);
        is("half*", Some(DType::Float16), true);
        is("size_t", Some(DType::UInt64), false);
        is("struct thing*", None, true);
        is("struct thing", None, false);
        is("thing_t", None, false);
        is("void*", None, true);
        is("int64*", None, true);
        is("float1", None, false);
        vector("double8*", Some(DType::Float64), 8, true);
        is("", None, false);
        let objects = ["image2d_t", "image1d_buffer_t", "sampler_t", "pipe int", "queue_t"];
        assert!(objects.iter().all(|name| read(name).is_object));
    }
}
