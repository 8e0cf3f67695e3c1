//! Selects tasks and kernels by number, name or pattern. The only place that parses such words.

use crate::KernelInfo;
use crate::symbol::kernel_fits;

/// A choice of tasks by number or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskChoice {
    /// First and last id.
    Ids(u64, u64),
    /// Ids within one step: `2@0x92`.
    InStep {
        /// The step.
        step: u32,
        /// First id.
        first: u64,
        /// Last id.
        last: u64,
    },
    /// A name or pattern that matches the task, one of its kernels (or its `func_id`), an enclosing scope,
    /// or scope and name together: see [`task_fits`].
    Named(String),
}

/// Whether a word selects a task. It may be the task's own name, one of its kernels, or an enclosing scope
/// (consecutive whole names of the path). It may also be the end of the scope path, followed by the name of the task or
/// kernel.
///
/// ```
/// use tensortap_format::task_fits;
/// let fits = |word| task_fits(word, Some("token 3 / layer 1 / attention"), Some("k_proj"), &["project_bf16"]);
/// for word in ["k_proj", "project_*", "layer 1", "layer 1/attention", "attention / k_proj", "token ?/layer 1/*/k_proj"] {
///     assert!(fits(word), "{word}");
/// }
/// for word in ["k", "layer", "layer 1/k_proj", "token 3 layer 1", ""] {
///     assert!(!fits(word), "{word}");
/// }
/// ```
#[must_use]
pub fn task_fits(
    word: &str,
    scope: Option<&str>,
    task_name: Option<&str>,
    kernels: &[impl AsRef<str>],
) -> bool {
    let fits = |word: &str| {
        task_name.is_some_and(|name| word_fits(word, name))
            || kernels.iter().any(|kernel| kernel_fits(word, kernel.as_ref()))
    };
    let word = path_word(word);
    let within = |path| match word.rsplit_once('/') {
        Some((above, name)) => ends_with(above, path) && fits(name),
        None => false,
    };
    fits(&word) || scope.is_some_and(|path| scope_fits(&word, path) || within(path))
}

/// Whether a scope path contains the word as consecutive whole names: `layer 1` or `layer 1/attention`. A
/// task in a nested scope matches too.
#[must_use]
pub fn scope_fits(word: &str, path: &str) -> bool {
    let (word, path) = (path_word(word), format!("/{}/", path_word(path)));
    !word.is_empty()
        && if is_pattern(&word) {
            name_fits(&format!("*/{word}/*"), &path)
        } else {
            path.contains(&format!("/{word}/"))
        }
}

/// Whether the path ends with these names.
fn ends_with(word: &str, path: &str) -> bool {
    let path = format!("/{}", path_word(path));
    !word.is_empty()
        && if is_pattern(word) {
            name_fits(&format!("*/{word}"), &path)
        } else {
            path.ends_with(&format!("/{word}"))
        }
}

/// Whether a name equals the word or matches the pattern.
#[must_use]
pub fn word_fits(word: &str, name: &str) -> bool {
    if is_pattern(word) { name_fits(word, name) } else { word == name }
}

/// A path without spaces around its slashes: `layer 1 / k_proj` and `layer 1/k_proj` mean the same.
fn path_word(word: &str) -> String {
    word.trim().replace(" / ", "/")
}

impl From<u64> for TaskChoice {
    fn from(id: u64) -> TaskChoice {
        TaskChoice::Ids(id, id)
    }
}

/// Whether a name matches a pattern. `*` matches any characters, `?` matches one.
#[must_use]
pub fn name_fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to continue if the last attempt fails: after the last star, one character later in the name.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, n + 1));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((after_star, later)) = retry else { return false };
                retry = Some((after_star, later + 1));
                (p, n) = (after_star, later);
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// Whether a word is a pattern.
#[must_use]
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// The kernels that match a name (see [`kernel_fits`]), a pattern or a number; empty if none does.
///
/// ```
/// use tensortap_format::{KernelInfo, func_ids};
/// let kernel = |func_id, name: &str| KernelInfo { func_id, name: name.into(), ..KernelInfo::default() };
/// let kernels = [kernel(4, "add"), kernel(19, "add_scalar"), kernel(5, "mul")];
/// assert_eq!(func_ids(&kernels, "add*"), [4, 19]);
/// assert_eq!(func_ids(&kernels, "func_5"), [5]);
/// assert!(func_ids(&kernels, "6").is_empty());
/// ```
#[must_use]
pub fn func_ids(kernels: &[KernelInfo], wanted: &str) -> Vec<u32> {
    let wanted = wanted.trim();
    let fits = |kernel: &&KernelInfo| kernel_fits(wanted, &kernel.name);
    let named: Vec<u32> = kernels.iter().filter(fits).map(|kernel| kernel.func_id).collect();
    if !named.is_empty() {
        return named;
    }
    let known = |id: &u32| kernels.iter().any(|kernel| kernel.func_id == *id);
    numbered(wanted).filter(known).into_iter().collect()
}

/// A kernel's number, also in the form shown for a kernel without a name: `5`, `0x13`, `func_5`.
#[must_use]
pub fn numbered(wanted: &str) -> Option<u32> {
    number(wanted.strip_prefix("func_").unwrap_or(wanted))
}

/// Decimal or hexadecimal, without a sign.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    plain.then(|| u32::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_kernel_is_selected_by_name_pattern_or_number() {
        let kernel = |func_id, name: &str| KernelInfo { func_id, name: name.into(), ..KernelInfo::default() };
        let kernels = [kernel(4, "add"), kernel(19, "add_scalar"), kernel(5, "mul")];
        for (wanted, found) in [
            ("add", &[4][..]),
            ("add*", &[4, 19]),
            (" mul ", &[5]),
            ("5", &[5]),
            ("0x13", &[19]),
            ("func_4", &[4]),
            ("6", &[]),
            ("+5", &[]),
            ("ad", &[]),
            ("", &[]),
        ] {
            assert_eq!(func_ids(&kernels, wanted), found, "{wanted}");
        }
    }

    #[test]
    fn stars_match_any_characters_and_question_marks_match_one() {
        for (pattern, name, expected) in [
            ("add", "add", true),
            ("add", "adds", false),
            ("add*", "add", true),
            ("add*", "add_scalar", true),
            ("*scalar", "add_scalar", true),
            ("a?d", "add", true),
            ("a?d", "ad", false),
            ("*a*b*c", "xaxbxbc", true),
            ("*a*b*c", "xaxbxb", false),
            ("**", "", true),
            ("?", "", false),
            ("", "", true),
        ] {
            assert_eq!(name_fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_matches_itself_and_patterns_made_from_it(name in "[a-c_]{0,8}", from in 0usize..8, to in 0usize..8) {
            prop_assert!(name_fits(&name, &name));
            let (from, to) = (from.min(name.len()), to.min(name.len()));
            let (from, to) = (from.min(to), from.max(to));
            let pattern = format!("{}*{}", &name[..from], &name[to..]);
            prop_assert!(name_fits(&pattern, &name));
        }

        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,40}") {
            let _ = name_fits(&text, &text);
            let _ = func_ids(&[], &text);
        }
    }
}
