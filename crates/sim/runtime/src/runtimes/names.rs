//! Names of scopes and tasks. Each string and each scope gets an id and is defined once, at its first use.

use std::collections::HashMap;

use tensortap_scene::TaskSpec;

/// Limit on the strings and on the scopes that get an id, the same as in readers. Later ones have no name.
pub const MAX_NAMES: usize = 1 << 20;

/// Receives the definition of each id, once.
pub trait DefineNames {
    /// Defines a string.
    fn string(&mut self, id: u32, text: &str);

    /// Defines a scope by the string id of its name and the id of its parent, or 0.
    fn scope(&mut self, id: u32, name: u32, parent: u32);
}

/// The name ids of a task. 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameIds {
    /// String id of the task's name.
    pub task_name: u32,
    /// Id of the enclosing scope.
    pub scope: u32,
}

/// The names of one orchestration. Two scopes with the same name and the same parent are one scope, so that a
/// path always means the same scope.
#[derive(Debug)]
pub struct NameTable {
    /// Id of the first string and of the first scope.
    first_id: u32,
    strings: HashMap<Box<str>, u32>,
    /// Scope ids by parent and string id of the name.
    scopes: HashMap<(u32, u32), u32>,
    /// Open scopes, innermost last.
    open: Vec<u32>,
}

impl NameTable {
    /// Creates an empty table whose ids start at `first_id`.
    pub fn new(first_id: u32) -> NameTable {
        NameTable { first_id, strings: HashMap::new(), scopes: HashMap::new(), open: Vec::new() }
    }

    /// Opens a scope.
    pub fn begin_scope(&mut self, name: &str, definitions: &mut dyn DefineNames) {
        let parent = self.innermost();
        let name = self.string(name, definitions);
        let known = self.scopes.len();
        let id = match self.scopes.get(&(parent, name)) {
            Some(&id) => id,
            None if known >= MAX_NAMES => parent,
            None => {
                let id = self.id_of(known);
                self.scopes.insert((parent, name), id);
                definitions.scope(id, name, parent);
                id
            }
        };
        self.open.push(id);
    }

    /// Closes the innermost scope.
    pub fn end_scope(&mut self) {
        self.open.pop();
    }

    /// The name ids of a task that is being added.
    pub fn name_ids(&mut self, task: &TaskSpec, definitions: &mut dyn DefineNames) -> NameIds {
        NameIds { task_name: self.string(&task.task_name, definitions), scope: self.innermost() }
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
        let id = self.id_of(self.strings.len());
        self.strings.insert(text.into(), id);
        definitions.string(id, text);
        id
    }

    fn id_of(&self, place: usize) -> u32 {
        self.first_id + u32::try_from(place).expect("at most MAX_NAMES")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Definitions {
        strings: Vec<(u32, String)>,
        scopes: Vec<[u32; 3]>,
    }

    impl DefineNames for Definitions {
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
    fn each_string_and_scope_is_defined_once() {
        let (mut names, mut definitions) = (NameTable::new(1), Definitions::default());
        for _ in 0..3 {
            names.begin_scope("layer 1", &mut definitions);
            assert_eq!(
                names.name_ids(&named("k_proj"), &mut definitions),
                NameIds { task_name: 2, scope: 1 }
            );
            names.begin_scope("attention", &mut definitions);
            assert_eq!(
                names.name_ids(&named("layer 1"), &mut definitions),
                NameIds { task_name: 1, scope: 2 }
            );
            names.end_scope();
            names.end_scope();
            names.begin_scope("attention", &mut definitions);
            assert_eq!(names.name_ids(&named(""), &mut definitions), NameIds { task_name: 0, scope: 3 });
            names.end_scope();
        }
        assert_eq!(names.name_ids(&named(""), &mut definitions), NameIds::default());
        let strings = ["layer 1", "k_proj", "attention"];
        assert_eq!(definitions.strings, (1..).zip(strings.map(String::from)).collect::<Vec<_>>());
        assert_eq!(definitions.scopes, [[1, 1, 0], [2, 3, 1], [3, 3, 0]]);
    }

    #[test]
    fn names_beyond_the_limit_are_dropped_and_scopes_still_nest() {
        let (mut names, mut definitions) = (NameTable::new(1 << 31), Definitions::default());
        for number in 0..MAX_NAMES {
            names.string(&number.to_string(), &mut definitions);
        }
        assert_eq!(names.name_ids(&named("one more"), &mut definitions).task_name, 0);
        assert_eq!(names.name_ids(&named("7"), &mut definitions).task_name, (1 << 31) + 7);
        names.begin_scope("7", &mut definitions);
        names.begin_scope("one more", &mut definitions);
        let inner = names.name_ids(&named(""), &mut definitions).scope;
        assert_eq!(definitions.scopes, [[1 << 31, (1 << 31) + 7, 0], [(1 << 31) + 1, 0, 1 << 31]]);
        assert_eq!(inner, (1 << 31) + 1);
        names.end_scope();
        assert_eq!(names.name_ids(&named(""), &mut definitions).scope, 1 << 31);
    }
}
