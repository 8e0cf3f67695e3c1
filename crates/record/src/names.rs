//! Names and what else is said once and then referred to by number.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tensortap_abi::FIRST_HOST_ID;

use crate::sanitizer;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// Refers to nothing.
            pub const NONE: $name = $name(0);
        }
    )+};
}

ids! {
    /// A text. Ids are those of a session.
    StringId,
    /// A scope of tasks.
    ScopeId,
    /// A kernel: what a task runs.
    KernelId,
    /// A queue or stream: a lane of time.
    QueueId,
    /// A step of a program that repeats itself: an iteration, or one run of a program that stays.
    StepId,
    /// Code that kernels come from.
    ModuleId,
}

/// What is told from others of its kind.
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
    /// A module whose image is known: told from others of its name by that, and by what it was built with.
    Image {
        name: u32,
        options: u32,
        device: u32,
        kind: u8,
        hash: u128,
    },
}

impl Key {
    /// Numbers of one kind do not depend on those of another.
    fn kind(&self) -> usize {
        match self {
            Key::String(_) => 0,
            Key::Scope { .. } => 1,
            Key::Kernel { .. } => 2,
            Key::Queue { .. } => 3,
            Key::Step { .. } => 4,
            Key::Module { .. } | Key::Image { .. } => 5,
        }
    }
}

/// The numbers of one session.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Key, Entry>,
    last: [u32; 6],
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: u32,
    defined: bool,
}

/// The table, while nobody else has it.
struct Held<'n>(MutexGuard<'n, Table>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        sanitizer::release(&raw const *self.0);
    }
}

impl Names {
    fn table(&self) -> Held<'_> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sanitizer::acquire(&raw const *table);
        Held(table)
    }

    /// The number of something, and whether the caller is to define it. 0 when there are no more.
    pub fn number(&self, key: &Key) -> (u32, bool) {
        let mut held = self.table();
        let table = &mut *held.0;
        if let Some(entry) = table.entries.get_mut(key) {
            return (entry.id, !std::mem::replace(&mut entry.defined, true));
        }
        let last = &mut table.last[key.kind()];
        if *last + 1 >= FIRST_HOST_ID {
            return (0, false);
        }
        *last += 1;
        let id = *last;
        table.entries.insert(key.clone(), Entry { id, defined: true });
        (id, true)
    }

    /// Its definition was lost: who comes next defines it.
    pub fn lost(&self, key: &Key) {
        if let Some(entry) = self.table().0.entries.get_mut(key) {
            entry.defined = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_and_is_defined_by_its_first_user_or_the_next_if_that_was_lost() {
        let names = Names::default();
        let (a, b) = (Key::String("a".into()), Key::String("b".into()));
        assert_eq!(
            [names.number(&a), names.number(&a), names.number(&b)],
            [(1, true), (1, false), (2, true)]
        );
        names.lost(&a);
        assert_eq!([names.number(&a), names.number(&a)], [(1, true), (1, false)]);
        let scope = |name, parent| names.number(&Key::Scope { name, parent });
        assert_eq!([scope(1, 0), scope(1, 1), scope(1, 0)], [(1, true), (2, true), (1, false)]);
    }
}
