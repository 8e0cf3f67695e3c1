//! Names that an orchestration gives to scopes and tasks: each string and each scope gets a number, and is defined the
//! first time that it is met.

use std::collections::HashMap;

use tensortap_scene::TaskSpec;

/// Strings, and scopes, that get a number; what comes behind them stays without a name. As many as a reader keeps.
pub const MAX_NAMES: usize = 1 << 20;

/// Who is told what the numbers mean, once each.
pub trait DefineNames {
    /// A string.
    fn string(&mut self, id: u32, text: &str);

    /// A scope: the string id of its name, and the scope it lies in, 0 for none.
    fn scope(&mut self, id: u32, name: u32, parent: u32);
}

/// What a task's slot says of its names; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Naming {
    /// String id of the task's name.
    pub task_name: u32,
    /// The scope it lies in.
    pub scope: u32,
}

/// The names of one orchestration. Scopes of one name in one scope are one: a path means the same wherever it is met.
#[derive(Debug)]
pub struct NameTable {
    /// Number of the first string, and of the first scope.
    first_id: u32,
    strings: HashMap<Box<str>, u32>,
    /// By parent and string id of the name.
    scopes: HashMap<(u32, u32), u32>,
    /// Scopes that have begun and not ended, innermost last.
    open: Vec<u32>,
}

impl NameTable {
    /// An empty table whose numbers count from `first_id`.
    pub fn new(first_id: u32) -> NameTable {
        NameTable { first_id, strings: HashMap::new(), scopes: HashMap::new(), open: Vec::new() }
    }

    /// Enters a scope.
    pub fn begin_scope(&mut self, name: &str, definitions: &mut dyn DefineNames) {
        let parent = self.innermost();
        let name = self.string(name, definitions);
        let known = self.scopes.len();
        let id = match self.scopes.get(&(parent, name)) {
            Some(&id) => id,
            None if known >= MAX_NAMES => parent,
            None => {
                let id = self.numbered(known);
                self.scopes.insert((parent, name), id);
                definitions.scope(id, name, parent);
                id
            }
        };
        self.open.push(id);
    }

    /// Leaves the innermost scope.
    pub fn end_scope(&mut self) {
        self.open.pop();
    }

    /// Numbers for a task that is being added.
    pub fn naming(&mut self, task: &TaskSpec, definitions: &mut dyn DefineNames) -> Naming {
        Naming { task_name: self.string(&task.task_name, definitions), scope: self.innermost() }
    }

    fn innermost(&self) -> u32 {
        self.open.last().copied().unwrap_or(0)
    }

    fn string(&mut self, text: &str, definitions: &mut dyn DefineNames) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&id) = self.strings.get(text) {
            return id;
        }
        if self.strings.len() >= MAX_NAMES {
            return 0;
        }
        let id = self.numbered(self.strings.len());
        self.strings.insert(text.into(), id);
        definitions.string(id, text);
        id
    }

    fn numbered(&self, place: usize) -> u32 {
        self.first_id + u32::try_from(place).expect("at most MAX_NAMES")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Told {
        strings: Vec<(u32, String)>,
        scopes: Vec<[u32; 3]>,
    }

    impl DefineNames for Told {
        fn string(&mut self, id: u32, text: &str) {
            self.strings.push((id, text.into()));
        }
        fn scope(&mut self, id: u32, name: u32, parent: u32) {
            self.scopes.push([id, name, parent]);
        }
    }

    fn named(task_name: &str) -> TaskSpec {
        TaskSpec { task_name: task_name.into(), ..TaskSpec::default() }
    }

    #[test]
    fn strings_and_scopes_are_told_once_however_often_they_are_met() {
        let (mut names, mut told) = (NameTable::new(1), Told::default());
        for _ in 0..3 {
            names.begin_scope("layer 1", &mut told);
            assert_eq!(names.naming(&named("k_proj"), &mut told), Naming { task_name: 2, scope: 1 });
            names.begin_scope("attention", &mut told);
            assert_eq!(names.naming(&named("layer 1"), &mut told), Naming { task_name: 1, scope: 2 });
            names.end_scope();
            names.end_scope();
            names.begin_scope("attention", &mut told);
            assert_eq!(names.naming(&named(""), &mut told), Naming { task_name: 0, scope: 3 });
            names.end_scope();
        }
        assert_eq!(names.naming(&named(""), &mut told), Naming::default());
        let strings = ["layer 1", "k_proj", "attention"];
        assert_eq!(told.strings, (1..).zip(strings.map(String::from)).collect::<Vec<_>>());
        assert_eq!(told.scopes, [[1, 1, 0], [2, 3, 1], [3, 3, 0]]);
    }

    #[test]
    fn names_past_the_limit_are_left_out_and_scopes_still_end_where_they_should() {
        let (mut names, mut told) = (NameTable::new(1 << 31), Told::default());
        for number in 0..MAX_NAMES {
            names.string(&number.to_string(), &mut told);
        }
        assert_eq!(names.naming(&named("one more"), &mut told).task_name, 0);
        assert_eq!(names.naming(&named("7"), &mut told).task_name, (1 << 31) + 7);
        names.begin_scope("7", &mut told);
        names.begin_scope("one more", &mut told);
        let inner = names.naming(&named(""), &mut told).scope;
        assert_eq!(told.scopes, [[1 << 31, (1 << 31) + 7, 0], [(1 << 31) + 1, 0, 1 << 31]]);
        assert_eq!(inner, (1 << 31) + 1);
        names.end_scope();
        assert_eq!(names.naming(&named(""), &mut told).scope, 1 << 31);
    }
}
