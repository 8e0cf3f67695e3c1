//! Numbers of names, scopes, kernels and other definitions, which are recorded once.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tensortap_abi::{FIRST_HOST_ID, NumberKind};

use crate::sanitizer;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// No value.
            pub const NONE: $name = $name(0);
        }
    )+};
}

ids! {
    /// A text. Ids belong to a session.
    StringId,
    /// A scope of tasks.
    ScopeId,
    /// A kernel.
    KernelId,
    /// A queue or stream.
    QueueId,
    /// A step of a program: an iteration, or one run of a long-lived program.
    StepId,
    /// A module: the code of kernels.
    ModuleId,
}

/// Identity of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    String(Box<str>),
    Scope {
        name: u32,
        parent: u32,
    },
    Kernel {
        name: u32,
        module: u32,
    },
    Queue {
        name: u32,
    },
    Step {
        name: u32,
    },
    Module {
        name: u32,
    },
    /// A module with its image. The image and the build options are part of its identity.
    Image {
        name: u32,
        options: u32,
        device: u32,
        kind: u8,
        hash: u128,
    },
}

impl Key {
    /// Its kind. Each kind has its own numbers.
    fn kind(&self) -> NumberKind {
        match self {
            Key::String(_) => NumberKind::String,
            Key::Scope { .. } => NumberKind::Scope,
            Key::Kernel { .. } => NumberKind::Kernel,
            Key::Queue { .. } => NumberKind::Queue,
            Key::Step { .. } => NumberKind::Step,
            Key::Module { .. } | Key::Image { .. } => NumberKind::Module,
        }
    }
}

/// The definitions of one session. If other libraries record this process too, each has its own and gives the
/// same name another number.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<HashMap<Key, Entry>>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: u32,
    defined: bool,
}

/// Exclusive access to the table.
struct NamesGuard<'n>(MutexGuard<'n, HashMap<Key, Entry>>);

impl Drop for NamesGuard<'_> {
    fn drop(&mut self) {
        sanitizer::release(&raw const *self.0);
    }
}

impl Names {
    fn table(&self) -> NamesGuard<'_> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sanitizer::acquire(&raw const *table);
        NamesGuard(table)
    }

    /// The number of a key, and whether the caller must define it. `next` returns the next free number of a
    /// kind. The number is 0 if no more are available.
    pub fn number(&self, key: &Key, next: impl FnOnce(NumberKind) -> u64) -> (u32, bool) {
        let mut table = self.table();
        if let Some(entry) = table.0.get_mut(key) {
            return (entry.id, !std::mem::replace(&mut entry.defined, true));
        }
        let id = u32::try_from(next(key.kind())).unwrap_or(0);
        if !(1..FIRST_HOST_ID).contains(&id) {
            return (0, false);
        }
        table.0.insert(key.clone(), Entry { id, defined: true });
        (id, true)
    }

    /// The definition was lost, so the next user defines it again.
    pub fn lost(&self, key: &Key) {
        if let Some(entry) = self.table().0.get_mut(key) {
            entry.defined = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_defined_once_and_again_if_the_definition_was_lost() {
        let (names, numbers) = (Names::default(), [const { std::cell::Cell::new(0) }; 8]);
        let next = |kind: NumberKind| {
            let last = &numbers[kind as usize];
            last.set(last.get() + 1);
            last.get()
        };
        let number = |key: &Key| names.number(key, next);
        let (a, b) = (Key::String("a".into()), Key::String("b".into()));
        assert_eq!([number(&a), number(&a), number(&b)], [(1, true), (1, false), (2, true)]);
        names.lost(&a);
        assert_eq!([number(&a), number(&a)], [(1, true), (1, false)]);
        let scope = |name, parent| number(&Key::Scope { name, parent });
        assert_eq!([scope(1, 0), scope(1, 1), scope(1, 0)], [(1, true), (2, true), (1, false)]);
    }

    #[test]
    fn without_a_free_number_nothing_is_defined() {
        let names = Names::default();
        for next in [0, FIRST_HOST_ID.into(), u64::from(u32::MAX) + 2, u64::MAX] {
            assert_eq!(names.number(&Key::String("a".into()), |_| next), (0, false));
        }
    }
}
