//! Resolves what records refer to: tasks by id, everything else by number. A definition may come after its
//! first use, so references are only complete after the whole index was read.

use std::collections::HashMap;

use tensortap_abi::{
    KernelArg, KernelRecord, ModuleKind, ModuleRecord, NO_KERNEL, Operation, QueueRecord, RECORD_HAS_PAYLOAD,
    SLOTS_PER_TASK, ScopeRecord, TaskRecord,
};

use crate::{IndexRecord, KernelInfo, Module, TaskKey};

/// Maximum number of definitions of each kind. Definitions beyond the limit have no name.
const MAX_DEFINITIONS: usize = 1 << 20;
/// Maximum bytes of strings and scope paths.
const MAX_TEXT: usize = 64 << 20;
/// Maximum nesting of scopes. The path of a deeper scope, or of a cyclic one, starts here.
const MAX_SCOPE_DEPTH: usize = 64;
/// Separator of the names in a scope path.
pub(crate) const SCOPE_SEPARATOR: &str = " / ";

/// The information that all records of a task share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskMeaning {
    /// Kernel of each subtask slot, [`NO_KERNEL`] where inactive or unknown.
    pub(crate) func_id: [u32; SLOTS_PER_TASK],
    /// String id of its name; 0 for none.
    pub(crate) name: u32,
    /// Enclosing scope; 0 for none.
    pub(crate) scope: u32,
    /// Its step; 0 for none.
    pub(crate) step: u32,
}

impl TaskMeaning {
    /// For a task that the dump does not mention.
    pub(crate) const UNKNOWN: TaskMeaning =
        TaskMeaning { func_id: [NO_KERNEL; SLOTS_PER_TASK], name: 0, scope: 0, step: 0 };

    fn of(task: &TaskRecord) -> TaskMeaning {
        let &TaskRecord { func_id, name, scope, step, .. } = task;
        TaskMeaning { func_id, name, scope, step }
    }

    /// A cheap hash of all fields. Correctness does not depend on its quality.
    fn few_bits(&self) -> usize {
        let TaskMeaning { func_id: [a, b, c], name, scope, step } = *self;
        (a ^ b.rotate_left(2) ^ c.rotate_left(4) ^ name ^ scope.rotate_left(3) ^ step) as usize
    }
}

/// Consecutive tasks with neighboring ids.
#[derive(Clone, Copy)]
struct Run {
    first: TaskKey,
    /// Position of the first in `TaskTable::numbers`. The run ends where the next starts.
    start: usize,
}

impl Run {
    /// The task whose id is `count` above the first one.
    fn key_above(&self, count: u64) -> Option<TaskKey> {
        Some(TaskKey { task_id: self.first.task_id.checked_add(count)?, ..self.first })
    }
}

/// A task that arrived out of order, before it is merged. The field order keeps it at 16 bytes.
#[derive(Clone, Copy)]
struct OutOfOrderTask {
    task_id: u64,
    step: u32,
    number: u32,
}

impl OutOfOrderTask {
    fn key(&self) -> TaskKey {
        TaskKey { step: self.step, task_id: self.task_id }
    }
}

/// Maximum number of out-of-order tasks, unless a sixteenth of all tasks is more.
const MAX_LOOSE: usize = 1 << 14;
/// Size of the cache of recent meanings.
const RECENT: usize = 64;

/// The tasks of a dump by step and id. There may be millions, so the table is small: neighboring ids are
/// stored as runs, and tasks with equal meaning share one entry. A task needs 4 bytes.
pub(crate) struct TaskTable {
    runs: Vec<Run>,
    /// Position of each task's meaning.
    numbers: Vec<u32>,
    loose: Vec<OutOfOrderTask>,
    meanings: Vec<TaskMeaning>,
    known: HashMap<TaskMeaning, u32>,
    /// Positions of recent meanings, indexed by a cheap hash. A lookup usually hits.
    recent: [u32; RECENT],
    /// Tasks that turned out to do nothing, such as commands that a driver rejected, with the positions of
    /// their meanings. They keep the name from that record.
    nothing: HashMap<TaskKey, u32>,
}

impl Default for TaskTable {
    fn default() -> TaskTable {
        let (runs, numbers, loose, meanings) = Default::default();
        let (known, nothing) = Default::default();
        TaskTable { runs, numbers, loose, meanings, known, recent: [0; RECENT], nothing }
    }
}

impl TaskTable {
    /// Adds a task record of an index. Argument records have no step, so they find their task by its id
    /// only, which is unique in an index. All tasks are therefore stored as if they belonged to one step;
    /// the meaning contains the real step.
    pub(crate) fn see(&mut self, record: &IndexRecord) {
        if let Some(task) = record.as_task() {
            let (key, meaning) = (TaskKey { step: 0, task_id: task.task_id }, TaskMeaning::of(task));
            self.insert(key, meaning);
            let does_nothing = task.operation == Operation::Barrier as u8;
            if does_nothing && task.name != 0 && self.nothing.len() < MAX_DEFINITIONS {
                let number = self.number_of(meaning);
                self.nothing.insert(key, number);
            }
        }
    }

    /// The meaning of an index's task, for records that only know its id.
    pub(crate) fn by_id(&self, task_id: u64) -> &TaskMeaning {
        self.get(TaskKey { step: 0, task_id })
    }

    /// Whether an index has a record of this task.
    pub(crate) fn has(&self, task_id: u64) -> bool {
        self.number(TaskKey { step: 0, task_id }).is_some()
    }

    /// Adds a task. If a task has several meanings, the first one counts.
    pub(crate) fn insert(&mut self, key: TaskKey, meaning: TaskMeaning) {
        let count = self.numbers.len();
        let next = self.runs.last().map(|run| run.key_above((count - run.start) as u64));
        // A task that continues the last run is above all known ones.
        if next != Some(Some(key)) && self.number(key).is_some() {
            return;
        }
        let number = self.number_of(meaning);
        match next {
            Some(Some(next)) if next == key => self.numbers.push(number),
            // After all others. Many such runs would need more memory than they save.
            None => self.begin_run(key, number),
            Some(Some(next)) if next < key && self.runs.len() < count / 16 => self.begin_run(key, number),
            _ => {
                self.loose.push(OutOfOrderTask { task_id: key.task_id, step: key.step, number });
                if self.loose.len() >= MAX_LOOSE.max(count / 16) {
                    self.merge();
                }
            }
        }
    }

    /// Position of a meaning, which is added if it is new.
    fn number_of(&mut self, meaning: TaskMeaning) -> u32 {
        let slot = meaning.few_bits() % RECENT;
        let recent = self.recent[slot];
        if self.meanings.get(recent as usize) == Some(&meaning) {
            return recent;
        }
        let number = *self.known.entry(meaning).or_insert_with(|| {
            self.meanings.push(meaning);
            u32::try_from(self.meanings.len() - 1).expect("an index of 2^32 tasks does not fit in memory")
        });
        self.recent[slot] = number;
        number
    }

    fn begin_run(&mut self, first: TaskKey, number: u32) {
        self.runs.push(Run { first, start: self.numbers.len() });
        self.numbers.push(number);
    }

    /// Merges the out-of-order tasks.
    fn merge(&mut self) {
        let mut loose = std::mem::take(&mut self.loose);
        // A stable sort, so that the first meaning of a task stays first.
        loose.sort_by_key(OutOfOrderTask::key);
        loose.dedup_by_key(|loose| loose.key());
        let mut merged = TaskTable::default();
        merged.numbers.reserve_exact(self.numbers.len() + loose.len());
        let mut loose = loose.into_iter().peekable();
        for (place, run) in self.runs.iter().enumerate() {
            let end = self.runs.get(place + 1).map_or(self.numbers.len(), |next| next.start);
            for (above, &number) in self.numbers[run.start..end].iter().enumerate() {
                let key = TaskKey { task_id: run.first.task_id + above as u64, ..run.first };
                while let Some(before) = loose.next_if(|loose| loose.key() < key) {
                    merged.append(before.key(), before.number);
                }
                merged.append(key, number);
            }
        }
        loose.for_each(|loose| merged.append(loose.key(), loose.number));
        (self.runs, self.numbers) = (merged.runs, merged.numbers);
    }

    /// Adds a task that is above all others or equals the last one.
    fn append(&mut self, key: TaskKey, number: u32) {
        let last =
            self.runs.last().and_then(|run| run.key_above((self.numbers.len() - run.start - 1) as u64));
        let next = self.runs.last().and_then(|run| run.key_above((self.numbers.len() - run.start) as u64));
        match last {
            Some(last) if key <= last => {}
            _ if next == Some(key) => self.numbers.push(number),
            _ => self.begin_run(key, number),
        }
    }

    /// Call it after the whole index was read.
    pub(crate) fn finish(&mut self) {
        self.merge();
        self.numbers.shrink_to_fit();
        self.runs.shrink_to_fit();
        // Their records keep the kernel that they were captured for.
        for (key, named) in std::mem::take(&mut self.nothing) {
            let first = self.number(key).and_then(|first| self.meanings.get(first as usize)).copied();
            let name = self.meanings[named as usize].name;
            if let Some(first) = first.filter(|first| first.name != name) {
                let number = self.number_of(TaskMeaning { name, ..first });
                self.nothing.insert(key, number);
            }
        }
        self.known = HashMap::new();
    }

    fn number(&self, key: TaskKey) -> Option<u32> {
        let place = self.runs.partition_point(|run| run.first <= key).checked_sub(1)?;
        let run = self.runs[place];
        if run.first.step != key.step {
            return None;
        }
        let end = self.runs.get(place + 1).map_or(self.numbers.len(), |next| next.start);
        let at = usize::try_from(key.task_id - run.first.task_id).ok()?.checked_add(run.start)?;
        self.numbers[..end].get(at).copied()
    }

    /// Whether any task has a name or a scope.
    pub(crate) fn has_names(&self) -> bool {
        self.meanings.iter().any(|meaning| meaning.name != 0 || meaning.scope != 0)
    }

    /// All distinct meanings.
    pub(crate) fn meanings(&self) -> &[TaskMeaning] {
        &self.meanings
    }

    /// The distinct steps of all tasks, sorted.
    pub(crate) fn steps(&self) -> Vec<u32> {
        let mut steps: Vec<u32> = self.meanings.iter().map(|meaning| meaning.step).collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// The meaning of a task.
    pub(crate) fn get(&self, key: TaskKey) -> &TaskMeaning {
        let stated = Some(&self.nothing).filter(|nothing| !nothing.is_empty());
        let stated = stated.and_then(|nothing| nothing.get(&key).copied());
        let number = stated.or_else(|| self.number(key));
        number.and_then(|number| self.meanings.get(number as usize)).unwrap_or(&TaskMeaning::UNKNOWN)
    }
}

/// Names of a record: its argument, its task, and the task's scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names<'d> {
    /// The argument's name, from the recorder or from a kernel of its task.
    pub arg_name: Option<&'d str>,
    /// The task.
    pub task_name: Option<&'d str>,
    /// The scope of the task with its enclosing scopes, outermost first: `layer 1 / attention`.
    pub scope: Option<&'d str>,
}

/// Adds a definition, unless its number has one or there are too many.
pub(crate) fn define<T>(known: &mut HashMap<u32, T>, id: u32, value: T) {
    if known.len() < MAX_DEFINITIONS {
        known.entry(id).or_insert(value);
    }
}

/// As [`define`], for a text. `bytes` is the size of all texts.
pub(crate) fn define_text(known: &mut HashMap<u32, Box<str>>, bytes: &mut usize, id: u32, text: &str) {
    let room = known.len() < MAX_DEFINITIONS && *bytes + text.len() <= MAX_TEXT;
    if room && !known.contains_key(&id) {
        *bytes += text.len();
        known.insert(id, text.into());
    }
}

/// Strings, scopes and kernels.
#[derive(Default)]
pub(crate) struct Definitions {
    strings: HashMap<u32, Box<str>>,
    scopes: HashMap<u32, (u32, u32)>,
    /// Scope paths by number, built after the whole index was read.
    paths: HashMap<u32, Box<str>>,
    kernels: HashMap<u32, (KernelRecord, Box<[KernelArg]>)>,
    modules: HashMap<u32, ModuleRecord>,
    /// String ids of queue names.
    queues: HashMap<u32, u32>,
    text_bytes: usize,
}

impl Definitions {
    pub(crate) fn see(&mut self, record: &IndexRecord) {
        if let Some((id, text)) = record.as_string() {
            define_text(&mut self.strings, &mut self.text_bytes, id, text);
        } else if let Some(&ScopeRecord { id, name, parent, .. }) = record.get() {
            define(&mut self.scopes, id, (name, parent));
        } else if let Some(&QueueRecord { id, name, .. }) = record.get() {
            define(&mut self.queues, id, name);
        } else if let Some(module) = record.get::<ModuleRecord>() {
            define(&mut self.modules, module.id, *module);
        } else if let Some((kernel, args)) = record.as_kernel()
            && self.kernels.len() < MAX_DEFINITIONS
        {
            self.kernels.entry(kernel.func_id).or_insert_with(|| (*kernel, args.into()));
        }
    }

    /// Call it after the whole index was read. Adds the kernel definitions to `kernels`.
    pub(crate) fn finish(&mut self, kernels: &mut Vec<KernelInfo>) {
        let mut ids: Vec<u32> = self.scopes.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let path = self.path_of(id);
            if self.text_bytes + path.len() <= MAX_TEXT {
                self.text_bytes += path.len();
                self.paths.insert(id, path.into());
            }
        }
        let mut func_ids: Vec<u32> = self.kernels.keys().copied().collect();
        func_ids.sort_unstable();
        for func_id in func_ids {
            self.add_kernel(func_id, kernels);
        }
    }

    fn path_of(&self, scope: u32) -> String {
        let mut names = Vec::new();
        let mut next = scope;
        while let Some(&(name, parent)) = self.scopes.get(&next).filter(|_| names.len() < MAX_SCOPE_DEPTH) {
            names.push(self.string(name).map_or_else(|| format!("scope {next}"), str::to_owned));
            next = parent;
        }
        names.reverse();
        names.join(SCOPE_SEPARATOR)
    }

    fn add_kernel(&self, func_id: u32, kernels: &mut Vec<KernelInfo>) {
        let Some((kernel, args)) = self.kernels.get(&func_id) else { return };
        let place = kernels.iter().position(|info| info.func_id == func_id).unwrap_or_else(|| {
            kernels.push(KernelInfo { func_id, ..KernelInfo::default() });
            kernels.len() - 1
        });
        let info = &mut kernels[place];
        if info.name.is_empty() {
            info.name = self.string(kernel.name).unwrap_or_default().to_owned();
        }
        if info.module == 0 {
            info.module = kernel.module;
        }
        if info.core_type.is_empty() {
            let core_type = KernelRecord::core_of(kernel.core_type).flatten();
            info.core_type = core_type.map(|core| core.name().to_owned()).unwrap_or_default();
        }
        if info.signature.is_empty() {
            let kinds = args.iter().map(|arg| KernelArg::kind_of(arg.kind).flatten());
            info.signature = kinds.map_while(|kind| Some(kind?.name().to_owned())).collect();
        }
        if info.arg_names.is_empty() && args.iter().any(|arg| arg.name != 0) {
            let names = args.iter().map(|arg| self.string(arg.name).unwrap_or_default().to_owned());
            info.arg_names = names.collect();
        }
    }

    /// Modules, sorted by number.
    pub(crate) fn modules(&self) -> Vec<Module> {
        let mut modules: Vec<Module> = self.modules.values().map(|module| self.module(module)).collect();
        modules.sort_unstable_by_key(|module| module.id);
        modules
    }

    fn module(&self, module: &ModuleRecord) -> Module {
        let text = |id: u32| self.string(id).unwrap_or_default().to_owned();
        Module {
            id: module.id,
            name: text(module.name),
            kind: ModuleKind::from_tag(module.image_kind).unwrap_or_default(),
            options: text(module.options),
            device: text(module.device),
            bytes: module.bytes,
            hash: u128::from_le_bytes(module.hash),
            has_image: module.flags & RECORD_HAS_PAYLOAD != 0,
        }
    }

    /// The names of a task.
    pub(crate) fn of_task(&self, task: &TaskMeaning) -> Names<'_> {
        let (task_name, scope) = (self.string(task.name), self.scope_path(task.scope));
        Names { arg_name: None, task_name, scope }
    }

    /// The names of an argument: its own name, or the name that the first of its task's kernels with a name
    /// declares.
    pub(crate) fn of_argument<'d>(
        &'d self,
        task: &TaskMeaning,
        kernels: &'d [KernelInfo],
        name: u32,
        arg_index: u16,
    ) -> Names<'d> {
        Names { arg_name: self.arg_name(&task.func_id, kernels, name, arg_index), ..self.of_task(task) }
    }

    /// The first of these names.
    pub(crate) fn arg_name<'d>(
        &'d self,
        func_ids: &[u32; SLOTS_PER_TASK],
        kernels: &'d [KernelInfo],
        name: u32,
        arg_index: u16,
    ) -> Option<&'d str> {
        let declared = |func_id: &u32| {
            let kernel = kernels.iter().find(|kernel| kernel.func_id == *func_id)?;
            let name = kernel.arg_names.get(usize::from(arg_index))?;
            Some(name.as_str()).filter(|name| !name.is_empty())
        };
        self.string(name).or_else(|| func_ids.iter().find_map(declared))
    }

    /// The string number of a name that comes as text.
    pub(crate) fn number(&mut self, text: &str, numbers: &mut HashMap<Box<str>, u32>) -> u32 {
        if let Some(&id) = numbers.get(text) {
            return id;
        }
        let id = u32::try_from(numbers.len() + 1).unwrap_or(0);
        define_text(&mut self.strings, &mut self.text_bytes, id, text);
        if self.string(id).is_none() {
            return 0;
        }
        numbers.insert(text.into(), id);
        // A path that comes as text becomes a scope with that number.
        self.paths.insert(id, text.into());
        id
    }

    /// Every string with its id.
    pub(crate) fn strings(&self) -> impl Iterator<Item = (u32, &str)> {
        self.strings.iter().map(|(&id, text)| (id, &**text))
    }

    /// The numbers of scopes with a path.
    pub(crate) fn paths(&self) -> impl Iterator<Item = u32> {
        self.paths.keys().copied()
    }

    /// The text of a string id.
    pub(crate) fn string(&self, id: u32) -> Option<&str> {
        self.strings.get(&id).map(|text| &**text)
    }

    /// The name of a queue.
    pub(crate) fn queue(&self, id: u32) -> Option<&str> {
        self.queues.get(&id).and_then(|&name| self.string(name))
    }

    /// The path of a scope, outermost scope first.
    pub(crate) fn scope_path(&self, scope: u32) -> Option<&str> {
        self.paths.get(&scope).map(|path| &**path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(task_id: u64, func_id: u32) -> IndexRecord {
        IndexRecord::plain(&TaskRecord {
            task_id,
            func_id: [func_id, NO_KERNEL, NO_KERNEL],
            ..TaskRecord::default()
        })
    }

    fn table(ids: impl Iterator<Item = (u64, u32)>) -> TaskTable {
        let mut table = TaskTable::default();
        ids.for_each(|(id, func_id)| table.see(&task(id, func_id)));
        table.finish();
        table
    }

    #[test]
    fn tasks_are_found_by_id_whatever_the_order_of_records() {
        const TASKS: u64 = 100_000;
        // Some tasks collide in the hash that `recent` uses.
        let kernel = |n: u64| u32::try_from(n % 7 * (RECENT as u64 / 2)).unwrap();
        let scattered = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let rings = |n: u64| ((n % 3) << 32) | (n / 3);
        let lanes = |n: u64| (n / 4096 % 2) * 64 + n / 8192 * 128 + n % 64 + n / 64 % 64 * (TASKS * 2);
        for ids in [&scattered as &dyn Fn(u64) -> u64, &rings, &lanes, &|n| TASKS - n, &|n| u64::MAX - n] {
            let twice = (0..TASKS).chain(0..TASKS).map(|n| (ids(n), kernel(n)));
            let table = table(twice);
            assert_eq!((table.numbers.len() as u64, table.meanings.len()), (TASKS, 7));
            assert!((0..TASKS).all(|n| table.by_id(ids(n)).func_id[0] == kernel(n)));
            assert!(table.runs.is_sorted_by_key(|run| (run.first, run.start)));
        }
    }

    #[test]
    fn the_first_meaning_of_a_task_counts_and_missing_tasks_are_unknown() {
        let table = table([(9, 1), (3, 2), (9, 5), (3, 6), (4, 7)].into_iter());
        assert_eq!([3, 4, 9].map(|id| table.by_id(id).func_id[0]), [2, 7, 1]);
        assert!([0, 2, 5, 10, u64::MAX].into_iter().all(|id| *table.by_id(id) == TaskMeaning::UNKNOWN));
    }

    #[test]
    fn tasks_of_one_id_in_several_steps_are_kept_apart() {
        let mut table = TaskTable::default();
        let meaning = |step, task_id: u64| TaskMeaning {
            func_id: [u32::try_from(task_id).unwrap_or(7) + step, NO_KERNEL, NO_KERNEL],
            step,
            ..TaskMeaning::UNKNOWN
        };
        let keys = || {
            let ids = [0, 1, 2, 3, 9, u64::MAX];
            [5, 2, u32::MAX - 9]
                .into_iter()
                .flat_map(move |step| ids.map(|task_id| TaskKey { step, task_id }))
        };
        keys().for_each(|key| table.insert(key, meaning(key.step, key.task_id)));
        let right = |table: &TaskTable| {
            keys().all(|key| *table.get(key) == meaning(key.step, key.task_id))
                && [(2, 4), (2, 10), (3, 0), (6, 1), (0, 0)]
                    .into_iter()
                    .all(|(step, task_id)| *table.get(TaskKey { step, task_id }) == TaskMeaning::UNKNOWN)
        };
        table.finish();
        assert!(right(&table));
        assert_eq!(table.steps(), [2, 5, u32::MAX - 9]);
    }

    #[test]
    fn a_million_tasks_in_order_take_four_bytes_each() {
        let table = table((0..1_000_000).flat_map(|n| [(n, u32::try_from(n % 4).unwrap()); 2]));
        assert_eq!((table.runs.len(), table.numbers.capacity()), (1, 1_000_000));
    }

    #[test]
    fn scope_paths_do_not_depend_on_the_order_or_depth_of_definitions() {
        let scope = |id, name, parent| {
            IndexRecord::plain(&ScopeRecord { id, name, parent, ..ScopeRecord::default() })
        };
        let mut definitions = Definitions::default();
        for record in [
            scope(2, 7, 1),
            scope(1, 6, 0),
            scope(3, 99, 2),
            scope(4, 6, 4),
            IndexRecord::string(7, "k_proj"),
            IndexRecord::string(6, "layer 1"),
        ] {
            record.check().unwrap();
            definitions.see(&record);
        }
        definitions.finish(&mut Vec::new());
        assert_eq!(definitions.scope_path(2), Some("layer 1 / k_proj"));
        assert_eq!(definitions.scope_path(3), Some("layer 1 / k_proj / scope 3"));
        assert_eq!(definitions.scope_path(0), None);
        // A cyclic scope: its path is cut off and not followed forever.
        assert_eq!(definitions.scope_path(4).unwrap().matches("layer 1").count(), MAX_SCOPE_DEPTH);
    }
}
