//! Types for records of unknown type: `bfloat16[4,512,1024]`, given for one record or in a file for arguments
//! of kernels.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use tensortap::DType;
use tensortap::format::{ReadType, TypeRule, TypedArg};
use toml::Spanned;

use crate::words::printable;
use crate::{QueryError, parse_dtype};

/// Maximum size of a types file.
const MAX_BYTES: usize = 1 << 20;

/// Parses `bfloat16[4,512,1024]`. Without sizes, the record has as many elements as fit.
///
/// ```
/// use tensortap_query::types::parse_read_as;
/// let read = parse_read_as("bf16[4, 512]").unwrap();
/// assert_eq!((read.dtype.name(), read.shape), ("bfloat16", Some(vec![4, 512])));
/// assert_eq!(parse_read_as("f32").unwrap().shape, None);
/// assert!(parse_read_as("f32[").is_err() && parse_read_as("f33[2]").is_err() && parse_read_as("f32[-1]").is_err());
/// ```
///
/// # Errors
/// A message if the text is not a type.
pub fn parse_read_as(text: &str) -> Result<ReadType, String> {
    let text = text.trim();
    let (dtype, sizes) = match text.split_once('[') {
        Some((dtype, sizes)) => {
            let sizes = sizes
                .strip_suffix(']')
                .ok_or_else(|| format!("`{}` has no `]`; write float32[2,3]", printable(text)))?;
            (dtype.trim(), Some(sizes))
        }
        None => (text, None),
    };
    let known = parse_dtype(dtype).ok_or_else(|| {
        let names: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        format!("`{}` is not a dtype; use one of {}", printable(dtype), names.join(", "))
    })?;
    let size = |size: &str| {
        let size = size.trim();
        size.parse::<u64>()
            .map_err(|_| format!("`{}` is not a size; write sizes as float32[2,3]", printable(size)))
    };
    let shape = match sizes.map(str::trim) {
        None => None,
        Some("") => Some(Vec::new()),
        Some(sizes) => Some(sizes.split(',').map(size).collect::<Result<_, _>>()?),
    };
    Ok(ReadType { dtype: known, shape })
}

/// Reads a types file: a table for each kernel, by name or pattern, with a line for each argument, by index
/// or name. The first line that matches an argument counts.
///
/// # Errors
/// The file cannot be read or parsed. The error names the line.
pub fn read_types(path: &Path) -> Result<Vec<TypeRule>, QueryError> {
    let wrong = |line: Option<usize>, message: String| {
        let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
        QueryError::Types { said_in: format!("{}{line}", path.display()), message }
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong(None, format!("cannot be read: {error}; --types needs a TOML file")))?;
    if text.len() > MAX_BYTES {
        return Err(wrong(
            None,
            format!("the file has {} bytes; a types file may have at most {MAX_BYTES}", text.len()),
        ));
    }
    parse_types(&text, &path.display().to_string()).map_err(|(line, message)| wrong(Some(line), message))
}

type Lines = BTreeMap<String, BTreeMap<String, Spanned<String>>>;

/// The rules of a text, in order, or an error with its line.
fn parse_types(text: &str, name: &str) -> Result<Vec<TypeRule>, (usize, String)> {
    let line = |span: &Range<usize>| text.bytes().take(span.start).filter(|&byte| byte == b'\n').count() + 1;
    let read: Lines = toml::from_str(text).map_err(|error| {
        let remedy = "a types file has a table for each kernel, in it lines such as 0 = \"float32[2,3]\"";
        (line(&error.span().unwrap_or_default()), format!("{}; {remedy}", error.message()))
    })?;
    let mut rules = Vec::new();
    for (kernel, arguments) in read {
        for (arg, meant) in arguments {
            let at = meant.span();
            let read_as = parse_read_as(meant.as_ref()).map_err(|message| (line(&at), message))?;
            let arg = arg.parse().map_or(TypedArg::Name(arg), TypedArg::Place);
            let said_in = format!("{name}, line {}", line(&at));
            rules.push((at.start, TypeRule { kernel: kernel.clone(), arg, read_as, said_in }));
        }
    }
    rules.sort_by_key(|(start, _)| *start);
    Ok(rules.into_iter().map(|(_, rule)| rule).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rules_in_order_and_reports_errors_with_lines() {
        let text =
            "[scale]\nout = \"f32[2]\"\n\n['gemm*']\n0 = 'bf16[4,8]'\n1 = 'int8'\n[\"a.b\"]\n2 = 'f16'\n";
        let rules = parse_types(text, "t.toml").unwrap();
        let all: Vec<_> =
            rules.iter().map(|rule| (rule.kernel.as_str(), &rule.arg, rule.said_in.as_str())).collect();
        assert_eq!(
            all,
            [
                ("scale", &TypedArg::Name("out".into()), "t.toml, line 2"),
                ("gemm*", &TypedArg::Place(0), "t.toml, line 5"),
                ("gemm*", &TypedArg::Place(1), "t.toml, line 6"),
                ("a.b", &TypedArg::Place(2), "t.toml, line 8"),
            ]
        );
        for (text, line, part) in [
            ("[a]\n0 = 'f32'\n1 = 'f33'\n", 3, "is not a dtype"),
            ("[a]\n0 = 'f32[2'\n", 2, "no `]`"),
            ("[a]\n0 = 'f32[x]'\n", 2, "is not a size"),
            ("[a]\n0 = 5\n", 2, "string"),
            ("[a\n", 1, ""),
        ] {
            let (found, message) = parse_types(text, "t").unwrap_err();
            assert!(found == line && message.contains(part), "{text}: line {found}, {message}");
        }
    }
}
