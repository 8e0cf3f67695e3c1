//! Which task is wrong: the culprits among the tasks that were labelled, and what is known of each.

use tensortap::analysis::AnalysisError;
use tensortap::analysis::blame::{Against, Blame, BlameOptions, ComparedArg};
use tensortap::analysis::labels::Label;
use tensortap::format::Dump;
use tensortap::judge::Detail;

/// First wrong tasks that are shown with all that is known of them, each of other kernels.
const DETAILED: usize = 3;

/// One first wrong task, as far as it is known.
pub struct Culprit {
    /// Position in the graph.
    pub place: usize,
    /// Its records that are outside, each with where the errors sit.
    pub outside: Vec<(ComparedArg, Option<Detail>)>,
    /// The way its error took to the end.
    pub chain: Vec<usize>,
}

/// What came of labelling tasks.
pub struct BlameReport<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// Folder of the golden; `None` with references.
    pub golden: Option<String>,
    /// The labels.
    pub blame: &'a Blame,
    /// The first wrong tasks.
    pub culprits: Vec<Culprit>,
    /// Whether nothing is wrong.
    pub passes: bool,
}

/// The first wrong tasks, with all that is known of them.
pub fn culprits(
    blame: &Blame,
    dump: &Dump,
    against: &Against<'_>,
    options: &BlameOptions<'_>,
) -> Result<Vec<Culprit>, AnalysisError> {
    let culprit = |place: usize| {
        let mut outside = Vec::new();
        for compared in blame.outside(place) {
            let detail = blame.detail(dump, against, place, compared, options)?;
            outside.push((compared.clone(), detail));
        }
        Ok(Culprit { place, outside, chain: blame.chain(place) })
    };
    first_of_each_kernel(blame).into_iter().map(culprit).collect()
}

/// Tasks at which an error began, whether or not another led to them.
#[must_use]
pub fn roots(blame: &Blame) -> Vec<usize> {
    (0..blame.findings.len()).filter(|&place| blame.findings[place].label.is_root()).collect()
}

/// The first wrong tasks, one for each set of kernels; then those of kernels that are wrong behind another error only.
fn first_of_each_kernel(blame: &Blame) -> Vec<usize> {
    let mut seen = Vec::new();
    let mut chosen = Vec::new();
    let behind = roots(blame).into_iter();
    let behind = behind.filter(|&place| blame.findings[place].label == Label::WrongHere);
    for place in blame.first_wrong.iter().copied().chain(behind) {
        let kernels = blame.graph.task(place).kernel_names();
        if chosen.len() < DETAILED && !seen.contains(&kernels) {
            seen.push(kernels);
            chosen.push(place);
        }
    }
    chosen
}
