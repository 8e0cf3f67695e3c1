//! Regions: tasks that contain tasks.

use std::collections::HashMap;

use super::{Task, TaskKey, Tasks};

/// Regions that are followed outward from a task. A damaged dump may nest them in a circle.
const MAX_DEPTH: usize = 1024;

/// Who contains whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Families {
    /// Keys of parents with the positions of the tasks that they contain or submitted, sorted.
    children: Vec<(TaskKey, u32)>,
    /// Regions by task id, for tasks of another step.
    regions: HashMap<u64, TaskKey>,
}

impl Families {
    fn of(tasks: &Tasks) -> Families {
        let keys = tasks.iter().filter(|task| task.is_region).map(|task| (task.task_id, task.key()));
        let mut families = Families { children: Vec::new(), regions: keys.collect() };
        let with_parents = tasks.iter().filter(|task| task.parent.is_some());
        families.children = with_parents
            .filter_map(|task| {
                let place = u32::try_from(task.place()).ok()?;
                Some((families.parent_key(tasks, task)?, place))
            })
            .collect();
        families.children.sort_unstable();
        families
    }

    fn parent_key(&self, tasks: &Tasks, task: Task<'_>) -> Option<TaskKey> {
        let key = TaskKey { step: task.step, task_id: task.parent? };
        let is_own_step = tasks.find(key).is_some();
        is_own_step.then_some(key).or_else(|| self.regions.get(&key.task_id).copied())
    }

    /// The positions of the tasks with this parent.
    fn children(&self, parent: TaskKey) -> &[(TaskKey, u32)] {
        let first = self.children.partition_point(|(key, _)| *key < parent);
        let rest = &self.children[first..];
        &rest[..rest.partition_point(|(key, _)| *key == parent)]
    }
}

impl Tasks {
    fn families(&self) -> &Families {
        self.families.get_or_init(|| Families::of(self))
    }
}

impl<'t> Task<'t> {
    /// The region that contains it, or the task that submitted it, if the dump has that task.
    #[must_use]
    pub fn parent_task(&self) -> Option<Task<'t>> {
        self.facts().parent?;
        let key = self.tasks.families().parent_key(self.tasks, *self)?;
        self.tasks.find(key)
    }

    /// The tasks whose parent it is, in order.
    pub fn children(&self) -> impl ExactSizeIterator<Item = Task<'t>> + use<'t> {
        let tasks = self.tasks;
        tasks.families().children(self.facts().key()).iter().map(|&(_, place)| tasks.at(place as usize))
    }

    /// Whether it is a region that contains recorded tasks.
    #[must_use]
    pub fn contains_tasks(&self) -> bool {
        self.facts().is_region && !self.tasks.families().children(self.facts().key()).is_empty()
    }

    /// The regions that contain it, the innermost first.
    pub fn regions(&self) -> impl Iterator<Item = Task<'t>> + use<'t> {
        let parent = |task: &Task<'t>| task.parent_task().filter(|parent| parent.is_region);
        std::iter::successors(parent(self), parent).take(MAX_DEPTH)
    }
}
