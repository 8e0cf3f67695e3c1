//! An argument of a task, and how arguments of two runs correspond.

use std::ops::{Deref, Range};

use tensortap_geometry::Layout;

use super::{ArgumentFacts, Tasks};

/// A word inside a value that a launch received by copy, such as a pointer in a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PointerWord {
    /// Index of the value among the parameters.
    pub arg_index: u16,
    /// Position of the word in the value, in bytes.
    pub byte: u32,
}

impl PointerWord {
    /// The word that a name such as `1+480` means.
    ///
    /// ```
    /// use tensortap_format::PointerWord;
    /// assert_eq!(PointerWord::of_name("1+480"), Some(PointerWord { arg_index: 1, byte: 480 }));
    /// assert_eq!(PointerWord::of_name("a+b"), None);
    /// ```
    #[must_use]
    pub fn of_name(name: &str) -> Option<PointerWord> {
        let (arg_index, byte) = name.split_once('+')?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let word = PointerWord { arg_index: arg_index.parse().ok()?, byte: byte.parse().ok()? };
        (is_number(arg_index) && is_number(byte)).then_some(word)
    }
}

/// An argument of a task.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'t> {
    pub(super) tasks: &'t Tasks,
    pub(super) number: usize,
}

impl<'t> Argument<'t> {
    /// Number of the argument among all tasks, below [`Tasks::argument_count`]; for tables parallel to
    /// [`Tasks`].
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Size of each dimension; empty for a scalar.
    #[must_use]
    pub fn shape(&self) -> &'t [u64] {
        self.tasks.dims.shape(self.facts())
    }

    /// Strides of the view in its buffer, in elements.
    #[must_use]
    pub fn strides(&self) -> &'t [i64] {
        self.tasks.dims.strides(self.facts())
    }

    /// Its facts, with the lifetime of the tasks.
    #[must_use]
    pub fn facts(&self) -> &'t ArgumentFacts {
        &self.tasks.arguments[self.number]
    }

    /// Number of elements; `None` if it exceeds 64 bits.
    #[must_use]
    pub fn numel(&self) -> Option<u64> {
        let shape = self.shape();
        if shape.contains(&0) {
            return Some(0);
        }
        shape.iter().try_fold(1_u64, |numel, &size| numel.checked_mul(size))
    }

    /// The name in its own record; `None` if only its kernel names it.
    #[must_use]
    pub fn own_name(&self) -> Option<&'t str> {
        self.tasks.arg_names.get(&self.facts().name).map(AsRef::as_ref)
    }

    /// For memory that only a word inside a value points to: that word. Such an argument is a *candidate*: the word may be
    /// a stale pointer in an unused part of the value. It is not known whether the kernel uses the memory.
    #[must_use]
    pub fn pointer_word(&self) -> Option<PointerWord> {
        if self.tasks.pointer_words.is_empty() || self.facts().role_known {
            return None;
        }
        self.tasks.pointer_words.get(&self.facts().name).copied()
    }

    /// Whether it is not known if the kernel uses this memory; see [`Argument::pointer_word`].
    #[must_use]
    pub fn is_candidate(&self) -> bool {
        self.pointer_word().is_some()
    }

    /// Addresses from its first to its last byte, with the gaps of a strided view. `None` for a scalar, without elements, if
    /// the address is not known, or if the view exceeds 64 bits.
    #[must_use]
    pub fn memory(&self) -> Option<Range<u64>> {
        let facts = self.facts();
        if facts.is_scalar() || facts.address == 0 {
            return None;
        }
        let layout =
            Layout::new(self.shape(), self.strides(), facts.start_offset, facts.dtype.bits()).ok()?;
        let Range { start, end } = layout.byte_range();
        let range = facts.address.checked_add(start)?..facts.address.checked_add(end)?;
        (!range.is_empty()).then_some(range)
    }

    /// Size of the packed content; `None` if it exceeds 64 bits.
    #[must_use]
    pub fn content_bytes(&self) -> Option<u64> {
        self.dtype.packed_bytes(self.numel()?)
    }
}

impl Deref for Argument<'_> {
    type Target = ArgumentFacts;

    fn deref(&self) -> &ArgumentFacts {
        self.facts()
    }
}
