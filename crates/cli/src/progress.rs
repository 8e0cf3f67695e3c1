//! What moves on the terminal while something takes its time.

use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tensortap::{Phase, Progress};

use crate::output::Output;
use tensortap_query::number::{grouped, rate};

/// Runs shorter than this show nothing.
const PATIENCE: Duration = Duration::from_secs(1);
const REDRAWS_PER_S: u8 = 10;
/// Less is read before anybody would look at a bar.
const LONG_BYTES: u64 = 256 << 20;

/// Tasks done of those submitted so far, and how fast.
pub struct TaskProgress {
    shown: bool,
    since: Instant,
    bar: Option<ProgressBar>,
    /// Whether there is a bar to fill.
    filling: bool,
}

impl TaskProgress {
    /// Nothing is drawn yet.
    pub fn new(output: Output) -> TaskProgress {
        TaskProgress { shown: output.shows_progress(), since: Instant::now(), bar: None, filling: false }
    }

    /// Draws how far the run has come, once it has lasted long enough.
    pub fn show(&mut self, progress: Progress) {
        let elapsed = self.since.elapsed();
        if !self.shown || elapsed < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| bar("{spinner} {msg}"));
        bar.set_message(describe(progress, elapsed));
        bar.set_position(progress.completed);
        // How many tasks there will be is not known while the graph is built: until then there is no bar to fill.
        if let (Some(total), false) = (progress.total, self.filling) {
            bar.set_length(total);
            bar.set_style(style("{bar:30} {percent}% {msg}"));
            self.filling = true;
        }
        bar.tick();
    }

    /// Removes what was drawn.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn describe(progress: Progress, elapsed: Duration) -> String {
    let Progress { phase, submitted, completed, total, dispatches: _ } = progress;
    if phase == Phase::CheckingGolden {
        return format!("{} tasks, checking the golden, {} s", grouped(completed), elapsed.as_secs());
    }
    let per_s = completed as f64 / elapsed.as_secs_f64().max(1e-9);
    let of = match total {
        Some(total) => format!("of {} tasks done", grouped(total)),
        None => format!("tasks done, {} submitted", grouped(submitted)),
    };
    format!("{} {of}, {} tasks/s, {} s", grouped(completed), rate(per_s), elapsed.as_secs())
}

/// A bar that is drawn once the work has lasted long enough to be watched.
struct LateBar {
    bar: ProgressBar,
    /// Since when it waits; `None` where nobody watches.
    since: Option<Instant>,
    drawn: Once,
}

impl LateBar {
    fn new(output: Output, template: &str, length: u64) -> LateBar {
        let bar = ProgressBar::hidden().with_style(style(template));
        bar.set_length(length);
        let since = output.shows_progress().then(Instant::now);
        LateBar { bar, since, drawn: Once::new() }
    }

    fn hidden() -> LateBar {
        LateBar { bar: ProgressBar::hidden(), since: None, drawn: Once::new() }
    }

    /// The bar, drawn if it is time. Threads may call it at the same time.
    fn get(&self) -> &ProgressBar {
        let is_time = self.since.is_some_and(|since| since.elapsed() >= PATIENCE);
        if is_time {
            let draw = || self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_S));
            self.drawn.call_once(draw);
        }
        &self.bar
    }
}

impl Drop for LateBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Steps of a measurement, drawn below what is printed.
pub struct StepProgress {
    bar: LateBar,
}

impl StepProgress {
    /// A bar over this many steps; invisible where nobody watches.
    pub fn new(output: Output, steps: u64) -> StepProgress {
        StepProgress { bar: LateBar::new(output, "{bar:30} {pos}/{len}  {msg}", steps) }
    }

    /// The same for work that is over at once unless there is much of it: fewer bytes than that show nothing.
    pub fn over_bytes(output: Output, steps: u64, bytes: u64) -> StepProgress {
        if bytes < LONG_BYTES {
            return StepProgress { bar: LateBar::hidden() };
        }
        StepProgress::new(output, steps)
    }

    /// Says what is being done.
    pub fn begin(&self, what: String) {
        self.bar.get().set_message(what);
    }

    /// So many steps are done of so many.
    pub fn reach(&self, done: u64, steps: u64) {
        self.bar.get().set_length(steps);
        self.bar.get().set_position(done);
    }

    /// One step is done.
    pub fn advance(&self) {
        self.bar.get().inc(1);
    }

    /// So many steps are done, of so many; of none before it is known how many there are.
    pub fn at(&self, done: u64, of: u64) {
        if of == 0 {
            return;
        }
        self.bar.get().set_length(of);
        self.bar.get().set_position(done);
    }

    /// Prints something without tearing the bar.
    pub fn around<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.get().suspend(print)
    }
}

/// Bytes read of those to be read, and how fast.
pub struct ByteProgress {
    bar: LateBar,
}

impl ByteProgress {
    /// A bar over this many bytes; invisible where nobody watches.
    pub fn new(output: Output, total_bytes: u64) -> ByteProgress {
        let template = "{bar:30} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
        ByteProgress { bar: LateBar::new(output, template, total_bytes) }
    }

    /// So many more are done. Threads may call it at the same time.
    pub fn advance(&self, bytes: u64) {
        self.bar.get().inc(bytes);
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a valid template").progress_chars("=> ")
}

fn bar(template: &str) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_S);
    ProgressBar::with_draw_target(None, target).with_style(style(template))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_described_by_done_submitted_and_rate() {
        let progress = Progress { submitted: 20_000, completed: 5_000, ..Progress::default() };
        assert_eq!(
            describe(progress, Duration::from_secs(2)),
            "5,000 tasks done, 20,000 submitted, 2.50 k tasks/s, 2 s"
        );
        let built = Progress { total: Some(20_000), ..progress };
        assert_eq!(
            describe(built, Duration::from_secs(2)),
            "5,000 of 20,000 tasks done, 2.50 k tasks/s, 2 s"
        );
        let checking = Progress { phase: Phase::CheckingGolden, ..progress };
        assert_eq!(describe(checking, Duration::from_secs(2)), "5,000 tasks, checking the golden, 2 s");
    }
}
