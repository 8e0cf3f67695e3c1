//! What the recording of a device program keeps: the options of `tensortap record`, and the facts that follow from them.

use tensortap_record::{DumpFilter, DumpLevel, DumpPolicy};

use crate::program::{Action, Program};
use crate::recording::{Capture, Content, Facts};

/// How one run is recorded.
#[derive(Clone, Debug)]
pub struct DeviceCapture {
    pub options: Vec<String>,
    pub capture: Capture,
    /// Whether content before and after tasks is recorded.
    stages: [bool; 2],
}

/// Half of the trials record both runs in the same way.
pub fn captures(random: &mut fastrand::Rng, program: &Program) -> [DeviceCapture; 2] {
    let first = DeviceCapture::random(random, program);
    let second = if random.bool() { first.clone() } else { DeviceCapture::random(random, program) };
    [first, second]
}

impl DeviceCapture {
    fn random(random: &mut fastrand::Rng, program: &Program) -> DeviceCapture {
        let (level, name) = match random.u8(..10) {
            0..=5 => (DumpLevel::Full, "full"),
            6..=8 => (DumpLevel::Hash, "hash"),
            _ => (DumpLevel::Meta, "meta"),
        };
        let mut recorded = DeviceCapture {
            options: vec![format!("--dump-tensor={name}")],
            capture: Capture { level, ..Capture::FULL },
            stages: [true, true],
        };
        if random.u8(..4) == 0 {
            let count = if random.u8(..3) == 0 { 2 } else { 1 };
            for kind in random.choose_multiple(0..4_u8, count) {
                recorded.filter(kind, random, program);
            }
        }
        recorded
    }

    /// Leaves something out.
    fn filter(&mut self, kind: u8, random: &mut fastrand::Rng, program: &Program) {
        let launches =
            program.actions.iter().filter(|action| matches!(action, Action::Launch { .. })).count();
        let number = random.usize(1..=launches.max(1));
        let filter = &mut self.capture.filter;
        let option = match kind {
            0 => {
                let after = random.bool();
                self.stages = [!after, after];
                filter.stages = 1 << if after { 2 } else { 1 };
                ["--dump-stage".to_owned(), if after { "after" } else { "before" }.to_owned()]
            }
            1 => {
                filter.first_tasks = number as u64;
                ["--dump-first".to_owned(), number.to_string()]
            }
            2 => {
                filter.first_tasks = number as u64;
                ["--dump-last".to_owned(), number.to_string()]
            }
            _ => {
                filter.funcs = [1, 0, 0, 0];
                let kernel = &program.kernels[random.usize(..program.kernels.len())];
                ["--dump-func".to_owned(), kernel.name.clone()]
            }
        };
        // Only one of the first and the last tasks.
        if !self.options.contains(&"--dump-first".to_owned())
            && !self.options.contains(&"--dump-last".to_owned())
            || !["--dump-first", "--dump-last"].contains(&option[0].as_str())
        {
            self.options.extend(option);
        }
    }

    /// The content of an argument that is recorded.
    pub fn content(&self) -> Content {
        match self.capture.level {
            DumpLevel::Full => Content::Full,
            DumpLevel::Hash => Content::Hash,
            _ => Content::None,
        }
    }

    /// Removes what the stages leave out.
    pub fn restrict(&self, facts: &mut Facts) {
        facts.content.retain(|(_, _, is_after), _| self.stages[usize::from(*is_after)]);
    }
}

/// The cell of the table for two dumps.
pub fn levels(captures: &[DeviceCapture; 2]) -> &'static str {
    let [first, second] = captures.each_ref().map(|one| one.capture);
    let is_filtered = |one: &Capture| one.filter != DumpFilter::ALL || one.policy != DumpPolicy::Block;
    match (first.level, second.level) {
        _ if is_filtered(&first) || is_filtered(&second) => "filtered",
        (DumpLevel::Meta, _) | (_, DumpLevel::Meta) => "marks",
        (DumpLevel::Full, DumpLevel::Full) => "full",
        (DumpLevel::Hash, DumpLevel::Hash) => "hash",
        _ => "full, hash",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_have_all_levels_and_filters() {
        let mut random = fastrand::Rng::with_seed(1);
        let program = crate::generate::cuda_program(&mut random);
        let all: Vec<DeviceCapture> = (0..200).flat_map(|_| captures(&mut random, &program)).collect();
        for option in ["--dump-stage", "--dump-first", "--dump-last", "--dump-func", "--dump-tensor=meta"] {
            assert!(all.iter().any(|one| one.options.iter().any(|of| of == option)), "{option}");
        }
        assert!(all.iter().any(|one| one.options.len() > 3), "two filters");
        for one in &all {
            assert_eq!(one.options.len() == 1, one.capture.filter == DumpFilter::ALL);
            let is_both =
                one.options.iter().filter(|of| ["--dump-first", "--dump-last"].contains(&of.as_str()));
            assert!(is_both.count() <= 1);
        }
    }
}
