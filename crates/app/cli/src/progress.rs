//! Progress bars on the terminal.

use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tensortap::{Phase, Progress};

use crate::output::Output;
use tensortap_query::number::{grouped, rate};

/// Work that takes less time than this shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);
const REDRAWS_PER_S: u8 = 10;
/// Reading fewer bytes than this shows no progress.
const LONG_BYTES: u64 = 256 << 20;

/// Progress of a run: completed tasks and their rate.
pub struct TaskProgress {
    shown: bool,
    since: Instant,
    bar: Option<ProgressBar>,
    /// Whether the total is known, so that the bar can be filled.
    filling: bool,
}

impl TaskProgress {
    /// Progress that draws nothing yet.
    pub fn new(output: Output) -> TaskProgress {
        TaskProgress { shown: output.shows_progress(), since: Instant::now(), bar: None, filling: false }
    }

    /// Draws the progress of the run, after it has taken some time.
    pub fn show(&mut self, progress: Progress) {
        let elapsed = self.since.elapsed();
        if !self.shown || elapsed < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| bar("{spinner} {msg}"));
        bar.set_message(describe(progress, elapsed));
        bar.set_position(progress.completed);
        // The total is unknown until the graph is built.
        if let (Some(total), false) = (progress.total, self.filling) {
            bar.set_length(total);
            bar.set_style(style("{bar:30} {percent}% {msg}"));
            self.filling = true;
        }
        bar.tick();
    }

    /// Removes the progress from the terminal.
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
        return format!("{} tasks done, checking the golden, {} s", grouped(completed), elapsed.as_secs());
    }
    let per_s = completed as f64 / elapsed.as_secs_f64().max(1e-9);
    let of = match total {
        Some(total) => format!("of {} tasks done", grouped(total)),
        None => format!("tasks done, {} submitted", grouped(submitted)),
    };
    format!("{} {of}, {} tasks/s, {} s", grouped(completed), rate(per_s), elapsed.as_secs())
}

/// A bar that is drawn after the work has taken some time.
struct DelayedBar {
    bar: ProgressBar,
    /// When the work began; `None` if progress is not shown.
    since: Option<Instant>,
    drawn: Once,
}

impl DelayedBar {
    fn new(output: Output, template: &str, length: u64) -> DelayedBar {
        let bar = ProgressBar::hidden().with_style(style(template));
        bar.set_length(length);
        let since = output.shows_progress().then(Instant::now);
        DelayedBar { bar, since, drawn: Once::new() }
    }

    fn hidden() -> DelayedBar {
        DelayedBar { bar: ProgressBar::hidden(), since: None, drawn: Once::new() }
    }

    /// The bar, drawn if it is time. Several threads may call this at once.
    fn get(&self) -> &ProgressBar {
        let is_time = self.since.is_some_and(|since| since.elapsed() >= PATIENCE);
        if is_time {
            let draw = || self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_S));
            self.drawn.call_once(draw);
        }
        &self.bar
    }
}

impl Drop for DelayedBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Progress in steps, drawn below the printed text.
pub struct StepProgress {
    bar: DelayedBar,
}

impl StepProgress {
    /// A bar over this many steps. Invisible without a terminal.
    pub fn new(output: Output, steps: u64) -> StepProgress {
        StepProgress { bar: DelayedBar::new(output, "{bar:30} {pos}/{len}  {msg}", steps) }
    }

    /// The same for work over this many bytes. Shows nothing if there are few.
    pub fn over_bytes(output: Output, steps: u64, bytes: u64) -> StepProgress {
        if bytes < LONG_BYTES {
            return StepProgress { bar: DelayedBar::hidden() };
        }
        StepProgress::new(output, steps)
    }

    /// Names the current step.
    pub fn begin(&self, what: String) {
        self.bar.get().set_message(what);
    }

    /// Counts one step as done.
    pub fn advance(&self) {
        self.bar.get().inc(1);
    }

    /// Sets how many steps are done, and of how many. A total of 0 is not known yet.
    pub fn at(&self, done: u64, of: u64) {
        if of == 0 {
            return;
        }
        self.bar.get().set_length(of);
        self.bar.get().set_position(done);
    }

    /// Runs `print` while the bar is hidden.
    #[cfg(feature = "bench")]
    pub fn around<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.get().suspend(print)
    }
}

/// Progress in bytes, with a rate.
pub struct ByteProgress {
    bar: DelayedBar,
}

impl ByteProgress {
    /// A bar over this many bytes. Invisible without a terminal.
    pub fn new(output: Output, total_bytes: u64) -> ByteProgress {
        let template = "{bar:30} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
        ByteProgress { bar: DelayedBar::new(output, template, total_bytes) }
    }

    /// Counts more bytes as done. Several threads may call this at once.
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
    fn describes_a_run_by_completed_tasks_and_rate() {
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
        assert_eq!(describe(checking, Duration::from_secs(2)), "5,000 tasks done, checking the golden, 2 s");
    }
}
