//! What a command is and is given.

use std::sync::{Arc, OnceLock};

use tensortap_queue::{Range, Roles};
use tensortap_record::{DumpStage, Operation, Role, StringId, TaskInfo, UncapturedReason};

use crate::{
    calls::kernels::KernelFacts,
    content::{self, Contents, Device, NotSeen, Sight},
    known::Known,
};

/// What a command is given, while that is found out.
#[derive(Default)]
pub struct Work {
    /// Its task.
    pub info: TaskInfo,
    /// What people call it, where no kernel does.
    pub name: &'static str,
    /// Memory.
    pub ranges: Vec<Range>,
    /// Values, and what cannot be read.
    pub known: Known,
}

impl Work {
    /// A command that moves memory.
    pub fn moving(operation: Operation, name: &'static str) -> Work {
        Work { info: TaskInfo { operation, ..TaskInfo::default() }, name, ..Work::default() }
    }

    /// With a range whose use is known by what the command is; or with the reason why it cannot be read.
    pub fn push(&mut self, range: Result<Range, UncapturedReason>, role: Role) {
        let arg = u16::try_from(self.ranges.len() + self.known.unread.len()).unwrap_or(u16::MAX);
        match range {
            Ok(range) => self.ranges.push(Range { arg, roles: Roles::Known(role), ..range }),
            Err(reason) => self.known.unread.push((arg, StringId::NONE, reason)),
        }
    }
}

/// A command that is to go into its stream.
pub struct Request {
    /// Its task.
    pub info: TaskInfo,
    /// What people call it, where no kernel does.
    pub name: &'static str,
    /// Its kernel, where it has one.
    pub kernel: Option<Arc<KernelFacts>>,
    /// What it is given.
    pub subject: Arc<Subject>,
}

impl From<Work> for Request {
    fn from(work: Work) -> Request {
        let Work { info, name, ranges, known } = work;
        Request { info, name, kernel: None, subject: Subject::new(ranges, known) }
    }
}

/// What a command is given. Launches that come again share it, and whatever was found out about it.
pub struct Subject {
    /// Memory.
    pub ranges: Arc<[Range]>,
    /// Values, and what cannot be read.
    pub known: Known,
    /// Records that it makes.
    pub records: u32,
    /// Whether a device can look at its ranges itself.
    pub can_be_seen: bool,
    /// How a device looks at all of its ranges, once it has.
    sight: OnceLock<Arc<Sight>>,
}

impl Subject {
    /// Ranges, values and what cannot be read.
    pub fn new(ranges: Vec<Range>, known: Known) -> Arc<Subject> {
        let stages = [DumpStage::BeforeDispatch, DumpStage::AfterCompletion];
        let seen = |stage| ranges.iter().filter(|range| range.roles.is_seen_at(stage)).count();
        let records = stages.map(seen).iter().sum::<usize>() + known.values.len();
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        let can_be_seen = content::can_be_seen(&ranges);
        Arc::new(Subject { ranges: ranges.into(), known, records, can_be_seen, sight: OnceLock::new() })
    }

    /// The same, of which nothing is looked at, for a reason.
    pub fn unseen(&self, reason: UncapturedReason) -> Arc<Subject> {
        let mut known = self.known.clone();
        known.unread.extend(self.ranges.iter().map(|range| (range.arg, range.name, reason)));
        Subject::new(Vec::new(), known)
    }

    /// How a device looks at the ranges that are seen at a stage; none where there is none. What is behind most commands is looked at as what was before.
    pub fn sight(
        &self,
        contents: &Contents,
        device: &Device,
        stage: DumpStage,
    ) -> Option<Result<Arc<Sight>, NotSeen>> {
        let is_seen = |range: &&Range| range.roles.is_seen_at(stage);
        let make = |ranges: &[Range]| Sight::new(contents, device, ranges).map(Arc::new);
        if self.ranges.iter().all(|range| is_seen(&range)) {
            if let Some(known) = self.sight.get() {
                return Some(Ok(Arc::clone(known)));
            }
            let made = make(&self.ranges);
            return Some(made.map(|made| Arc::clone(self.sight.get_or_init(|| made))));
        }
        let seen: Vec<Range> = self.ranges.iter().filter(is_seen).copied().collect();
        (!seen.is_empty()).then(|| make(&seen))
    }
}
